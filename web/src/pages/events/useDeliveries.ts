import { useEffect, useMemo, useRef, useState } from 'react'
import { useQuery } from '@tanstack/react-query'
import { call } from '@/api/client'
import type { Delivery, Endpoint, Event, WebhookList } from '@/api/types'
import { useEndpoints } from '@/api/hooks'

/** What receives events. */
export interface Hooked {
  /** The accounts that have a webhook of their own. */
  accounts: ReadonlySet<string>
  endpoints: readonly Endpoint[]
  /** Whether something receives the events of an account, or of the organisation (null). */
  has: (account: string | null) => boolean
}

/** The endpoints that receive events of an account, or of the organisation (null), as far as their lists of accounts say. */
export function endpointsFor(endpoints: readonly Endpoint[], account: string | null): Endpoint[] {
  return endpoints.filter((e) =>
    account === null ? !e.accountIds && !e.platforms : !e.accountIds || e.accountIds.includes(account),
  )
}

/** What receives events; null while this is unknown, or if the role cannot see it. */
export function useHooked(): Hooked | null {
  const endpoints = useEndpoints().data
  const list = useQuery({
    queryKey: ['webhooks', 'accounts'],
    queryFn: async ({ signal }) => {
      const out = new Set<string>()
      let cursor: string | null = null
      for (let i = 0; i < 5; i++) {
        const page: WebhookList = await call('GET', '/v1/webhooks', { query: { limit: 100, cursor }, signal })
        for (const w of page.webhooks) out.add(w.accountId)
        cursor = page.nextCursor ?? null
        if (!cursor) break
      }
      return out
    },
    staleTime: 60_000,
    retry: false,
  })
  const accounts = list.data
  return useMemo(
    () =>
      accounts && endpoints
        ? {
            accounts,
            endpoints,
            has: (a) => (a !== null && accounts.has(a)) || endpointsFor(endpoints, a).length > 0,
          }
        : null,
    [accounts, endpoints],
  )
}

const every = 5000
const most = 50 // ids in one call
const again = [0, 5000, 15_000, 45_000] // delays before an event without a delivery is queried again

interface Asked {
  at: number
  times: number
}

/** The newest delivery of each event. Queries the events that `want` returns: at most fifty per call, one call every five seconds. */
export function useDeliveries(want: () => readonly Event[], hooked: Hooked | null): ReadonlyMap<string, Delivery> {
  const [known, setKnown] = useState<ReadonlyMap<string, Delivery>>(new Map())
  const latest = useRef({ want, hooked, known })
  latest.current = { want, hooked, known }
  useEffect(() => {
    const asked = new Map<string, Asked>()
    const abort = new AbortController()
    let busy = false
    const look = async () => {
      const { want, hooked, known } = latest.current
      if (busy || document.hidden || !hooked || (hooked.accounts.size === 0 && hooked.endpoints.length === 0)) return
      const now = Date.now()
      const ids: string[] = []
      for (const e of want()) {
        if (ids.length === most) break
        if (!hooked.has(e.accountId) || e.meta.class === 'ephemeral') continue
        const has = known.get(e.id)
        if (has?.state === 'delivered') continue
        const a = asked.get(e.id)
        if (a) {
          if (a.times >= again.length || now - a.at < (has ? 30_000 : (again[a.times] ?? 45_000))) continue
        } else if (now - Date.parse(e.ts) < 1500) continue // the log of deliveries is a second or two behind
        asked.set(e.id, { at: now, times: (a?.times ?? 0) + 1 })
        ids.push(e.id)
      }
      if (ids.length === 0) return
      busy = true
      try {
        const { deliveries } = await call<{ deliveries: Delivery[] | null }>('GET', '/v1/deliveries', {
          query: { event: ids.join(','), limit: 100 },
          signal: abort.signal,
        })
        if (!deliveries?.length) return
        setKnown((old) => {
          const next = new Map(old)
          for (const d of deliveries) {
            const before = next.get(d.eventId)
            if (!before || Date.parse(before.at) < Date.parse(d.at)) next.set(d.eventId, d)
          }
          // Of thousands of events, only the newest are still on the page.
          if (next.size > 4000) for (const id of [...next.keys()].slice(0, next.size - 4000)) next.delete(id)
          return next
        })
      } catch {
        // The column stays empty; the events themselves are shown.
      } finally {
        busy = false
      }
    }
    const first = setTimeout(() => void look(), 600)
    const timer = setInterval(() => void look(), every)
    return () => {
      clearTimeout(first)
      clearInterval(timer)
      abort.abort()
    }
  }, [])
  return known
}
