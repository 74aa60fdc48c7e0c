import { describe, expect, it } from 'vitest'
import { eventText, matchesKinds } from '@/lib/events'
import { keep, perSecond, Tail } from './tail'

const frame = (n: number, event = 'message', account = 'acct_a') => ({
  id: String(n),
  event,
  data: JSON.stringify({
    id: 'evt_' + n,
    event,
    accountId: account,
    ts: '2026-11-15T00:00:00Z',
    data: { message: { text: 'hi ' + n } },
    meta: {},
  }),
})

describe('the tail', () => {
  it('shows everything, newest first, while it is slow', () => {
    const t = new Tail({ account: '', kinds: '' }, 0)
    for (let i = 0; i < 5; i++) t.push(frame(i), i * 100)
    t.flush(500)
    expect(t.snapshot().rows.map((e) => e.id)).toEqual(['evt_4', 'evt_3', 'evt_2', 'evt_1', 'evt_0'])
    expect(t.snapshot()).toMatchObject({ skipped: 0, oneOf: 1, cut: false })
  })

  it('spreads a burst over time instead of skipping it', () => {
    const t = new Tail({ account: '', kinds: '' }, 0)
    for (let i = 0; i < 30; i++) t.push(frame(i), 1000)
    t.flush(1000)
    expect(t.snapshot().rows.length).toBe(perSecond)
    t.flush(1500)
    expect(t.snapshot().rows.length).toBe(30)
    expect(t.snapshot().skipped).toBe(0)
  })

  it('shows at most twenty a second of a thousand, and counts the others', () => {
    const t = new Tail({ account: '', kinds: '' }, 0)
    let n = 0
    for (let ms = 0; ms < 60_000; ms++) {
      t.push(frame(n++), ms)
      if (ms % 100 === 99) t.flush(ms)
    }
    const s = t.snapshot()
    expect(s.rows.length).toBe(keep)
    expect(s.cut).toBe(true)
    expect(s.rate).toBeGreaterThan(950)
    expect(s.oneOf).toBeGreaterThan(40)
    // Every event was shown, is waiting, or is counted.
    expect(s.skipped).toBeGreaterThan(60_000 - 61 * perSecond - 41)
    expect(s.skipped).toBeLessThanOrEqual(60_000 - 60 * perSecond)
  })

  it('holds events while it is paused, and shows them afterwards', () => {
    const t = new Tail({ account: '', kinds: '' }, 0)
    t.push(frame(0), 0)
    t.flush(0)
    t.pause(10)
    for (let i = 1; i <= 37; i++) t.push(frame(i), 20)
    t.flush(100)
    expect(t.snapshot()).toMatchObject({ paused: true, held: 37 })
    expect(t.snapshot().rows.length).toBe(1)
    t.resume(200)
    expect(t.snapshot()).toMatchObject({ paused: false, held: 0, skipped: 0 })
    expect(t.snapshot().rows[0]?.id).toBe('evt_37')
    t.pause(300)
    for (let i = 0; i < keep + 100; i++) t.push(frame(1000 + i), 400)
    t.resume(500)
    expect(t.snapshot().skipped).toBe(100)
    expect(t.snapshot().rows.length).toBe(keep)
  })

  it('shows an event once, even if it arrives twice', () => {
    const t = new Tail({ account: '', kinds: '' }, 0)
    t.push(frame(1), 0)
    t.push(frame(1), 0)
    t.flush(0)
    t.append([JSON.parse(frame(1).data), JSON.parse(frame(0).data)], 0)
    expect(t.snapshot().rows.map((e) => e.id)).toEqual(['evt_1', 'evt_0'])
  })

  it('filters by kind and account', () => {
    const t = new Tail({ account: 'acct_a', kinds: 'message*,!messageRead' }, 0)
    for (const f of [
      frame(1),
      frame(2, 'tips'),
      frame(3, 'messageRead'),
      frame(4, 'messageSent'),
      frame(5, 'message', 'acct_b'),
    ])
      t.push(f, 0)
    t.flush(0)
    expect(t.snapshot().rows.map((e) => e.id)).toEqual(['evt_4', 'evt_1'])
    expect(matchesKinds('', 'tips')).toBe(true)
    expect(matchesKinds('!typing', 'typing')).toBe(false)
    expect(matchesKinds('!typing', 'tips')).toBe(true)
  })
})

describe('the summary of an event', () => {
  it('says what happened', () => {
    expect(eventText({ event: 'message', data: { message: { text: 'hey' } } })).toBe('“hey”')
    expect(eventText({ event: 'tips', data: { amountCents: 2500, message: '' } })).toBe('tip · $25.00')
    expect(eventText({ event: 'subscribed', data: { user: { name: 'Sam' }, priceCents: 999 } })).toBe(
      'new subscriber · Sam · $9.99',
    )
    expect(eventText({ event: 'account.reconnect_required', data: { reason: 'session_expired' } })).toBe(
      'session expired',
    )
    for (const odd of [null, undefined, 3, 'x', [1], { user: 7 }])
      expect(typeof eventText({ event: 'x', data: odd })).toBe('string')
  })
})
