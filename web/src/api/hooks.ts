import { useCallback, useEffect, useRef, useSyncExternalStore } from 'react'
import { keepPreviousData, useInfiniteQuery, useQuery, useQueryClient, type QueryKey } from '@tanstack/react-query'
import { api, call, isProblem, type Query } from './client'
import { kinds } from './facts'
import { orgStream, type StreamState } from './stream'
import { named } from '@/lib/platforms'
import type { Event, EventKind, Platform } from './types'

// Query keys: the first word is the noun, so that ['accounts'] matches every list of accounts.
export const keys = {
  me: ['me'] as const,
  usage: (account?: string) => ['usage', account ?? null] as const,
  series: (q: object) => ['series', q] as const,
  status: ['status'] as const,
  accounts: (q?: object) => (q ? (['accounts', q] as const) : (['accounts'] as const)),
  account: (id: string) => ['account', id] as const,
  errors: (q: object) => ['errors', q] as const,
  logs: (q: object) => ['logs', q] as const,
  log: (id: string) => ['log', id] as const,
  events: (q: object) => ['events', q] as const,
  event: (id: string) => ['event', id] as const,
  webhook: (account: string) => ['webhook', account] as const,
  webhooks: (q: object) => ['webhooks', q] as const,
  endpoints: ['endpoints'] as const,
  endpoint: (id: string) => ['endpoint', id] as const,
  /** `of` is an account or an endpoint. */
  deliveries: (of: string, q: object) => ['deliveries', of, q] as const,
  attempts: (q: object) => ['attempts', q] as const,
  attempt: (id: string) => ['attempt', id] as const,
  jobs: (q: object) => ['jobs', q] as const,
  job: (id: string) => ['jobs', id] as const,
  keys: ['keys'] as const,
  audit: (q: object) => ['audit', q] as const,
  methods: ['methods'] as const,
  platforms: ['platforms'] as const,
  kinds: ['kinds'] as const,
  page: ['connect-page'] as const,
}

/** Retries at most twice, and only errors that the server marks as retryable, except 429. */
export function shouldRetry(count: number, error: unknown): boolean {
  return count < 2 && isProblem(error) && error.retryable && error.status !== 429
}

export function useMe() {
  return useQuery({ queryKey: keys.me, queryFn: ({ signal }) => api.get('/v1/me', { signal }), staleTime: 300_000 })
}

export function useUsage(account?: string, every = 30_000) {
  return useQuery({
    queryKey: keys.usage(account),
    queryFn: ({ signal }) => api.get('/v1/me/usage', { query: account ? { accountId: account } : {}, signal }),
    refetchInterval: every,
    staleTime: every / 2,
  })
}

export function useStatus() {
  return useQuery({
    queryKey: keys.status,
    queryFn: ({ signal }) => api.get('/v1/status', { signal }),
    refetchInterval: 60_000,
    staleTime: 30_000,
    retry: false,
  })
}

/** Selects the calls of a series; at most one member may be set. */
export interface SeriesFilter {
  accountId?: string
  keyId?: string
  method?: string
  platform?: string
}

/** The length of a point of a series: a minute up to six hours, an hour up to a week, and then a day. */
export function stepOf(hours: number): { by: 'minute' | 'hour' | 'day'; ms: number } {
  if (hours <= 6) return { by: 'minute', ms: 60_000 }
  return hours <= 168 ? { by: 'hour', ms: 3_600_000 } : { by: 'day', ms: 86_400_000 }
}

/** Calls and events over the last `hours`, or over the same time before (`before`). */
export function useSeries(
  hours: number,
  { before = false, enabled = true, filter = {} }: { before?: boolean; enabled?: boolean; filter?: SeriesFilter } = {},
) {
  return useQuery({
    queryKey: keys.series({ hours, before, ...filter }),
    queryFn: ({ signal }) => {
      const { by, ms } = stepOf(hours)
      // The current point counts as one of them. Days and hours are in UTC, as on the server.
      const last = Math.floor(Date.now() / ms) * ms + ms - (before ? hours * 3_600_000 : 0)
      return api.get('/v1/usage/series', {
        query: {
          since: new Date(last - hours * 3_600_000).toISOString(),
          until: new Date(last).toISOString(),
          by,
          ...filter,
        },
        signal,
      })
    },
    enabled,
    refetchInterval: 60_000,
    staleTime: 30_000,
  })
}

/** How many creators got how far from a link to a connected account. */
export function useFunnel(hours: number) {
  return useQuery({
    queryKey: ['funnel', hours],
    queryFn: ({ signal }) =>
      api.get('/v1/connect/funnel', {
        query: { since: new Date(Date.now() - hours * 3_600_000).toISOString() },
        signal,
      }),
    staleTime: 30_000,
    refetchInterval: 60_000,
  })
}

export function useErrors(hours = 24) {
  return useQuery({
    queryKey: keys.errors({ hours }),
    queryFn: ({ signal }) =>
      api.get('/v1/errors', {
        query: { since: new Date(Date.now() - hours * 3_600_000).toISOString(), limit: 100 },
        signal,
      }),
    refetchInterval: 60_000,
    staleTime: 30_000,
  })
}

const noPlatforms: readonly Platform[] = []

/** The platforms of the org, the default first. Empty while they load, and if they cannot be loaded. */
export function usePlatforms(): { list: readonly Platform[]; several: boolean; loading: boolean } {
  const query = useQuery({
    queryKey: keys.platforms,
    queryFn: async ({ signal }) => (await api.get('/v1/platforms', { signal })).platforms,
    staleTime: 600_000,
    // The dashboard works without them: it then treats all accounts alike.
    retry: false,
  })
  const list = query.data ?? noPlatforms
  return { list, several: list.length > 1, loading: query.isPending }
}

/** One platform by its id. If the server does not list it, only its id is known. */
export function usePlatform(id: string): Pick<Platform, 'id' | 'name' | 'logo'> {
  return named(usePlatforms().list, id)
}

/** The keys of the org. All pages share one query, so that its cached data has one shape. */
export function useKeys({ enabled = true, staleTime = 0 } = {}) {
  return useQuery({
    queryKey: keys.keys,
    queryFn: async ({ signal }) => (await api.get('/v1/me/keys', { signal })).keys ?? [],
    enabled,
    staleTime,
  })
}

/** The endpoints of the org, at most twenty. */
export function useEndpoints({ enabled = true } = {}) {
  return useQuery({
    queryKey: keys.endpoints,
    queryFn: async ({ signal }) => (await api.get('/v1/webhook-endpoints', { signal })).endpoints ?? [],
    enabled,
    refetchInterval: 30_000,
    staleTime: 15_000,
  })
}

/** The kinds of events that the org can receive. */
export function useKinds(): readonly Pick<EventKind, 'name' | 'platforms'>[] {
  const query = useQuery({
    queryKey: keys.kinds,
    queryFn: async ({ signal }) => (await api.get('/v1/events/kinds', { signal })).kinds,
    staleTime: 600_000,
    retry: false,
  })
  return query.data ?? knownKinds
}
const knownKinds = kinds.map((name) => ({ name, platforms: [] }))

export function useAccount(id: string) {
  return useQuery({
    queryKey: keys.account(id),
    queryFn: async ({ signal }) => (await api.get('/v1/accounts/{id}', { path: { id }, signal })).account,
    refetchInterval: 30_000,
  })
}

/**
 * A paginated list. `pick` returns the rows of one page; `rows` has those of all loaded pages.
 *   const list = usePages(keys.logs(filters), '/v1/logs', filters, (p: { logs: Log[] | null; nextCursor: string | null }) => p.logs)
 */
export function usePages<P extends { nextCursor?: string | null }, R>(
  key: QueryKey,
  path: string,
  query: Query,
  pick: (page: P) => readonly R[] | null | undefined,
  opts: { limit?: number; cursor?: string; refetchInterval?: number; enabled?: boolean } = {},
) {
  const { limit = 50, cursor = 'cursor', refetchInterval, enabled } = opts
  const result = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam, signal }) =>
      call<P>('GET', path, { query: { ...query, limit, [cursor]: pageParam }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.nextCursor || null,
    placeholderData: keepPreviousData,
    ...(refetchInterval ? { refetchInterval } : {}),
    ...(enabled === undefined ? {} : { enabled }),
  })
  const rows = result.data?.pages.flatMap((p) => [...(pick(p) ?? [])])
  return { ...result, rows, first: result.data?.pages[0] }
}

// --- live ----------------------------------------------------------------------

export function useStreamState(): StreamState {
  const stream = orgStream()
  return useSyncExternalStore(
    useCallback((f: () => void) => stream.watch(f), [stream]),
    () => stream.state,
  )
}

/**
 * Delivers the org's events in batches, every 250 ms, so that a busy account does not cause a thousand
 * renders a second. The callback may change between renders.
 */
export function useEvents(
  onBatch: (events: Event[]) => void,
  opts: { enabled?: boolean; accountId?: string } = {},
): void {
  const { enabled = true, accountId } = opts
  const handler = useRef(onBatch)
  handler.current = onBatch
  const stream = orgStream()
  useEffect(() => {
    if (!enabled) return
    let held: string[] = []
    let timer: ReturnType<typeof setTimeout> | undefined
    const flush = () => {
      timer = undefined
      const texts = held
      held = []
      const events: Event[] = []
      for (const text of texts) {
        const event = JSON.parse(text) as Event
        if (!accountId || event.accountId === accountId) events.push(event)
      }
      if (events.length > 0) handler.current(events)
    }
    const stop = stream.listen((f) => {
      if (f.event === 'problem') return
      held.push(f.data)
      timer ??= setTimeout(flush, 250)
    })
    return () => {
      clearTimeout(timer)
      stop()
    }
  }, [stream, enabled, accountId])
}

/** Refetches lists when an account changes (connected, ended, renamed). */
export function useLiveAccounts(): void {
  const client = useQueryClient()
  useEvents((events) => {
    if (!events.some((e) => e.event.startsWith('account.') || e.event.startsWith('attempt'))) return
    void client.invalidateQueries({ queryKey: ['accounts'] })
    void client.invalidateQueries({ queryKey: ['account'] })
    void client.invalidateQueries({ queryKey: ['usage'] })
  })
}
