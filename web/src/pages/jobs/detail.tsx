import type { ReactNode } from 'react'
import { Link, useParams } from '@tanstack/react-router'
import { useQuery } from '@tanstack/react-query'
import { api, isProblem } from '@/api/client'
import { keys } from '@/api/hooks'
import { number } from '@/lib/format'
import { snippets } from '@/lib/snippets'
import { useWhyNot } from '@/shell/session'
import {
  Button,
  ButtonLink,
  Card,
  CodeBlock,
  Empty,
  Facts,
  Failed,
  Id,
  Notice,
  PageHead,
  ProblemDoc,
  SkeletonRows,
  Time,
} from '@/ui'
import { DownloadResult, JobState, ProgressBar, refreshOf, useCancel, useLiveJobs } from './parts'
import { isActive, progressText, timeText, titleOf } from './words'

/** One job: how far it is, why it failed, and its result. */
export default function JobPage() {
  const { id } = useParams({ strict: false }) as { id: string }
  const why = useWhyNot('sdk:call', 'cancel jobs')
  const cancel = useCancel()
  useLiveJobs()
  const query = useQuery({
    queryKey: keys.job(id),
    queryFn: async ({ signal }) => (await api.get('/v1/jobs/{id}', { path: { id }, signal })).job,
    refetchInterval: (q) => (q.state.data ? refreshOf([q.state.data]) : false),
  })
  const job = query.data
  const gone = query.isError && isProblem(query.error) && query.error.notFound
  const facts: [ReactNode, ReactNode][] = job
    ? [
        ['Done', progressText(job)],
        ['Time', timeText(job)],
        ['Started', <Time key="s" at={job.createdAt} as="exact" />],
        ...(job.finishedAt
          ? ([['Ended', <Time key="e" at={job.finishedAt} as="exact" />]] as [ReactNode, ReactNode][])
          : []),
        ...(job.result
          ? ([
              [
                'Result',
                <span key="r">
                  available until <Time at={job.result.expiresAt} as="exact" />
                </span>,
              ],
            ] as [ReactNode, ReactNode][])
          : []),
      ]
    : []
  return (
    <>
      <PageHead
        title={
          job ? (
            <>
              <span className="min-w-0 break-words">{titleOf(job)}</span>
              <JobState job={job} />
            </>
          ) : (
            'Job'
          )
        }
        back={
          <Link to="/jobs" className="link">
            ← Jobs
          </Link>
        }
        hint={<Id id={id} />}
        actions={
          job ? (
            <>
              {isActive(job) ? (
                <Button why={why} busy={cancel.isPending} onClick={() => cancel.mutate(job.id)}>
                  Cancel
                </Button>
              ) : null}
              {job.result || (isActive(job) && job.progress.items > 0) ? <DownloadResult job={job} primary /> : null}
            </>
          ) : undefined
        }
      />
      {job ? (
        <div className="space-y-3">
          <Card title="Progress">
            <div className="space-y-3">
              <ProgressBar job={job} label="Progress" />
              {job.state === 'paused_by_limit' ? (
                <Notice tone="warn">
                  The job waits for a limit per minute, or because the platform asked for a pause. It continues by
                  itself. A job uses at most half of each limit.
                </Notice>
              ) : null}
              {job.state === 'completed_with_errors' ? (
                <Notice tone="warn">
                  {number(job.progress.failed)} failed. Their lines in the result have a <code>problem</code>.
                </Notice>
              ) : null}
              <Facts items={facts} />
            </div>
          </Card>
          {job.error ? (
            <Card title="Why it failed">
              <Notice tone="bad" className="mb-3">
                {job.error.detail} <code className="text-xs">{job.error.code}</code>
              </Notice>
              <ProblemDoc code={job.error.code} />
            </Card>
          ) : null}
          <Card title="The same with the API">
            <CodeBlock
              snippets={snippets({ method: 'GET', path: `/v1/jobs/${job.id}${isActive(job) ? '' : '/result'}` })}
            />
          </Card>
        </div>
      ) : gone ? (
        <Card>
          <Empty title="Job not found" action={<ButtonLink to="/jobs">Jobs</ButtonLink>}>
            Jobs are kept for 30 days after they are over. This one may also belong to another organisation.
          </Empty>
        </Card>
      ) : query.isError ? (
        <Card>
          <Failed what="the job" error={query.error} retry={() => void query.refetch()} />
        </Card>
      ) : (
        <Card>
          <SkeletonRows rows={4} />
        </Card>
      )}
    </>
  )
}
