import { useState } from 'react'
import { useQueryClient } from '@tanstack/react-query'
import { call } from '@/api/client'
import { Badge, Button, Card, Confirm, Empty, PageHead, Query, Table, Time, toast, type Column } from '@/ui'
import { useOperatorSessions } from '../hooks'
import type { OperatorSession } from '../types'

export default function Operators() {
  const list = useOperatorSessions()
  const client = useQueryClient()
  const [asking, setAsking] = useState<OperatorSession | null>(null)
  const columns: Column<OperatorSession>[] = [
    {
      key: 'operator',
      head: 'Operator',
      cell: (s) => (
        <div className="min-w-0">
          <span className="font-medium break-all">{s.operator}</span>
          <span className="block text-xs break-words text-mute">{s.userAgent}</span>
        </div>
      ),
    },
    {
      key: 'role',
      head: 'Role',
      cell: (s) => (
        <span className="inline-flex flex-wrap gap-1">
          {s.role ? <Badge>{s.role}</Badge> : <Badge tone="bad">none</Badge>}
          {s.person ? null : <Badge tone="warn">token</Badge>}
        </span>
      ),
    },
    { key: 'since', head: 'Signed in', from: 'md', cell: (s) => <Time at={s.createdAt} /> },
    { key: 'seen', head: 'Last seen', from: 'sm', cell: (s) => <Time at={s.lastSeenAt} /> },
    {
      key: 'act',
      head: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (s) => (
        <Button size="sm" variant="danger" aria-label={`Sign out ${s.operator}`} onClick={() => setAsking(s)}>
          Sign out
        </Button>
      ),
    },
  ]
  return (
    <>
      <PageHead
        title="Operators"
        hint="Browsers that are signed in to this console. Who has which role is in the settings of the service."
      />
      <Card flush title="Signed-in browsers">
        <Query query={list} what="the operators">
          {(rows) =>
            rows.length === 0 ? (
              <Empty title="No browsers are signed in">Only programs with a token use the admin API right now.</Empty>
            ) : (
              <Table label="Signed-in browsers" columns={columns} rows={rows} rowKey={(s) => s.id} />
            )
          }
        </Query>
      </Card>
      <Confirm
        open={asking !== null}
        onOpenChange={(open) => !open && setAsking(null)}
        title={`Sign out ${asking?.operator ?? ''}?`}
        action="Sign out"
        danger
        run={async () => {
          await call('DELETE', `/admin/v1/sessions/${encodeURIComponent(asking!.id)}`)
          toast.ok('Signed out')
          await client.invalidateQueries({ queryKey: ['operator-sessions'] })
        }}
      >
        <p>
          The browser is signed out immediately, on every node. The operator can sign in again; to prevent that, remove
          their role in the settings.
        </p>
      </Confirm>
    </>
  )
}
