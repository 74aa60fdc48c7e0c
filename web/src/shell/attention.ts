import { useQuery } from '@tanstack/react-query'
import { call } from '@/api/client'
import { keys, useEndpoints, useStatus, useUsage } from '@/api/hooks'
import type { Endpoint, WebhookList } from '@/api/types'
import { attention as troubled } from '@/pages/accounts/reasons'
import { useCan } from './session'

/** How many rows of each kind the overview lists. */
export const listed = 5

/** An endpoint that fails, was disabled because it failed, or does not keep up for some accounts. */
export function needsAttention(e: Pick<Endpoint, 'disabledReason' | 'health'>): boolean {
  if (e.disabledReason === 'paused') return false
  return e.disabledReason !== null || e.health.state === 'failing' || e.health.accountsBehind > 0
}

/**
 * What needs attention: accounts, webhooks, endpoints and regions. The overview, the sidebar and the system state show
 * the same numbers.
 */
export function useAttention() {
  const mayHooks = useCan('webhooks:read')
  const usage = useUsage(undefined, 60_000)
  const status = useStatus()
  const hooks = useQuery({
    queryKey: keys.webhooks({ attention: listed }),
    queryFn: ({ signal }) =>
      call<WebhookList>('GET', '/v1/webhooks', { query: { state: 'attention', limit: listed }, signal }),
    enabled: mayHooks,
    refetchInterval: 60_000,
    staleTime: 15_000,
  })
  const endpointList = useEndpoints({ enabled: mayHooks })
  const byState = usage.data?.usage.accounts.byState as Record<string, number> | undefined
  const accounts = troubled.reduce((sum, state) => sum + (byState?.[state] ?? 0), 0)
  const webhooks = hooks.data?.counts['attention'] ?? 0
  const endpoints = (endpointList.data ?? []).filter(needsAttention)
  const regions = (status.data?.regions ?? []).filter((r) => !r.ok).map((r) => r.region)
  return {
    mayHooks,
    accounts,
    webhooks,
    endpoints,
    regions,
    /** Webhooks of accounts and endpoints of the organisation. */
    receivers: webhooks + endpoints.length,
    total: accounts + webhooks + endpoints.length + regions.length,
    usage,
    hooks,
    endpointList,
    status,
  }
}
