import { beforeEach, describe, expect, it, vi } from 'vitest'
import { fromField, toField } from './range'
import { keepViews, mostViews, savedViews, withoutView, withView, type View } from './views'

const stored = new Map<string, string>()
beforeEach(() => {
  stored.clear()
  vi.stubGlobal('localStorage', {
    getItem: (k: string) => stored.get(k) ?? null,
    setItem: (k: string, v: string) => stored.set(k, v),
    removeItem: (k: string) => stored.delete(k),
  })
})
const view = (name: string, filters: Record<string, string> = { status: '429' }): View => ({ name, filters })

describe('saved views', () => {
  it('are kept by organisation and page', () => {
    keepViews('org_1', 'logs', [view('Limits')])
    expect(savedViews('org_1', 'logs')).toEqual([view('Limits')])
    expect(savedViews('org_2', 'logs')).toEqual([])
    expect(savedViews('org_1', 'events')).toEqual([])
    keepViews('org_1', 'logs', [])
    expect(stored.size).toBe(0)
  })
  it('have one of each name, the newest first, and not too many', () => {
    const list = withView(withView([view('a')], view('b')), view('a', { status: '5xx' }))
    expect(list).toEqual([view('a', { status: '5xx' }), view('b')])
    expect(withoutView(list, 'a')).toEqual([view('b')])
    const many = Array.from({ length: 30 }, (_, i) => view(`v${i}`))
    expect(withView(many, view('x'))).toHaveLength(mostViews)
  })
  it('ignore what is not a view', () => {
    for (const text of [
      '',
      'x',
      '{}',
      '[1,null,{"name":"a"},{"name":"","filters":{}},{"name":"a","filters":{"x":1}}]',
    ]) {
      stored.set('sd.views.org_1.logs', text)
      expect(savedViews('org_1', 'logs')).toEqual([])
    }
  })
})

describe('date fields', () => {
  it('keep the time to the minute', () => {
    expect(toField('2026-11-19T21:05:44.120Z', true)).toBe('2026-11-19T21:05')
    expect(fromField('2026-11-19T21:05', true)).toBe('2026-11-19T21:05:00.000Z')
    expect(fromField(toField('2026-11-19T21:05:00.000Z', false), false)).toBe('2026-11-19T21:05:00.000Z')
  })
  it('are empty without a time', () => {
    expect(toField('x', true)).toBe('')
    expect(fromField('', true)).toBe('')
    expect(fromField('', false)).toBe('')
  })
})
