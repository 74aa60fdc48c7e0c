import type { ReactNode } from 'react'
import { Link } from '@tanstack/react-router'
import { useQuery, useQueryClient, type UseQueryResult } from '@tanstack/react-query'
import { ArrowRight, Circle, CircleCheck, Plus } from 'lucide-react'
import { call } from '@/api/client'
import type { Account, Usage, UsageSeries, WebhookList } from '@/api/types'
import { keys, useErrors, useEvents, useLiveAccounts, useSeries, useUsage } from '@/api/hooks'
import { useUTC } from '@/lib/clock'
import { cx } from '@/lib/cx'
import { useFilters } from '@/lib/filters'
import { millis, number, percent, plural, shortId } from '@/lib/format'
import { outcomes } from '@/lib/outcomes'
import { useDialogs } from '@/shell/dialogs'
import { useCan, useSession, useWhyNot } from '@/shell/session'
import {
  Bars,
  Boundary,
  Button,
  ButtonLink,
  Card,
  Empty,
  PageHead,
  Query,
  Select,
  Skeleton,
  SkeletonRows,
  Spark,
  State,
  Time,
  WindowMeter,
} from '@/ui'
import { nameOf, reasonOf } from '../accounts/reasons'
import { Guide } from '../start/Guide'
import { useSetup } from '../start/setup'
import { accountsOf, deliveryOf, troubleOf } from './figures'

const ranges: Record<string, [number, string, string]> = {
  '24h': [24, 'Last 24 hours', 'vs yesterday'],
  '7d': [168, 'Last 7 days', 'vs last week'],
  '30d': [720, 'Last 30 days', 'vs last month'],
}

export default function Overview() {
  const { org } = useSession()
  const f = useFilters({ range: '24h' })
  const utc = useUTC()
  const setup = useSetup()
  const { connect } = useDialogs()
  const why = useWhyNot('accounts:write', 'connect accounts')
  useLiveAccounts()
  const [hours, title, versus] = ranges[f.values.range] ?? ranges['24h']!
  const series = useSeries(hours)

  if (setup.fresh) {
    return (
      <div className="mx-auto max-w-3xl">
        <PageHead title={`Welcome to ${org.name}`} hint={setup.progress} />
        <Guide />
      </div>
    )
  }
  return (
    <>
      <PageHead
        title="Overview"
        hint={`${title} · ${org.environment === 'sandbox' ? 'Sandbox' : 'Live'} · times in ${utc ? 'UTC' : 'local time'}`}
        actions={
          <>
            <Select aria-label="Period" value={f.values.range} onChange={(e) => f.set({ range: e.target.value })}>
              {Object.entries(ranges).map(([value, [, label]]) => (
                <option key={value} value={value}>
                  {label}
                </option>
              ))}
            </Select>
            <Button
              variant="primary"
              icon={<Plus className="size-4" aria-hidden />}
              why={why}
              onClick={() => connect()}
            >
              Connect account
            </Button>
          </>
        }
      />
      <div className="space-y-3">
        <Stats data={series.data} pending={series.isPending} versus={versus} usage={setup.usage} />
        <div className="grid gap-3 lg:grid-cols-[minmax(0,1fr)_340px]">
          <Card
            title="API calls"
            hint={`${hours > 72 ? 'Per day' : 'Per hour'}, by outcome`}
            actions={
              <ButtonLink size="sm" variant="ghost" to="/logs">
                Open logs <ArrowRight className="size-4" aria-hidden />
              </ButtonLink>
            }
          >
            <Boundary what="the chart">
              <Query query={series} what="the calls" skeleton={<Skeleton className="h-56 w-full" />}>
                {({ series: s }) => (
                  <Bars
                    label="API calls by outcome"
                    fill
                    height={240}
                    times={s.map((p) => p.at)}
                    series={outcomes(s)}
                  />
                )}
              </Query>
            </Boundary>
          </Card>
          <div className="grid content-start gap-3 sm:max-lg:grid-cols-[repeat(auto-fit,minmax(240px,1fr))]">
            {setup.done < 4 && setup.usage.data ? <Finish /> : null}
            <Limits />
          </div>
        </div>
        <div className="grid gap-3 lg:grid-cols-2">
          <Boundary what="the accounts">
            <Attention usageQuery={setup.usage} />
          </Boundary>
          <Boundary what="the errors">
            <RecentErrors hours={hours} />
          </Boundary>
        </div>
      </div>
    </>
  )
}

function change(now: number, before: number | undefined): number | null {
  return before && before > 0 ? (now - before) / before : null
}

function Stats({
  data,
  pending,
  versus,
  usage: query,
}: {
  data: UsageSeries | undefined
  pending: boolean
  versus: string
  usage: UseQueryResult<Usage>
}) {
  const usage = query.data
  const t = data?.totals
  const p = data?.previous
  const s = data?.series ?? []
  const calls = t && change(t.calls, p?.calls)
  const slower = t?.p95Ms != null && p?.p95Ms != null ? t.p95Ms - p.p95Ms : null
  const events = data ? deliveryOf(data) : null
  const accounts = accountsOf(usage?.usage.accounts.byState as Record<string, number> | undefined)
  return (
    <div className="grid grid-cols-2 gap-3 xl:grid-cols-4">
      <Stat label="API calls" value={t ? number(t.calls) : null} pending={pending} spark={s.map((x) => x.calls)}>
        {calls === null || calls === undefined ? (
          <Note>{p ? 'no earlier calls' : ''}</Note>
        ) : (
          <Note
            tone={calls >= 0 ? 'ok' : undefined}
          >{`${calls >= 0 ? '+' : '−'}${percent(Math.abs(calls))} ${versus}`}</Note>
        )}
      </Stat>
      <Stat label="Connected accounts" value={usage ? number(accounts.connected) : null} pending={query.isPending}>
        {accounts.attention > 0 ? (
          <Link
            to="/accounts"
            search={{ state: 'attention' } as never}
            className="text-xs text-bad-text hover:underline"
          >
            {plural(accounts.attention, 'needs', 'need')} attention
          </Link>
        ) : (
          <Note tone="ok">all working</Note>
        )}
      </Stat>
      <Stat
        label="Events delivered"
        value={events ? (events.share === null ? '–' : percent(events.share, 3)) : null}
        pending={pending}
        spark={s.map((x) => x.delivered ?? 0)}
      >
        {events && events.waiting > 0 ? (
          <Link
            to="/webhooks"
            search={{ state: 'attention' } as never}
            className="text-xs text-bad-text hover:underline"
          >
            {plural(events.waiting, 'event waiting', 'events waiting')}
          </Link>
        ) : (
          <Note>
            {events ? (events.share === null ? 'no deliveries' : `${number(events.delivered)} by webhook`) : ''}
          </Note>
        )}
      </Stat>
      <Stat
        label="p95 latency"
        value={t ? (t.p95Ms == null ? '–' : millis(t.p95Ms)) : null}
        pending={pending}
        spark={s.map((x) => x.p95Ms ?? 0)}
      >
        {slower === null ? (
          <Note />
        ) : (
          <Note
            tone={slower > 0 ? 'bad' : 'ok'}
          >{`${slower > 0 ? '+' : '−'}${millis(Math.abs(slower))} ${versus}`}</Note>
        )}
      </Stat>
    </div>
  )
}

function Note({ children, tone }: { children?: ReactNode; tone?: 'ok' | 'bad' | undefined }) {
  return (
    <span className={cx('text-xs', tone === 'ok' ? 'text-ok-text' : tone === 'bad' ? 'text-bad-text' : 'text-mute')}>
      {children || ' '}
    </span>
  )
}

function Stat({
  label,
  value,
  pending,
  spark,
  children,
}: {
  label: string
  value: string | null
  pending: boolean
  spark?: number[]
  children: ReactNode
}) {
  return (
    <div className="card flex gap-3 p-3 sm:p-4">
      <div className="min-w-0 flex-1">
        <div className="text-mute">{label}</div>
        <div className="my-0.5 text-xl leading-7 font-semibold tracking-tight">
          {value ?? (pending ? <Skeleton className="h-7 w-24" /> : '–')}
        </div>
        {value === null ? <Note>{pending ? '' : 'not available'}</Note> : children}
      </div>
      {spark && spark.length > 1 ? (
        <Spark values={spark} label={`${label} over time`} className="self-end max-sm:hidden" />
      ) : null}
    </div>
  )
}

function Finish() {
  const { steps, done } = useSetup()
  return (
    <Card title="Finish setting up" hint={`${done} of 4 done`}>
      <ul className="space-y-3">
        {steps.map((s) => (
          <li key={s.id} className="flex gap-2">
            {s.done ? (
              <CircleCheck className="mt-0.5 size-4 shrink-0 text-ok" aria-label="Done" />
            ) : (
              <Circle className="mt-0.5 size-4 shrink-0 text-mute" aria-label="To do" />
            )}
            <span className="min-w-0">
              {s.done ? (
                s.title
              ) : (
                <Link to="/start" className="hover:underline">
                  {s.title}
                </Link>
              )}
              <span className="block text-xs text-mute">{s.done ? 'Done' : s.hint}</span>
            </span>
          </li>
        ))}
      </ul>
    </Card>
  )
}

function Limits() {
  const usage = useUsage()
  return (
    <Card
      title="Limits"
      actions={
        <Link to="/usage" className="link text-xs">
          All limits
        </Link>
      }
    >
      <Query query={usage} what="the limits" skeleton={<SkeletonRows rows={3} />}>
        {({ rateLimits: r }) => (
          <div className="space-y-4">
            <WindowMeter label="Org calls per minute" window={r.org} />
            <WindowMeter label="Org calls this month" window={r.orgMonth} />
            <WindowMeter label="Connect attempts per hour" window={r.connectAttempts} />
          </div>
        )}
      </Query>
    </Card>
  )
}

const most = 5

// Accounts and webhooks that need attention. The accounts are loaded only if there are any.
function Attention({ usageQuery }: { usageQuery: UseQueryResult<Usage> }) {
  const usage = usageQuery.data
  const { link } = useDialogs()
  const client = useQueryClient()
  const why = useWhyNot('accounts:write', 'reconnect accounts')
  const mayHooks = useCan('webhooks:read')
  const { attention: total } = accountsOf(usage?.usage.accounts.byState as Record<string, number> | undefined)
  const accounts = useQuery({
    queryKey: keys.accounts({ attention: total }),
    queryFn: async ({ signal }) =>
      (
        await call<{ accounts: Account[] | null }>('GET', '/v1/accounts', {
          query: { state: 'attention', limit: most },
          signal,
        })
      ).accounts ?? [],
    enabled: total > 0,
  })
  const hooks = useQuery({
    queryKey: keys.webhooks({ attention: most }),
    queryFn: ({ signal }) =>
      call<WebhookList>('GET', '/v1/webhooks', { query: { state: 'attention', limit: most }, signal }),
    enabled: mayHooks,
    refetchInterval: 60_000,
  })
  useEvents((batch) => {
    if (batch.some((e) => e.event.startsWith('webhook.'))) void client.invalidateQueries({ queryKey: ['webhooks'] })
  })
  const broken = hooks.data?.counts['attention'] ?? 0
  const pending = usageQuery.isPending || (mayHooks && hooks.isPending)
  const hint = pending
    ? ''
    : [...(total > 0 ? [plural(total, 'account')] : []), ...(broken > 0 ? [plural(broken, 'webhook')] : [])].join(' · ')
  if (pending || usageQuery.isError || hooks.isError)
    return (
      <Card flush title="Needs attention">
        <Query
          query={(usageQuery.data ? hooks : usageQuery) as UseQueryResult<never>}
          what={usageQuery.data ? 'the webhooks' : 'the accounts'}
          skeleton={<SkeletonRows rows={3} />}
        >
          {() => null}
        </Query>
      </Card>
    )
  return (
    <Card flush title="Needs attention" hint={hint || 'Accounts and webhooks with problems'}>
      {total + broken === 0 ? (
        <Empty
          good
          title={mayHooks ? 'All accounts and webhooks are working' : 'All accounts are working'}
          className="!py-8"
        />
      ) : null}
      {total > 0 ? (
        <Query query={accounts} what="the accounts" skeleton={<SkeletonRows rows={Math.min(total, most)} />}>
          {(rows) => (
            <ul className="divide-y" aria-label="Accounts that need attention">
              {rows.map((a) => (
                <Troubled
                  key={a.id}
                  state={a.state}
                  name={
                    <Link
                      to="/accounts/$id"
                      params={{ id: a.id }}
                      className="block truncate font-medium hover:underline"
                    >
                      {nameOf(a)}
                    </Link>
                  }
                  reason={reasonOf(a) ?? 'No reason given'}
                  since={a.stateChangedAt}
                >
                  {a.state === 'reconnect_required' ? (
                    <Button size="sm" why={why} onClick={() => link({ accountId: a.id, label: nameOf(a) })}>
                      Send reconnect link
                    </Button>
                  ) : (
                    <ButtonLink size="sm" to="/accounts/$id" params={{ id: a.id }} aria-label={`Open ${nameOf(a)}`}>
                      Open
                    </ButtonLink>
                  )}
                </Troubled>
              ))}
            </ul>
          )}
        </Query>
      ) : null}
      {broken > 0 ? (
        <ul className={cx('divide-y', total > 0 && 'border-t')} aria-label="Webhooks that need attention">
          {hooks.data?.webhooks.map((w) => {
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
      {total > most || broken > most ? (
        <div className="flex flex-wrap gap-x-4 gap-y-1 border-t px-4 py-2 text-xs">
          {total > most ? (
            <Link to="/accounts" search={{ state: 'attention' } as never} className="link">
              All {plural(total, 'account')}
            </Link>
          ) : null}
          {broken > most ? (
            <Link to="/webhooks" search={{ state: 'attention' } as never} className="link">
              All {plural(broken, 'webhook')}
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

function RecentErrors({ hours }: { hours: number }) {
  const errors = useErrors(hours)
  return (
    <Card
      flush
      title="Recent errors"
      hint="Grouped by code and method"
      actions={
        <Link to="/errors" className="link text-xs">
          All errors
        </Link>
      }
    >
      <Query query={errors} what="the errors" skeleton={<SkeletonRows rows={3} />}>
        {({ errors: list }) =>
          !list || list.length === 0 ? (
            <Empty good title="No errors in this period" className="!py-8" />
          ) : (
            <ul className="divide-y">
              {[...list]
                .sort((a, b) => b.count - a.count)
                .slice(0, 6)
                .map((e) => (
                  <li key={e.code + e.method + e.status} className="flex flex-wrap items-baseline gap-x-3 px-4 py-2.5">
                    <Link
                      to="/logs"
                      search={{ code: e.code } as never}
                      className="font-mono text-xs text-bad-text hover:underline"
                    >
                      {e.code}
                    </Link>
                    <span className="min-w-0 flex-1 basis-28 truncate font-mono text-xs text-mute">{e.method}</span>
                    <span>{number(e.count)}×</span>
                    <Time at={e.lastAt} className="w-24 text-right text-xs text-mute" />
                  </li>
                ))}
            </ul>
          )
        }
      </Query>
    </Card>
  )
}
