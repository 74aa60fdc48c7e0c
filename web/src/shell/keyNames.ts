import { useQuery } from '@tanstack/react-query'
import { api } from '@/api/client'
import { keys } from '@/api/hooks'
import { shortId } from '@/lib/format'
import { useCan } from './session'

/** Labels of the org's keys; empty if the role may not see them. */
export function useKeyNames(): ReadonlyMap<string, string> {
  const may = useCan('me:read')
  const list = useQuery({
    queryKey: keys.keys,
    queryFn: ({ signal }) => api.get('/v1/me/keys', { signal }),
    staleTime: 300_000,
    enabled: may,
    retry: false,
  })
  return new Map((list.data?.keys ?? []).map((k) => [k.id, k.label || shortId(k.id)]))
}
