import { useState } from 'react'
import { useQueryClient } from '@tanstack/react-query'
import { call } from '@/api/client'
import {
  Button,
  Card,
  Chips,
  Confirm,
  Empty,
  More,
  NoMatch,
  PageHead,
  Query,
  SearchInput,
  Table,
  Time,
  toast,
  type Column,
} from '@/ui'
import { useFilters, useTyped } from '@/lib/filters'
import { words } from '@/lib/format'
import { useCan, useJobs } from '../hooks'
import { Stage } from '../parts'
import type { Job } from '../types'

const states = ['available', 'running', 'retryable', 'scheduled', 'discarded', 'cancelled', 'completed']

export default function Jobs() {
  const f = useFilters({ state: '', kind: '', queue: '' })
  const [kind, setKind] = useTyped(f.values.kind, (v) => f.set({ kind: v.trim() }))
  const list = useJobs(f.values)
  const [order, setOrder] = useState<{ job: Job; action: 'retry' | 'cancel' } | null>(null)
  const client = useQueryClient()
  const can = useCan('operator')
  const columns: Column<Job>[] = [
    {
      key: 'id',
      head: 'Job',
      cell: (j) => (
        <div className="min-w-0">
          <div className="font-mono text-xs break-all">{j.kind}</div>
          <div className="text-xs text-mute">
            {j.id} · {j.queue}
          </div>
        </div>
      ),
    },
    { key: 'state', head: 'State', cell: (j) => <Stage state={j.state} /> },
    { key: 'attempt', head: 'Attempt', from: 'sm', align: 'right', cell: (j) => `${j.attempt} / ${j.maxAttempts}` },
    { key: 'error', head: 'Last failure', from: 'lg', cell: (j) => (j.failedAt ? <Time at={j.failedAt} /> : '–') },
    {
      key: 'when',
      head: 'Time',
      from: 'sm',
      align: 'right',
      cell: (j) => <Time at={j.finalizedAt ?? j.attemptedAt ?? j.scheduledAt} />,
    },
    {
      key: 'act',
      head: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (j) => (
        <span className="inline-flex justify-end gap-1 max-sm:flex-col max-sm:items-end">
          {can && j.state !== 'running' && j.state !== 'available' ? (
            <Button
              size="sm"
              aria-label={`Run again: job ${j.id}`}
              onClick={() => setOrder({ job: j, action: 'retry' })}
            >
              Run again
            </Button>
          ) : null}
          {can && !['cancelled', 'completed', 'discarded'].includes(j.state) ? (
            <Button size="sm" aria-label={`Cancel job ${j.id}`} onClick={() => setOrder({ job: j, action: 'cancel' })}>
              Cancel
            </Button>
          ) : null}
        </span>
      ),
    },
  ]
  return (
    <>
      <PageHead
        title="Jobs"
        hint="Pending and recent background jobs. Arguments and errors are not shown; errors are in the logs of the nodes."
      />
      <Card
        flush
        tools={<SearchInput label="Kind" value={kind} onChange={setKind} className="w-full sm:w-64" />}
        actions={
          <Chips
            label="State"
            items={[{ value: '', label: 'All' }, ...states.map((s) => ({ value: s, label: words(s) }))]}
            value={f.values.state}
            onChange={(state) => f.set({ state })}
          />
        }
      >
        <Query query={list} what="the jobs">
          {() =>
            list.rows!.length === 0 ? (
              f.active ? (
                <NoMatch title="No job matches" onClear={f.clear} />
              ) : (
                <Empty title="No jobs yet">Changes to organisations and sign-ins create jobs.</Empty>
              )
            ) : (
              <>
                <Table dense label="Jobs" columns={columns} rows={list.rows!} rowKey={(j) => String(j.id)} />
                <More shown={list.rows!.length} what="jobs" query={list} />
              </>
            )
          }
        </Query>
      </Card>
      {order ? (
        <Confirm
          open
          onOpenChange={(o) => !o && setOrder(null)}
          title={order.action === 'retry' ? `Run job ${order.job.id} again?` : `Cancel job ${order.job.id}?`}
          action={order.action === 'retry' ? 'Run again' : 'Cancel the job'}
          danger={order.action === 'cancel'}
          run={async () => {
            await call('POST', `/admin/v1/jobs/${order.job.id}/${order.action}`)
            await client.invalidateQueries({ queryKey: ['jobs'] })
            toast.ok(order.action === 'retry' ? 'The job will run again' : 'Job cancelled')
          }}
        >
          <p>
            {order.action === 'retry'
              ? 'The job runs immediately. Running a job twice is safe: each job checks what is already done.'
              : 'The job will not run again. If it is running now, it is asked to stop.'}
          </p>
        </Confirm>
      ) : null}
    </>
  )
}
