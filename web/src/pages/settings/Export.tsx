import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { api, download, idempotent, isProblem } from '@/api/client'
import { number } from '@/lib/format'
import { useSession } from '@/shell/session'
import { Button, Card, Notice, Time, toast } from '@/ui'

const exportsKey = ['jobs', 'org_export'] as const

/** Exports everything that the service holds of the organisation, and downloads the last export. Only for owners. */
export function Export() {
  const { org } = useSession()
  const client = useQueryClient()
  const owner = org.role === 'owner'
  const last = useQuery({
    queryKey: exportsKey,
    enabled: owner,
    queryFn: async ({ signal }) =>
      (await api.get('/v1/jobs', { query: { kind: 'org_export', limit: 1 }, signal })).jobs?.[0] ?? null,
    refetchInterval: (q) => (q.state.data && !q.state.data.finishedAt ? 1000 : false),
  })
  const reload = () => client.invalidateQueries({ queryKey: exportsKey })
  const start = useMutation({
    mutationFn: () => api.post('/v1/jobs', { body: { kind: 'org_export' }, headers: idempotent() }),
    onSettled: reload,
  })
  const cancel = useMutation({
    mutationFn: (id: string) => api.delete('/v1/jobs/{id}', { path: { id } }),
    onSettled: reload,
  })
  if (!owner || org.purgeAt) return null
  const job = last.data
  const runs = Boolean(job && !job.finishedAt)
  const result = job?.result
  return (
    <Card title="Export all data">
      <p className="text-soft">
        Get everything that we hold of {org.name} as one file: accounts, members, keys, webhooks, events, deliveries,
        requests, usage and the audit log. It has no secrets. You are asked to sign in again.
      </p>
      {runs && job ? (
        <div className="mt-4 space-y-1" role="status">
          <progress className="w-full" max={100} value={job.progress.percent} aria-label="Progress of the export" />
          <p className="text-xs text-mute">
            {job.progress.percent} %, {number(job.progress.items)} records
          </p>
        </div>
      ) : null}
      {job?.error ? (
        <div className="mt-4">
          <Notice tone="bad">The last export failed. {job.error.detail}</Notice>
        </div>
      ) : null}
      {isProblem(start.error) ? (
        <div className="mt-4">
          <Notice tone="bad">{start.error.detail}</Notice>
        </div>
      ) : null}
      <div className="mt-4 flex flex-wrap items-center gap-2">
        {runs && job ? (
          <Button busy={cancel.isPending} onClick={() => cancel.mutate(job.id)}>
            Cancel
          </Button>
        ) : (
          <Button busy={start.isPending} onClick={() => start.mutate()}>
            Export all data
          </Button>
        )}
        {result && job ? (
          <>
            <Button
              variant="primary"
              onClick={() =>
                void download(`/v1/jobs/${job.id}/result`, {}, 'application/gzip', `${org.id}.ndjson.gz`).catch(
                  toast.problem,
                )
              }
            >
              Download
            </Button>
            <span className="text-xs text-mute">
              {number(job.progress.items)} records, available until <Time at={result.expiresAt} />
            </span>
          </>
        ) : null}
      </div>
    </Card>
  )
}
