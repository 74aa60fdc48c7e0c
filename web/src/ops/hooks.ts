import { useQuery } from '@tanstack/react-query'
import { call, type Query } from '@/api/client'
import { usePages } from '@/api/hooks'
import type {
  Access,
  Account,
  Banner,
  Entry,
  Home,
  Job,
  Keyring,
  Lane,
  Node,
  Operator,
  OperatorSession,
  Org,
  OrgDetail,
  Paged,
  Plan,
  Region,
  Role,
  Switch,
  Work,
} from './types'

const every = 10_000

export function useMe() {
  return useQuery({
    queryKey: ['operator'],
    queryFn: ({ signal }) => call<Operator>('GET', '/admin/v1/me', { signal }),
    staleTime: 60_000,
  })
}
export function useHome() {
  return useQuery({
    queryKey: ['home'],
    queryFn: ({ signal }) => call<Home>('GET', '/admin/v1/home', { signal }),
    refetchInterval: every,
  })
}
const roles: Role[] = ['viewer', 'support', 'operator', 'owner']
/** Whether the operator has a role or a higher one. The server decides; this hides what it would refuse. */
export function useCan(least: Role): boolean {
  const role = useMe().data?.role
  return role !== undefined && roles.indexOf(role) >= roles.indexOf(least)
}
export function useOperatorSessions() {
  return useQuery({
    queryKey: ['operator-sessions'],
    queryFn: async ({ signal }) =>
      (await call<{ sessions: OperatorSession[] }>('GET', '/admin/v1/sessions', { signal })).sessions,
    refetchInterval: every,
  })
}
export function useAccess(org: string) {
  return useQuery({
    queryKey: ['access', org],
    queryFn: async ({ signal }) =>
      (await call<{ access: Access[] }>('GET', `/admin/v1/orgs/${encodeURIComponent(org)}/access`, { signal })).access,
    refetchInterval: every,
  })
}
export function usePlans() {
  return useQuery({
    queryKey: ['plans'],
    queryFn: async ({ signal }) => (await call<{ plans: Plan[] }>('GET', '/admin/v1/plans', { signal })).plans,
    staleTime: 60_000,
  })
}
export function useNodes() {
  return useQuery({
    queryKey: ['nodes'],
    queryFn: async ({ signal }) => (await call<{ nodes: Node[] }>('GET', '/admin/v1/nodes', { signal })).nodes,
    refetchInterval: every,
  })
}
export function useLeases() {
  return useQuery({
    queryKey: ['leases'],
    queryFn: async ({ signal }) => (await call<{ work: Work[] }>('GET', '/admin/v1/leases', { signal })).work,
    refetchInterval: every,
  })
}
export function useEgress() {
  return useQuery({
    queryKey: ['egress'],
    queryFn: ({ signal }) => call<{ node: string; regions: Region[] }>('GET', '/admin/v1/egress', { signal }),
    refetchInterval: every,
  })
}
export function useSwitches() {
  return useQuery({
    queryKey: ['switches'],
    queryFn: async ({ signal }) =>
      (await call<{ switches: Switch[] }>('GET', '/admin/v1/switches', { signal })).switches,
    refetchInterval: every,
  })
}
export function useBanner() {
  return useQuery({
    queryKey: ['banner'],
    queryFn: async ({ signal }) =>
      (await call<{ banner: Banner | null }>('GET', '/admin/v1/banner', { signal })).banner,
  })
}
export function useKeyring() {
  return useQuery({
    queryKey: ['keyring'],
    queryFn: ({ signal }) => call<Keyring>('GET', '/admin/v1/keyring', { signal }),
    refetchInterval: every,
  })
}
export function useOrg(id: string) {
  return useQuery({
    queryKey: ['org', id],
    queryFn: ({ signal }) => call<OrgDetail>('GET', `/admin/v1/orgs/${encodeURIComponent(id)}`, { signal }),
  })
}

/** A paginated list of the admin API. */
function usePaged<K extends string, R>(name: K, path: string, query: Query, refetchInterval?: number) {
  return usePages([name, query], path, query, (p: Paged<K, R>) => p[name], refetchInterval ? { refetchInterval } : {})
}
export const useOrgs = (q: Query) => usePaged<'orgs', Org>('orgs', '/admin/v1/orgs', q)
export const useAccounts = (q: Query) => usePaged<'accounts', Account>('accounts', '/admin/v1/accounts', q)
export const useJobs = (q: Query) => usePaged<'jobs', Job>('jobs', '/admin/v1/jobs', q, every)
export const useAudit = (q: Query) => usePaged<'entries', Entry>('entries', '/admin/v1/audit', q)
export function useLanes(q: Query) {
  const list = usePages(
    ['lanes', q],
    '/admin/v1/webhooks/lanes',
    q,
    (p: Paged<'lanes', Lane> & { counts: Record<string, number> }) => p.lanes,
    { refetchInterval: every },
  )
  return { ...list, counts: list.first?.counts }
}
