import { describe, expect, it } from 'vitest'
import { linePath } from './Chart'

describe('a line', () => {
  it('goes through the middle of each point', () => {
    expect(linePath([1, 2, 4], 4)).toBe('M0.5 3L1.5 2L2.5 0')
  })
  it('has gaps, and a stroke for a single value', () => {
    expect(linePath([1, null, 2, null, null, 4, 4], 4)).toBe('M0.2 3H0.8M2.2 2H2.8M5.5 0L6.5 0')
    expect(linePath([null, null], 4)).toBe('')
  })
})
