import { describe, expect, it } from 'vitest'
import { ProblemError } from '@/api/client'
import type { Attempt } from '@/api/types'
import { masked } from './mask'
import { readCookies, verdict } from './paste'
import { newer } from './useAttempt'
import { siteError } from './usePlace'
import { codeProblem, countdown, hasMethod } from './words'

describe('pasted cookies', () => {
  it('are read from a header, a cookies.txt and JSON', () => {
    expect(readCookies('Cookie: auth_id=1; sess=a=b; other=x')).toEqual({
      form: 'header',
      names: ['auth_id', 'sess', 'other'],
      header: 'auth_id=1; sess=a=b; other=x',
    })
    expect(
      readCookies(
        '# Netscape HTTP Cookie File\n.x.test\tTRUE\t/\tTRUE\t0\tauth_id\t1\n#HttpOnly_.x.test\tTRUE\t/\tTRUE\t0\tsess\tabc',
      ).header,
    ).toBe('auth_id=1; sess=abc')
    expect(readCookies('[{"name":"auth_id","value":"1","domain":".x"},{"name":"sess","value":"q"}]').names).toEqual([
      'auth_id',
      'sess',
    ])
    expect(readCookies('{"cookies":[{"name":"a","value":1}]}').header).toBe('a=1')
    expect(readCookies('{"auth_id":"1","sess":"2"}').header).toBe('auth_id=1; sess=2')
  })
  it('are distinguished from other text', () => {
    expect(readCookies("curl 'https://x.test' -H 'cookie: a=b'").form).toBe('curl')
    for (const t of ['', '   ', 'hello', '[]', '{', '[1,2]', '{"a":{}}']) expect(readCookies(t).form).toBe('nothing')
    // Pasted text must not become a second header.
    expect(readCookies('[{"name":"a","value":"b\\r\\nX: y"}]').form).toBe('nothing')
  })
  it('are counted', () => {
    expect(verdict(['auth_id', 'sess', 'x', 'y'], ['auth_id', 'sess'])).toEqual({
      text: '2 of 2 required cookies found; 2 others ignored',
      missing: [],
    })
    expect(verdict(['sess'], ['auth_id', 'sess'])).toEqual({
      text: '1 of 2 required cookies found',
      missing: ['auth_id'],
    })
  })
})

describe('codes', () => {
  it('may have spaces and dashes, and are validated', () => {
    for (const ok of ['123456', '123 456', '12-34-56', 'AB12CD']) expect(codeProblem(ok)).toBeNull()
    for (const bad of ['', '  ', '12', '12345678901234567', '12.345', 'é12345']) expect(codeProblem(bad)).not.toBeNull()
    expect([countdown(98), countdown(14), countdown(-3)]).toEqual(['1:38', '0:14', '0:00'])
  })
})

describe('platforms', () => {
  it('offer the methods that they have', () => {
    const ghost = { flows: ['credentials', 'cookie', 'curl', 'token'] }
    expect((['token', 'mobile', 'login', 'cookie', 'curl'] as const).filter((m) => hasMethod(ghost, m))).toEqual([
      'token',
      'login',
      'cookie',
      'curl',
    ])
    expect(hasMethod(null, 'mobile')).toBe(true)
    expect(hasMethod(null, 'token')).toBe(false)
  })
  it('have errors about the site at its field', () => {
    const problem = (code: string, errors: { pointer: string; code: string; detail: string }[] = []) =>
      new ProblemError({ code, title: 'Refused', status: 422, detail: 'The URL is not https.', errors }, null)
    expect(siteError(problem('validation-failed', [{ pointer: '/site', code: 'x', detail: 'must run Ghost' }]))).toBe(
      'must run Ghost',
    )
    expect(siteError(problem('unsafe-url'))).toBe('The URL is not https.')
    expect(siteError(problem('validation-failed', [{ pointer: '/email', code: 'x', detail: 'must' }]))).toBeUndefined()
    expect(siteError(null)).toBeUndefined()
  })
})

describe('attempts', () => {
  const at = (s: number, more = {}) =>
    ({ attempt_id: 'att_1', updated_at: new Date(s * 1000).toISOString(), ...more }) as Attempt
  it('are replaced only by newer versions', () => {
    expect(newer(at(2), at(1))).toEqual(at(2))
    expect(newer(at(1), at(2))).toEqual(at(2))
    expect(newer(undefined, at(1))).toEqual(at(1))
  })
  it('are shown without the tokens in their links', () => {
    const shown = masked(
      at(1, {
        phone_url: 'https://x.test/a/at_0123456789abcdef/phone',
        embed_url: 'https://x.test/a/at_0123456789abcdef',
        label: 'Maya',
      }),
    )
    expect(JSON.stringify(shown)).not.toContain('0123456789abcdef')
    expect(shown['label']).toBe('Maya')
  })
})
