import { describe, expect, it } from 'vitest'
import {
  bytes,
  compact,
  duration,
  exact,
  isWebLink,
  millis,
  number,
  percent,
  plural,
  relative,
  shortId,
  tick,
  words,
} from './format'
import { targetOf } from './ids'
import { cli, curl, go, python, shell, typescript } from './snippets'

describe('format', () => {
  it('numbers', () => {
    expect(number(184203)).toBe('184,203')
    expect(number(null)).toBe('–')
    expect([compact(2000), compact(1234567), compact(0.5), compact(0)]).toEqual(['2k', '1.2M', '0.5', '0'])
    expect([percent(0.99982, 3), percent(1), percent(0.99999, 1), percent(NaN)]).toEqual([
      '99.982%',
      '100%',
      '99.9%',
      '–',
    ])
    expect([bytes(10), bytes(1536), bytes(5 * 1024 ** 3)]).toEqual(['10 B', '1.5 KB', '5 GB'])
    expect([plural(1, 'account'), plural(1200, 'account')]).toEqual(['1 account', '1,200 accounts'])
  })
  it('times', () => {
    expect([millis(4.24), millis(41.3), millis(1834), millis(90_000)]).toEqual(['4.2 ms', '41 ms', '1.8 s', '2 min'])
    expect([duration(21), duration(840), duration(11_100), duration(86_400), duration(1e6)]).toEqual([
      '21 s',
      '14 min',
      '3 h 5 min',
      '1 day',
      '12 days',
    ])
    const at = new Date('2026-11-03T22:04:11.123Z')
    expect(exact(at, true)).toBe('3 Nov 2026, 22:04:11 UTC')
    expect(relative(at, at.getTime() + 720_000)).toBe('12 min ago')
    expect(relative(at, at.getTime() - 120_000)).toBe('in 2 min')
    expect(tick(at, true, 86_400_000)).toBe('22:04')
    expect(tick(at, true, 30 * 86_400_000)).toBe('3 Nov')
  })
  it('links only http and https', () => {
    expect(isWebLink('https://a.test/x')).toBe(true)
    for (const bad of ['javascript:alert(1)', 'data:text/html,x', ' nothing', '//a.test', 'file:///etc'])
      expect(isWebLink(bad)).toBe(false)
  })
  it('words', () => {
    expect(words('account.session_expired')).toBe('Account session expired')
    expect(shortId('acct_01k9zzzzzzzzzzzzzzzzzzx7q2')).toBe('acct_01k9zz…x7q2')
  })
})

describe('ids', () => {
  const u = '01k9zzzzzzzzzzzzzzzzzzx7q2'
  it('lead to their pages from anywhere in a text', () => {
    expect(targetOf(` acct_${u} `)?.to).toBe(`/accounts/acct_${u}`)
    expect(targetOf(`see https://x.test/logs/req_${u.toUpperCase()}?a`)?.to).toBe(`/logs/req_${u}`)
    for (const p of ['att', 'evt', 'whd', 'key', 'org', 'cs', 'aud'])
      expect(targetOf(`${p}_${u}`)?.id).toBe(`${p}_${u}`)
  })
  it('are not found where there are none', () => {
    for (const t of ['', 'accounts', 'acct_', 'acct_123', `xacct_${u}`]) expect(targetOf(t)).toBeNull()
  })
})

describe('snippets', () => {
  const req = { method: 'POST', path: '/v1/x', body: { text: "it's", on: true, none: null } }
  it('quote for the shell', () => {
    expect(shell("it's $HOME")).toBe(`'it'\\''s $HOME'`)
    expect(curl(req, 'https://a.test')).toContain(`-d '{"text":"it'\\''s","on":true,"none":null}'`)
    expect(curl({ method: 'GET', path: '/v1/me' }, 'https://a.test')).toBe(
      'curl https://a.test/v1/me \\\n  -H "Authorization: Bearer $STAGEDOOR_API_KEY"',
    )
    expect(cli({ method: 'GET', path: '/v1/logs?a=b&c' })).toBe("stagedoor api GET '/v1/logs?a=b&c'")
  })
  it('follow the syntax of each language', () => {
    expect(python(req, '')).toContain('{"text": "it\'s", "on": True, "none": None}')
    expect(go(req, '')).toContain('strings.NewReader(`{"text":')
    expect(typescript(req, '')).toContain('"on": true')
  })
})
