import { useCallback } from 'react'
import { useQuery } from '@tanstack/react-query'
import { shortId } from '@/lib/format'
import { call } from './client'
import type { Account } from './types'

const pages = 5

/** Where an account is. */
export type Place = Pick<Account, 'platform' | 'site'>

interface Known extends Place {
  name: string
}

// The first 500 accounts.
function useKnown(): ReadonlyMap<string, Known> | undefined {
  const names = useQuery({
    queryKey: ['accounts', 'names'],
    queryFn: async ({ signal }) => {
      const out = new Map<string, Known>()
      let cursor: string | null = null
      for (let i = 0; i < pages; i++) {
        const page: { accounts: Account[] | null; nextCursor: string | null } = await call('GET', '/v1/accounts', {
          query: { limit: 100, cursor },
          signal,
        })
        for (const a of page.accounts ?? [])
          out.set(a.id, {
            name: a.label || a.displayName || a.username || a.id,
            platform: a.platform,
            site: a.site,
          })
        cursor = page.nextCursor
        if (!cursor) break
      }
      return out
    },
    staleTime: 300_000,
    // Names are optional: without them, pages show ids.
    retry: false,
  })
  return names.data
}

/** Returns a function that names an account by its id. It knows the first 500 accounts; others are shown by id. */
export function useAccountNames(): (id: string | null | undefined) => string {
  const known = useKnown()
  return useCallback((id) => (id ? (known?.get(id)?.name ?? shortId(id)) : '–'), [known])
}

/** Returns a function that says where an account is. It knows the same accounts as useAccountNames; others are null. */
export function useAccountPlaces(): (id: string | null | undefined) => Place | null {
  const known = useKnown()
  return useCallback((id) => (id ? (known?.get(id) ?? null) : null), [known])
}
