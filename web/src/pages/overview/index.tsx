import type { ReactNode } from 'react'
import { Link } from '@tanstack/react-router'
import { useQueryClient, type UseQueryResult } from '@tanstack/react-query'
import { Circle, CircleCheck, Plus } from 'lucide-react'
import type { Usage, UsageSeries } from '@/api/types'
import { stepOf, useErrors, useEvents, useLiveAccounts, useSeries, useUsage } from '@/api/hooks'
import { useUTC } from '@/lib/clock'
import { cx } from '@/lib/cx'
import { useFilters } from '@/lib/filters'
import { duration, millis, number, percent, plural } from '@/lib/format'
import { useAttention } from '@/shell/attention'
import { useDialogs } from '@/shell/dialogs'
import { useSession, useWhyNot } from '@/shell/session'
import {
  Boundary,
  Button,
  Card,
  Checkbox,
  Empty,
  PageHead,
  Query,
  Select,
  Skeleton,
  SkeletonRows,
  Spark,
  Time,
  WindowMeter,
} from '@/ui'
import { Guide } from '../start/Guide'
import { useSetup } from '../start/setup'
import { Attention } from './Attention'
import { Calls, Connects, Events, Lag, Latency } from './Charts'
import { Filter, seriesFilter, type Selection } from './Filter'
import { accountsOf, deliveryOf, isYoung } from './figures'

const ranges: Record<string, [number, string, string]> = {
  '1h': [1, 'Last hour', 'vs the hour before'],
  '6h': [6, 'Last 6 hours', 'vs 6 hours before'],
  '24h': [24, 'Last 24 hours', 'vs yesterday'],
  '7d': [168, 'Last 7 days', 'vs last week'],
  '30d': [720, 'Last 30 days', 'vs last month'],
}

export default function Overview() {
  const { org } = useSession()
  const f = useFilters({ range: '', by: '', of: '', compare: '' })
  const utc = useUTC()
  const setup = useSetup()
  // What is wrong comes before the charts.
  const attention = useAttention()
  const { connect } = useDialogs()
  const why = useWhyNot('accounts:write', 'connect accounts')
  const client = useQueryClient()
  useLiveAccounts()
  useEvents((batch) => {
    if (!batch.some((e) => e.event.startsWith('webhook.'))) return
    for (const key of ['webhooks', 'endpoints']) void client.invalidateQueries({ queryKey: [key] })
  })
  // On the first day, the last hour by minute says more than one bar.
  const day = useSeries(24, { enabled: f.values.range === '' })
  const range = f.values.range || (day.data && isYoung(day.data.series) ? '1h' : '24h')
  const [hours, title, versus] = ranges[range] ?? ranges['24h']!
  const step = stepOf(hours)
  const filter = seriesFilter(f.values)
  const filtered = Object.keys(filter).length > 0
  const all = useSeries(hours)
  const some = useSeries(hours, { filter, enabled: filtered })
  const calls = filtered ? some : all
  const compare = f.values.compare === '1'
  const callsBefore = useSeries(hours, { before: true, filter, enabled: compare })
  const allBefore = useSeries(hours, { before: true, enabled: compare })

  if (setup.fresh) {
    return (
      <div className="mx-auto max-w-3xl">
        <PageHead title={`Welcome to ${org.name}`} hint={setup.progress} />
        <Guide />
      </div>
    )
  }
  const search =
    f.values.by === 'platform' && f.values.of
      ? null
      : (since: string, until: string) => logsOf(f.values, { since, until })
  const troubles = (
    <div className="grid items-start gap-3 lg:grid-cols-2">
      <Boundary what="the accounts">
        <Attention />
      </Boundary>
      <Boundary what="the errors">
        <RecentErrors hours={hours} />
      </Boundary>
    </div>
  )
  return (
    <>
      <PageHead
        title="Overview"
        hint={`${title} · ${org.environment === 'sandbox' ? 'Sandbox' : 'Live'} · times in ${utc ? 'UTC' : 'local time'}`}
        actions={
          <Button variant="primary" icon={<Plus className="size-4" aria-hidden />} why={why} onClick={() => connect()}>
            Connect account
          </Button>
        }
      />
      <div className="space-y-3">
        <div role="group" aria-label="Filters" className="flex flex-wrap items-center gap-2">
          <Select aria-label="Period" value={range} onChange={(e) => f.set({ range: e.target.value })}>
            {Object.entries(ranges).map(([value, [, label]]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </Select>
          <Filter value={f.values} onChange={(next) => f.set({ ...next })} />
          <Checkbox
            label="Compare with the period before"
            checked={compare}
            onChange={(e) => f.set({ compare: e.target.checked ? '1' : '' })}
          />
        </div>
        <Stats all={all} calls={calls} versus={versus} usage={setup.usage} search={search} />
        {attention.total > 0 ? troubles : null}
        <div className="grid gap-3 lg:grid-cols-[minmax(0,1fr)_340px]">
          <Calls now={calls} earlier={compare ? callsBefore.data : undefined} step={step} search={search} />
          <div className="grid content-start gap-3 sm:max-lg:grid-cols-[repeat(auto-fit,minmax(240px,1fr))]">
            {setup.done < 4 && setup.usage.data ? <Finish /> : null}
            <Limits />
          </div>
        </div>
        {attention.total === 0 ? troubles : null}
        <div className="grid items-start gap-3 lg:grid-cols-2">
          <Latency now={calls} earlier={compare ? callsBefore.data : undefined} />
          <Events now={all} earlier={compare ? allBefore.data : undefined} />
          <Lag now={all} />
          <Connects hours={hours} />
        </div>
        {filtered ? (
          <p className="text-xs text-mute">
            The filter applies to calls. Events and the connect funnel are those of the whole organisation.
          </p>
        ) : null}
      </div>
    </>
  )
}

// The filter of the logs that has exactly the calls of a figure: those that count as usage, from all sources.
function logsOf({ by, of }: Selection, more: Record<string, string>): Record<string, string> {
  const name = { key: 'key', method: 'method', account: 'account' }[by]
  return { source: 'all', counted: '1', ...(name && of ? { [name]: of } : {}), ...more }
}

function change(now: number, before: number | undefined): number | null {
  return before && before > 0 ? (now - before) / before : null
}

function Stats({
  all,
  calls: query,
  versus,
  usage: usageQuery,
  search,
}: {
  all: UseQueryResult<UsageSeries>
  calls: UseQueryResult<UsageSeries>
  versus: string
  usage: UseQueryResult<Usage>
  search: ((since: string, until: string) => Record<string, string>) | null
}) {
  const { webhooks, endpoints } = useAttention()
  const usage = usageQuery.data
  const data = query.data
  const t = data?.totals
  const p = data?.previous
  const s = data?.series ?? []
  const calls = t && change(t.calls, p?.calls)
  const slower = t?.p95Ms != null && p?.p95Ms != null ? t.p95Ms - p.p95Ms : null
  const events = all.data ? deliveryOf(all.data) : null
  const lag = all.data?.deliveryLagSec ?? 0
  const accounts = accountsOf(usage?.usage.accounts.byState as Record<string, number> | undefined)
  const logs = search && data ? search(data.since, data.until) : null
  const slow = logs && t?.p95Ms != null ? { ...logs, slow: String(Math.floor(t.p95Ms)) } : null
  return (
    <div className="grid grid-cols-2 gap-3 xl:grid-cols-4">
      <Stat
        label="API calls"
        value={t ? number(t.calls) : null}
        pending={query.isPending}
        spark={s.map((x) => x.calls)}
        to={logs ? { to: '/logs', search: logs } : undefined}
      >
        {calls === null || calls === undefined ? (
          <Note>{p ? 'no earlier calls' : ''}</Note>
        ) : (
          <Note
            tone={calls >= 0 ? 'ok' : undefined}
          >{`${calls >= 0 ? '+' : '−'}${percent(Math.abs(calls))} ${versus}`}</Note>
        )}
      </Stat>
      <Stat
        label="Connected accounts"
        value={usage ? number(accounts.connected) : null}
        pending={usageQuery.isPending}
        to={{ to: '/accounts', search: { state: 'active' } }}
      >
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
        pending={all.isPending}
        spark={(all.data?.series ?? []).map((x) => x.delivered ?? 0)}
      >
        {events && events.waiting > 0 ? (
          <Link
            to="/webhooks"
            {...(webhooks > 0 && endpoints.length === 0 ? { search: { state: 'attention' } as never } : {})}
            className="text-xs text-bad-text hover:underline"
          >
            {plural(events.waiting, 'event waiting', 'events waiting')}
            {lag >= 1 ? ` for ${duration(lag)}` : ''}
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
        pending={query.isPending}
        spark={s.map((x) => x.p95Ms ?? 0)}
        to={slow ? { to: '/logs', search: slow } : undefined}
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
  to,
  children,
}: {
  label: string
  value: string | null
  pending: boolean
  spark?: number[]
  /** The page that lists what the value counts. */
  to?: { to: string; search: Record<string, string> } | undefined
  children: ReactNode
}) {
  const shown = value ?? (pending ? <Skeleton className="h-7 w-24" /> : '–')
  return (
    <div className="card flex gap-3 p-3 sm:p-4">
      <div className="min-w-0 flex-1">
        <div className="text-mute">{label}</div>
        <div className="my-0.5 text-xl leading-7 font-semibold tracking-tight">
          {to && value !== null ? (
            <Link to={to.to} search={to.search as never} className="hover:underline" aria-label={`${label}: ${value}`}>
              {shown}
            </Link>
          ) : (
            shown
          )}
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

function RecentErrors({ hours }: { hours: number }) {
  const errors = useErrors(hours)
  const since = new Date(errors.dataUpdatedAt - hours * 3_600_000).toISOString()
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
                  <li
                    key={e.code + (e.reason ?? '') + e.method + e.status}
                    className="flex flex-wrap items-baseline gap-x-3 px-4 py-2.5"
                  >
                    <Link
                      to="/logs"
                      search={
                        {
                          source: 'all',
                          code: e.code,
                          method: e.method,
                          status: String(e.status),
                          ...(e.reason ? { reason: e.reason } : {}),
                          since,
                        } as never
                      }
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
