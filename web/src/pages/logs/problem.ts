// What the log keeps of a problem: everything but its texts.
import type { Log } from '@/api/types'
import { number, words } from '@/lib/format'
import { reasonWords } from '../usage/limits'

/** The limit that refused a call, in words; null if none did. */
export function limitOf(l: Pick<Log, 'reason'>): string | null {
  return l.reason ? (reasonWords[l.reason] ?? words(l.reason)) : null
}

/** How much of the limit was used: "1,201 of 1,200". Null if the log does not say. */
export function usedOf(l: Pick<Log, 'extensions'>): string | null {
  const { limit, current } = l.extensions ?? {}
  if (typeof limit !== 'number') return null
  return typeof current === 'number' ? `${number(current)} of ${number(limit)}` : number(limit)
}

// Facts that have a row of their own.
const shown = ['limit', 'current', 'retryAfterSec']

/** The other members of the problem in words: ["Missing scope", "me:write"]. */
export function membersOf(l: Pick<Log, 'extensions' | 'reason'>): [string, string][] {
  return Object.entries(l.extensions ?? {})
    .filter(([name]) => !l.reason || !shown.includes(name))
    .map(([name, value]) => [
      words(name.replace(/([A-Z])/g, (c) => ' ' + c.toLowerCase())),
      Array.isArray(value) ? value.join(', ') : String(value),
    ])
}

/** The invalid fields of a request, with their error codes: "/scopes/0: enum". */
export function fieldsOf(l: Pick<Log, 'errors'>): string[] {
  return (l.errors ?? []).map((e) => `${e.pointer || 'body'}: ${e.code}`)
}

/** The problem document, as far as the log keeps it. */
export function problemOf(
  l: Log,
  code: string,
  base: string,
  page?: { title: string; retryable: boolean },
): Record<string, unknown> {
  return {
    type: `${base}/problems/${code}`,
    ...(page ? { title: page.title } : {}),
    status: l.status,
    code,
    retryable: l.retryable ?? page?.retryable ?? false,
    ...(l.reason ? { reason: l.reason } : {}),
    instance: `urn:request:${l.requestId}`,
    ...(l.upstreamCode !== null && l.upstreamCode !== undefined ? { upstreamCode: l.upstreamCode } : {}),
    ...(l.errors?.length ? { errors: l.errors } : {}),
    ...l.extensions,
  }
}
