import { createContext, use, useCallback, useMemo, type ReactNode } from 'react'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { call, isProblem, setOrg } from '@/api/client'
import { useMe } from '@/api/hooks'
import type { Scope } from '@/api/types'
import { recall, remember } from '@/lib/storage'

export interface OrgInfo {
  id: string
  name: string
  environment: 'sandbox' | 'live'
  role: string
  plan: string
  suspended?: boolean
  /** Set while the organisation is being deleted: until then it can be restored. */
  purgeAt?: string
}
export interface Banner {
  text: string
  level: string
  url?: string
}
export interface SessionInfo {
  signedIn: boolean
  person?: { id: string; email: string; name: string }
  orgs?: OrgInfo[]
  currentOrg?: string
  expiresAt?: string
  /** Set when an operator has opened the dashboard. */
  support?: { reason: string }
  banner?: Banner | null
}
export interface Session {
  person: { id: string; email: string; name: string }
  orgs: OrgInfo[]
  org: OrgInfo
  expiresAt: string | null
  banner: Banner | null
  support: string | null
  /** Switches to another org and drops the cached data of the old one. */
  switchOrg: (id: string) => Promise<void>
}

const Context = createContext<Session | null>(null)

export function signIn(): void {
  const here = location.pathname + location.search
  location.assign('/app/sign-in?to=' + encodeURIComponent(here))
}

/** Asks the person to prove again who they are, and comes back to this page. */
export function signInAgain(): void {
  const here = location.pathname + location.search
  location.assign('/app/sign-in?fresh=1&to=' + encodeURIComponent(here))
}

/** Loads the session; without one, redirects to the sign-in page. */
export function SessionProvider({
  children,
  loading,
  failed,
}: {
  children: ReactNode
  loading: ReactNode
  failed: (error: unknown, retry: () => void) => ReactNode
}) {
  const client = useQueryClient()
  const query = useQuery({
    queryKey: ['session'],
    queryFn: async ({ signal }) => {
      const info = await call<SessionInfo>('GET', '/app/session', { signal })
      const id = pickOrg(info)
      setOrg(id)
      return { ...info, currentOrg: id ?? undefined } as SessionInfo
    },
    staleTime: 60_000,
    refetchInterval: 300_000,
  })
  const data = query.data
  const switchOrg = useCallback(
    async (id: string) => {
      await call('POST', '/app/session/org', { body: { org: id } }).catch((e: unknown) => {
        // The header sets the org of this tab; the session's org only that of the next tab.
        if (!isProblem(e) || e.status === 403) throw e
      })
      remember('org', id)
      setOrg(id)
      client.removeQueries({ predicate: (q) => q.queryKey[0] !== 'session' })
      client.setQueryData(['session'], (old: SessionInfo | undefined) => (old ? { ...old, currentOrg: id } : old))
    },
    [client],
  )
  const value = useMemo<Session | null>(() => {
    const org = data?.orgs?.find((o) => o.id === data.currentOrg)
    if (!data?.signedIn || !data.person || !data.orgs || !org) return null
    return {
      person: data.person,
      orgs: data.orgs,
      org,
      expiresAt: data.expiresAt ?? null,
      banner: data.banner ?? null,
      support: data.support ? data.support.reason : null,
      switchOrg,
    }
  }, [data, switchOrg])

  if (value) return <Context value={value}>{children}</Context>
  if (query.isError) return failed(query.error, () => void query.refetch())
  if (data && !data.signedIn) {
    signIn()
    return loading
  }
  if (data) return failed(new Error('no organisation'), () => void query.refetch())
  return loading
}

// Prefers the org that was last chosen in this browser, if the member still belongs to it.
function pickOrg(info: SessionInfo): string | null {
  const orgs = info.orgs ?? []
  const kept = recall('org')
  return orgs.find((o) => o.id === kept)?.id ?? orgs.find((o) => o.id === info.currentOrg)?.id ?? orgs[0]?.id ?? null
}

/** The session; null in the operator console, which has none. */
export function useMaybeSession(): Session | null {
  return use(Context)
}

/** The signed-in person and the current org. */
export function useSession(): Session {
  const session = use(Context)
  if (!session) throw new Error('useSession outside SessionProvider')
  return session
}

const all: Scope[] = [
  'accounts:read',
  'accounts:write',
  'sdk:call',
  'webhooks:read',
  'webhooks:write',
  'me:read',
  'me:write',
  'usage:read',
]

/** The scopes of a role, used until GET /v1/me has returned them. */
export function roleScopes(role: string): readonly Scope[] {
  if (role === 'owner' || role === 'admin') return all
  if (role === 'developer') return all.filter((s) => s !== 'me:write')
  return ['accounts:read', 'webhooks:read', 'me:read', 'usage:read']
}

/** Reports whether the member's role has a scope. The server enforces scopes; this only disables buttons. */
export function useCan(scope: Scope): boolean {
  const { org } = useSession()
  const me = useMe()
  const scopes: readonly string[] = me.data?.scopes ?? roleScopes(org.role)
  return scopes.includes(scope)
}

/** For Button's `why`: null if the role has the scope, else "Your role cannot …". */
export function useWhyNot(scope: Scope, what: string): string | null {
  return useCan(scope) ? null : `Your role cannot ${what}. Ask an admin.`
}
