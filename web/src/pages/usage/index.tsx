import { useState } from 'react'
import { Link } from '@tanstack/react-router'
import { useQueries, useQuery } from '@tanstack/react-query'
import { api, call, isProblem } from '@/api/client'
import { keys, useMe, useSeries, useUsage } from '@/api/hooks'
import type { Account, ErrorGroup, Usage, Window } from '@/api/types'
import { useFilters } from '@/lib/filters'
import { bytes, number, percent, shortId } from '@/lib/format'
import { outcomes } from '@/lib/outcomes'
import { baseURL } from '@/lib/snippets'
import { useSession } from '@/shell/session'
import {
  AccountPicker,
  Badge,
  Bars,
  Card,
  Empty,
  Facts,
  Json,
  Meter,
  PageHead,
  Query,
  Select,
  Skeleton,
  SkeletonRows,
  Table,
  Time,
  WindowMeter,
  type Column,
} from '@/ui'
import { dailyPace, levels, reasonWords, refusal, share, used } from './limits'

// Reading the limits is free, so the meters can be refreshed often.
const every = 5000

export default function UsagePage() {
  const { org } = useSession()
  const f = useFilters({ account: '' })
  const usage = useUsage(undefined, every)
  return (
    <>
      <PageHead
        title="Limits & usage"
        hint={`What is left of each limit, and what was used${org.plan ? ` · ${org.plan} plan` : ''}`}
      />
      <div className="grid min-w-0 gap-3 lg:grid-cols-2">
        <Card title="Organisation" hint="Refreshed every few seconds; this uses no calls">
          <Query query={usage} what="the limits" skeleton={<Meters />}>
            {(u) => <OrgMeters usage={u} />}
          </Query>
        </Card>
        <Card title="One account" hint="Each account has its own limits per minute">
          <AccountMeters
            account={f.values.account || null}
            onChange={(account) => f.set({ account })}
            usage={usage.data}
          />
        </Card>
        <Card title="Calls, 30 days" hint="By day (UTC) and outcome" className="lg:col-span-2">
          <Month />
        </Card>
        <HotList />
        <Refused />
        <AtTheLimit />
        <Card
          title="This month"
          hint={usage.data ? <Period usage={usage.data} /> : 'Totals of the calendar month (UTC)'}
        >
          <Query query={usage} what="the totals" skeleton={<Meters />}>
            {(u) => <Sums usage={u} />}
          </Query>
        </Card>
      </div>
    </>
  )
}

function Meters() {
  return (
    <div className="space-y-5" role="status" aria-label="Loading">
      {[0, 1, 2].map((i) => (
        <Skeleton key={i} className="h-9 w-full" />
      ))}
    </div>
  )
}

function OrgMeters({ usage: u }: { usage: Usage }) {
  const r = u.rateLimits
  const held = u.usage.accounts
  return (
    <div className="space-y-4">
      <WindowMeter label="Org calls per minute" window={r.org} />
      <WindowMeter label="Org calls this month" window={r.orgMonth} />
      <WindowMeter label="Connect attempts per hour" window={r.connectAttempts} />
      <Meter
        label="Connected accounts"
        used={held.connected}
        limit={held.limit}
        note={
          held.limit >= 0
            ? `${number(Math.max(0, held.limit - held.connected))} more in your plan`
            : 'no limit on this plan'
        }
      />
    </div>
  )
}

function AccountMeters({
  account,
  onChange,
  usage,
}: {
  account: string | null
  onChange: (id: string) => void
  usage: Usage | undefined
}) {
  const one = useQuery({
    queryKey: keys.usage(account ?? undefined),
    queryFn: ({ signal }) => api.get('/v1/me/usage', { query: account ? { accountId: account } : {}, signal }),
    enabled: Boolean(account),
    refetchInterval: every,
  })
  const defaults = usage?.rateLimits.accountDefaults
  return (
    <div className="space-y-4">
      <AccountPicker
        label="Account"
        value={account}
        none="Any account (default limits)"
        onChange={(id) => onChange(id ?? '')}
      />
      {account ? (
        <Query query={one} what="the limits of this account" skeleton={<Meters />}>
          {(u) =>
            u.rateLimits.account ? (
              <div className="space-y-4">
                <WindowMeter label="Reads per minute" window={u.rateLimits.account.read} />
                <WindowMeter label="Writes per minute" window={u.rateLimits.account.write} />
              </div>
            ) : (
              <p className="text-mute">This account has no limits of its own.</p>
            )
          }
        </Query>
      ) : defaults ? (
        <Facts
          items={[
            ['Reads', defaults.readPerMinute < 0 ? 'no limit' : `${number(defaults.readPerMinute)} per minute`],
            ['Writes', defaults.writePerMinute < 0 ? 'no limit' : `${number(defaults.writePerMinute)} per minute`],
          ]}
        />
      ) : null}
      <p className="text-xs text-mute">
        Whether a call reads or writes depends on the method, not on the HTTP verb. Refused calls do not count towards
        any limit.
      </p>
    </div>
  )
}

function Month() {
  const series = useSeries(30 * 24)
  const me = useMe()
  if (series.isError && isProblem(series.error) && series.error.notFound)
    return <p className="text-mute">This server does not keep a call history yet.</p>
  return (
    <Query query={series} what="the chart" skeleton={<Skeleton className="h-56 w-full" />}>
      {(s) => {
        const list = s.series
        if (list.length === 0) return <Empty title="No calls in the last 30 days" />
        const pace = dailyPace(me.data?.limits.callsPerMonth ?? -1)
        const top = Math.max(...list.map((p) => p.calls), 0)
        // A line far above the bars would flatten them, so it is then given in words.
        const drawn = pace !== null && pace <= Math.max(top * 4, 10)
        return (
          <Bars
            label="Calls by day and outcome"
            times={list.map((p) => p.at)}
            series={outcomes(list)}
            {...(drawn && pace !== null
              ? { mark: { value: pace, label: `${number(pace)} calls a day use up the monthly limit` } }
              : {})}
            foot={
              !drawn && pace !== null ? (
                <span className="text-mute">
                  The monthly limit allows {number(pace)} calls a day, far above these bars
                </span>
              ) : undefined
            }
          />
        )
      }}
    </Query>
  )
}

interface Hot {
  account: Account
  read: Window
  write: Window
  share: number
}

// The windows of each account take one free call, so only a few accounts are checked.
const looked = 20

function HotList() {
  const recent = useQuery({
    queryKey: keys.accounts({ hot: true }),
    queryFn: async ({ signal }) =>
      (
        await call<{ accounts: Account[] | null }>('GET', '/v1/accounts', {
          query: { order: 'lastSeen', limit: looked },
          signal,
        })
      ).accounts?.slice(0, looked) ?? [],
    refetchInterval: 60_000,
  })
  const windows = useQueries({
    queries: (recent.data ?? []).map((a) => ({
      queryKey: keys.usage(a.id),
      queryFn: ({ signal }: { signal: AbortSignal }) => api.get('/v1/me/usage', { query: { accountId: a.id }, signal }),
      refetchInterval: 30_000,
      staleTime: 15_000,
      retry: false,
    })),
  })
  const hot: Hot[] = (recent.data ?? [])
    .flatMap((account, i) => {
      const w = windows[i]?.data?.rateLimits.account
      return w ? [{ account, read: w.read, write: w.write, share: Math.max(share(w.read), share(w.write)) }] : []
    })
    .filter((h) => h.share > 0)
    .sort((a, b) => b.share - a.share)
    .slice(0, 10)
  const loading = windows.some((w) => w.isPending)
  const columns: Column<Hot>[] = [
    {
      key: 'account',
      head: 'Account',
      cell: ({ account: a }) => (
        <Link to="/accounts/$id" params={{ id: a.id }} className="block min-w-0 font-medium hover:underline">
          <span className="block break-words">{a.label || a.displayName || shortId(a.id)}</span>
        </Link>
      ),
    },
    { key: 'read', head: 'Reads', cell: (h) => <Share window={h.read} label="reads" /> },
    { key: 'write', head: 'Writes', cell: (h) => <Share window={h.write} label="writes" /> },
  ]
  return (
    <Card flush title="Busiest accounts" hint={`Closest to their limits this minute, of the ${looked} last seen`}>
      <Query query={recent} what="the busiest accounts" skeleton={<SkeletonRows rows={4} />}>
        {(accounts) =>
          accounts.length === 0 ? (
            <Empty title="No accounts yet" className="!py-8" />
          ) : hot.length > 0 ? (
            <Table label="Busiest accounts" dense columns={columns} rows={hot} rowKey={(h) => h.account.id} />
          ) : loading ? (
            <SkeletonRows rows={4} />
          ) : (
            <Empty title="No account is busy" good className="!py-8">
              None of these accounts used its limits in the last minute.
            </Empty>
          )
        }
      </Query>
    </Card>
  )
}

function Share({ window: w, label }: { window: Window; label: string }) {
  if (w.limit < 0) return <span className="text-mute">no limit</span>
  const at = share(w)
  return (
    <span className="flex min-w-24 items-center gap-2">
      <span className="h-1.5 w-14 shrink-0 overflow-hidden rounded-full bg-subtle max-sm:hidden" aria-hidden>
        <span
          className={`block h-full rounded-full ${at >= 1 ? 'bg-bad' : at >= 0.8 ? 'bg-warn' : 'bg-accent'}`}
          style={{ width: `${at * 100}%` }}
        />
      </span>
      <span className="font-mono text-xs whitespace-nowrap" aria-label={`${percent(at, 0)} of its ${label} limit`}>
        {number(used(w))}/{number(w.limit)}
      </span>
    </span>
  )
}

type Group = ErrorGroup & { reason?: string | null }

function Refused() {
  const errors = useQuery({
    queryKey: keys.errors({ hours: 168, limited: true }),
    queryFn: async ({ signal }) =>
      (
        await api.get('/v1/errors', {
          query: { since: new Date(Date.now() - 7 * 86_400_000).toISOString(), limit: 100 },
          signal,
        })
      ).errors ?? [],
    refetchInterval: 60_000,
    select: (list) => (list as Group[]).filter((e) => e.status === 429),
  })
  const columns: Column<Group>[] = [
    {
      key: 'reason',
      head: 'Reason',
      cell: (e) => (
        <>
          <span className="block">
            {e.reason
              ? (reasonWords[e.reason] ?? e.reason)
              : e.code === 'upstream/rate-limited'
                ? 'Rate limited by the platform'
                : 'A limit of this service'}
          </span>
          <code className="text-xs break-all text-mute">{e.reason ?? e.code}</code>
        </>
      ),
    },
    {
      key: 'method',
      head: 'Method',
      cell: (e) => (
        <Link
          to="/logs"
          search={{ status: '429', method: e.method } as never}
          className="link font-mono text-xs break-all"
        >
          {e.method}
        </Link>
      ),
    },
    { key: 'accounts', head: 'Accounts', from: 'sm', align: 'right', cell: (e) => number(e.accounts) },
    { key: 'count', head: 'Count', align: 'right', cell: (e) => <span className="font-mono">{number(e.count)}</span> },
    {
      key: 'last',
      head: 'Last',
      from: 'sm',
      cell: (e) => <Time at={e.lastAt} className="whitespace-nowrap text-mute" />,
    },
  ]
  return (
    <Card
      flush
      title="Refused with 429"
      hint="In the last 7 days, most frequent first. Refused calls do not count towards any limit."
    >
      <Query query={errors} what="refused calls" skeleton={<SkeletonRows rows={4} />}>
        {(list) =>
          list.length > 0 ? (
            <Table
              label="Calls refused with 429"
              dense
              columns={columns}
              rows={list}
              rowKey={(e) => `${e.code} ${e.reason ?? ''} ${e.method}`}
            />
          ) : (
            <Empty title="No calls were refused" good className="!py-8" />
          )
        }
      </Query>
    </Card>
  )
}

function AtTheLimit() {
  const me = useMe()
  const [reason, setReason] = useState('account_write_rpm')
  const level = levels.find((l) => l.reason === reason) ?? levels[0]!
  const limit = me.data ? level.limit(me.data.limits) : null
  const wait = level.per === 'minute' ? 21 : level.per === 'hour' ? 840 : 1_296_000
  return (
    <Card title="What happens at the limit">
      <div className="space-y-3">
        <Select aria-label="Limit" className="w-full" value={reason} onChange={(e) => setReason(e.target.value)}>
          {levels.map((l) => (
            <option key={l.reason} value={l.reason}>
              {l.label}
            </option>
          ))}
        </Select>
        {limit !== null && limit < 0 ? (
          <p>Your plan does not have this limit.</p>
        ) : (
          <>
            <p>
              {limit === null ? 'Above the limit,' : `Above ${number(limit)} ${level.what} per ${level.per},`} the API
              immediately returns <Badge tone="warn">429</Badge> with a <code>Retry-After</code> header and the body
              below. The platform is not called, and nothing is counted. {level.advice}
            </p>
            <Json label="response" value={refusal(level, limit ?? 0, wait, baseURL())} />
          </>
        )}
        <p className="text-xs text-mute">
          Every response has a <code>RateLimit</code> header with what is left.{' '}
          <a className="link" href="/problems/quota-exceeded" target="_blank" rel="noopener">
            All reasons
          </a>
        </p>
      </div>
    </Card>
  )
}

function Period({ usage: u }: { usage: Usage }) {
  return (
    <>
      <Time at={u.usage.periodStart} as="day" /> to <Time at={u.usage.periodEnd} as="day" />
    </>
  )
}

function Sums({ usage: { usage: u } }: { usage: Usage }) {
  const top = Object.entries(u.byResource ?? {})
    .sort((a, b) => b[1] - a[1])
    .slice(0, 6)
  return (
    <div className="space-y-4">
      <Facts
        items={[
          ['Calls', `${number(u.calls.total)} counted`],
          ['On accounts', `${number(u.calls.read)} reads, ${number(u.calls.write)} writes`],
          ['Failed', number(u.calls.failed)],
          ['Refused', `${number(u.calls.rateLimited)} by a limit`],
          ['Connect attempts', `${number(u.connect.succeeded)} of ${number(u.connect.started)} succeeded`],
          [
            'Events',
            `${number(u.events.received)} received, ${number(u.events.delivered)} delivered, ${number(u.events.streamed)} streamed`,
          ],
          [
            'Traffic',
            Object.entries(u.egressBytes ?? {})
              .map(([r, n]) => `${r} ${bytes(n)}`)
              .join(' · ') || '–',
          ],
        ]}
      />
      {top.length > 0 ? (
        <div>
          <h3 className="mb-1 text-xs text-mute">Most called resources</h3>
          <ul className="space-y-1">
            {top.map(([name, n]) => (
              <li key={name} className="flex items-center gap-2">
                <span className="w-28 shrink-0 truncate font-mono text-xs">{name}</span>
                <span className="h-1.5 min-w-0 flex-1 overflow-hidden rounded-full bg-subtle" aria-hidden>
                  <span
                    className="block h-full rounded-full bg-accent"
                    style={{ width: `${(n / (top[0]?.[1] || 1)) * 100}%` }}
                  />
                </span>
                <span className="font-mono text-xs text-mute">{number(n)}</span>
              </li>
            ))}
          </ul>
        </div>
      ) : null}
    </div>
  )
}
