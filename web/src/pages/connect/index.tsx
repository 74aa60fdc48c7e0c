import { useState } from 'react'
import { Link } from '@tanstack/react-router'
import { Link2, Plus } from 'lucide-react'
import type { Attempt, ConnectSession, Funnel, FunnelMethod } from '@/api/types'
import { keys, useEvents, useFunnel, usePages } from '@/api/hooks'
import { useQueryClient } from '@tanstack/react-query'
import { useFilters, useTyped } from '@/lib/filters'
import { number } from '@/lib/format'
import { useDialogs } from '@/shell/dialogs'
import { useWhyNot } from '@/shell/session'
import {
  Boundary,
  Button,
  Card,
  Chips,
  Empty,
  Id,
  More,
  NoMatch,
  PageHead,
  Query,
  SearchInput,
  Segments,
  Select,
  Skeleton,
  State,
  stateWord,
  Table,
  Tabs,
  Time,
  type Column,
} from '@/ui'
import { AttemptState } from './Flow'
import { Preview } from './Preview'
import { Steps } from './Steps'
import { creatorReads, failureWord, kindWord } from './words'

/** The connect page: the funnel, attempts and links. */
export default function Connect() {
  const f = useFilters({ tab: 'attempts', hours: '168' })
  const { connect, link } = useDialogs()
  const why = useWhyNot('accounts:write', 'connect accounts')
  const client = useQueryClient()
  useEvents((batch) => {
    if (!batch.some((e) => e.event.startsWith('connect.') || e.event === 'account.connected')) return
    for (const key of ['attempts', 'links', 'funnel']) void client.invalidateQueries({ queryKey: [key] })
  })
  return (
    <>
      <PageHead
        title="Connect"
        hint="How creators get from a link to a connected account"
        actions={
          <>
            <Button icon={<Link2 className="size-4" aria-hidden />} why={why} onClick={() => link()}>
              Create connect link
            </Button>
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
      <Boundary what="the funnel">
        <FunnelCard hours={Number(f.values.hours) || 168} onHours={(hours) => f.set({ hours })} />
      </Boundary>
      <Tabs
        label="Connect"
        className="mt-5"
        tabs={[
          { value: 'attempts', label: 'Attempts' },
          { value: 'links', label: 'Links' },
          { value: 'page', label: 'Page preview' },
        ]}
        value={['attempts', 'links', 'page'].includes(f.values.tab) ? f.values.tab : 'attempts'}
        onChange={(tab) => f.set({ tab })}
      >
        {(tab) => (tab === 'links' ? <Links /> : tab === 'page' ? <Preview /> : <Attempts />)}
      </Tabs>
    </>
  )
}

// --- funnel --------------------------------------------------------------------

function FunnelCard({ hours, onHours }: { hours: number; onHours: (h: string) => void }) {
  const query = useFunnel(hours)
  return (
    <div className="grid gap-3 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
      <Card
        title="Funnel"
        hint="All attempts with one link count as one creator"
        actions={
          <Segments
            label="Period"
            items={[
              { value: '24', label: '24 h' },
              { value: '168', label: '7 days' },
            ]}
            value={String(hours)}
            onChange={onHours}
          />
        }
      >
        <Query query={query} what="the funnel" skeleton={<FunnelSkeleton />}>
          {(d) => (
            <>
              <Steps d={d} />
              {d.opened > 0 ? <ByMethod ways={d.byMethod} /> : null}
            </>
          )}
        </Query>
      </Card>
      <Card title="Why attempts failed" hint="Most frequent first">
        <Query query={query} what="the reasons" skeleton={<FunnelSkeleton />}>
          {(d) => <Reasons d={d} />}
        </Query>
      </Card>
    </div>
  )
}

function FunnelSkeleton() {
  return (
    <div role="status" aria-label="Loading" className="space-y-3 py-1">
      {[100, 80, 60, 40].map((w) => (
        <Skeleton key={w} className="h-6" />
      ))}
    </div>
  )
}

function ByMethod({ ways }: { ways: Record<string, FunnelMethod> }) {
  const rows = Object.entries(ways)
  if (rows.length === 0) return null
  return (
    <div className="mt-3 overflow-x-auto">
      <table className="w-full text-left text-xs" aria-label="By connect method">
        <thead>
          <tr className="border-b text-mute">
            <th scope="col" className="py-1 pr-3 font-medium">
              Method
            </th>
            {['Started', 'Challenge', 'Connected', 'Failed'].map((h) => (
              <th key={h} scope="col" className="py-1 pl-3 text-right font-medium">
                {h}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className="divide-y">
          {rows.map(([kind, w]) => (
            <tr key={kind}>
              <th scope="row" className="py-1 pr-3 text-left font-normal">
                {kindWord(kind)}
              </th>
              {[w.credentials, w.challenge, w.connected, w.failed].map((n, i) => (
                <td key={i} className="py-1 pl-3 text-right font-mono">
                  {number(n)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Reasons({ d }: { d: Funnel }) {
  const [all, setAll] = useState(false)
  if (d.failures.length === 0) return <Empty good title="No failed attempts" className="!py-8" />
  const most = Math.max(...d.failures.map((r) => r.count), 1)
  return (
    <>
      <ol className="space-y-2.5">
        {(all ? d.failures : d.failures.slice(0, 3)).map((r) => (
          <li key={r.reason}>
            <div className="flex items-baseline justify-between gap-3">
              <span className="min-w-0">
                {failureWord(r.reason)} <code className="text-xs break-all text-mute">{r.reason}</code>
              </span>
              <span className="font-mono text-xs">{number(r.count)}×</span>
            </div>
            <div className="mt-1 h-1 overflow-hidden rounded-full bg-subtle" aria-hidden>
              <div className="h-full rounded-full bg-bad" style={{ width: `${(r.count / most) * 100}%` }} />
            </div>
            {creatorReads(r.reason) ? (
              <p className="mt-1 text-xs text-mute">Creators see: “{creatorReads(r.reason)}”</p>
            ) : null}
          </li>
        ))}
      </ol>
      {d.failures.length > 3 ? (
        <button type="button" className="link mt-3 text-xs" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? 'Show fewer' : `Show all ${d.failures.length}`}
        </button>
      ) : null}
    </>
  )
}

// --- attempts ------------------------------------------------------------------

const states: [string, string][] = [
  ['', 'All'],
  ['completed_success', 'Connected'],
  ['completed_failed', 'Failed'],
  ['awaiting_mobile_session', 'Waiting for the phone'],
  ['needs_otp', 'Waiting for a code'],
]
const moreStates = ['pending', 'needs_app_otp', 'needs_email', 'needs_face_otp', 'wrong_2fa_code_retry']

function Attempts() {
  const f = useFilters({ state: '', kind: '', ref: '' })
  const [text, setText] = useTyped(f.values.ref, (ref) => f.set({ ref }))
  const { connect, link } = useDialogs()
  const why = useWhyNot('accounts:write', 'connect accounts')
  const query = { state: f.values.state, kind: f.values.kind, reference_id: f.values.ref }
  const list = usePages(
    keys.attempts(query),
    '/v1/connect/attempts',
    query,
    (p: { attempts: Attempt[] | null; nextCursor: string | null }) => p.attempts,
    { refetchInterval: 60_000 },
  )
  const columns: Column<Attempt>[] = [
    {
      key: 'who',
      head: 'Attempt',
      cell: (a) => (
        <div className="min-w-0 max-w-64">
          <Link
            to="/connect/attempts/$id"
            params={{ id: a.attempt_id }}
            className="block truncate leading-6 font-medium hover:underline"
          >
            {a.label || (a.reconnect ? 'Reconnect' : 'New account')}
          </Link>
          <Id id={a.attempt_id} short />
        </div>
      ),
    },
    {
      key: 'state',
      head: 'State',
      cell: (a) => (
        <div>
          <AttemptState a={a} />
          {a.failure ? <div className="mt-0.5 text-xs break-words text-mute">{failureWord(a.failure.code)}</div> : null}
        </div>
      ),
    },
    { key: 'kind', head: 'Method', from: 'sm', cell: (a) => kindWord(a.kind) },
    {
      key: 'by',
      head: 'Source',
      from: 'lg',
      cell: (a) =>
        a.session_id ? (
          <Link to="/connect/links/$id" params={{ id: a.session_id }} className="link">
            link
          </Link>
        ) : (
          'API or dashboard'
        ),
    },
    {
      key: 'ref',
      head: 'Reference',
      from: 'xl',
      cell: (a) => <span className="break-all">{a.reference_id ?? '–'}</span>,
    },
    {
      key: 'account',
      head: 'Account',
      from: 'md',
      cell: (a) =>
        (a.account_id ?? a.reconnect_account_id) ? (
          <Link to="/accounts/$id" params={{ id: (a.account_id ?? a.reconnect_account_id)! }} className="link">
            Open
          </Link>
        ) : (
          '–'
        ),
    },
    {
      key: 'at',
      head: 'Started',
      from: 'sm',
      cell: (a) => <Time at={a.created_at} className="whitespace-nowrap text-mute" />,
    },
  ]
  const chips = states.map(([value, label]) => ({ value, label }))
  return (
    <Card flush>
      <div className="flex flex-wrap items-center gap-2 border-b px-4 py-3">
        <SearchInput label="Your reference" value={text} onChange={setText} className="w-full sm:w-56" />
        <Chips label="State" items={chips} value={f.values.state} onChange={(state) => f.set({ state })} />
        <div className="ml-auto flex flex-wrap gap-2 max-sm:w-full">
          <Select
            aria-label="Other states"
            className="max-sm:flex-1"
            value={moreStates.includes(f.values.state) ? f.values.state : ''}
            onChange={(e) => f.set({ state: e.target.value })}
          >
            <option value="">Other states</option>
            {moreStates.map((s) => (
              <option key={s} value={s}>
                {s === 'pending' ? 'In progress' : stateWord(s)}
              </option>
            ))}
          </Select>
          <Select
            aria-label="Connect method"
            className="max-sm:flex-1"
            value={f.values.kind}
            onChange={(e) => f.set({ kind: e.target.value })}
          >
            <option value="">All methods</option>
            {['token', 'credentials', 'mobile_app', 'cookie', 'curl', 'reauth'].map((k) => (
              <option key={k} value={k}>
                {kindWord(k)}
              </option>
            ))}
          </Select>
        </div>
      </div>
      <Query query={list} what="the attempts">
        {() =>
          (list.rows ?? []).length === 0 ? (
            f.active ? (
              <NoMatch title="No attempt matches" onClear={f.clear} />
            ) : (
              <Empty
                title="No attempts yet"
                action={
                  <>
                    <Button variant="primary" why={why} onClick={() => connect()}>
                      Connect account
                    </Button>
                    <Button why={why} onClick={() => link()}>
                      Create connect link
                    </Button>
                  </>
                }
              >
                Attempts to connect an account appear here. We keep them for seven days after they end.
              </Empty>
            )
          ) : (
            <>
              <Table label="Attempts" columns={columns} rows={list.rows ?? []} rowKey={(a) => a.attempt_id} />
              <More
                shown={list.rows?.length ?? 0}
                what={list.rows?.length === 1 ? 'attempt' : 'attempts'}
                query={list}
              />
            </>
          )
        }
      </Query>
    </Card>
  )
}

// --- links ---------------------------------------------------------------------

type Row = ConnectSession

function Links() {
  const f = useFilters({ status: '', ref: '' })
  const [text, setText] = useTyped(f.values.ref, (ref) => f.set({ ref }))
  const { link } = useDialogs()
  const why = useWhyNot('accounts:write', 'create connect links')
  const query = { status: f.values.status, reference_id: f.values.ref }
  const list = usePages(
    ['links', query],
    '/v1/connect/sessions',
    query,
    (p: { sessions: Row[] | null; nextCursor: string | null }) => p.sessions,
  )
  const columns: Column<Row>[] = [
    {
      key: 'link',
      head: 'Link',
      cell: (s) => (
        <div className="min-w-0 max-w-64">
          <Link
            to="/connect/links/$id"
            params={{ id: s.id }}
            className="block truncate leading-6 font-medium hover:underline"
          >
            {s.label || s.reference_id || (s.reconnect_account_id ? 'Reconnect link' : 'Connect link')}
          </Link>
          <Id id={s.id} short />
        </div>
      ),
    },
    { key: 'status', head: 'State', cell: (s) => <State state={s.status} /> },
    { key: 'ways', head: 'Methods', from: 'lg', cell: (s) => (s.kinds ?? []).map(kindWord).join(', ') },
    {
      key: 'tries',
      head: 'Attempts',
      align: 'right',
      from: 'sm',
      cell: (s) => <span className="font-mono text-xs">{number((s.attempts ?? []).length)}</span>,
    },
    {
      key: 'opened',
      head: 'Opened',
      from: 'md',
      cell: (s) =>
        s.opened_at === undefined ? (
          '–'
        ) : s.opened_at ? (
          <Time at={s.opened_at} className="whitespace-nowrap text-mute" />
        ) : (
          <span className="text-mute">not yet</span>
        ),
    },
    {
      key: 'made',
      head: 'Created',
      from: 'sm',
      cell: (s) => <Time at={s.created_at} className="whitespace-nowrap text-mute" />,
    },
    {
      key: 'ends',
      head: 'Expires',
      from: 'md',
      cell: (s) => <Time at={s.expires_at} className="whitespace-nowrap text-mute" />,
    },
  ]
  return (
    <Card flush>
      <div className="flex flex-wrap items-center gap-2 border-b px-4 py-3">
        <SearchInput label="Your reference" value={text} onChange={setText} className="w-full sm:w-56" />
        <Chips
          label="State"
          items={['', 'open', 'in_progress', 'success', 'exited', 'expired'].map((value) => ({
            value,
            label: value ? stateWord(value) : 'All',
          }))}
          value={f.values.status}
          onChange={(status) => f.set({ status })}
        />
      </div>
      <Query query={list} what="the links">
        {() =>
          (list.rows ?? []).length === 0 ? (
            f.active ? (
              <NoMatch title="No link matches" onClear={f.clear} />
            ) : (
              <Empty
                title="No links yet"
                action={
                  <Button variant="primary" why={why} onClick={() => link()}>
                    Create connect link
                  </Button>
                }
              >
                Send a creator a link to sign in on a page that we host.
              </Empty>
            )
          ) : (
            <>
              <Table label="Links" columns={columns} rows={list.rows ?? []} rowKey={(s) => s.id} />
              <More shown={list.rows?.length ?? 0} what={list.rows?.length === 1 ? 'link' : 'links'} query={list} />
            </>
          )
        }
      </Query>
    </Card>
  )
}
