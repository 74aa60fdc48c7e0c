import { Link } from '@tanstack/react-router'
import { useSession } from '@/shell/session'
import { millis, shortId } from '@/lib/format'
import { Button, Card, Empty, Status, Table, Time, type Column } from '@/ui'
import { forget, useHistory, type Run } from './history'

/** The calls that were run in this tab. */
export function History({ onOpen }: { onOpen: (run: Run) => void }) {
  const { org } = useSession()
  const runs = useHistory(org.id)
  const columns: Column<Run>[] = [
    { key: 'at', head: 'Time', cell: (r) => <Time at={r.at} as="clock" className="font-mono text-xs" /> },
    { key: 'status', head: 'Status', cell: (r) => <Status status={r.status} /> },
    {
      key: 'method',
      head: 'Method',
      cell: (r) => (
        <button type="button" className="link text-left font-mono text-xs break-all" onClick={() => onOpen(r)}>
          {r.name}
          {r.dryRun ? <span className="text-mute"> dry run</span> : null}
        </button>
      ),
    },
    { key: 'account', head: 'Account', from: 'md', cell: (r) => r.accountName },
    {
      key: 'code',
      head: 'Problem',
      from: 'lg',
      cell: (r) => (r.code ? <code className="text-xs">{r.code}</code> : '–'),
    },
    {
      key: 'ms',
      head: 'Duration',
      from: 'sm',
      align: 'right',
      cell: (r) => <span className="font-mono text-xs whitespace-nowrap">{millis(r.ms)}</span>,
    },
    {
      key: 'req',
      head: 'Request',
      from: 'md',
      cell: (r) =>
        r.requestId ? (
          <Link to="/logs/$id" params={{ id: r.requestId }} className="link font-mono text-xs">
            {shortId(r.requestId)}
          </Link>
        ) : (
          '–'
        ),
    },
  ]
  return (
    <Card
      flush
      title="History"
      hint="Calls run in this tab. Responses are not stored."
      actions={
        runs.length > 0 ? (
          <Button size="sm" variant="ghost" onClick={() => forget(org.id)}>
            Clear
          </Button>
        ) : null
      }
    >
      {runs.length === 0 ? (
        <Empty title="No calls yet" className="!py-8">
          Calls that you run in this tab appear here, so that you can open them again.
        </Empty>
      ) : (
        <Table label="History" dense columns={columns} rows={runs} rowKey={(r) => String(r.id)} />
      )}
    </Card>
  )
}
