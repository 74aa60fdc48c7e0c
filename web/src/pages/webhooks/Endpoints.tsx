import { useEndpoints } from '@/api/hooks'
import { Link } from '@tanstack/react-router'
import type { Endpoint } from '@/api/types'
import { useFilters, useTyped } from '@/lib/filters'
import { duration, number, percent, plural, words } from '@/lib/format'
import { useWhyNot } from '@/shell/session'
import {
  Button,
  ButtonLink,
  Card,
  Chips,
  Code,
  Copy,
  Empty,
  NoMatch,
  Query,
  SearchInput,
  State,
  Status,
  Table,
  Time,
  type Column,
} from '@/ui'
import { failureTitle } from './failures'
import { endpointName, endpointState } from './useEndpoints'

const states = ['failing', 'lagging', 'healthy', 'paused', 'disabled'] as const

/** The endpoints of the organisation. */
export function Endpoints({ onAdd }: { onAdd: () => void }) {
  const f = useFilters({ health: '', q: '' })
  const [text, setText] = useTyped(f.values.q, (q) => f.set({ q: q.trim() }))
  const why = useWhyNot('webhooks:write', 'add endpoints')
  const list = useEndpoints()
  const all = list.data ?? []
  const count = (state: string) => all.filter((e) => endpointState(e) === state).length
  const q = f.values.q.toLowerCase()
  const rows = all.filter(
    (e) =>
      (!f.values.health || endpointState(e) === f.values.health) &&
      (!q || `${e.description}\n${e.url}\n${e.id}`.toLowerCase().includes(q)),
  )
  const columns: Column<Endpoint>[] = [
    {
      key: 'endpoint',
      head: 'Endpoint',
      className: 'max-w-0 w-3/5 sm:w-2/5',
      cell: (e) => (
        <div className="min-w-0">
          <Link
            to="/webhooks/endpoints/$id"
            params={{ id: e.id }}
            className="block truncate leading-6 font-medium hover:underline"
          >
            {endpointName(e)}
          </Link>
          <span className="flex min-w-0 items-center gap-1 text-mute">
            <span className="truncate font-mono text-xs" title={e.url}>
              {e.url}
            </span>
            <Copy text={e.url} label="Copy the URL" />
          </span>
        </div>
      ),
    },
    {
      key: 'state',
      head: 'State',
      cell: (e) => (
        <div>
          <State state={endpointState(e)} />
          {e.health.state === 'failing' && e.health.failingSince ? (
            <div className="mt-0.5 text-xs whitespace-nowrap text-mute">
              since <Time at={e.health.failingSince} />
            </div>
          ) : e.health.state === 'healthy' && e.health.accountsBehind > 0 ? (
            <div className="mt-0.5 text-xs whitespace-nowrap text-mute">
              {plural(e.health.accountsBehind, 'account')}
            </div>
          ) : null}
        </div>
      ),
    },
    {
      key: 'events',
      head: 'Events',
      from: 'xl',
      cell: (e) => (
        <span className="font-mono text-xs whitespace-nowrap">
          {e.events?.length
            ? `${e.events.slice(0, 2).join(', ')}${e.events.length > 2 ? ` +${e.events.length - 2}` : ''}`
            : 'all'}
        </span>
      ),
    },
    {
      key: 'backlog',
      head: 'Waiting',
      align: 'right',
      from: 'sm',
      cell: (e) =>
        e.health.backlog ? (
          <div className="whitespace-nowrap">
            <span className={e.enabled ? 'text-warn-text' : undefined}>{number(e.health.backlog)}</span>
            <div className="text-xs text-mute">oldest {duration(e.health.lagSec)}</div>
          </div>
        ) : (
          <span className="text-mute">0</span>
        ),
    },
    {
      key: 'rate',
      head: 'Success, 24 h',
      align: 'right',
      from: 'md',
      cell: (e) => <Rate share={e.health.successRate24h} />,
    },
    {
      key: 'last',
      head: 'Last response',
      from: 'lg',
      cell: (e) =>
        e.health.lastStatus ? (
          <Status status={e.health.lastStatus} />
        ) : e.health.lastError ? (
          <span className="text-xs text-bad-text">{failureTitle(e.health.lastError)}</span>
        ) : (
          <span className="text-mute">nothing sent</span>
        ),
    },
    {
      key: 'delivered',
      head: 'Last delivered',
      from: 'xl',
      cell: (e) => <Time at={e.health.lastSuccessAt} className="whitespace-nowrap text-mute" />,
    },
    {
      key: 'open',
      head: <span className="sr-only">Action</span>,
      align: 'right',
      from: 'sm',
      cell: (e) => (
        <ButtonLink
          size="sm"
          to="/webhooks/endpoints/$id"
          params={{ id: e.id }}
          aria-label={`Open the endpoint ${endpointName(e)}`}
        >
          Open
        </ButtonLink>
      ),
    },
  ]
  return (
    <Card flush>
      {all.length > 0 ? (
        <div className="flex flex-wrap items-center gap-2 border-b px-4 py-3">
          <Chips
            label="State"
            value={f.values.health}
            onChange={(health) => f.set({ health })}
            items={[
              { value: '', label: 'All', count: all.length },
              ...states
                .filter((s) => count(s) > 0 || s === f.values.health)
                .map((s) => ({ value: s, label: words(s), count: count(s) })),
            ]}
          />
          <SearchInput
            label="Description, URL or id"
            value={text}
            onChange={setText}
            className="w-full sm:ml-auto sm:w-64"
          />
        </div>
      ) : null}
      <Query query={list} what="the endpoints">
        {() =>
          rows.length > 0 ? (
            <Table label="Endpoints" columns={columns} rows={rows} rowKey={(e) => e.id} />
          ) : f.active ? (
            <NoMatch title="No endpoint matches" onClear={f.clear} />
          ) : (
            <Empty
              title="No endpoints yet"
              action={
                <Button variant="primary" why={why} onClick={onAdd}>
                  Add endpoint
                </Button>
              }
            >
              One URL receives the events of all your accounts. Or run this command to receive them on your machine:
              <div className="mt-3 text-left">
                <Code code="stagedoor listen --forward-to localhost:3000" label="command" wrap />
              </div>
            </Empty>
          )
        }
      </Query>
    </Card>
  )
}

/** A share of accepted attempts, coloured if it is low. */
export function Rate({ share }: { share: number | null }) {
  if (share === null) return <span className="text-mute">–</span>
  const tone = share >= 0.99 ? 'text-ok-text' : share >= 0.9 ? 'text-warn-text' : 'text-bad-text'
  return <span className={`font-mono text-xs ${tone}`}>{percent(share, 2)}</span>
}
