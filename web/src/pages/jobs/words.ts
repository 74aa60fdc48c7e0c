import type { Job } from '@/api/types'
import { duration, number, plural, words } from '@/lib/format'
import type { Tone } from '@/ui/Notice'

export const kindWords: Record<string, string> = {
  export: 'Export',
  bulk: 'Bulk calls',
  org_export: 'Export of the organisation',
}

const states: Record<string, { tone: Tone; text: string }> = {
  queued: { tone: 'neutral', text: 'Queued' },
  running: { tone: 'info', text: 'Running' },
  paused_by_limit: { tone: 'warn', text: 'Waiting for a limit' },
  completed: { tone: 'ok', text: 'Completed' },
  completed_with_errors: { tone: 'warn', text: 'Completed with errors' },
  failed: { tone: 'bad', text: 'Failed' },
  cancelled: { tone: 'neutral', text: 'Cancelled' },
}

export function stateOf(job: Pick<Job, 'state'>): { tone: Tone; text: string } {
  return states[job.state] ?? { tone: 'neutral', text: words(job.state) }
}

export function titleOf(job: Pick<Job, 'kind' | 'method'>): string {
  const kind = kindWords[job.kind] ?? words(job.kind)
  return job.method ? `${kind}: ${job.method}` : kind
}

/** Reports whether a job still runs or waits. */
export const isActive = (job: Pick<Job, 'finishedAt'>): boolean => job.finishedAt === null

/** What was done so far, in one line. */
export function progressText({ kind, progress: p }: Job): string {
  return [
    p.accountsTotal > 0 && kind !== 'org_export'
      ? `${number(p.accountsDone)} of ${plural(p.accountsTotal, 'account')}`
      : '',
    kind === 'bulk' ? `${plural(p.items, 'call')} done` : plural(p.items, 'line'),
    p.failed > 0 ? `${number(p.failed)} failed` : '',
  ]
    .filter(Boolean)
    .join(' · ')
}

/** How long it still takes, or how long it took. */
export function timeText(job: Job): string {
  if (job.estimateSec !== null) return `about ${duration(job.estimateSec)} left`
  if (job.finishedAt) return `took ${duration((Date.parse(job.finishedAt) - Date.parse(job.createdAt)) / 1000)}`
  return job.state === 'queued' ? 'not started yet' : 'no estimate yet'
}

/** The fault of an items file that can be found without the server: its first bad line; null if there is none. */
export function checkItems(text: string): { items: number; fault: string | null } {
  let items = 0
  let line = 0
  for (const one of text.split('\n')) {
    line++
    if (one.trim() === '') continue
    items++
    let value: unknown
    try {
      value = JSON.parse(one)
    } catch {
      return { items, fault: `Line ${line} is not JSON.` }
    }
    const account = value && typeof value === 'object' ? (value as Record<string, unknown>)['accountId'] : undefined
    if (typeof account !== 'string') return { items, fault: `Line ${line} has no accountId.` }
  }
  if (items === 0) return { items, fault: 'The file has no items.' }
  if (items > 100_000) return { items, fault: 'The file has more than 100,000 items.' }
  return { items, fault: null }
}
