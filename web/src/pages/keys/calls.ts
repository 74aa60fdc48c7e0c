import { useQuery } from '@tanstack/react-query'
import { call } from '@/api/client'
import type { Log } from '@/api/types'

interface Page {
  logs: Log[] | null
  nextCursor: string | null
}

// Fetch no more than this: a busier key is clearly in use, which is all we need to know.
const mostPages = 5

/** The requests of a key in the last day, up to 500, newest first; `more` reports whether there were others. */
export function useKeyCalls(id: string | null, pages = mostPages) {
  return useQuery({
    queryKey: ['logs', { key: id, pages }],
    queryFn: async ({ signal }) => {
      const since = new Date(Date.now() - 86_400_000).toISOString()
      const logs: Log[] = []
      let cursor: string | null = null
      for (let i = 0; i < pages; i++) {
        const page: Page = await call<Page>('GET', '/v1/logs', {
          query: { keyId: id, since, limit: 100, cursor },
          signal,
        })
        logs.push(...(page.logs ?? []))
        cursor = page.nextCursor
        if (!cursor) break
      }
      return { logs, more: Boolean(cursor) }
    },
    enabled: Boolean(id),
    staleTime: 30_000,
  })
}

/** The newest request of a key, or null. With `every` (ms), polls until there is one; less often after three minutes. */
export function useLastCall(id: string, opts: { enabled?: boolean; every?: number } = {}) {
  return useQuery({
    queryKey: ['logs', { last: id }],
    queryFn: async ({ signal }) =>
      (await call<Page>('GET', '/v1/logs', { query: { keyId: id, limit: 1 }, signal })).logs?.[0] ?? null,
    enabled: opts.enabled ?? true,
    staleTime: opts.every ? 0 : 60_000,
    refetchInterval: (q) => (!opts.every || q.state.data ? false : q.state.dataUpdateCount > 60 ? 30_000 : opts.every),
    retry: false,
  })
}
