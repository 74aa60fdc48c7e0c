import { describe, expect, it } from 'vitest'
import { periodOf } from './period'

const none = { range: '', from: '', to: '', q: '' }
const now = Date.parse('2026-11-14T10:00:30.000Z')

describe('the period of a search', () => {
  it('is null for the live tail', () => {
    expect(periodOf(none, now)).toBeNull()
    expect(periodOf({ ...none, range: 'between' }, now)).toBeNull()
    expect(periodOf({ ...none, range: 'at' }, now)).toBeNull()
  })
  it('begins some hours ago, at a full minute', () => {
    expect(periodOf({ ...none, range: '24' }, now)).toEqual({ from: '2026-11-13T10:00:00.000Z', to: '' })
  })
  it('ends at the time that was jumped to', () => {
    const to = '2026-11-10T00:00:00.000Z'
    expect(periodOf({ ...none, range: 'at', to, from: 'ignored' }, now)).toEqual({ from: '', to })
  })
  it('is everything for a text alone', () => {
    expect(periodOf({ ...none, q: 'x' }, now)).toEqual({ from: '', to: '' })
  })
})
