import { describe, expect, it } from 'vitest'
import { initials } from './Avatar'

describe('initials', () => {
  it('are the first letters of the first two words', () => {
    expect(initials('Luna Vega')).toBe('LV')
    expect(initials('Maya · main account')).toBe('MM')
    expect(initials('@luna')).toBe('L')
    expect(initials('élodie')).toBe('É')
    expect(initials('𝒜da')).toBe('𝒜')
    expect(initials('***')).toBe('?')
    expect(initials('')).toBe('?')
  })
})
