import { useKeys } from '@/api/hooks'
import { shortId } from '@/lib/format'
import { useCan } from './session'

/** Labels of the org's keys; empty if the role may not see them. */
export function useKeyNames(): ReadonlyMap<string, string> {
  const may = useCan('me:read')
  const list = useKeys({ enabled: may, staleTime: 300_000 })
  return new Map((list.data ?? []).map((k) => [k.id, k.label || shortId(k.id)]))
}
