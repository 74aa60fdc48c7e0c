import { useState } from 'react'
import { Link, useNavigate } from '@tanstack/react-router'
import { FileUp, Plus } from 'lucide-react'
import { keys, usePages } from '@/api/hooks'
import type { Job } from '@/api/types'
import { useFilters } from '@/lib/filters'
import { shortId } from '@/lib/format'
import { useWhyNot } from '@/shell/session'
import { Button, Card, Chips, Code, Empty, More, NoMatch, PageHead, Query, Table, Time, type Column } from '@/ui'
import { BulkDialog } from './BulkDialog'
import { ExportDialog } from './ExportDialog'
import { DownloadResult, JobState, ProgressBar, refreshOf, useCancel, useLiveJobs } from './parts'
import { isActive, kindWords, progressText, timeText, titleOf } from './words'

/** The jobs of the organisation: work that is longer than a call. */
export default function Jobs() {
  const f = useFilters({ kind: '' })
  const navigate = useNavigate()
  const why = useWhyNot('sdk:call', 'start jobs')
  const cancel = useCancel()
  const [starting, setStarting] = useState<'export' | 'bulk' | null>(null)
  const [every, setEvery] = useState(60_000)
  useLiveJobs()
  const list = usePages(
    keys.jobs(f.values),
    '/v1/jobs',
    f.values,
    (p: { jobs: Job[] | null; nextCursor: string | null }) => p.jobs,
    { refetchInterval: every },
  )
  const rows = list.rows ?? []
  const next = refreshOf(rows)
  if (next !== every) setEvery(next)
  const open = (id: string) => void navigate({ to: '/jobs/$id', params: { id } as never })
  const columns: Column<Job>[] = [
    {
      key: 'job',
      head: 'Job',
      cell: (j) => (
        <div className="min-w-0 max-w-44 sm:max-w-64">
          <Link
            to="/jobs/$id"
            params={{ id: j.id }}
            className="block truncate leading-6 font-medium hover:underline"
            title={titleOf(j)}
          >
            {titleOf(j)}
          </Link>
          <span className="font-mono text-xs text-mute">{shortId(j.id)}</span>
        </div>
      ),
    },
    {
      key: 'state',
      head: 'State',
      cell: (j) => (
        <>
          <JobState job={j} />
          {isActive(j) ? <div className="mt-0.5 text-xs text-mute sm:hidden">{j.progress.percent}%</div> : null}
        </>
      ),
    },
    {
      key: 'progress',
      head: 'Progress',
      from: 'sm',
      className: 'w-2/5',
      cell: (j) => (
        <div className="min-w-32">
          <ProgressBar job={j} label={`Progress of ${titleOf(j)}, ${shortId(j.id)}`} />
          <div className="mt-0.5 text-xs text-mute">
            {progressText(j)}
            {isActive(j) ? ` · ${timeText(j)}` : ''}
          </div>
        </div>
      ),
    },
    {
      key: 'created',
      head: 'Started',
      from: 'lg',
      cell: (j) => <Time at={j.createdAt} className="whitespace-nowrap text-mute" />,
    },
    {
      key: 'action',
      head: <span className="sr-only">Action</span>,
      align: 'right',
      from: 'md',
      cell: (j) =>
        isActive(j) ? (
          <Button
            size="sm"
            why={why}
            busy={cancel.isPending && cancel.variables === j.id}
            onClick={() => cancel.mutate(j.id)}
          >
            Cancel
          </Button>
        ) : j.result ? (
          <DownloadResult job={j} size="sm" />
        ) : null,
    },
  ]
  const actions = (
    <>
      <Button icon={<FileUp className="size-4" aria-hidden />} why={why} onClick={() => setStarting('bulk')}>
        New bulk job
      </Button>
      <Button
        variant="primary"
        icon={<Plus className="size-4" aria-hidden />}
        why={why}
        onClick={() => setStarting('export')}
      >
        New export
      </Button>
    </>
  )
  return (
    <>
      <PageHead title="Jobs" hint="Work on many accounts, in the background" actions={actions} />
      <Card flush>
        <div className="border-b px-4 py-3">
          <Chips
            label="Kind"
            value={f.values.kind}
            onChange={(kind) => f.set({ kind })}
            items={[
              { value: '', label: 'All' },
              ...Object.entries(kindWords).map(([value, label]) => ({ value, label })),
            ]}
          />
        </div>
        <Query query={list} what="the jobs">
          {() =>
            rows.length === 0 ? (
              f.active ? (
                <NoMatch title="No jobs of this kind" onClear={f.clear} />
              ) : (
                <Empty title="No jobs yet" action={actions}>
                  An export reads every page of a list on many accounts. A bulk job makes one call for each line of a
                  file. Or use the command line:
                  <div className="mt-3 text-left">
                    <Code code="stagedoor export fans.list --all-accounts -o fans.ndjson.gz" label="command" wrap />
                  </div>
                </Empty>
              )
            ) : (
              <>
                <Table label="Jobs" columns={columns} rows={rows} rowKey={(j) => j.id} />
                <More shown={rows.length} what={rows.length === 1 ? 'job' : 'jobs'} query={list} />
              </>
            )
          }
        </Query>
      </Card>
      {starting === 'export' ? <ExportDialog onClose={() => setStarting(null)} onStarted={open} /> : null}
      {starting === 'bulk' ? <BulkDialog onClose={() => setStarting(null)} onStarted={open} /> : null}
    </>
  )
}
