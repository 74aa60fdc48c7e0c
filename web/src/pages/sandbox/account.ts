import { useQuery } from '@tanstack/react-query'
import { api, call, isProblem } from '@/api/client'
import { keys } from '@/api/hooks'
import type { Account } from '@/api/types'

/** The account in the URL, or else the first one that is connected. It is refetched often, because this page breaks it. */
export function useChosen(wanted: string): {
  id: string | null
  account: Account | null
  none: boolean
  missing: boolean
  failed: boolean
  error: unknown
  retry: () => void
} {
  const any = useQuery({
    queryKey: keys.accounts({ sandbox: true }),
    queryFn: async ({ signal }) => {
      const list = async (state?: 'active') =>
        (
          await call<{ accounts: Account[] | null }>('GET', '/v1/accounts', {
            query: { state, platform: 'sandbox', limit: 1 },
            signal,
          })
        ).accounts?.[0] ?? null
      return (await list('active')) ?? (await list())
    },
    enabled: !wanted,
    staleTime: 60_000,
  })
  const id = wanted || any.data?.id || ''
  const one = useQuery({
    queryKey: keys.account(id),
    queryFn: async ({ signal }) => (await api.get('/v1/accounts/{id}', { path: { id }, signal })).account,
    enabled: Boolean(id),
    refetchInterval: 30_000,
  })
  return {
    id: id || null,
    account: one.data ?? (wanted ? null : (any.data ?? null)),
    none: !wanted && any.isSuccess && !any.data,
    missing: Boolean(wanted) && isProblem(one.error) && one.error.notFound,
    failed: (any.isError && !wanted) || (one.isError && !one.data && !(isProblem(one.error) && one.error.notFound)),
    error: one.error ?? any.error,
    retry: () => void (any.isError ? any.refetch() : one.refetch()),
  }
}
