import { describe, expect, it } from 'vitest'
import { needsAttention } from '@/shell/attention'
import { accountsOf, deliveryOf, endpointTrouble, isYoung, troubleOf } from './figures'

const totals = (delivered: number | null, deliveryFailed: number | null) => ({
  calls: 0,
  succeeded: 0,
  limited: 0,
  clientErrors: 0,
  failed: 0,
  p50Ms: null,
  p95Ms: null,
  p99Ms: null,
  eventsReceived: 0,
  delivered,
  deliveryFailed,
  slowestDeliveryMs: null,
})

describe('events delivered', () => {
  it('counts waiting events as due', () => {
    const d = deliveryOf({ totals: totals(3320, 0), eventsWaiting: 1680 })
    expect(d).toEqual({ share: 0.664, delivered: 3320, waiting: 1680 })
  })
  it('does not count failed attempts that were retried', () => {
    expect(deliveryOf({ totals: totals(100, 40), eventsWaiting: 0 }).share).toBe(1)
  })
  it('is null without due events, and 0 if none of them arrived', () => {
    expect(deliveryOf({ totals: totals(0, 0), eventsWaiting: 0 }).share).toBeNull()
    expect(deliveryOf({ totals: totals(null, null), eventsWaiting: null }).share).toBeNull()
    expect(deliveryOf({ totals: totals(0, 9), eventsWaiting: 12 }).share).toBe(0)
  })
})

describe('accounts', () => {
  it('counts only working accounts as connected', () => {
    expect(
      accountsOf({ active: 12, degraded: 1, reconnect_required: 2, restricted: 1, paused: 3, connecting: 1 }),
    ).toEqual({ connected: 12, attention: 4 })
    expect(accountsOf(undefined)).toEqual({ connected: 0, attention: 0 })
  })
})

describe('webhooks that need attention', () => {
  it('says what is wrong with each, and how many events wait for it', () => {
    const of = (health: Partial<Parameters<typeof troubleOf>[0]['health']>, disabledReason: string | null = null) =>
      troubleOf({
        disabledReason,
        health: { state: 'failing', laneState: 'backoff', lastStatus: 0, lastError: null, backlog: 0, ...health },
      })
    expect(of({ lastStatus: 503, backlog: 1680 })).toEqual({
      state: 'failing',
      reason: 'Receiver returned 503 · 1,680 events waiting',
    })
    expect(of({ lastError: 'timeout', backlog: 1 })).toEqual({
      state: 'failing',
      reason: 'No response within 10 s · 1 event waiting',
    })
    expect(of({ state: 'disabled', laneState: 'disabled', lastStatus: 410 }, 'gone')).toEqual({
      state: 'disabled',
      reason: 'Receiver returned 410',
    })
    expect(of({ state: 'disabled', laneState: 'disabled', lastStatus: 500, backlog: 9 }, 'failing')).toEqual({
      state: 'disabled',
      reason: 'Failed for 72 hours · 9 events waiting',
    })
    expect(of({ state: 'healthy', laneState: 'lagging', lastStatus: 200, backlog: 40 })).toEqual({
      state: 'lagging',
      reason: 'Falling behind · 40 events waiting',
    })
  })
})

describe('endpoints that need attention', () => {
  const endpoint = (
    health: Partial<Parameters<typeof endpointTrouble>[0]['health']>,
    disabledReason: 'paused' | 'gone' | 'failing' | null = null,
  ) => ({
    disabledReason,
    health: { state: 'healthy', lastStatus: 200, lastError: null, backlog: 0, accountsBehind: 0, ...health } as never,
  })
  it('are those that fail, were disabled, or do not keep up for some accounts', () => {
    expect(needsAttention(endpoint({}))).toBe(false)
    expect(needsAttention(endpoint({ backlog: 12 }))).toBe(false)
    expect(needsAttention(endpoint({ state: 'failing' }))).toBe(true)
    expect(needsAttention(endpoint({ accountsBehind: 1 }))).toBe(true)
    expect(needsAttention(endpoint({ state: 'disabled' }, 'gone'))).toBe(true)
    expect(needsAttention(endpoint({ state: 'paused', accountsBehind: 3 }, 'paused'))).toBe(false)
  })
  it('say why', () => {
    expect(endpointTrouble(endpoint({ state: 'failing', lastStatus: 502, backlog: 120 }))).toEqual({
      state: 'failing',
      reason: 'Receiver returned 502 · 120 events waiting',
    })
    expect(endpointTrouble(endpoint({ accountsBehind: 2, backlog: 7 }))).toEqual({
      state: 'lagging',
      reason: 'Falling behind for 2 accounts · 7 events waiting',
    })
    expect(endpointTrouble(endpoint({ state: 'disabled' }, 'failing')).reason).toBe('Failed for 72 hours')
  })
})

describe('the first day', () => {
  const points = (...calls: number[]) => calls.map((n) => ({ calls: n, eventsReceived: 0 }) as never)
  it('has everything in the last two points', () => {
    expect(isYoung(points(0, 0, 0, 3, 9))).toBe(true)
    expect(isYoung(points(0, 1, 0, 3, 9))).toBe(false)
    expect(isYoung(points(0, 0, 0, 0, 0))).toBe(false)
  })
})
