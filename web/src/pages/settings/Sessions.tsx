import { useState } from 'react'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { call, isProblem } from '@/api/client'
import type { BrowserSession } from '@/api/types'
import { useCan, useSession } from '@/shell/session'
import { Badge, Button, Card, Confirm, Empty, Query, Table, Time, toast, type Column } from '@/ui'
import { browserName } from './words'

const sessionsKey = ['browser-sessions'] as const

/** Signed-in browsers; those of other members are shown only to members who manage the organisation. */
export function Sessions() {
  const { person } = useSession()
  const client = useQueryClient()
  const all = useCan('me:write')
  const list = useQuery({
    queryKey: sessionsKey,
    queryFn: async ({ signal }) =>
      (await call<{ sessions: BrowserSession[] | null }>('GET', '/v1/me/sessions', { signal })).sessions ?? [],
  })
  const [asking, setAsking] = useState<BrowserSession | 'others' | null>(null)
  const mine = (list.data ?? []).filter((s) => s.person.id === person.id && !s.current)
  const end = (s: BrowserSession) => call('DELETE', `/v1/me/sessions/${encodeURIComponent(s.id)}`)
  const columns: Column<BrowserSession>[] = [
    {
      key: 'browser',
      head: 'Browser',
      cell: (s) => (
        <div className="min-w-0">
          <span className="flex flex-wrap items-center gap-x-2 font-medium" title={s.userAgent}>
            <span className="break-words">{browserName(s.userAgent)}</span>
            {s.current ? <Badge tone="accent">this browser</Badge> : null}
            {s.person.id === 'operator' ? <Badge tone="warn">operator</Badge> : null}
          </span>
          <span className="block text-xs break-all text-mute">{s.person.email}</span>
        </div>
      ),
    },
    {
      key: 'created',
      head: 'Signed in',
      from: 'md',
      cell: (s) => <Time at={s.createdAt} className="whitespace-nowrap text-mute" />,
    },
    {
      key: 'seen',
      head: 'Last seen',
      from: 'sm',
      cell: (s) => <Time at={s.lastSeenAt} className="whitespace-nowrap" />,
    },
    {
      key: 'ends',
      head: 'Expires',
      from: 'lg',
      cell: (s) => <Time at={s.expiresAt} className="whitespace-nowrap text-mute" />,
    },
    {
      key: 'go',
      head: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (s) => (
        <Button
          size="sm"
          variant="danger"
          aria-label={`Sign out ${browserName(s.userAgent)} of ${s.person.email}`}
          onClick={() => setAsking(s)}
        >
          Sign out
        </Button>
      ),
    },
  ]
  const gone = isProblem(list.error) && list.error.notFound
  return (
    <>
      <Card
        flush
        title="Signed-in browsers"
        hint={all ? 'Of all members of this organisation' : 'Only yours. Owners and admins see those of all members.'}
        actions={
          mine.length > 0 ? (
            <Button size="sm" onClick={() => setAsking('others')}>
              Sign out my other browsers
            </Button>
          ) : null
        }
      >
        {gone ? (
          <Empty title="This server does not list sessions yet" />
        ) : (
          <Query query={list} what="the sessions">
            {(rows) =>
              rows.length > 0 ? (
                <Table label="Signed-in browsers" columns={columns} rows={rows} rowKey={(s) => s.id} />
              ) : (
                <Empty title="No browsers are signed in">Only API keys use this organisation right now.</Empty>
              )
            }
          </Query>
        )}
      </Card>
      <p className="mt-3 text-xs text-mute">
        A session ends after 8 hours without use, and 24 hours after sign-in at the latest. Your identity provider
        handles two-factor sign-in.
      </p>
      <Confirm
        open={asking !== null}
        onOpenChange={(open) => (open ? undefined : setAsking(null))}
        title={
          asking === 'others'
            ? 'Sign out your other browsers?'
            : asking?.current
              ? 'Sign out here?'
              : 'Sign this browser out?'
        }
        action="Sign out"
        danger
        run={async () => {
          if (asking === 'others') for (const s of mine) await end(s)
          else if (asking) {
            await end(asking)
            if (asking.current) return location.assign('/app/sign-in')
          }
          toast.ok('Signed out')
          await client.invalidateQueries({ queryKey: sessionsKey })
        }}
      >
        <p>
          {asking === 'others'
            ? `${mine.length} of your browsers will be signed out immediately. This one stays signed in.`
            : asking
              ? `${browserName(asking.userAgent)} of ${asking.person.email} will be signed out immediately, in all organisations.`
              : ''}
        </p>
      </Confirm>
    </>
  )
}
