import { useState } from 'react'
import { Link } from '@tanstack/react-router'
import { useEvents } from '@/api/hooks'
import type { Account, Event } from '@/api/types'
import { eventText, eventTone } from '@/lib/events'
import { StreamBadge } from '@/shell/StreamBadge'
import { Badge, Card, Empty, Time } from '@/ui'

const kept = 8

/** The newest events of the account, to see the effect of a button. */
export function Tail({ account }: { account: Account | null }) {
  const [list, setList] = useState<Event[]>([])
  useEvents((batch) => setList((old) => [...batch.slice(-kept).reverse(), ...old].slice(0, kept)), {
    ...(account ? { accountId: account.id } : {}),
  })
  const mine = list.filter((e) => !account || e.accountId === account.id)
  return (
    <Card
      flush
      title="Incoming events"
      hint={
        account?.listener?.state && account.listener.state !== 'up'
          ? 'This account’s listener is not up right now'
          : 'Events of this account, as they arrive'
      }
      actions={
        <>
          <StreamBadge />
          <Link
            to="/events"
            {...(account ? { search: { account: account.id } as never } : {})}
            className="link text-xs"
          >
            All events
          </Link>
        </>
      }
    >
      {mine.length === 0 ? (
        <Empty title="Listening…" className="!py-8">
          Send a message as a fan: it appears here within a second.
        </Empty>
      ) : (
        <ul className="divide-y" aria-live="polite" aria-label="Newest events">
          {mine.map((e) => (
            <li key={e.id} className="flex min-w-0 items-center gap-2 px-4 py-1.5">
              <Time at={e.ts} as="clock" className="shrink-0 font-mono text-xs text-mute" />
              <Link to="/events/$id" params={{ id: e.id }} className="shrink-0 hover:underline">
                <Badge mono tone={eventTone(e.event)}>
                  {e.event}
                </Badge>
              </Link>
              <span className="min-w-0 flex-1 truncate text-soft">{eventText(e)}</span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  )
}
