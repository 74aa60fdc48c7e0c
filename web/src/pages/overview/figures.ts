// The figures of the overview.
import type { Endpoint, UsageSeries, WebhookRow } from '@/api/types'
import { plural } from '@/lib/format'
import { failureTitle } from '../webhooks/failures'
import { attention } from '../accounts/reasons'

/** Counts working accounts and those that need attention. Others are paused or signing in. */
export function accountsOf(byState: Record<string, number> | undefined): { connected: number; attention: number } {
  return {
    connected: byState?.['active'] ?? 0,
    attention: attention.reduce((sum, state) => sum + (byState?.[state] ?? 0), 0),
  }
}

/** The share of due deliveries that receivers accepted. Due ones are accepted or still waiting; failed attempts that were retried do not count. */
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

/** Reports whether nothing happened before the last two points, as on the first day of an organisation. */
export function isYoung(series: UsageSeries['series']): boolean {
  const busy = (p: UsageSeries['series'][number]) => p.calls > 0 || (p.eventsReceived ?? 0) > 0
  return series.some(busy) && !series.slice(0, -2).some(busy)
}

const waitingWords = (n: number) => (n > 0 ? ` · ${plural(n, 'event waiting', 'events waiting')}` : '')

/** Why a webhook needs attention, and how many events wait for it. A lagging webhook is healthy but falls behind. */
export function troubleOf(w: {
  disabledReason: string | null
  health: Pick<WebhookRow['health'], 'state' | 'laneState' | 'lastStatus' | 'lastError' | 'backlog'>
}): { state: string; reason: string } {
  const h = w.health
  if (h.laneState === 'lagging') return { state: 'lagging', reason: 'Falling behind' + waitingWords(h.backlog) }
  return { state: h.state, reason: receiverTrouble(w.disabledReason, h) + waitingWords(h.backlog) }
}

/** Why an endpoint needs attention. One that works for most accounts lags for the others. */
export function endpointTrouble(e: {
  disabledReason: string | null
  health: Pick<Endpoint['health'], 'state' | 'lastStatus' | 'lastError' | 'backlog' | 'accountsBehind'>
}): { state: string; reason: string } {
  const h = e.health
  if (e.disabledReason === null && h.state === 'healthy')
    return {
      state: 'lagging',
      reason: `Falling behind for ${plural(h.accountsBehind, 'account')}` + waitingWords(h.backlog),
    }
  return { state: h.state, reason: receiverTrouble(e.disabledReason, h) + waitingWords(h.backlog) }
}

function receiverTrouble(
  disabled: string | null,
  h: { lastStatus?: number | null; lastError?: string | null },
): string {
  if (disabled) return disabled === 'gone' ? 'Receiver returned 410' : 'Failed for 72 hours'
  if (h.lastStatus) return `Receiver returned ${h.lastStatus}`
  return h.lastError ? failureTitle(h.lastError) : 'Receiver does not accept events'
}
