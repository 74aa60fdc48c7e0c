// What the log keeps of a problem: everything but its detail.
import type { Log } from '@/api/types'
import { words } from '@/lib/format'
import { reasonWords } from '../usage/limits'

/** The limit that refused a call, in words; null if none did. */
export function limitOf(l: Pick<Log, 'reason'>): string | null {
  return l.reason ? (reasonWords[l.reason] ?? words(l.reason)) : null
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
  }
}
