import { useState } from 'react'
import { useQueryClient } from '@tanstack/react-query'
import { call } from '@/api/client'
import {
  Button,
  Card,
  Chips,
  Confirm,
  Empty,
  Id,
  More,
  NoMatch,
  Notice,
  PageHead,
  Query,
  Status,
  Table,
  Time,
  toast,
  type Column,
} from '@/ui'
import { useFilters } from '@/lib/filters'
import { number, plural, words } from '@/lib/format'
import { useCan, useLanes } from '../hooks'
import { OrgLink, Stage } from '../parts'
import type { Lane } from '../types'

type Do = 'retry' | 'pause' | 'resume'
interface Order {
  action: Do
  lane?: Lane
}

// The states in which each action is allowed; the API refuses it in others.
const can: Record<Do, string[]> = {
  retry: ['backoff', 'disabled'],
  pause: ['lagging', 'backoff', 'draining'],
  resume: ['paused'],
}
const verbs: Record<Do, string> = { retry: 'Retry', pause: 'Pause', resume: 'Resume' }
const sentences: Record<Do, string> = {
  retry: 'Retries failing and disabled endpoints immediately, from where they stopped.',
  pause: 'Stops lanes that do not keep up; their events queue. Customers see that an operator paused them.',
  resume: 'Resumes lanes that an operator paused, from where they stopped. Lanes that customers paused stay paused.',
}

function allowed(action: Do, lane: Lane): boolean {
  return can[action].includes(lane.state) && (action !== 'resume' || lane.reason === 'operator')
}

export default function Webhooks() {
  const f = useFilters({ state: '', org: '' })
  const list = useLanes(f.values)
  const [order, setOrder] = useState<Order | null>(null)
  const counts = list.counts
  const operates = useCan('operator')
  const columns: Column<Lane>[] = [
    {
      key: 'account',
      head: 'Webhook',
      cell: (l) => (
        <div className="min-w-0">
          <div className="max-w-[140px] truncate font-medium sm:max-w-[240px]" title={l.host}>
            {l.host || '–'}
          </div>
          <Id id={l.accountId} short />
        </div>
      ),
    },
    { key: 'org', head: 'Organisation', from: 'sm', cell: (l) => <OrgLink org={l.org} /> },
    {
      key: 'state',
      head: 'State',
      cell: (l) => (
        <div>
          <Stage state={l.state} />
          {l.reason ? (
            <div className="mt-0.5 text-xs text-mute">
              {l.reason === 'operator' ? 'By an operator' : words(l.reason)}
            </div>
          ) : l.state === 'paused' ? (
            <div className="mt-0.5 text-xs text-mute">By the customer</div>
          ) : null}
        </div>
      ),
    },
    {
      key: 'last',
      head: 'Last response',
      from: 'md',
      cell: (l) =>
        l.failCount === 0 && !l.lastStatus && !l.lastError ? (
          '–'
        ) : l.lastStatus ? (
          <Status status={l.lastStatus} />
        ) : (
          <span className="text-bad-text">{l.lastError ? words(l.lastError) : 'none'}</span>
        ),
    },
    { key: 'since', head: 'Failing since', from: 'lg', cell: (l) => <Time at={l.failingSince} /> },
    { key: 'next', head: 'Next attempt', from: 'lg', cell: (l) => <Time at={l.nextAttemptAt} /> },
    { key: 'backlog', head: 'Waiting', align: 'right', from: 'lg', cell: (l) => number(l.backlog) },
    {
      key: 'act',
      head: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (l) => (
        <span className="inline-flex justify-end gap-1 max-sm:flex-col max-sm:items-end">
          {(Object.keys(can) as Do[])
            .filter((a) => operates && allowed(a, l))
            .map((a) => (
              <Button
                key={a}
                size="sm"
                aria-label={`${verbs[a]} ${l.host} of ${l.org.name}`}
                onClick={() => setOrder({ action: a, lane: l })}
              >
                {verbs[a]}
              </Button>
            ))}
        </span>
      ),
    },
  ]
  const bulk = (a: Do) => operates && (!f.values.state || can[a].includes(f.values.state))
  return (
    <>
      <PageHead
        title="Webhook lanes"
        hint="Webhooks that lag, fail or are stopped. Payloads are not shown."
        actions={(Object.keys(can) as Do[]).filter(bulk).map((a) => (
          <Button key={a} disabled={(list.rows?.length ?? 0) === 0} onClick={() => setOrder({ action: a })}>
            {verbs[a]} {f.values.state || f.values.org ? 'these' : 'all'}…
          </Button>
        ))}
      />
      <Card
        flush
        tools={
          <Chips
            label="State"
            items={[
              { value: '', label: 'All' },
              ...['lagging', 'backoff', 'draining', 'paused', 'disabled'].map((s) => ({
                value: s,
                label: words(s),
                count: counts?.[s],
              })),
            ]}
            value={f.values.state}
            onChange={(state) => f.set({ state })}
          />
        }
        actions={
          <>
            {f.values.org ? (
              <Chips
                label="Organisation"
                items={[{ value: f.values.org, label: 'One organisation ✕' }]}
                value={f.values.org}
                onChange={() => f.set({ org: '' })}
              />
            ) : null}
            {counts ? <span className="text-xs text-mute">{number(counts.live)} up to date</span> : null}
          </>
        }
      >
        <Query query={list} what="the lanes">
          {() =>
            list.rows!.length === 0 ? (
              f.active ? (
                <NoMatch title="No lane matches" onClear={f.clear} />
              ) : (
                <Empty title="All webhooks are up to date" good>
                  {counts?.live
                    ? `${plural(counts.live, 'webhook delivers', 'webhooks deliver')} events without delay.`
                    : 'There are no webhooks yet.'}
                </Empty>
              )
            ) : (
              <>
                <Table label="Lanes" columns={columns} rows={list.rows!} rowKey={(l) => l.org.id + l.accountId} />
                <More shown={list.rows!.length} what="lanes" query={list} />
              </>
            )
          }
        </Query>
      </Card>
      {order ? <Bulk order={order} filters={f.values} close={() => setOrder(null)} /> : null}
    </>
  )
}

function Bulk({ order, filters, close }: { order: Order; filters: { state: string; org: string }; close: () => void }) {
  const client = useQueryClient()
  const { action, lane } = order
  const body = lane
    ? { orgId: lane.org.id, accountIds: [lane.accountId], limit: 1 }
    : {
        ...(filters.state ? { state: filters.state } : {}),
        ...(filters.org ? { orgId: filters.org } : {}),
        limit: 1000,
      }
  return (
    <Confirm
      open
      onOpenChange={(o) => !o && close()}
      title={lane ? `${verbs[action]} the webhook to ${lane.host}?` : `${verbs[action]} webhooks?`}
      action={verbs[action]}
      danger={action === 'pause'}
      run={async () => {
        const done = await call<{ changed: number; orgs: number; more: boolean }>(
          'POST',
          `/admin/v1/webhooks/lanes/${action}`,
          { body },
        )
        await client.invalidateQueries({ queryKey: ['lanes'] })
        toast.ok(
          `Changed ${plural(done.changed, 'webhook')} of ${plural(done.orgs, 'organisation')}.${done.more ? ' There are more: repeat the action.' : ''}`,
        )
      }}
    >
      <p>{sentences[action]}</p>
      {lane ? null : (
        <Notice tone="warn">
          Changes at most 1,000 webhooks{filters.state ? ` in the state “${words(filters.state).toLowerCase()}”` : ''}
          {filters.org ? ' of the selected organisation' : ' of all organisations'}. Each organisation sees the change
          in its audit log.
        </Notice>
      )}
    </Confirm>
  )
}
