import type { ReactNode } from 'react'
import { Link } from '@tanstack/react-router'
import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { call } from '@/api/client'
import type { Account } from '@/api/types'
import { keys } from '@/api/hooks'
import { plural, shortId } from '@/lib/format'
import { listed, useAttention } from '@/shell/attention'
import { useDialogs } from '@/shell/dialogs'
import { useWhyNot } from '@/shell/session'
import { Button, ButtonLink, Card, Empty, Query, SkeletonRows, State, Time } from '@/ui'
import { nameOf, reasonOf } from '../accounts/reasons'
import { endpointName } from '../webhooks/useEndpoints'
import { endpointTrouble, troubleOf } from './figures'

/** Accounts, endpoints, webhooks and regions that need attention. The accounts are loaded only if there are any. */
export function Attention() {
  const a = useAttention()
  const { link } = useDialogs()
  const why = useWhyNot('accounts:write', 'reconnect accounts')
  const accounts = useQuery({
    queryKey: keys.accounts({ attention: a.accounts }),
    queryFn: async ({ signal }) =>
      (
        await call<{ accounts: Account[] | null }>('GET', '/v1/accounts', {
          query: { state: 'attention', limit: listed },
          signal,
        })
      ).accounts ?? [],
    enabled: a.accounts > 0,
  })
  const broken = ([a.usage, ...(a.mayHooks ? [a.hooks, a.endpointList] : [])] as UseQueryResult<unknown>[]).find(
    (q) => q.isPending || q.isError,
  )
  if (broken)
    return (
      <Card flush title="Needs attention">
        <Query
          query={broken}
          what={broken === a.usage ? 'the accounts' : 'the webhooks'}
          skeleton={<SkeletonRows rows={3} />}
        >
          {() => null}
        </Query>
      </Card>
    )
  const hint = [
    ...(a.regions.length > 0 ? [plural(a.regions.length, 'region')] : []),
    ...(a.accounts > 0 ? [plural(a.accounts, 'account')] : []),
    ...(a.endpoints.length > 0 ? [plural(a.endpoints.length, 'endpoint')] : []),
    ...(a.webhooks > 0 ? [plural(a.webhooks, 'webhook')] : []),
  ].join(' · ')
  const rows = a.hooks.data?.webhooks ?? []
  return (
    <Card flush title="Needs attention" hint={hint || 'Accounts, webhooks and regions with problems'}>
      {a.total === 0 ? (
        <Empty
          good
          title={a.mayHooks ? 'All accounts and webhooks are working' : 'All accounts are working'}
          className="!py-8"
        />
      ) : null}
      {a.regions.length > 0 ? (
        <ul className="divide-y" aria-label="Regions that need attention">
          {a.regions.map((region) => (
            <Troubled
              key={region}
              state="degraded"
              name={<span className="block truncate font-medium">Region {region}</span>}
              reason="The service cannot reach platforms through it. Its accounts wait."
              since={null}
            >
              <a href="/status" target="_blank" rel="noopener" className="link text-xs">
                Service status
              </a>
            </Troubled>
          ))}
        </ul>
      ) : null}
      {a.accounts > 0 ? (
        <div className={a.regions.length > 0 ? 'border-t' : undefined}>
          <Query query={accounts} what="the accounts" skeleton={<SkeletonRows rows={Math.min(a.accounts, listed)} />}>
            {(list) => (
              <ul className="divide-y" aria-label="Accounts that need attention">
                {list.map((one) => (
                  <Troubled
                    key={one.id}
                    state={one.state}
                    name={
                      <Link
                        to="/accounts/$id"
                        params={{ id: one.id }}
                        className="block truncate font-medium hover:underline"
                      >
                        {nameOf(one)}
                      </Link>
                    }
                    reason={reasonOf(one) ?? 'No reason given'}
                    since={one.stateChangedAt}
                  >
                    {one.state === 'reconnect_required' ? (
                      <Button size="sm" why={why} onClick={() => link({ accountId: one.id, label: nameOf(one) })}>
                        Send reconnect link
                      </Button>
                    ) : (
                      <ButtonLink
                        size="sm"
                        to="/accounts/$id"
                        params={{ id: one.id }}
                        aria-label={`Open ${nameOf(one)}`}
                      >
                        Open
                      </ButtonLink>
                    )}
                  </Troubled>
                ))}
              </ul>
            )}
          </Query>
        </div>
      ) : null}
      {a.receivers > 0 ? (
        <ul
          className={a.accounts + a.regions.length > 0 ? 'divide-y border-t' : 'divide-y'}
          aria-label="Webhooks that need attention"
        >
          {a.endpoints.map((e) => {
            const t = endpointTrouble(e)
            const name = endpointName(e)
            return (
              <Troubled
                key={e.id}
                state={t.state}
                name={
                  <Link
                    to="/webhooks/endpoints/$id"
                    params={{ id: e.id }}
                    className="block truncate font-medium hover:underline"
                  >
                    Endpoint {name}
                  </Link>
                }
                reason={t.reason}
                since={e.health.failingSince}
              >
                <ButtonLink
                  size="sm"
                  to="/webhooks/endpoints/$id"
                  params={{ id: e.id }}
                  aria-label={`Open the endpoint ${name}`}
                >
                  Open
                </ButtonLink>
              </Troubled>
            )
          })}
          {rows.map((w) => {
            const t = troubleOf(w)
            const name = w.label || shortId(w.accountId)
            return (
              <Troubled
                key={w.accountId}
                state={t.state}
                name={
                  <Link
                    to="/webhooks/$account"
                    params={{ account: w.accountId }}
                    className="block truncate font-medium hover:underline"
                  >
                    Webhook of {name}
                  </Link>
                }
                reason={t.reason}
                since={w.health.failingSince}
              >
                <ButtonLink
                  size="sm"
                  to="/webhooks/$account"
                  params={{ account: w.accountId }}
                  aria-label={`Open the webhook of ${name}`}
                >
                  Open
                </ButtonLink>
              </Troubled>
            )
          })}
        </ul>
      ) : null}
      {a.accounts > listed || a.webhooks > listed ? (
        <div className="flex flex-wrap gap-x-4 gap-y-1 border-t px-4 py-2 text-xs">
          {a.accounts > listed ? (
            <Link to="/accounts" search={{ state: 'attention' } as never} className="link">
              All {plural(a.accounts, 'account')}
            </Link>
          ) : null}
          {a.webhooks > listed ? (
            <Link to="/webhooks" search={{ state: 'attention' } as never} className="link">
              All {plural(a.webhooks, 'webhook')}
            </Link>
          ) : null}
        </div>
      ) : null}
    </Card>
  )
}

function Troubled({
  state,
  name,
  reason,
  since,
  children,
}: {
  state: string
  name: ReactNode
  reason: string
  since: string | null
  children: ReactNode
}) {
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-2 px-4 py-2.5">
      <State state={state} />
      <div className="min-w-0 flex-1 basis-40">
        {name}
        <div className="text-xs text-mute">
          {reason}
          {since ? (
            <>
              {' · '}
              <Time at={since} />
            </>
          ) : null}
        </div>
      </div>
      {children}
    </li>
  )
}
