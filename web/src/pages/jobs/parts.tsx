import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Download } from 'lucide-react'
import { api, download } from '@/api/client'
import { useEvents } from '@/api/hooks'
import type { Job } from '@/api/types'
import { cx } from '@/lib/cx'
import { useWhyNot } from '@/shell/session'
import { Badge, Button, toast, type Size } from '@/ui'
import { isActive, stateOf } from './words'

export function JobState({ job }: { job: Job }) {
  const { tone, text } = stateOf(job)
  return (
    <Badge tone={tone} dot>
      {text}
    </Badge>
  )
}

const bars = { neutral: 'bg-mute', ok: 'bg-ok', warn: 'bg-warn', bad: 'bg-bad', info: 'bg-accent', accent: 'bg-accent' }

/** How far a job is. */
export function ProgressBar({ job, label }: { job: Job; label: string }) {
  const { percent } = job.progress
  return (
    <div className="flex items-center gap-2">
      <div
        role="progressbar"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={percent}
        className="h-1.5 min-w-16 flex-1 overflow-hidden rounded-full bg-subtle"
      >
        <div
          className={cx('h-full rounded-full transition-[width]', bars[stateOf(job).tone])}
          style={{ width: `${percent}%` }}
        />
      </div>
      <span className="w-9 shrink-0 text-right font-mono text-xs text-mute">{percent}%</span>
    </div>
  )
}

/** Refetches jobs when one ends. While one runs, lists and details poll: progress has no events. */
export function useLiveJobs(): void {
  const client = useQueryClient()
  useEvents((batch) => {
    if (batch.some((e) => e.event.startsWith('job.'))) void client.invalidateQueries({ queryKey: ['jobs'] })
  })
}

/** How often a view with these jobs is refreshed, in ms. */
export const refreshOf = (jobs: readonly Job[]): number => (jobs.some(isActive) ? 5_000 : 60_000)

export function useCancel() {
  const client = useQueryClient()
  return useMutation({
    mutationFn: (id: string) => api.delete('/v1/jobs/{id}', { path: { id } }),
    onSuccess: () => toast.ok('Job cancelled. What it has written so far can be downloaded.'),
    onError: toast.problem,
    onSettled: () => client.invalidateQueries({ queryKey: ['jobs'] }),
  })
}

/** Downloads the result of a job, as far as it is written. */
export function DownloadResult({ job, size = 'md', primary }: { job: Job; size?: Size; primary?: boolean }) {
  const why = useWhyNot('sdk:call', 'download results')
  const get = useMutation({
    mutationFn: () => download(`/v1/jobs/${job.id}/result`, {}, 'application/gzip', `${job.id}.ndjson.gz`),
    onError: toast.problem,
  })
  return (
    <Button
      size={size}
      variant={primary ? 'primary' : 'secondary'}
      icon={<Download className="size-4" aria-hidden />}
      why={why}
      busy={get.isPending}
      onClick={() => get.mutate()}
    >
      {isActive(job) ? 'Download so far' : 'Download'}
    </Button>
  )
}
