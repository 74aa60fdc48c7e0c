import { describe, expect, it } from 'vitest'
import { contrast, judge, palette, parseColour } from './colour'
import { browserName, givable, originProblem } from './words'

const rgb = (t: string) => parseColour(t)!

describe('colours', () => {
  it('contrast follows WCAG, with the figures of the server’s test', () => {
    for (const [a, b, want] of [
      ['#000000', '#ffffff', 21],
      ['#ffffff', '#ffffff', 1],
      ['#777777', '#ffffff', 4.48],
      ['#767676', '#ffffff', 4.54],
      ['#ff0000', '#ffffff', 4.0],
      ['#0000ff', '#ffffff', 8.59],
      ['#ffff00', '#ffffff', 1.07],
      ['#4f46e5', '#ffffff', 6.29],
    ] as const) {
      expect(Math.abs(contrast(rgb(a), rgb(b)) - want)).toBeLessThan(0.01)
      expect(contrast(rgb(a), rgb(b))).toBe(contrast(rgb(b), rgb(a)))
    }
  })
  it('every brand colour is legible in both schemes', () => {
    let n = 12345
    const random = () => {
      n = (n * 1103515245 + 12345) & 0x7fffffff
      return n & 0xffffff
    }
    const colours = [
      '',
      '#000000',
      '#ffffff',
      '#ffff00',
      '#808080',
      '#7f7f00',
      ...Array.from({ length: 300 }, () => '#' + random().toString(16).padStart(6, '0')),
    ]
    for (const brand of colours)
      for (const scheme of ['light', 'dark'] as const) {
        const p = palette(brand, scheme)
        expect(contrast(rgb(p['brand']!), rgb(p['on']!)), brand + scheme).toBeGreaterThanOrEqual(4.5)
        expect(contrast(rgb(p['brand']!), rgb(p['card']!)), brand + scheme).toBeGreaterThanOrEqual(4.5)
        expect(contrast(rgb(p['ink']!), rgb(p['tint']!)), brand + scheme).toBeGreaterThanOrEqual(4.5)
      }
  })
  it('reports whether a colour is kept or adjusted', () => {
    expect(judge('#4f46e5', 'light')).toMatchObject({ enough: true, used: '#4f46e5' })
    expect(judge('#ffff00', 'light')?.enough).toBe(false)
    expect(judge('#ffff00', 'light')?.used).not.toBe('#ffff00')
    expect([judge('', 'light'), judge('red', 'light'), judge('#12345', 'light')]).toEqual([null, null, null])
  })
})

describe('words', () => {
  it('browsers', () => {
    expect(
      browserName(
        'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36',
      ),
    ).toBe('Chrome on Linux')
    expect(
      browserName(
        'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36 Edg/130.0',
      ),
    ).toBe('Edge on Windows')
    expect(
      browserName(
        'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1',
      ),
    ).toBe('Safari on iOS')
    expect([browserName(''), browserName('<script>alert(1)</script>')]).toEqual([
      'Unknown browser',
      '<script>alert(1)</script>',
    ])
  })
  it('origins follow the server’s rules', () => {
    for (const ok of [
      'https://app.example.com',
      'https://app.example.com:8443',
      'http://localhost:3000',
      'http://127.0.0.1:5173',
    ])
      expect(originProblem(ok, true)).toBeNull()
    for (const bad of [
      '',
      'app.example.com',
      'https://app.example.com/',
      'https://app.example.com/x',
      'https://APP.example.com',
      'https://a.test:443',
      'http://app.example.com',
      'javascript:alert(1)',
      'https://*.example.com/',
      'https://[::1]',
    ])
      expect(originProblem(bad, true), bad).not.toBeNull()
    expect(originProblem('http://localhost:3000', false)).not.toBeNull()
  })
  it('members cannot grant more than they have', () => {
    expect(givable('owner')).toContain('owner')
    expect(givable('admin')).toEqual(['admin', 'developer', 'support'])
    expect(givable('developer')).toEqual([])
    expect(givable('support')).toEqual([])
  })
})
