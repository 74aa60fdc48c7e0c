import { useState } from 'react'
import { Link } from '@tanstack/react-router'
import { Download, Ellipsis, Link2, Plus } from 'lucide-react'
import { download, call } from '@/api/client'
import type { AccountCounts, ConnectSession, ListedAccount } from '@/api/types'
import { keys, useEndpoints, useLiveAccounts, usePages, usePlatforms } from '@/api/hooks'
import { useFilters, useTyped } from '@/lib/filters'
import { number, plural } from '@/lib/format'
import { useDialogs } from '@/shell/dialogs'
import { useSession, useWhyNot } from '@/shell/session'
import {
  Avatar,
  Button,
  Card,
  Chips,
  Code,
  Confirm,
  CopyButton,
  Dialog,
  Empty,
  IconButton,
  Id,
  Menu,
  MenuItem,
  More,
  NoMatch,
  PageHead,
  Platform,
  Query,
  SearchInput,
  Select,
  Spark,
  State,
  Table,
  Time,
  toast,
  type Column,
} from '@/ui'
import { Endpoints, endpointsOf } from './endpoints'
import { nameOf, reasonOf } from './reasons'
import { SelectionBar, useSelection } from './Selection'

type Row = ListedAccount
interface Page {
  accounts: Row[] | null
  nextCursor: string | null
  counts?: AccountCounts
}

const states: [string, string][] = [
  ['active', 'Connected'],
  ['degraded', 'Degraded'],
  ['reconnect_required', 'Reconnect required'],
  ['connecting', 'Connecting'],
  ['reauthenticating', 'Signing in again'],
  ['restricted', 'Restricted'],
  ['paused', 'Paused'],
]
const always = ['active', 'degraded', 'reconnect_required']
/** The API's filter for the states that need attention. */
const needsAttention: [string, string] = ['attention', 'Needs attention']

export default function Accounts() {
  const f = useFilters({ q: '', state: '', platform: '', order: '' })
  const platforms = usePlatforms()
  const [text, setText] = useTyped(f.values.q, (q) => f.set({ q }))
  const { connect, link } = useDialogs()
  const { org } = useSession()
  const why = useWhyNot('accounts:write', 'connect accounts')
  useLiveAccounts()
  const list = usePages(
    keys.accounts(f.values),
    '/v1/accounts',
    { ...f.values, counts: true, activity: true },
    (p: Page) => p.accounts,
    { refetchInterval: 60_000 },
  )
  const rows = list.rows ?? []
  const selection = useSelection(rows)
  const endpoints = useEndpoints({ enabled: rows.some((r) => r.webhook !== undefined) })
  const counts = list.first?.counts
  const of = (state: string) => counts?.[state]
  const all = counts ? (counts['total'] ?? states.reduce((sum, [s]) => sum + (counts[s] ?? 0), 0)) : undefined
  const need = counts?.['attention'] ?? 0
  const hint = counts
    ? `${number(counts['active'] ?? 0)} connected${need ? ` · ${plural(need, 'needs', 'need')} attention` : ''}`
    : 'The creators your organisation works for'
  const withActivity = rows.some((r) => r.activity)

  const reconnect = (a: Row) => (
    <Button
      size="sm"
      why={why}
      onClick={() => connect({ accountId: a.id, label: nameOf(a) })}
      aria-label={`Reconnect ${nameOf(a)}`}
    >
      Reconnect
    </Button>
  )
  // The API sorts by label from A to Z and by activity with the latest first; without either, by the date connected.
  const sort = (order: string, direction: 'ascending' | 'descending') => ({
    direction: f.values.order === order ? direction : ('none' as const),
    toggle: () => f.set({ order: f.values.order === order ? '' : order }),
  })
  const columns: Column<Row>[] = [
    {
      key: 'select',
      head: (
        <input
          type="checkbox"
          className="size-4 align-middle accent-accent"
          aria-label="Select all accounts in the list"
          checked={selection.all}
          onChange={selection.toggleAll}
        />
      ),
      from: 'sm',
      className: 'w-8',
      cell: (a) => (
        <input
          type="checkbox"
          className="size-4 align-middle accent-accent"
          aria-label={`Select ${nameOf(a)}`}
          checked={selection.has(a.id)}
          onChange={() => selection.toggle(a.id)}
        />
      ),
    },
    {
      key: 'account',
      head: 'Account',
      sort: sort('label', 'ascending'),
      cell: (a) => (
        <div className="flex max-w-72 min-w-0 items-center gap-3">
          <span className="max-sm:hidden">
            <Avatar name={nameOf(a)} seed={a.id} />
          </span>
          <div className="min-w-0">
            <Link to="/accounts/$id" params={{ id: a.id }} className="block truncate font-medium hover:underline">
              {nameOf(a)}
            </Link>
            <Id id={a.id} short />
          </div>
        </div>
      ),
    },
    {
      key: 'state',
      head: 'State',
      cell: (a) => (
        <div>
          <State state={a.state} />
          {a.state !== 'active' && reasonOf(a) ? <div className="mt-0.5 text-xs text-mute">{reasonOf(a)}</div> : null}
          {a.state === 'reconnect_required' ? <div className="mt-1.5">{reconnect(a)}</div> : null}
        </div>
      ),
    },
    {
      key: 'platform',
      head: 'Platform',
      from: 'md',
      className: 'max-w-48',
      cell: (a) => <Platform id={a.platform} site={a.site} stacked />,
    },
    { key: 'region', head: 'Region', from: 'lg', cell: (a) => a.proxyCountry },
    {
      key: 'webhook',
      head: 'Webhook',
      from: 'lg',
      cell: (a) => {
        if (a.webhook === undefined) return '–'
        const of = endpointsOf(a, endpoints.data)
        return (
          <>
            {a.webhook || of.length === 0 ? <State state={a.webhook?.state ?? 'none'} dot={false} /> : null}
            {of.length > 0 ? (
              <span className="block max-w-40 truncate text-xs">
                <Endpoints list={of} />
              </span>
            ) : null}
          </>
        )
      },
    },
    ...(withActivity
      ? [
          {
            key: 'activity',
            head: 'Activity, 24 h',
            from: 'xl',
            cell: (a: Row) =>
              a.activity ? <Spark values={a.activity} label={`Calls per hour of ${nameOf(a)}`} /> : null,
          } satisfies Column<Row>,
          {
            key: 'calls',
            head: 'Calls',
            from: 'xl',
            cell: (a: Row) => <span className="font-mono text-xs">{number(a.calls24h)}</span>,
          } satisfies Column<Row>,
        ]
      : [{ key: 'user', head: 'Username', from: 'md', cell: (a: Row) => a.username || '–' } satisfies Column<Row>]),
    {
      key: 'seen',
      head: 'Last seen',
      sort: sort('lastSeen', 'descending'),
      from: 'sm',
      cell: (a) => <Time at={a.lastSeenAt} className="whitespace-nowrap text-mute" />,
    },
  ]

  return (
    <>
      <PageHead
        title="Accounts"
        hint={hint}
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
      <Card flush>
        <div className="flex flex-wrap items-center gap-2 border-b px-4 py-3">
          <SearchInput label="Label, name or id" value={text} onChange={setText} className="w-full sm:w-72" />
          <Chips
            label="State"
            value={f.values.state}
            onChange={(state) => f.set({ state })}
            items={[
              { value: '', label: 'All', count: all },
              ...[...states, needsAttention]
                .filter(([s]) => always.includes(s) || of(s) || f.values.state === s)
                .map(([value, label]) => ({ value, label, count: of(value) })),
            ]}
          />
          <div className="ml-auto flex flex-wrap items-center gap-2">
            {platforms.several || f.values.platform ? (
              <Select
                aria-label="Platform"
                value={f.values.platform}
                onChange={(e) => f.set({ platform: e.target.value })}
              >
                <option value="">All platforms</option>
                {platforms.list.map((p) => (
                  <option key={p.id} value={p.id}>
                    {p.name}
                  </option>
                ))}
                {f.values.platform && !platforms.list.some((p) => p.id === f.values.platform) ? (
                  <option value={f.values.platform}>{f.values.platform}</option>
                ) : null}
              </Select>
            ) : null}
            <Select aria-label="Order" value={f.values.order} onChange={(e) => f.set({ order: e.target.value })}>
              <option value="">By date connected</option>
              <option value="label">By label</option>
              <option value="lastSeen">Last seen first</option>
            </Select>
            <Bulk
              waiting={of('reconnect_required') ?? 0}
              why={why}
              csv={() =>
                void download(
                  '/v1/accounts',
                  { q: f.values.q, state: f.values.state, platform: f.values.platform },
                  'text/csv',
                  'accounts.csv',
                ).catch(toast.problem)
              }
            />
          </div>
        </div>
        <Query query={list} what="the accounts">
          {() =>
            rows.length === 0 ? (
              f.active ? (
                <NoMatch title="No account matches" onClear={f.clear} />
              ) : (
                <Empty
                  title="No accounts yet"
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
                  {org.environment === 'sandbox'
                    ? 'Connect a sandbox account in ten seconds, or send a creator a link.'
                    : 'Connect an account here, or send a creator a link.'}
                </Empty>
              )
            ) : (
              <>
                <SelectionBar selection={selection} why={why} />
                <Table label="Accounts" columns={columns} rows={rows} rowKey={(a) => a.id} />
                <More shown={rows.length} what={rows.length === 1 ? 'account' : 'accounts'} query={list} />
              </>
            )
          }
        </Query>
      </Card>
    </>
  )
}

interface Made {
  label: string
  accountId: string
  url: string
}

// Creates a link for each account that its creator must sign in to again.
function Bulk({ waiting, why, csv: exportCSV }: { waiting: number; why: string | null; csv: () => void }) {
  const [asking, setAsking] = useState(false)
  const [made, setMade] = useState<Made[] | null>(null)
  const run = async () => {
    const out: Made[] = []
    let cursor: string | null = null
    do {
      const page: Page = await call('GET', '/v1/accounts', {
        query: { state: 'reconnect_required', limit: 100, cursor },
      })
      for (const a of page.accounts ?? []) {
        const { session } = await call<{ session: ConnectSession }>('POST', '/v1/connect/sessions', {
          body: { account_id: a.id },
        })
        if (session.url) out.push({ label: nameOf(a), accountId: a.id, url: session.url })
      }
      cursor = page.nextCursor
    } while (cursor && out.length < 500)
    setMade(out)
  }
  const csv = (made ?? [])
    .map((m) =>
      [m.label, m.accountId, m.url]
        .map((v) => `"${v.replaceAll('"', '""').replace(/^([=+\-@\t\r])/, "'$1")}"`)
        .join(','),
    )
    .join('\r\n')
  return (
    <>
      <Menu
        trigger={
          <IconButton label="Actions for all accounts" variant="secondary">
            <Ellipsis className="size-4" aria-hidden />
          </IconButton>
        }
      >
        <MenuItem icon={<Download className="size-4 text-mute" aria-hidden />} onSelect={exportCSV}>
          Export as CSV
        </MenuItem>
        <MenuItem
          icon={<Link2 className="size-4 text-mute" aria-hidden />}
          disabled={waiting === 0 || Boolean(why)}
          hint={waiting === 0 ? 'No account needs one' : plural(waiting, 'account')}
          onSelect={() => setAsking(true)}
        >
          Create reconnect links
        </MenuItem>
      </Menu>
      <Confirm
        open={asking}
        onOpenChange={setAsking}
        title={`Create ${plural(waiting, 'reconnect link')}?`}
        action="Create links"
        run={run}
      >
        <p>
          This creates one link for each account in the state “Reconnect required”. Send each link to its creator; the
          account keeps its id.
        </p>
        <p>Each link is shown once and works until it expires.</p>
      </Confirm>
      <Dialog
        open={made !== null}
        onOpenChange={(open) => !open && setMade(null)}
        title={plural(made?.length ?? 0, 'reconnect link')}
        description="These links are not shown again."
        size="lg"
        footer={<CopyButton text={'label,account,url\r\n' + csv}>Copy as CSV</CopyButton>}
      >
        <ul className="space-y-3">
          {made?.map((m) => (
            <li key={m.accountId}>
              <div className="mb-1 font-medium">{m.label}</div>
              <Code code={m.url} label={`link for ${m.label}`} wrap />
            </li>
          ))}
        </ul>
      </Dialog>
    </>
  )
}
