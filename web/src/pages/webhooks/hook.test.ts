import { describe, expect, it } from 'vitest'
import { bytesOf, headersOf, reproduce } from '../events/raw'
import { eventList, readHeaders } from './hook'

describe('headers', () => {
  it('are read in every form that users paste', () => {
    expect(readHeaders('X-Webhook-Signature: sha256=ab\r\nwebhook-id: evt_1')).toEqual({
      'X-Webhook-Signature': 'sha256=ab',
      'webhook-id': 'evt_1',
    })
    expect(readHeaders('{"x-webhook-signature":["sha256=ab"],"n":1}')).toEqual({
      'x-webhook-signature': 'sha256=ab',
      n: '1',
    })
    expect(readHeaders('sha256=abcd')).toEqual({ 'X-Webhook-Signature': 'sha256=abcd' })
    expect(readHeaders('v1,abc=')).toEqual({ 'webhook-signature': 'v1,abc=' })
    expect(readHeaders(`-H 'X-Webhook-Id: evt_1' \\`)).toEqual({ 'X-Webhook-Id': 'evt_1' })
    expect(readHeaders('HTTP_X_WEBHOOK_SIGNATURE=sha256=ab')).toEqual({ HTTP_X_WEBHOOK_SIGNATURE: 'sha256=ab' })
    expect(readHeaders('  ')).toEqual({})
  })
})

describe('events', () => {
  it('are a list without duplicates', () =>
    expect(eventList('message*, tips\ntips !typing')).toEqual(['message*', 'tips', '!typing']))
})

describe('a delivery', () => {
  it('has the exact bytes of the event', () => {
    expect(bytesOf('{"event":{"b":1,"a":"}"}}\n')).toBe('{"b":1,"a":"}"}')
    expect(bytesOf('nothing')).toBeNull()
  })
  it('can be sent again from a shell', () => {
    const sent = { url: 'https://x.test/a?b=c', event: 'tips', eventId: 'evt_1', attempt: 2, at: 1700000000, seq: 7 }
    const script = reproduce(sent, `{"text":"it's $HOME"}`)
    expect(script).toContain(`BODY='{"text":"it'\\''s $HOME"}'`)
    expect(script).toContain(`curl -i 'https://x.test/a?b=c'`)
    expect(headersOf(sent).find(([n]) => n === 'X-Webhook-Sequence')?.[1]).toBe('7')
  })
})
