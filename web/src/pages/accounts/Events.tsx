import { useState } from 'react'
import { Link, useNavigate } from '@tanstack/react-router'
import { useQuery } from '@tanstack/react-query'
import { call } from '@/api/client'
import { keys, useEvents } from '@/api/hooks'
import type { Account, Event } from '@/api/types'
import { eventText, eventTone } from '@/lib/events'
import { StreamBadge } from '@/shell/StreamBadge'
import { Badge, Card, Empty, Query, Table, Time, type Column } from '@/ui'

const kept = 200

export function Events({ account: a }: { account: Account }) {
  const navigate = useNavigate()
  const [live, setLive] = useState<Event[]>([])
  useEvents((batch) => setLive((old) => [...batch.slice(-kept).reverse(), ...old].slice(0, kept)), { accountId: a.id })
  const stored = useQuery({
    queryKey: keys.events({ account: a.id, latest: 50 }),
    queryFn: async ({ signal }) =>
      (await call<{ events: Event[] | null }>('GET', '/v1/events', { query: { latest: 50, accountId: a.id }, signal }))
        .events ?? [],
  })
  const columns: Column<Event>[] = [
    { key: 'at', head: 'Time', cell: (e) => <Time at={e.ts} as="millis" className="font-mono text-xs text-mute" /> },
    {
      key: 'kind',
      head: 'Event',
      cell: (e) => (
        <Link to="/events/$id" params={{ id: e.id }}>
          <Badge tone={eventTone(e.event)} mono>
            {e.event}
          </Badge>
        </Link>
      ),
    },
    {
      key: 'text',
      head: 'Summary',
      from: 'sm',
      className: 'max-w-0 w-full',
      cell: (e) => <div className="truncate text-soft">{eventText(e)}</div>,
    },
  ]
  return (
    <Card
      flush
      title="Events"
      hint="Newest first"
      actions={
        <>
          <StreamBadge />
          <Link to="/events" search={{ account: a.id } as never} className="link text-xs">
            Open in live events
          </Link>
        </>
      }
    >
      <Query query={stored} what="the events">
        {(list) => {
          const seen = new Set(live.map((e) => e.id))
          const rows = [...live, ...list.filter((e) => !seen.has(e.id))]
          return rows.length === 0 ? (
            <Empty title="Listening…">Events appear here as they happen.</Empty>
          ) : (
            <Table
              label="Events"
              dense
              columns={columns}
              rows={rows}
              rowKey={(e) => e.id}
              onRow={(e) => void navigate({ to: '/events/$id', params: { id: e.id } as never })}
            />
          )
        }}
      </Query>
    </Card>
  )
}
