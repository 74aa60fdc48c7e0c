// The figures of the overview.
import type { UsageSeries, WebhookRow } from '@/api/types'
import { plural, words } from '@/lib/format'
import { attention } from '../accounts/reasons'

/** Counts working accounts and those that need attention. Others are paused or signing in. */
export function accountsOf(byState: Record<string, number> | undefined): { connected: number; attention: number } {
  return {
    connected: byState?.['active'] ?? 0,
    attention: attention.reduce((sum, state) => sum + (byState?.[state] ?? 0), 0),
  }
}

/** The share of due events that webhooks accepted. Due events are accepted or still waiting; failed attempts that were retried do not count. */
export function deliveryOf(data: Pick<UsageSeries, 'totals' | 'eventsWaiting'>): {
  share: number | null
  delivered: number
  waiting: number
} {
  const delivered = data.totals.delivered ?? 0
  const waiting = data.eventsWaiting ?? 0
  const due = delivered + waiting
  return { share: due > 0 ? delivered / due : null, delivered, waiting }
}

/** Why a webhook needs attention, and how many events wait for it. A lagging webhook is healthy but falls behind. */
export function troubleOf(w: {
  disabledReason: string | null
  health: Pick<WebhookRow['health'], 'state' | 'laneState' | 'lastStatus' | 'lastError' | 'backlog'>
}): { state: string; reason: string } {
  const h = w.health
  const waiting = h.backlog > 0 ? ` · ${plural(h.backlog, 'event waiting', 'events waiting')}` : ''
  if (h.laneState === 'lagging') return { state: 'lagging', reason: 'Falling behind' + waiting }
  if (h.state === 'disabled')
    return {
      state: h.state,
      reason: (w.disabledReason === 'gone' ? 'Receiver returned 410' : 'Failed for 72 hours') + waiting,
    }
  return {
    state: h.state,
    reason:
      (h.lastStatus
        ? `Receiver returned ${h.lastStatus}`
        : h.lastError
          ? words(h.lastError)
          : 'Receiver does not accept events') + waiting,
  }
}
