import { useEffect, useMemo } from 'react'
import { useQuery } from '@tanstack/react-query'
import { call } from '@/api/client'
import { keys, useKeys, useUsage } from '@/api/hooks'
import type { Event } from '@/api/types'
import { ofPlatform } from '@/lib/events'
import { recall, remember } from '@/lib/storage'
import { useSession } from '@/shell/session'

export interface Step {
  id: 'key' | 'account' | 'call' | 'event'
  title: string
  hint: string
  done: boolean
}

/** The four steps of the start guide, and which of them the org has done. */
export function useSetup() {
  const { org } = useSession()
  const keyList = useKeys({ staleTime: 60_000 })
  const usage = useUsage()
  // Usage covers only this month, so completed steps are remembered.
  const kept = recall('setup.' + org.id) ?? ''
  const u = usage.data?.usage
  const has = (id: string, now: boolean | undefined) => kept.includes(id) || Boolean(now)
  const hasKey = has(
    'key',
    (keyList.data ?? []).some((k) => !k.revokedAt),
  )
  const hasAccount = has('account', u && u.accounts.connected > 0)
  const hasCall = has('call', u && u.calls.read + u.calls.write > 0)
  // The totals include the service's own events, such as account.connected, which do not count here.
  const events = useQuery({
    queryKey: keys.events({ setup: true }),
    queryFn: async ({ signal }) =>
      (
        (await call<{ events: Event[] | null }>('GET', '/v1/events', { query: { latest: 100 }, signal })).events ?? []
      ).some(ofPlatform),
    enabled: !kept.includes('event') && Boolean(u && u.events.received > 0),
    staleTime: 60_000,
  })
  const hasEvent = has('event', events.data)
  const steps = useMemo<Step[]>(
    () => [
      { id: 'key', title: 'Create an API key', hint: 'Your program authenticates with it', done: hasKey },
      {
        id: 'account',
        title: org.environment === 'sandbox' ? 'Connect a sandbox account' : 'Connect an account',
        hint: org.environment === 'sandbox' ? 'ok@sandbox.test connects immediately' : 'Or send a creator a link',
        done: hasAccount,
      },
      { id: 'call', title: 'Make your first call', hint: 'Read the account through the API', done: hasCall },
      { id: 'event', title: 'Receive an event', hint: 'Live here, by stream or by webhook', done: hasEvent },
    ],
    [org.environment, hasKey, hasAccount, hasCall, hasEvent],
  )
  useEffect(() => {
    const done = steps.filter((s) => s.done).map((s) => s.id)
    if (done.length > 0) remember('setup.' + org.id, done.join(' '))
  }, [steps, org.id])
  const done = steps.filter((s) => s.done).length
  const progress =
    done === 4
      ? 'All four done. Explore the rest of the dashboard.'
      : `Receive your first event in a few minutes.${u ? ` ${done} of 4 done.` : ''}`
  return { steps, done, progress, usage, fresh: Boolean(u) && !hasAccount && !hasCall && !hasEvent }
}
