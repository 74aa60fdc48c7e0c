// Limits in words, and as the response that a caller gets.
import type { Limits, Window } from '@/api/types'

export interface Level {
  reason: string
  label: string
  /** What it counts, for the sentence. */
  what: string
  per: 'minute' | 'hour' | 'month'
  limit: (l: Limits) => number
  /** What to do about it. */
  advice: string
}

export const levels: Level[] = [
  {
    reason: 'org_rpm',
    label: 'Org calls per minute',
    what: 'calls of the whole organisation',
    per: 'minute',
    limit: (l) => l.callsPerMinute,
    advice: 'Spread work evenly instead of in bursts; use events instead of polling.',
  },
  {
    reason: 'org_monthly',
    label: 'Org calls this month',
    what: 'calls of the whole organisation',
    per: 'month',
    limit: (l) => l.callsPerMonth,
    advice: 'The wait can take days: stop, and change the plan.',
  },
  {
    reason: 'account_read_rpm',
    label: 'Account reads per minute',
    what: 'reads of one account',
    per: 'minute',
    limit: (l) => l.accountReadPerMinute,
    advice: 'Cache what you have read; events report changes.',
  },
  {
    reason: 'account_write_rpm',
    label: 'Account writes per minute',
    what: 'writes of one account',
    per: 'minute',
    limit: (l) => l.accountWritePerMinute,
    advice: 'Spread sends over time, or use massMessages.send.',
  },
  {
    reason: 'connect_hourly',
    label: 'Connect attempts per hour',
    what: 'connect attempts',
    per: 'hour',
    limit: (l) => l.connectAttemptsPerHour,
    advice: 'Send creators a link: it counts as one attempt, whenever they use it.',
  },
]

/** All reasons in words, including those that have no meter. */
export const reasonWords: Record<string, string> = {
  ...Object.fromEntries(levels.map((l) => [l.reason, l.label])),
  account_concurrency: 'Concurrent calls of one account',
  org_concurrency: 'Concurrent calls of the organisation',
  account_transfers: 'Concurrent file transfers of one account',
  account_streams: 'Streams of one account',
  org_streams: 'Streams of the organisation',
  webhook_test_rpm: 'Webhook tests per minute',
  safety_rpm: 'Safety calls per minute',
  org_bodies: 'Requests with an incomplete body',
  source_bodies: 'Requests with an incomplete body from one network',
  auth_failures: 'Invalid keys from one network',
}

/** The body of a refusal, exactly as the server returns it. */
export function refusal(level: Level, limit: number, waitSec: number, base: string): Record<string, unknown> {
  return {
    type: `${base}/problems/quota-exceeded`,
    title: 'Rate limit reached',
    status: 429,
    detail: `The limit ${level.reason} is reached. Wait ${waitSec} s and repeat the call; it was not counted.`,
    instance: 'urn:request:req_01k9x5ahzre4bb3069xb2way0g',
    code: 'quota-exceeded',
    retryable: true,
    retryAfterSec: waitSec,
    reason: level.reason,
    limit,
    current: limit,
  }
}

/** How much of a window is used; null for one without a limit. */
export function used(w: Window | undefined | null): number | null {
  return w && w.limit >= 0 ? Math.max(0, w.limit - w.remaining) : null
}

/** From 0 to 1; 0 without a limit. */
export function share(w: Window | undefined | null): number {
  const n = used(w)
  return n === null || !w || w.limit <= 0 ? 0 : Math.min(1, n / w.limit)
}

/** How many calls a day the monthly limit allows; null without a limit. */
export function dailyPace(perMonth: number, now = new Date()): number | null {
  if (perMonth < 0) return null
  const days = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 0)).getUTCDate()
  return Math.floor(perMonth / days)
}
