import { usePages } from '@/api/hooks'
import type { LatestEvents } from '@/api/types'

const limit = 50

/** The period and text of a search. Empty texts do not limit it. */
export interface Searched {
  account: string
  kinds: string
  q: string
  from: string
  to: string
}

/** The stored events that match a search, newest first. A page looks at up to 10,000 events, so it may have none. */
export function useSearch(s: Searched, enabled: boolean) {
  const query = {
    latest: limit,
    accountId: s.account,
    events: s.kinds
      .split(/[\s,]+/)
      .filter(Boolean)
      .join(','),
    q: s.q,
    fromTime: s.from,
    toTime: s.to,
  }
  const list = usePages(['events', 'search', s], '/v1/events', query, (p: LatestEvents) => p.events, {
    limit,
    cursor: 'before',
    enabled,
  })
  const scanned = list.data?.pages.reduce((n, p) => n + (p.scanned ?? 0), 0) ?? 0
  return { ...list, scanned }
}
