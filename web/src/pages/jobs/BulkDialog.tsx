import { useState } from 'react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { FileUp } from 'lucide-react'
import { api, call, fill, idempotent, isProblem } from '@/api/client'
import type { Job } from '@/api/types'
import { bytes, plural } from '@/lib/format'
import { Button, Code, Dialog, Field, Notice, toast } from '@/ui'
import { Speed } from './ExportDialog'
import { MethodField } from './MethodField'
import { checkItems } from './words'

const mostBytes = 64 * 1024 * 1024

interface Chosen {
  file: File
  items: number
  fault: string | null
}

/** Starts a bulk job: one call for each line of a file. */
export function BulkDialog({ onClose, onStarted }: { onClose: () => void; onStarted: (id: string) => void }) {
  const client = useQueryClient()
  const [key] = useState(() => crypto.randomUUID())
  const [method, setMethod] = useState('')
  const [chosen, setChosen] = useState<Chosen | null>(null)
  const [share, setShare] = useState('0.5')
  // The job that waits for its items: after a refused file, the next one is uploaded to the same job.
  const [waiting, setWaiting] = useState<{ id: string; method: string; share: string } | null>(null)
  const discard = (id: string) => api.delete('/v1/jobs/{id}', { path: { id } }).catch(() => {})
  const start = useMutation({
    mutationFn: async () => {
      let id = waiting?.id
      if (waiting && (waiting.method !== method || waiting.share !== share)) {
        await discard(waiting.id)
        id = undefined
      }
      if (!id) {
        const body = { kind: 'bulk' as const, method, ...(share === '0.5' ? {} : { share: Number(share) }) }
        id = (await api.post('/v1/jobs', { body, headers: idempotent(key + method + share) })).job.id
        setWaiting({ id, method, share })
      }
      const { job } = await call<{ job: Job }>('PUT', fill('/v1/jobs/{id}/items', { id }), {
        ...(chosen ? { file: chosen.file } : {}),
        headers: { 'Content-Type': 'application/x-ndjson' },
      })
      return job
    },
    onSuccess: (job) => {
      void client.invalidateQueries({ queryKey: ['jobs'] })
      toast.ok('Bulk job started')
      onClose()
      onStarted(job.id)
    },
  })
  const close = () => {
    if (waiting && !start.isPending)
      void discard(waiting.id).then(() => client.invalidateQueries({ queryKey: ['jobs'] }))
    onClose()
  }
  const choose = async (file: File | undefined) => {
    start.reset()
    if (!file) return setChosen(null)
    if (file.size > mostBytes) return setChosen({ file, items: 0, fault: 'The file is larger than 64 MB.' })
    setChosen({ file, ...checkItems(await file.text()) })
  }
  const error = start.error && isProblem(start.error) ? start.error : null
  const fields = error?.problem.errors ?? []
  const missing = !method ? 'Choose a method' : !chosen ? 'Choose a file' : chosen.fault
  return (
    <Dialog
      open
      onOpenChange={(o) => !o && close()}
      size="lg"
      title="New bulk job"
      description="Makes one call for each line of a file, and never makes it twice. Calls of one account are made in the order of its lines."
      footer={
        <>
          <Button onClick={close}>Cancel</Button>
          <Button variant="primary" why={missing} busy={start.isPending} onClick={() => start.mutate()}>
            {chosen && !chosen.fault ? `Start ${plural(chosen.items, 'call')}` : 'Start'}
          </Button>
        </>
      }
    >
      <div className="space-y-4">
        <MethodField
          access="all"
          value={method}
          onChange={(m) => setMethod(m)}
          error={error?.field('method') ?? (error?.code === 'method-not-found' ? error.detail : undefined)}
        />
        <Field
          label="Items"
          hint="A file with a line of JSON for each call, up to 100,000 lines and 64 MB"
          error={chosen?.fault ?? undefined}
        >
          {(p) => (
            <input
              {...p}
              type="file"
              accept=".ndjson,.jsonl,.json,.txt,application/x-ndjson"
              className="block w-full min-w-0 text-sm file:mr-3 file:h-8 file:rounded-lg file:border file:border-line-strong file:bg-panel file:px-3 file:font-medium file:text-fg hover:file:bg-subtle"
              onChange={(e) => void choose(e.target.files?.[0])}
            />
          )}
        </Field>
        {chosen && !chosen.fault ? (
          <Notice tone="info" icon={<FileUp className="size-4" aria-hidden />}>
            {plural(chosen.items, 'item')}, {bytes(chosen.file.size)}. All are checked before the job starts.
          </Notice>
        ) : (
          <Code
            label="example"
            wrap
            code={
              '{"accountId": "acct_01j9zq4c8wfx2v7t5n3b6m1k0r", "args": {"chatId": "3438267820000000001", "text": "Thank you!"}}'
            }
          />
        )}
        <Speed value={share} onChange={setShare} />
        {error && error.code !== 'method-not-found' && !error.field('method') ? (
          <Notice tone="bad">
            {error.detail}
            {fields.length ? (
              <ul className="mt-1 max-h-40 overflow-y-auto">
                {fields.slice(0, 20).map((f) => (
                  <li key={f.pointer + f.code} className="break-words">
                    <code className="text-xs">{f.pointer}</code> {f.detail}
                  </li>
                ))}
              </ul>
            ) : null}
            {error.requestId ? <code className="block text-xs">{error.requestId}</code> : null}
          </Notice>
        ) : null}
      </div>
    </Dialog>
  )
}
