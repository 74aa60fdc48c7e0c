import { describe, expect, it } from 'vitest'
import type { Platform } from '@/api/types'
import { commonKinds, kindsOf, named, siteName, siteProblem, typedSite } from './platforms'

describe('sites', () => {
  it('are shown without the scheme', () => {
    expect(siteName('https://maya.example.com/blog/')).toBe('maya.example.com/blog')
    expect(siteName('http://127.0.0.1:2368')).toBe('127.0.0.1:2368')
    expect([siteName(null), siteName(undefined), siteName('')]).toEqual(['', '', ''])
  })
  it('may be typed without the scheme', () => {
    expect(typedSite(' maya.example.com ')).toBe('https://maya.example.com')
    expect(typedSite('http://127.0.0.1:2368')).toBe('http://127.0.0.1:2368')
    expect(typedSite('  ')).toBe('')
  })
  it('are checked before they are sent', () => {
    for (const ok of ['maya.example.com', 'https://maya.example.com/blog', 'http://localhost:2368', 'http://127.0.0.1'])
      expect(siteProblem(ok, null)).toBeNull()
    for (const bad of ['', '  ', 'maya', 'https://', 'ftp://maya.example.com', 'javascript://x.test', 'ma ya.test'])
      expect(siteProblem(bad, 'https://maya.example.com')).toContain('such as https://maya.example.com')
    for (const bad of ['https://a:b@maya.example.com', 'maya.example.com/?x=1', 'https://maya.example.com/#top'])
      expect(siteProblem(bad, null)).toContain('without a user name')
  })
})

describe('platforms', () => {
  it('that the server does not list are shown by their id', () => {
    const ghost = { id: 'ghost', name: 'Ghost', logo: 'data:image/svg+xml,x' } as Platform
    expect(named([ghost], 'ghost').name).toBe('Ghost')
    expect(named([ghost], 'gone')).toEqual({ id: 'gone', name: 'gone', logo: null })
  })
  it('have kinds of events of their own, and those of the service', () => {
    const kinds = [
      { name: 'message', platforms: ['sandbox'] },
      { name: 'postPublished', platforms: ['sandbox', 'ghost'] },
      { name: 'memberCreated', platforms: ['ghost'] },
      { name: 'account.connected', platforms: [] },
    ]
    expect(kindsOf(kinds, 'ghost')).toEqual(['postPublished', 'memberCreated', 'account.connected'])
    expect(kindsOf(kinds, null)).toHaveLength(4)
    expect(commonKinds(kindsOf(kinds, null))).toEqual(['message', 'account.*'])
    expect(commonKinds(kindsOf(kinds, 'ghost'))).toEqual(['postPublished', 'memberCreated', 'account.*'])
  })
})
