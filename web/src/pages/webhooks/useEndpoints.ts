import { useQuery, useQueryClient } from '@tanstack/react-query'
import { api } from '@/api/client'
import { keys, useEvents } from '@/api/hooks'
import type { Endpoint } from '@/api/types'

export function useEndpoint(id: string) {
  return useQuery({
    queryKey: keys.endpoint(id),
    queryFn: async ({ signal }) => (await api.get('/v1/webhook-endpoints/{id}', { path: { id }, signal })).endpoint,
    refetchInterval: 30_000,
    enabled: id !== '',
  })
}

/** Refetches webhooks and endpoints when one is disabled or works again. */
export function useLiveWebhooks(): void {
  const client = useQueryClient()
  useEvents((batch) => {
    if (!batch.some((e) => e.event.startsWith('webhook.'))) return
    for (const key of ['webhooks', 'endpoints', 'endpoint']) void client.invalidateQueries({ queryKey: [key] })
  })
}

/** What an endpoint is called: its description, or the host of its URL. */
export function endpointName(e: Pick<Endpoint, 'description' | 'url'>): string {
  if (e.description) return e.description
  try {
    return new URL(e.url).host || e.url
  } catch {
    return e.url
  }
}

/** The state to show: an endpoint that works for most accounts but not for all lags. */
export function endpointState(e: Endpoint): string {
  return e.health.state === 'healthy' && e.health.accountsBehind > 0 ? 'lagging' : e.health.state
}
