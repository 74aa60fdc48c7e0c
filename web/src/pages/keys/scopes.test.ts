import { describe, expect, it } from 'vitest'
import { byHour, keyState, lines, presetOf, presets, scopeCount, usedBy } from './scopes'

describe('keys', () => {
  it('recognises presets only', () => {
    for (const p of presets) expect(presetOf(new Set(p.scopes))).toBe(p.id)
    expect(presetOf(new Set(['me:read']))).toBe('')
    expect(presetOf(new Set())).toBe('')
    expect(presets.find((p) => p.id === 'everyday')?.scopes).not.toContain('me:write')
  })
  it('counts only known scopes', () => {
    expect([
      scopeCount(null),
      scopeCount(['me:read', 'new:thing']),
      scopeCount([
        'accounts:read',
        'accounts:write',
        'sdk:call',
        'webhooks:read',
        'webhooks:write',
        'usage:read',
        'me:read',
        'me:write',
      ]),
    ]).toEqual(['none', '1 of 8', 'all 8'])
  })
  it('a revoked key is revoked whether it has expired or not', () => {
    const now = Date.parse('2026-11-15T12:00:00Z')
    expect(keyState({ revokedAt: '2026-01-01T00:00:00Z', expiresAt: '2026-01-01T00:00:00Z' }, now)).toBe('revoked')
    expect(keyState({ expiresAt: '2026-11-15T12:00:00Z' }, now)).toBe('expired')
    expect(keyState({ expiresAt: '2026-11-15T12:00:01Z' }, now)).toBe('active')
    expect(keyState({}, now)).toBe('active')
  })
  it('lines and sums', () => {
    expect(lines(' chats.*\n\n!sensitive, messages.send ')).toEqual(['chats.*', '!sensitive', 'messages.send'])
    expect(
      usedBy([
        { method: 'b', accountId: 'x' },
        { method: 'a', accountId: null },
        { method: 'b', accountId: 'x' },
      ]),
    ).toEqual({
      methods: [
        ['b', 2],
        ['a', 1],
      ],
      accounts: 1,
    })
    const now = Date.parse('2026-11-15T12:30:00Z')
    const hours = byHour(
      [
        { at: '2026-11-15T12:01:00Z', status: 200 },
        { at: '2026-11-15T11:59:59Z', status: 429 },
        { at: '2026-11-14T13:00:00Z', status: 500 },
        { at: '2026-11-14T12:59:00Z', status: 200 },
      ],
      now,
    )
    expect(hours).toHaveLength(24)
    expect(hours[23]).toMatchObject({ succeeded: 1, limited: 0 })
    expect(hours[22]).toMatchObject({ limited: 1 })
    expect(hours[0]).toMatchObject({ failed: 1 })
    expect(hours.reduce((n, h) => n + h.succeeded, 0)).toBe(1)
  })
})
