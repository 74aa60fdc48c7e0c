import {
  Card,
  Chips,
  Empty,
  Id,
  More,
  NoMatch,
  PageHead,
  Query,
  SearchInput,
  Select,
  State,
  Table,
  Time,
  type Column,
} from '@/ui'
import { useFilters, useTyped } from '@/lib/filters'
import { words } from '@/lib/format'
import { useAccounts, useEgress } from '../hooks'
import { OrgLink, Stage } from '../parts'
import type { Account } from '../types'

const columns: Column<Account>[] = [
  {
    key: 'account',
    head: 'Account',
    cell: (a) => (
      <div className="min-w-0">
        {a.username ? <div className="truncate font-medium">{a.label || `@${a.username}`}</div> : null}
        <Id id={a.id} short />
      </div>
    ),
  },
  { key: 'org', head: 'Organisation', from: 'sm', cell: (a) => <OrgLink org={a.org} /> },
  {
    key: 'state',
    head: 'State',
    cell: (a) => (
      <div className="min-w-0">
        <State state={a.state} />
        {a.stateReason ? <div className="mt-0.5 text-xs text-mute">{words(a.stateReason)}</div> : null}
      </div>
    ),
  },
  {
    key: 'user',
    head: 'Creator',
    from: 'lg',
    cell: (a) =>
      a.username ? (
        <span className="break-all">
          @{a.username} · {a.ofUserId}
        </span>
      ) : (
        '–'
      ),
  },
  { key: 'region', head: 'Region', from: 'md', cell: (a) => a.region },
  {
    key: 'listener',
    head: 'Listener',
    from: 'md',
    cell: (a) => (
      <span title={`Shard ${a.listener.shard}`}>
        <Stage state={a.listener.state} />
      </span>
    ),
  },
  { key: 'seen', head: 'Last seen', from: 'sm', align: 'right', cell: (a) => <Time at={a.lastSeenAt} /> },
]

const states = ['active', 'degraded', 'reconnect_required', 'connecting', 'reauthenticating', 'restricted', 'paused']

export default function Accounts() {
  const f = useFilters({ q: '', org: '', state: '', region: '', names: '' })
  const [text, setText] = useTyped(f.values.q, (q) => f.set({ q }))
  const list = useAccounts(f.values)
  const regions = useEgress().data?.regions.map((r) => r.region) ?? []
  return (
    <>
      <PageHead
        title="Accounts"
        hint="Accounts of all organisations and their state. Names are shown only with the consent of their organisation."
      />
      <Card
        flush
        tools={
          <SearchInput
            label={f.values.names ? 'Id, platform id, name or label' : 'Id of an account'}
            value={text}
            onChange={setText}
            className="w-full sm:w-80"
          />
        }
        actions={
          <>
            <Select aria-label="State" value={f.values.state} onChange={(e) => f.set({ state: e.target.value })}>
              <option value="">All states</option>
              {states.map((s) => (
                <option key={s} value={s}>
                  {words(s)}
                </option>
              ))}
            </Select>
            <Chips
              label="Region"
              items={[{ value: '', label: 'All regions' }, ...regions.map((r) => ({ value: r, label: r }))]}
              value={f.values.region}
              onChange={(region) => f.set({ region })}
            />
            {f.values.org ? (
              <Chips
                label="Organisation"
                items={[{ value: f.values.org, label: 'One organisation ✕' }]}
                value={f.values.org}
                onChange={() => f.set({ org: '', names: '' })}
              />
            ) : null}
          </>
        }
      >
        <Query query={list} what="the accounts">
          {() =>
            list.rows!.length === 0 ? (
              f.active ? (
                <NoMatch title="No account matches" onClear={f.clear} />
              ) : (
                <Empty title="No accounts yet">
                  Customers connect accounts through the API, the dashboard or a connect link.
                </Empty>
              )
            ) : (
              <>
                <Table label="Accounts" columns={columns} rows={list.rows!} rowKey={(a) => a.id} />
                <More shown={list.rows!.length} what="accounts" query={list} />
              </>
            )
          }
        </Query>
      </Card>
    </>
  )
}
