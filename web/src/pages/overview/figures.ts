// What the overview counts, and from what.
import type { UsageSeries, WebhookRow } from '@/api/extra'
import { plural, words } from '@/lib/format'
import { attention } from '../accounts/reasons'

/** Accounts that work, and those that somebody has to look at. Others are paused or signing in. */
export function accountsOf(byState: Record<string, number> | undefined): { connected: number; attention: number } {
  return { connected: byState?.['active'] ?? 0, attention: attention.reduce((sum, state) => sum + (byState?.[state] ?? 0), 0) }
}

/** Events that webhooks accepted, of those that were due: accepted or still waiting. Attempts that failed and were repeated do not count. */
export function deliveryOf(data: Pick<UsageSeries, 'totals' | 'eventsWaiting'>): { share: number | null; delivered: number; waiting: number } {
  const delivered = data.totals.delivered ?? 0
  const waiting = data.eventsWaiting ?? 0
  const due = delivered + waiting
  return { share: due > 0 ? delivered / due : null, delivered, waiting }
}

/** Why a webhook needs attention, and how many events wait for it. A lagging one is healthy, and does not keep up. */
export function troubleOf(w: { disabledReason: string | null; health: Pick<WebhookRow['health'], 'state' | 'laneState' | 'lastStatus' | 'lastError' | 'backlog'> }): { state: string; reason: string } {
  const h = w.health
  const waiting = h.backlog > 0 ? ` · ${plural(h.backlog, 'event waits', 'events wait')}` : ''
  if (h.laneState === 'lagging') return { state: 'lagging', reason: 'It does not keep up' + waiting }
  if (h.state === 'disabled') return { state: h.state, reason: (w.disabledReason === 'gone' ? 'Its receiver answered 410' : 'It failed for 72 hours') + waiting }
  return { state: h.state, reason: (h.lastStatus ? `Its receiver answered ${h.lastStatus}` : h.lastError ? words(h.lastError) : 'Its receiver does not accept events') + waiting }
}
