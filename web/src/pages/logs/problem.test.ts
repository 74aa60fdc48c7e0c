import { describe, expect, it } from 'vitest'
import type { Log } from '@/api/types'
import { fieldsOf, limitOf, membersOf, problemOf, usedOf } from './problem'

const log = (more: Partial<Log>): Log => ({
  requestId: 'req_1',
  at: '2026-11-16T18:43:15.120Z',
  method: 'messages.send',
  http: 'POST',
  status: 429,
  durationMs: 1,
  upstreamMs: null,
  keyId: 'key_1',
  source: 'api',
  accountId: null,
  code: 'quota-exceeded',
  reason: null,
  extensions: {},
  resetAt: null,
  events: [],
  retryable: true,
  upstreamCode: null,
  errors: [],
  bytesIn: 1,
  bytesOut: 2,
  replayed: false,
  dryRun: false,
  ...more,
})

describe('what the log keeps of a problem', () => {
  it('names the limit that refused a call', () => {
    const l = log({ reason: 'account_write_rpm' })
    expect(limitOf(l)).toBe('Account writes per minute')
    expect(problemOf(l, 'quota-exceeded', 'https://a.test')).toMatchObject({
      status: 429,
      code: 'quota-exceeded',
      reason: 'account_write_rpm',
      retryable: true,
    })
    expect(limitOf(log({ reason: 'a_new_limit' }))).toBe('A new limit')
    expect(limitOf(log({}))).toBeNull()
  })
  it('says how much of the limit was used, and the other members', () => {
    const l = log({ reason: 'org_rpm', extensions: { limit: 1200, current: 1201, retryAfterSec: 21, plan: 'growth' } })
    expect(usedOf(l)).toBe('1,201 of 1,200')
    expect(usedOf(log({ extensions: { limit: 30 } }))).toBe('30')
    expect(usedOf(log({}))).toBeNull()
    expect(membersOf(l)).toEqual([['Plan', 'growth']])
    expect(problemOf(l, 'quota-exceeded', 'https://a.test')).toMatchObject({ limit: 1200, retryAfterSec: 21 })
    expect(
      membersOf(log({ extensions: { missingScope: 'me:write', heldScopes: ['me:read', 'usage:read'], limit: 3 } })),
    ).toEqual([
      ['Missing scope', 'me:write'],
      ['Held scopes', 'me:read, usage:read'],
      ['Limit', '3'],
    ])
  })
  it('lists the invalid fields', () => {
    const l = log({
      status: 422,
      code: 'validation-failed',
      retryable: false,
      errors: [
        { pointer: '/scopes/0', code: 'enum' },
        { pointer: '', code: 'type' },
      ],
    })
    expect(fieldsOf(l)).toEqual(['/scopes/0: enum', 'body: type'])
    expect(
      problemOf(l, 'validation-failed', 'https://a.test', { title: 'Validation failed', retryable: false }),
    ).toEqual({
      type: 'https://a.test/problems/validation-failed',
      title: 'Validation failed',
      status: 422,
      code: 'validation-failed',
      retryable: false,
      instance: 'urn:request:req_1',
      errors: l.errors,
    })
  })
  it('omits missing values', () => {
    expect(problemOf(log({}), 'quota-exceeded', 'https://a.test')).not.toHaveProperty('reason')
    expect(problemOf(log({}), 'quota-exceeded', 'https://a.test')).not.toHaveProperty('errors')
  })
})
