import { fill, send } from '@/api/client'
import type { Event } from '@/api/types'
import { shell } from '@/lib/snippets'

/** An event, and the exact bytes that are signed and sent. */
export interface RawEvent {
  event: Event
  text: string
}

/** Returns the bytes that receivers get, from the response {"event":<the bytes>}. */
export function bytesOf(answer: string): string | null {
  const found = /^\{"event":([\s\S]*)\}\s*$/.exec(answer)
  return found?.[1] ?? null
}

export async function rawEvent(id: string, signal?: AbortSignal): Promise<RawEvent> {
  const res = await send('GET', fill('/v1/events/{id}', { id }), signal ? { signal } : {})
  const answer = await res.text()
  const { event } = JSON.parse(answer) as { event: Event }
  return { event, text: bytesOf(answer) ?? JSON.stringify(event) }
}

export interface Sent {
  url: string
  event: string
  eventId: string
  attempt: number
  /** When the delivery was made, as a Unix time in seconds. */
  at: number
  seq: number | null
}

/** The headers of a delivery, except the signatures, which need the secret. */
export function headersOf(s: Sent): [string, string][] {
  return [
    ['Content-Type', 'application/json'],
    ['X-Webhook-Id', s.eventId],
    ['X-Webhook-Event', s.event],
    ['X-Webhook-Attempt', String(s.attempt)],
    ['X-Webhook-Timestamp', String(s.at)],
    ...(s.seq === null ? [] : ([['X-Webhook-Sequence', String(s.seq)]] as [string, string][])),
    ['webhook-id', s.eventId],
    ['webhook-timestamp', String(s.at)],
  ]
}

/** A shell script that repeats a delivery, signed with the secret in WEBHOOK_SECRET. */
export function reproduce(s: Sent, body: string): string {
  return [
    `BODY=${shell(body)}`,
    `SIGNATURE=$(printf %s "$BODY" | openssl dgst -sha256 -hmac "$WEBHOOK_SECRET" | sed 's/^.* //')`,
    `curl -i ${shell(s.url)} \\`,
    ...headersOf(s).map(([name, value]) => `  -H ${shell(`${name}: ${value}`)} \\`),
    `  -H "X-Webhook-Signature: sha256=$SIGNATURE" \\`,
    `  --data-binary "$BODY"`,
  ].join('\n')
}
