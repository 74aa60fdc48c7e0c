import type { ReactNode } from 'react'
import { Link } from '@tanstack/react-router'
import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { ArrowRight, Circle, CircleCheck, Plus } from 'lucide-react'
import { call } from '@/api/client'
import type { SeriesTotals, UsageSeries } from '@/api/extra'
import { keys, useErrors, useLiveAccounts, useSeries, useUsage } from '@/api/hooks'
import type { Account, Usage } from '@/api/types'
import { useUTC } from '@/lib/clock'
import { cx } from '@/lib/cx'
import { useFilters } from '@/lib/filters'
import { millis, number, percent, plural } from '@/lib/format'
import { outcomes } from '@/lib/outcomes'
import { useDialogs } from '@/shell/dialogs'
import { useSession, useWhyNot } from '@/shell/session'
import { Bars, Boundary, Button, ButtonLink, Card, Empty, PageHead, Query, Select, Skeleton, SkeletonRows, Spark, State, Time, WindowMeter } from '@/ui'
import { attention, nameOf, reasonOf } from '../accounts/reasons'
import { Guide } from '../start/Guide'
import { useSetup } from '../start/setup'

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
            <Button variant="primary" icon={<Plus className="size-4" aria-hidden />} why={why} onClick={() => connect()}>
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
            hint={`${hours > 72 ? 'Every day' : 'Every hour'}, by outcome`}
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

function Stats({ data, pending, versus, usage: query }: { data: UsageSeries | undefined; pending: boolean; versus: string; usage: UseQueryResult<Usage> }) {
  const usage = query.data
  const t = data?.totals
  const p = data?.previous
  const s = data?.series ?? []
  const share = (x: SeriesTotals | undefined) => {
    const good = x?.delivered ?? 0
    const all = good + (x?.deliveryFailed ?? 0)
    return all > 0 ? good / all : null
  }
  const calls = t && change(t.calls, p?.calls)
  const slower = t?.p95Ms != null && p?.p95Ms != null ? t.p95Ms - p.p95Ms : null
  const delivered = share(t)
  const states = usage?.usage.accounts.byState as Record<string, number> | undefined
  const need = attention.reduce((sum, state) => sum + (states?.[state] ?? 0), 0)
  return (
    <div className="grid grid-cols-2 gap-3 xl:grid-cols-4">
      <Stat label="API calls" value={t ? number(t.calls) : null} pending={pending} spark={s.map((x) => x.calls)}>
        {calls === null || calls === undefined ? <Note>{p ? 'none before' : ''}</Note> : <Note tone={calls >= 0 ? 'ok' : undefined}>{`${calls >= 0 ? '+' : '−'}${percent(Math.abs(calls))} ${versus}`}</Note>}
      </Stat>
      <Stat label="Connected accounts" value={usage ? number(usage.usage.accounts.connected) : null} pending={query.isPending}>
        {need > 0 ? (
          <Link to="/accounts" search={{ state: 'reconnect_required' } as never} className="text-xs text-bad-text hover:underline">
            {plural(need, 'needs', 'need')} attention
          </Link>
        ) : (
          <Note tone="ok">all well</Note>
        )}
      </Stat>
      <Stat label="Events delivered" value={t ? (delivered === null ? '–' : percent(delivered, 3)) : null} pending={pending} spark={s.map((x) => x.delivered ?? 0)}>
        <Note>{t ? (delivered === null ? 'no deliveries' : `${number(t.delivered)} by webhook`) : ''}</Note>
      </Stat>
      <Stat label="p95 latency" value={t ? (t.p95Ms == null ? '–' : millis(t.p95Ms)) : null} pending={pending} spark={s.map((x) => x.p95Ms ?? 0)}>
        {slower === null ? <Note /> : <Note tone={slower > 0 ? 'bad' : 'ok'}>{`${slower > 0 ? '+' : '−'}${millis(Math.abs(slower))} ${versus}`}</Note>}
      </Stat>
    </div>
  )
}

function Note({ children, tone }: { children?: ReactNode; tone?: 'ok' | 'bad' | undefined }) {
  return <span className={cx('text-xs', tone === 'ok' ? 'text-ok-text' : tone === 'bad' ? 'text-bad-text' : 'text-mute')}>{children || ' '}</span>
}

function Stat({ label, value, pending, spark, children }: { label: string; value: string | null; pending: boolean; spark?: number[]; children: ReactNode }) {
  return (
    <div className="card flex gap-3 p-3 sm:p-4">
      <div className="min-w-0 flex-1">
        <div className="text-mute">{label}</div>
        <div className="my-0.5 text-xl leading-7 font-semibold tracking-tight">{value ?? (pending ? <Skeleton className="h-7 w-24" /> : '–')}</div>
        {value === null ? <Note>{pending ? '' : 'not available'}</Note> : children}
      </div>
      {spark && spark.length > 1 ? <Spark values={spark} label={`${label} over time`} className="self-end max-sm:hidden" /> : null}
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
            {s.done ? <CircleCheck className="mt-0.5 size-4 shrink-0 text-ok" aria-label="Done" /> : <Circle className="mt-0.5 size-4 shrink-0 text-mute" aria-label="To do" />}
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

// Only asks for accounts in states that some are in.
function Attention({ usageQuery }: { usageQuery: UseQueryResult<Usage> }) {
  const usage = usageQuery.data
  const { link } = useDialogs()
  const why = useWhyNot('accounts:write', 'reconnect accounts')
  const states = usage?.usage.accounts.byState as Record<string, number> | undefined
  const wanted = attention.filter((s) => (states?.[s] ?? 0) > 0)
  const total = wanted.reduce((sum, s) => sum + (states?.[s] ?? 0), 0)
  const list = useQuery({
    queryKey: keys.accounts({ attention: wanted.join() }),
    queryFn: async ({ signal }) => {
      const pages = await Promise.all(wanted.map((state) => call<{ accounts: Account[] | null }>('GET', '/v1/accounts', { query: { state, limit: 5 }, signal })))
      return pages.flatMap((p) => p.accounts ?? []).slice(0, 6)
    },
    enabled: wanted.length > 0,
  })
  return (
    <Card flush title="Needs attention" hint={usage ? `${number(total)} of ${plural(usage.usage.accounts.connected, 'account')}` : 'Accounts that somebody must look at'}>
      {usage && total === 0 ? (
        <Empty good title="Every account is well" className="!py-8" />
      ) : (
        <Query query={usage ? list : (usageQuery as UseQueryResult<never>)} what="the accounts" skeleton={<SkeletonRows rows={3} />}>
          {(rows) => (
            <ul className="divide-y">
              {rows.map((a) => (
                <li key={a.id} className="flex flex-wrap items-center gap-x-3 gap-y-2 px-4 py-2.5">
                  <State state={a.state} />
                  <div className="min-w-0 flex-1 basis-40">
                    <Link to="/accounts/$id" params={{ id: a.id }} className="block truncate font-medium hover:underline">
                      {nameOf(a)}
                    </Link>
                    <div className="text-xs text-mute">
                      {reasonOf(a) ?? 'No reason given'} · <Time at={a.stateChangedAt} />
                    </div>
                  </div>
                  {a.state === 'reconnect_required' ? (
                    <Button size="sm" why={why} onClick={() => link({ accountId: a.id, label: nameOf(a) })}>
                      Send reconnect link
                    </Button>
                  ) : (
                    <ButtonLink size="sm" to="/accounts/$id" params={{ id: a.id }}>
                      Open
                    </ButtonLink>
                  )}
                </li>
              ))}
            </ul>
          )}
        </Query>
      )}
    </Card>
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
                    <Link to="/logs" search={{ code: e.code } as never} className="font-mono text-xs text-bad-text hover:underline">
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
