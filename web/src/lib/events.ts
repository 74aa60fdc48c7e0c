// Describes events in words, for lists.
import type { Event } from '@/api/types'
import type { Tone } from '@/ui/Notice'
import { words } from './format'

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

type Bag = Record<string, unknown>
const bag = (v: unknown): Bag => (v !== null && typeof v === 'object' && !Array.isArray(v) ? (v as Bag) : {})
const text = (v: unknown): string => (typeof v === 'string' ? v : '')
const money = (v: unknown): string => (typeof v === 'number' ? `$${(v / 100).toFixed(2)}` : '')

/** Summarises an event in one line of plain text, which is never rendered as markup. */
export function eventText(e: Pick<Event, 'event' | 'data'>): string {
  const d = bag(e.data)
  const who = text(bag(d['user']).name) || text(bag(d['user']).displayName) || text(bag(d['fromUser']).name)
  const join = (...parts: string[]) => parts.filter(Boolean).join(' · ')
  const said =
    text(bag(d['message']).text) ||
    text(d['text']) ||
    text(bag(d['comment']).text) ||
    text(bag(d['post']).text) ||
    text(d['message'])
  switch (e.event) {
    case 'tips':
      return join('tip', money(d['amountCents']), said && `“${said}”`)
    case 'subscribed':
      return join('new subscriber', who, money(d['priceCents']))
    case 'resubscribed':
      return join('subscribed again', who, money(d['priceCents']))
    case 'subscriptionExpired':
      return join('subscription ended', who)
    case 'messagePurchased':
    case 'postPurchased':
      return join('bought', who, money(d['priceCents']))
    case 'account.reconnect_required':
      return text(d['reason']) ? words(text(d['reason'])).toLowerCase() : 'reconnect required'
  }
  if (said) return `“${said}”`
  const cents = d['amountCents'] ?? d['priceCents'] ?? bag(d['transaction'])['amountCents']
  if (typeof cents === 'number') return join(who, money(cents))
  const state = text(d['state']) || text(d['status']) || text(d['to'])
  if (state) return join(words(state).toLowerCase(), text(d['reason']) ? words(text(d['reason'])).toLowerCase() : '')
  if (text(d['reason'])) return words(text(d['reason'])).toLowerCase()
  if (text(d['label'])) return text(d['label'])
  return who
}

/** Reports whether a kind passes a filter in the API's form: "message*, tips, !messageRead". An empty filter passes all. */
export function matchesKinds(filter: string, kind: string): boolean {
  const parts = filter.split(/[\s,]+/).filter(Boolean)
  const fits = (p: string) => (p.endsWith('*') ? kind.startsWith(p.slice(0, -1)) : p === kind)
  const wanted = parts.filter((p) => !p.startsWith('!'))
  if (parts.some((p) => p.startsWith('!') && fits(p.slice(1)))) return false
  return wanted.length === 0 || wanted.some(fits)
}
