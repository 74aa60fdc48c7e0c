import { useState } from 'react'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { call, isProblem } from '@/api/client'
import type { SupportAccess } from '@/api/types'
import { words } from '@/lib/format'
import { useSession } from '@/shell/session'
import {
  Badge,
  Button,
  Card,
  Confirm,
  Dialog,
  Empty,
  Field,
  Notice,
  Query,
  Select,
  Table,
  Time,
  toast,
  stateTone,
  type Column,
} from '@/ui'

const supportKey = ['support-access'] as const
const times = [
  { hours: 1, label: '1 hour' },
  { hours: 8, label: '8 hours' },
  { hours: 24, label: '1 day' },
  { hours: 72, label: '3 days' },
  { hours: 168, label: '7 days' },
]

/** Who of the service's operators asked to read this organisation, and what the owners decided. */
export function Support() {
  const { org } = useSession()
  const client = useQueryClient()
  const why = org.role === 'owner' ? null : 'Only an owner can grant or revoke support access.'
  const list = useQuery({
    queryKey: supportKey,
    queryFn: async ({ signal }) =>
      (await call<{ supportAccess: SupportAccess[] | null }>('GET', '/v1/org/support-access', { signal }))
        .supportAccess ?? [],
    refetchInterval: 30_000,
  })
  const [granting, setGranting] = useState<SupportAccess | null>(null)
  const [ending, setEnding] = useState<SupportAccess | null>(null)
  const columns: Column<SupportAccess>[] = [
    {
      key: 'operator',
      head: 'Operator',
      cell: (a) => (
        <div className="min-w-0">
          <span className="font-medium break-all">{a.operator}</span>
          <span className="block text-xs break-words text-mute">{a.reason}</span>
        </div>
      ),
    },
    {
      key: 'state',
      head: 'State',
      cell: (a) => (
        <div className="min-w-0">
          <Badge tone={stateTone(a.state)} dot>
            {words(a.state)}
          </Badge>
          {a.endedBy || a.grantedBy ? (
            <span className="mt-0.5 block text-xs break-all text-mute">by {a.endedBy || a.grantedBy}</span>
          ) : null}
        </div>
      ),
    },
    {
      key: 'asked',
      head: 'Requested',
      from: 'md',
      cell: (a) => <Time at={a.requestedAt} className="whitespace-nowrap text-mute" />,
    },
    {
      key: 'until',
      head: 'Expires',
      from: 'sm',
      cell: (a) => <Time at={a.endedAt ?? a.expiresAt} className="whitespace-nowrap text-mute" />,
    },
    {
      key: 'go',
      head: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (a) => (
        <span className="inline-flex justify-end gap-1 max-sm:flex-col max-sm:items-end">
          {a.state === 'requested' ? (
            <Button
              size="sm"
              variant="primary"
              why={why}
              aria-label={`Grant access to ${a.operator}`}
              onClick={() => setGranting(a)}
            >
              Grant
            </Button>
          ) : null}
          {a.state === 'requested' || a.state === 'granted' ? (
            <Button
              size="sm"
              variant="danger"
              why={why}
              aria-label={`${a.state === 'granted' ? 'Revoke the access' : 'Decline the request'} of ${a.operator}`}
              onClick={() => setEnding(a)}
            >
              {a.state === 'granted' ? 'Revoke' : 'Decline'}
            </Button>
          ) : null}
        </span>
      ),
    },
  ]
  return (
    <>
      <Card
        flush
        title="Support access"
        hint="Operators of this service see states and counts. They see what is inside only if an owner lets them."
      >
        <Query query={list} what="the requests">
          {(rows) =>
            rows.length > 0 ? (
              <Table label="Support access" columns={columns} rows={rows} rowKey={(a) => a.id} />
            ) : (
              <Empty title="No requests">An operator who wants to look into a problem asks here, with a reason.</Empty>
            )
          }
        </Query>
      </Card>
      <p className="mt-3 text-xs text-mute">
        The audit log has every request, grant and revocation, and what the operator reads, as operator.read.
      </p>
      {granting ? (
        <Grant
          access={granting}
          close={() => setGranting(null)}
          done={() => client.invalidateQueries({ queryKey: supportKey })}
        />
      ) : null}
      <Confirm
        open={ending !== null}
        onOpenChange={(open) => (open ? undefined : setEnding(null))}
        title={ending?.state === 'granted' ? 'Revoke the access?' : 'Decline the request?'}
        action={ending?.state === 'granted' ? 'Revoke' : 'Decline'}
        danger
        run={async () => {
          await call('DELETE', `/v1/org/support-access/${encodeURIComponent(ending!.id)}`)
          toast.ok(ending!.state === 'granted' ? 'The access has ended' : 'The request is declined')
          await client.invalidateQueries({ queryKey: supportKey })
        }}
      >
        <p>
          {ending?.state === 'granted'
            ? `${ending.operator} is signed out of this organisation immediately.`
            : `${ending?.operator ?? 'The operator'} can ask again.`}
        </p>
      </Confirm>
    </>
  )
}

function Grant({ access, close, done }: { access: SupportAccess; close: () => void; done: () => Promise<unknown> }) {
  const [hours, setHours] = useState(24)
  const grant = useMutation({
    mutationFn: () =>
      call('POST', `/v1/org/support-access/${encodeURIComponent(access.id)}/grant`, { body: { hours } }),
    onSuccess: async () => {
      toast.ok(`${access.operator} can read this organisation`)
      close()
      await done()
    },
  })
  return (
    <Dialog
      open
      onOpenChange={(open) => (open ? undefined : close())}
      title={`Grant access to ${access.operator}?`}
      size="sm"
      footer={
        <>
          <Button onClick={close}>Cancel</Button>
          <Button variant="primary" busy={grant.isPending} onClick={() => grant.mutate()}>
            Grant access
          </Button>
        </>
      }
    >
      <div className="space-y-3 text-soft">
        <p>Reason: {access.reason}</p>
        <p>
          The operator can read what a member with the role support can: accounts, events and messages, webhooks, logs
          and usage. They cannot change anything. You can revoke it at any time.
        </p>
      </div>
      <Field className="mt-4" label="For">
        {(p) => (
          <Select {...p} className="w-full" value={hours} onChange={(e) => setHours(Number(e.target.value))}>
            {times.map((t) => (
              <option key={t.hours} value={t.hours}>
                {t.label}
              </option>
            ))}
          </Select>
        )}
      </Field>
      {isProblem(grant.error) ? (
        <Notice tone="bad" className="mt-4">
          {grant.error.detail}
        </Notice>
      ) : null}
    </Dialog>
  )
}
