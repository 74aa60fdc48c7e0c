import { useCallback } from 'react'
import { useQuery } from '@tanstack/react-query'
import { shortId } from '@/lib/format'
import { call } from './client'
import type { Account } from './types'

const pages = 5

/** Returns a function that names an account by its id. It knows the first 500 accounts; others are shown by id. */
export function useAccountNames(): (id: string | null | undefined) => string {
  const names = useQuery({
    queryKey: ['accounts', 'names'],
    queryFn: async ({ signal }) => {
      const out = new Map<string, string>()
      let cursor: string | null = null
      for (let i = 0; i < pages; i++) {
        const page: { accounts: Account[] | null; nextCursor: string | null } = await call('GET', '/v1/accounts', {
          query: { limit: 100, cursor },
          signal,
        })
        for (const a of page.accounts ?? []) out.set(a.id, a.label || a.displayName || a.username || a.id)
        cursor = page.nextCursor
        if (!cursor) break
      }
      return out
    },
    staleTime: 300_000,
    // Names are optional: without them, pages show ids.
    retry: false,
  })
  const known = names.data
  return useCallback((id) => (id ? (known?.get(id) ?? shortId(id)) : '–'), [known])
}
