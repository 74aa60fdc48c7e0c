// What was done, in words. The codes are the API's; one that is not here is shown as it is.
import { words } from '@/lib/format'

export const actions: [string, string][] = [
  ['account.connect', 'Connected an account'],
  ['account.update', 'Changed an account'],
  ['account.pause', 'Paused an account'],
  ['account.resume', 'Resumed an account'],
  ['account.reauthenticate', 'Signed an account in again'],
  ['account.reconnect_link', 'Made a link to connect an account again'],
  ['account.disconnect', 'Disconnected an account'],
  ['account.revoke', 'Ended a connection (the creator)'],
  ['connect.start', 'Started a connect attempt'],
  ['connect.cancel', 'Cancelled a connect attempt'],
  ['connect.session', 'Made a connect link'],
  ['connect.page', 'Changed the connect page'],
  ['webhook.put', 'Set a webhook'],
  ['webhook.delete', 'Deleted a webhook'],
  ['webhook.pause', 'Paused a webhook'],
  ['webhook.resume', 'Resumed a webhook'],
  ['webhook.test', 'Tested a webhook'],
  ['webhook.replay', 'Replayed events'],
  ['webhook.redeliver', 'Delivered an event again'],
  ['webhook.rotate_secret', 'Rotated a signing secret'],
  ['key.mint', 'Made an API key'],
  ['key.revoke', 'Revoked an API key'],
  ['member.invite', 'Invited somebody'],
  ['invitation.withdraw', 'Withdrew an invitation'],
  ['member.join', 'Joined the organisation'],
  ['member.role', 'Changed a role'],
  ['member.remove', 'Removed a member'],
  ['member.sign_in', 'Signed in'],
  ['session.end', 'Signed a browser out'],
  ['org.create', 'Created the organisation'],
  ['org.update', 'Changed the organisation'],
  ['operator.sign_in', 'Operator signed in'],
  ['operator.access', 'Operator viewed this organisation'],
]
const known = new Map(actions)

export function actionWords(action: string): string {
  return known.get(action) ?? words(action)
}

export const actorWords: Record<string, string> = { key: 'API key', member: 'Member', operator: 'Operator', system: 'Service', creator: 'Creator' }

export interface Change {
  field: string
  from: unknown
  to: unknown
}

/** Changes as rows, each with from and to; what has another form becomes one row. */
export function changesOf(changes: unknown): Change[] {
  if (changes === null || changes === undefined) return []
  if (typeof changes !== 'object' || Array.isArray(changes)) return [{ field: 'value', from: undefined, to: changes }]
  return Object.entries(changes as Record<string, unknown>).map(([field, v]) =>
    typeof v === 'object' && v !== null && !Array.isArray(v) && ('from' in v || 'to' in v) ? { field, from: (v as Change).from, to: (v as Change).to } : { field, from: undefined, to: v },
  )
}

/** Why it was done, where somebody had to say so. */
export function reasonOf(changes: unknown): string | null {
  const reason = changesOf(changes).find((c) => c.field === 'reason')?.to
  return typeof reason === 'string' && reason ? reason : null
}

/** A value in one line. */
export function plain(v: unknown): string {
  if (v === undefined || v === null || v === '') return '–'
  return typeof v === 'string' ? v : JSON.stringify(v)
}
