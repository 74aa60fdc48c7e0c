import { fill } from '@/api/client'

/** What receives deliveries: the webhook of an account, or an endpoint of the organisation. */
export interface Target {
  kind: 'account' | 'endpoint'
  id: string
}

/** The path of the operations on a target. Both kinds have test, rotate-secret, replay and deliveries below it. */
export function pathOf({ kind, id }: Target): string {
  return kind === 'endpoint' ? fill('/v1/webhook-endpoints/{id}', { id }) : fill('/v1/accounts/{id}/webhook', { id })
}
