// Describes events in words, for lists.
import type { Event } from '@/api/types'
import type { Tone } from '@/ui/Notice'
import { summaryOf } from './summaries'

/** Reports whether the platform sent the event. The service's own events have a dot in their name. */
export const ofPlatform = (e: Pick<Event, 'event' | 'accountId'>): boolean =>
  Boolean(e.accountId) && !e.event.includes('.')

export function eventTone(kind: string): Tone {
  if (
    /^account\.(degraded|reconnect_required|challenge_required|restricted|disconnected)$|^webhook\.disabled$|[fF]ailed$|^chargeback$|^listener\.gap$/.test(
      kind,
    )
  )
    return 'bad'
  if (/^account\.(session_expiring|paused|reauthenticating)$|^usage\./.test(kind)) return 'warn'
  if (
    /^tips$|[pP]urchased$|^transaction$|^payoutPaid$|^account\.(connected|reconnected|recovered|resumed)$|^webhook\.recovered$/.test(
      kind,
    )
  )
    return 'ok'
  if (/subscri|^trialClaimed$|^autoRenew|^connect\./.test(kind)) return 'info'
  return 'neutral'
}

/** Summarises an event in one line of plain text, which is never rendered as markup. */
export function eventText(e: Pick<Event, 'event' | 'data'>): string {
  return summaryOf(e.event, e.data)
}

const attemptOf = (e: Pick<Event, 'event' | 'data'>): string | null => {
  if (e.event !== 'connect.attempt_updated' || !e.data || typeof e.data !== 'object') return null
  const d = e.data as Record<string, unknown>
  return d['state'] === 'awaiting_mobile_session' && typeof d['attempt_id'] === 'string' ? d['attempt_id'] : null
}

/**
 * Folds the renewals of QR codes: of the updates of an attempt that waits for the phone, only the newest is kept. `folded` has
 * how many others each of these stands for.
 */
export function foldRenewals(rows: readonly Event[]): { rows: readonly Event[]; folded: ReadonlyMap<string, number> } {
  const newest = new Map<string, string>()
  const folded = new Map<string, number>()
  const kept = rows.filter((e) => {
    const attempt = attemptOf(e)
    if (attempt === null) return true
    const first = newest.get(attempt)
    if (first === undefined) {
      newest.set(attempt, e.id)
      return true
    }
    folded.set(first, (folded.get(first) ?? 0) + 1)
    return false
  })
  return folded.size > 0 ? { rows: kept, folded } : { rows, folded }
}

/** Reports whether a kind passes a filter in the API's form: "message*, tips, !messageRead". An empty filter passes all. */
export function matchesKinds(filter: string, kind: string): boolean {
  const parts = filter.split(/[\s,]+/).filter(Boolean)
  const fits = (p: string) => (p.endsWith('*') ? kind.startsWith(p.slice(0, -1)) : p === kind)
  const wanted = parts.filter((p) => !p.startsWith('!'))
  if (parts.some((p) => p.startsWith('!') && fits(p.slice(1)))) return false
  return wanted.length === 0 || wanted.some(fits)
}
