import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { api, call } from '@/api/client'
import type { Account, ListedAccount } from '@/api/types'
import { keys } from '@/api/hooks'
import { toast } from '@/ui'

/** Account actions that several pages offer. */
export function useAccountActions(a: Account) {
  const client = useQueryClient()
  const done = (next: Account | undefined, text: string) => {
    if (next) client.setQueryData(keys.account(a.id), next)
    void client.invalidateQueries({ queryKey: ['accounts'] })
    void client.invalidateQueries({ queryKey: ['account', a.id] })
    toast.ok(text)
  }
  const pause = useMutation({
    mutationFn: () => api.post('/v1/accounts/{id}/pause', { path: { id: a.id } }),
    onSuccess: (r) => done(r.account, 'Paused. Calls are refused until you resume it.'),
    onError: toast.problem,
  })
  const resume = useMutation({
    mutationFn: () => api.post('/v1/accounts/{id}/resume', { path: { id: a.id } }),
    onSuccess: (r) => done(r.account, 'Resumed'),
    onError: toast.problem,
  })
  const reauthenticate = useMutation({
    mutationFn: () => api.post('/v1/accounts/{id}/reauthenticate', { path: { id: a.id }, body: {} }),
    onSuccess: () => done(undefined, 'Signing in again with the stored credentials'),
    onError: toast.problem,
  })
  return { pause, resume, reauthenticate }
}

/** The state of the account's webhook; null if it has none. Read from the list, to avoid a 404 in the org's errors. */
export function useHookState(id: string) {
  return useQuery({
    queryKey: keys.accounts({ one: id }),
    queryFn: async ({ signal }) => {
      const page = await call<{ accounts: ListedAccount[] | null }>('GET', '/v1/accounts', {
        query: { q: id, limit: 1 },
        signal,
      })
      return page.accounts?.find((a) => a.id === id)?.webhook?.state ?? null
    },
    staleTime: 20_000,
  })
}
