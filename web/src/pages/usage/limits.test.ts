import { describe, expect, it } from 'vitest'
import { dailyPace, levels, refusal, share, used } from './limits'

describe('limits', () => {
  it('windows', () => {
    expect([
      used({ limit: 60, remaining: 22, reset: 0 }),
      used({ limit: -1, remaining: -1, reset: 0 }),
      used(null),
    ]).toEqual([38, null, null])
    expect([
      share({ limit: 60, remaining: 30, reset: 0 }),
      share({ limit: 0, remaining: 0, reset: 0 }),
      share({ limit: -1, remaining: 5, reset: 0 }),
      share({ limit: 10, remaining: -3, reset: 0 }),
    ]).toEqual([0.5, 0, 0, 1])
  })
  it('a monthly limit is spread over the days of the month', () => {
    expect(dailyPace(3_000_000, new Date('2026-11-15T00:00:00Z'))).toBe(100_000)
    expect(dailyPace(2_800, new Date('2026-02-03T00:00:00Z'))).toBe(100)
    expect(dailyPace(-1)).toBeNull()
  })
  it('a refusal is what the server returns', () => {
    const level = levels.find((l) => l.reason === 'account_write_rpm')!
    expect(refusal(level, 20, 21, 'https://a.test')).toMatchObject({
      status: 429,
      code: 'quota-exceeded',
      reason: 'account_write_rpm',
      limit: 20,
      retryAfterSec: 21,
    })
  })
})
