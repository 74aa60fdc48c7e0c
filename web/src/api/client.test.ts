import { afterEach, describe, expect, it, vi } from 'vitest'
import { api, call, fill, isProblem, queryString, setOrg, setSignedOut, setStale } from './client'

function answer(status: number, body: unknown, headers: Record<string, string> = {}) {
  const sent = vi.fn((_url: string, _init: RequestInit) =>
    Promise.resolve(
      new Response(typeof body === 'string' ? body : JSON.stringify(body), {
        status,
        headers: { 'Content-Type': 'application/json', ...headers },
      }),
    ),
  )
  vi.stubGlobal('fetch', sent)
  return sent
}
async function refusal(p: Promise<unknown>) {
  const e: unknown = await p.then(
    () => null,
    (x: unknown) => x,
  )
  if (!isProblem(e)) throw new Error('expected a problem')
  return e
}

afterEach(() => {
  vi.unstubAllGlobals()
  setOrg(null)
  setSignedOut(() => {})
})

describe('paths and queries', () => {
  it('escapes parameters', () => {
    expect(fill('/v1/accounts/{id}/x', { id: 'a/../b?c' })).toBe('/v1/accounts/a%2F..%2Fb%3Fc/x')
    expect(() => fill('/v1/{id}', {})).toThrow()
  })
  it('omits empty values and repeats lists', () => {
    expect(queryString({ a: '', b: null, c: undefined, d: 0, e: ['x', 'y z'] })).toBe('?d=0&e=x&e=y+z')
    expect(queryString({})).toBe('')
  })
})

describe('calls', () => {
  it('name the org and send JSON', async () => {
    setOrg('org_1')
    const sent = answer(200, { account: { id: 'acct_1' } })
    await api.patch('/v1/accounts/{id}', { path: { id: 'acct_1' }, body: { label: 'x' } })
    const [url, init] = sent.mock.calls[0]!
    expect(url).toBe('/v1/accounts/acct_1')
    expect(init).toMatchObject({ method: 'PATCH', credentials: 'same-origin', body: '{"label":"x"}' })
    expect(init.headers).toMatchObject({ 'Stagedoor-Org': 'org_1', 'Content-Type': 'application/json' })
  })
  it('throw typed problems', async () => {
    answer(
      403,
      {
        code: 'scope-missing',
        title: 'Scope missing',
        status: 403,
        detail: 'this key lacks accounts:write',
        retryable: false,
      },
      { 'X-Request-Id': 'req_9' },
    )
    const e = await refusal(call('POST', '/v1/x'))
    expect([e.code, e.status, e.requestId, e.missingScope, e.forbidden]).toEqual([
      'scope-missing',
      403,
      'req_9',
      'accounts:write',
      true,
    ])
  })
  it('name the invalid field', async () => {
    answer(422, {
      code: 'invalid-request',
      title: 'x',
      status: 422,
      errors: [{ pointer: '/url', code: 'format', detail: 'must be https' }],
    })
    expect((await refusal(call('PUT', '/v1/x'))).field('url')).toBe('must be https')
  })
  it('handle error responses that are not problems', async () => {
    answer(502, '<html>', { 'Content-Type': 'text/html', 'Retry-After': '7' })
    const e = await refusal(call('GET', '/v1/x'))
    expect([e.code, e.retryAfterSec, e.retryable]).toEqual(['http-502', 7, true])
  })
  it('report an unreachable server', async () => {
    vi.stubGlobal('fetch', () => Promise.reject(new TypeError('network')))
    expect((await refusal(call('GET', '/v1/x'))).code).toBe('unreachable')
  })
  it('call the signed-out callback when the session has ended', async () => {
    const out = vi.fn()
    setSignedOut(out)
    answer(401, { code: 'key-invalid', title: 'x', status: 401 })
    await refusal(call('GET', '/v1/me'))
    expect(out).toHaveBeenCalledOnce()
  })
  it('call the stale callback when an operation needs a newer sign-in', async () => {
    const stale = vi.fn()
    setStale(stale)
    answer(403, { code: 'scope-missing', title: 'x', status: 403 })
    await refusal(call('POST', '/v1/me/keys'))
    expect(stale).not.toHaveBeenCalled()
    answer(403, { code: 'reauthentication-required', title: 'x', status: 403 })
    await refusal(call('POST', '/v1/me/keys'))
    expect(stale).toHaveBeenCalledOnce()
  })
})
