import { Link, useNavigate } from '@tanstack/react-router'
import { keys, usePages } from '@/api/hooks'
import type { Account, Log } from '@/api/types'
import { useFilters } from '@/lib/filters'
import { millis } from '@/lib/format'
import { snippets } from '@/lib/snippets'
import { Badge, Card, Chips, CodeBlock, Empty, More, NoMatch, Query, Status, Table, Time, type Column } from '@/ui'

export function Calls({ account: a }: { account: Account }) {
  const f = useFilters({ status: '' })
  const navigate = useNavigate()
  const query = { accountId: a.id, status: f.values.status }
  const list = usePages(
    keys.logs(query),
    '/v1/logs',
    query,
    (p: { logs: Log[] | null; nextCursor: string | null }) => p.logs,
  )
  const columns: Column<Log>[] = [
    { key: 'at', head: 'Time', cell: (l) => <Time at={l.at} as="clock" className="font-mono text-xs text-mute" /> },
    { key: 'status', head: 'Status', cell: (l) => <Status status={l.status} /> },
    {
      key: 'method',
      head: 'Method',
      cell: (l) => (
        <Link to="/logs/$id" params={{ id: l.requestId }} className="font-mono text-xs hover:underline">
          {l.method}
        </Link>
      ),
    },
    { key: 'access', head: 'HTTP', from: 'md', cell: (l) => <Badge>{l.http}</Badge> },
    {
      key: 'code',
      head: 'Problem',
      from: 'lg',
      cell: (l) => (l.code ? <span className="font-mono text-xs text-bad-text">{l.code}</span> : '–'),
    },
    {
      key: 'ms',
      head: 'Duration',
      align: 'right',
      from: 'sm',
      cell: (l) => <span className="font-mono text-xs whitespace-nowrap">{millis(l.durationMs)}</span>,
    },
    {
      key: 'key',
      head: 'Key',
      from: 'xl',
      cell: (l) => <span className="font-mono text-xs text-mute">{l.keyId.slice(0, 12)}…</span>,
    },
    {
      key: 'again',
      head: <span className="sr-only">Action</span>,
      align: 'right',
      from: 'md',
      cell: (l) =>
        l.method.includes('.') ? (
          <Link
            to="/explorer"
            search={{ method: l.method, account: a.id } as never}
            className="link text-xs whitespace-nowrap"
            onClick={(e) => e.stopPropagation()}
          >
            Run again<span className="sr-only"> {l.method} in the explorer</span>
          </Link>
        ) : null,
    },
  ]
  return (
    <Card
      flush
      title="Calls"
      hint="Calls made with your API keys and from this dashboard"
      actions={
        <Chips
          label="Status"
          value={f.values.status}
          onChange={(status) => f.set({ status })}
          items={[
            { value: '', label: 'All' },
            { value: '2xx', label: '2xx' },
            { value: '4xx', label: '4xx' },
            { value: '429', label: '429' },
            { value: '5xx', label: '5xx' },
          ]}
        />
      }
    >
      <Query query={list} what="the calls">
        {() =>
          (list.rows ?? []).length === 0 ? (
            f.values.status ? (
              <NoMatch title="No call matches" onClear={() => f.set({ status: '' })} />
            ) : (
              <Empty title="No calls yet">
                <div className="mt-3 w-full max-w-xl text-left">
                  <CodeBlock snippets={snippets({ method: 'POST', path: `/v1/accounts/${a.id}/me/get`, body: {} })} />
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
  )
}
