import { Link, useNavigate } from '@tanstack/react-router'
import { Download, RotateCw, X } from 'lucide-react'
import { download } from '@/api/client'
import { keys, usePages } from '@/api/hooks'
import { useAccountNames, useAccountPlaces } from '@/api/names'
import type { Log } from '@/api/types'
import { useFilters, useTyped } from '@/lib/filters'
import { millis, shortId } from '@/lib/format'
import { snippets } from '@/lib/snippets'
import { useKeyNames } from '@/shell/keyNames'
import { AccountPicker } from '@/ui/AccountPicker'
import {
  Badge,
  Button,
  Card,
  Chips,
  CodeBlock,
  Empty,
  Id,
  More,
  NoMatch,
  PageHead,
  PlacedAccount,
  Query,
  SavedViews,
  SearchInput,
  Segments,
  Select,
  Status,
  Table,
  Time,
  TimeRange,
  toast,
  type Column,
} from '@/ui'
import { reasonWords } from '../usage/limits'

/** The calls to the API, from keys, the dashboard and the command line. */
export default function Logs() {
  const f = useFilters({
    status: '',
    source: '',
    account: '',
    method: '',
    code: '',
    reason: '',
    key: '',
    q: '',
    slow: '',
    counted: '',
    hours: '',
    since: '',
    until: '',
  })
  const v = f.values
  const navigate = useNavigate()
  const name = useAccountNames()
  const place = useAccountPlaces()
  const [method, setMethod] = useTyped(v.method, (m) => f.set({ method: m.trim() }))
  const [text, setText] = useTyped(v.q, (q) => f.set({ q: q.trim() }))
  const [code, setCode] = useTyped(v.code, (c) => f.set({ code: c.trim() }))
  // The dashboard makes many calls itself. They are hidden by default, unless a text, code, key or method is filtered for.
  const source = v.source || (v.code || v.key || v.method || v.q ? 'all' : 'api')
  const since =
    v.since ||
    (v.hours ? new Date(Math.floor(Date.now() / 60_000) * 60_000 - Number(v.hours) * 3_600_000).toISOString() : '')
  const query = {
    status: v.status,
    source: source === 'all' ? '' : source,
    accountId: v.account,
    method: v.method,
    code: v.code,
    reason: v.reason,
    keyId: v.key,
    q: v.q,
    minDurationMs: v.slow,
    counted: v.counted ? 'true' : '',
    since,
    until: v.until,
  }
  const set = Object.fromEntries(Object.entries(v).filter(([, value]) => value !== ''))
  // What other pages link to, and no field above the list shows.
  const more = [
    ...(v.reason ? [{ name: 'reason', text: `Refused by ${reasonWords[v.reason] ?? v.reason}` }] : []),
    ...(v.slow ? [{ name: 'slow', text: `At least ${millis(Number(v.slow))}` }] : []),
    ...(v.counted ? [{ name: 'counted', text: 'Counts as usage' }] : []),
  ]
  const list = usePages(
    keys.logs({ ...query, since: v.since || v.hours }),
    '/v1/logs',
    query,
    (p: { logs: Log[] | null; nextCursor: string | null }) => p.logs,
  )
  const keyNames = useKeyNames()
  const columns: Column<Log>[] = [
    {
      key: 'at',
      head: 'Time',
      cell: (l) => <Time at={l.at} as="clock" className="font-mono text-xs whitespace-nowrap text-mute" />,
    },
    { key: 'status', head: 'Status', cell: (l) => <Status status={l.status} /> },
    {
      key: 'what',
      head: 'Call',
      className: 'max-w-0 w-full sm:w-2/5',
      cell: (l) => (
        <div className="flex min-w-0 flex-wrap items-center gap-x-2">
          <span className="font-mono text-xs text-mute max-sm:hidden">{l.http}</span>
          <Link to="/logs/$id" params={{ id: l.requestId }} className="truncate font-mono text-xs hover:underline">
            {l.method}
          </Link>
          {l.code ? (
            <span className="truncate font-mono text-xs text-bad-text">
              {l.reason ? `${l.code} · ${l.reason}` : l.code}
            </span>
          ) : null}
        </div>
      ),
    },
    {
      key: 'account',
      head: 'Account',
      from: 'md',
      cell: (l) =>
        l.accountId ? (
          <PlacedAccount id={l.accountId} place={place(l.accountId)} name={name(l.accountId)} />
        ) : (
          <span className="text-mute">–</span>
        ),
    },
    {
      key: 'key',
      head: 'Key',
      from: 'lg',
      cell: (l) => (
        <span className="block max-w-32 truncate text-soft">
          {sourceOf(l) === 'dashboard' ? 'dashboard' : (keyNames.get(l.keyId) ?? shortId(l.keyId))}
        </span>
      ),
    },
    { key: 'source', head: 'Source', from: 'xl', cell: (l) => <Badge>{sourceOf(l)}</Badge> },
    {
      key: 'ms',
      head: 'Duration',
      align: 'right',
      from: 'sm',
      cell: (l) => <span className="font-mono text-xs whitespace-nowrap">{millis(l.durationMs)}</span>,
    },
    { key: 'id', head: 'Request', from: 'xl', cell: (l) => <Id id={l.requestId} short /> },
  ]
  return (
    <>
      <PageHead
        title="API logs"
        hint="Calls, callers and results. Bodies are never stored."
        actions={
          <>
            <SavedViews
              page="logs"
              current={set}
              onOpen={(filters) => void navigate({ to: '/logs', search: filters as never, resetScroll: false })}
            />
            <Button
              icon={<RotateCw className="size-4" aria-hidden />}
              busy={list.isRefetching && !list.isFetchingNextPage}
              onClick={() => void list.refetch()}
            >
              Refresh
            </Button>
            <Button
              icon={<Download className="size-4" aria-hidden />}
              onClick={() => void download('/v1/logs', query, 'text/csv', 'requests.csv').catch(toast.problem)}
            >
              CSV
            </Button>
          </>
        }
      />
      <Card flush>
        <div className="space-y-2 border-b px-4 py-3">
          <div className="flex flex-wrap items-center gap-2">
            <Chips
              label="Status"
              items={['', '2xx', '4xx', '429', '5xx'].map((value) => ({ value, label: value || 'All' }))}
              value={v.status}
              onChange={(status) => f.set({ status })}
            />
            <span className="ml-auto">
              <Segments
                label="Source"
                items={[
                  { value: 'api', label: 'API' },
                  { value: 'cli', label: 'CLI' },
                  { value: 'dashboard', label: 'Dashboard' },
                  { value: 'all', label: 'All' },
                ]}
                value={source}
                onChange={(s) => f.set({ source: s })}
              />
            </span>
          </div>
          <SearchInput
            label="Search method, problem, limit or id"
            className="w-full"
            maxLength={128}
            value={text}
            onChange={setText}
          />
          <div className="grid grid-cols-2 gap-2 lg:grid-cols-4">
            <AccountPicker
              label="Account"
              none="All accounts"
              value={v.account || null}
              onChange={(id) => f.set({ account: id ?? '' })}
            />
            <SearchInput label="Method" value={method} onChange={setMethod} />
            <SearchInput label="Problem" value={code} onChange={setCode} />
            <KeySelect value={v.key} names={keyNames} onChange={(key) => f.set({ key })} />
          </div>
          <div className="flex flex-wrap items-center gap-2">
            <TimeRange
              value={{ hours: v.hours, since: v.since, until: v.until }}
              onChange={(next) => f.set({ ...next })}
            />
            {more.map((m) => (
              <button
                key={m.name}
                type="button"
                className="inline-flex h-7 items-center gap-1 rounded-full bg-accent-soft px-2.5 text-xs font-medium text-accent-text"
                onClick={() => f.set({ [m.name]: '' })}
              >
                {m.text}
                <X className="size-3.5" aria-hidden />
                <span className="sr-only">Remove this filter</span>
              </button>
            ))}
          </div>
        </div>
        <Query query={list} what="the logs">
          {() =>
            (list.rows ?? []).length === 0 ? (
              f.active ? (
                <NoMatch title="No call matches" onClear={f.clear} />
              ) : (
                <Empty title="No calls yet">
                  No calls have been made with a key. Try one:
                  <div className="mt-3 w-full max-w-xl text-left">
                    <CodeBlock snippets={snippets({ method: 'GET', path: '/v1/me' })} />
                  </div>
                </Empty>
              )
            ) : (
              <>
                <Table
                  label="Calls"
                  dense
                  columns={columns}
                  rows={list.rows ?? []}
                  rowKey={(l) => l.requestId}
                  onRow={(l) => void navigate({ to: '/logs/$id', params: { id: l.requestId } as never })}
                />
                <More shown={list.rows?.length ?? 0} what={list.rows?.length === 1 ? 'call' : 'calls'} query={list} />
              </>
            )
          }
        </Query>
      </Card>
    </>
  )
}

/** api, dashboard or cli; api for older entries, which have no source. */
export function sourceOf(l: Log): string {
  return (l as Log & { source?: string }).source ?? 'api'
}

function KeySelect({
  value,
  names,
  onChange,
}: {
  value: string
  names: ReadonlyMap<string, string>
  onChange: (key: string) => void
}) {
  return (
    <Select aria-label="Key" className="w-full" value={value} onChange={(e) => onChange(e.target.value)}>
      <option value="">All keys</option>
      {value && !names.has(value) ? <option value={value}>{shortId(value)}</option> : null}
      {[...names].map(([id, label]) => (
        <option key={id} value={id}>
          {label}
        </option>
      ))}
    </Select>
  )
}
