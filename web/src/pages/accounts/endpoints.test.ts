import { describe, expect, it } from 'vitest'
import type { Endpoint } from '@/api/types'
import { endpointsOf } from './endpoints'

const endpoint = (id: string, change: Partial<Endpoint> = {}) =>
  ({ id, enabled: true, accountIds: null, platforms: null, ...change }) as Endpoint

describe('endpointsOf', () => {
  it('returns the enabled endpoints whose filters let the account through', () => {
    const list = [
      endpoint('all'),
      endpoint('off', { enabled: false }),
      endpoint('named', { accountIds: ['acct_1', 'acct_2'] }),
      endpoint('others', { accountIds: ['acct_2'] }),
      endpoint('platform', { platforms: ['ghost'] }),
      endpoint('elsewhere', { platforms: ['sandbox'] }),
    ]
    expect(endpointsOf({ id: 'acct_1', platform: 'ghost' }, list).map((e) => e.id)).toEqual([
      'all',
      'named',
      'platform',
    ])
    expect(endpointsOf({ id: 'acct_1', platform: 'ghost' }, undefined)).toEqual([])
  })
})
