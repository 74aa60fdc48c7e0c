import { useState } from 'react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api, idempotent, isProblem } from '@/api/client'
import { usePlatforms } from '@/api/hooks'
import { snippets } from '@/lib/snippets'
import { AccountList } from '@/ui/AccountList'
import { Button, CodeBlock, Dialog, Field, Notice, Segments, Select, stateWord, Textarea, toast } from '@/ui'
import { MethodField } from './MethodField'

const states = ['active', 'degraded', 'paused', 'restricted', 'reconnect_required']

/** Parses arguments; undefined if the text is not a JSON object. */
function argsOf(text: string): Record<string, unknown> | undefined {
  if (text.trim() === '') return {}
  try {
    const value: unknown = JSON.parse(text)
    return value && typeof value === 'object' && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

/** Starts an export: every page of a read on many accounts. */
export function ExportDialog({ onClose, onStarted }: { onClose: () => void; onStarted: (id: string) => void }) {
  const client = useQueryClient()
  const { several } = usePlatforms()
  const [key] = useState(() => crypto.randomUUID())
  const [method, setMethod] = useState('')
  const [platform, setPlatform] = useState('')
  const [text, setText] = useState('')
  const [which, setWhich] = useState('all')
  const [state, setState] = useState('')
  const [accounts, setAccounts] = useState<string[]>([])
  const [share, setShare] = useState('0.5')
  const args = argsOf(text)
  const choice =
    which === 'some' ? { ids: accounts } : { ...(several && platform ? { platform } : {}), ...(state ? { state } : {}) }
  const body = {
    kind: 'export' as const,
    method,
    ...(args && Object.keys(args).length ? { args } : {}),
    ...(Object.keys(choice).length ? { accounts: choice } : {}),
    ...(share === '0.5' ? {} : { share: Number(share) }),
  }
  const start = useMutation({
    mutationFn: async () => (await api.post('/v1/jobs', { body, headers: idempotent(key) })).job,
    onSuccess: (job) => {
      void client.invalidateQueries({ queryKey: ['jobs'] })
      toast.ok('Export started')
      onClose()
      onStarted(job.id)
    },
  })
  const error = start.error && isProblem(start.error) ? start.error : null
  const fields = error?.problem.errors ?? []
  const missing = !method
    ? 'Choose a method'
    : !args
      ? 'The arguments must be a JSON object'
      : which === 'some' && accounts.length === 0
        ? 'Choose at least one account'
        : null
  return (
    <Dialog
      open
      onOpenChange={(o) => !o && onClose()}
      size="lg"
      title="New export"
      description="Reads every page of a list on many accounts, and writes one line of JSON per item."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" why={missing} busy={start.isPending} onClick={() => start.mutate()}>
            Start export
          </Button>
        </>
      }
    >
      <div className="space-y-4">
        <MethodField
          access="read"
          value={method}
          onChange={(m, p) => {
            setMethod(m)
            setPlatform(p)
          }}
          error={error?.field('method') ?? (error?.code === 'method-not-found' ? error.detail : undefined)}
        />
        <Field
          label="Arguments"
          note="optional, JSON"
          hint="Without a cursor: the export follows the pages itself."
          error={
            args === undefined
              ? 'This is not a JSON object.'
              : fields
                  .filter((f) => f.pointer.startsWith('/args'))
                  .map((f) => `${f.pointer.slice(6) || 'args'}: ${f.detail}`)
                  .join('. ') || undefined
          }
        >
          {(p) => (
            <Textarea
              {...p}
              mono
              rows={3}
              spellCheck={false}
              placeholder='{"limit": 100}'
              value={text}
              onChange={(e) => setText(e.target.value)}
            />
          )}
        </Field>
        <div className="space-y-2">
          <div className="flex flex-wrap items-center gap-3">
            <span className="font-medium">Accounts</span>
            <Segments
              label="Accounts"
              items={[
                { value: 'all', label: 'All' },
                { value: 'some', label: 'Only some' },
              ]}
              value={which}
              onChange={setWhich}
            />
            {which === 'all' ? (
              <Select aria-label="State of the accounts" value={state} onChange={(e) => setState(e.target.value)}>
                <option value="">in any state</option>
                {states.map((s) => (
                  <option key={s} value={s}>
                    {stateWord(s)}
                  </option>
                ))}
              </Select>
            ) : null}
          </div>
          {which === 'some' ? (
            <AccountList
              label="Chosen accounts"
              value={accounts}
              onChange={setAccounts}
              most={1000}
              {...(several && platform ? { platform } : {})}
              error={error?.code === 'account-not-found' ? error.detail : undefined}
            />
          ) : null}
        </div>
        <Speed value={share} onChange={setShare} />
        {error && fields.length === 0 && error.code !== 'method-not-found' && error.code !== 'account-not-found' ? (
          <Notice tone="bad">
            {error.detail} {error.requestId ? <code className="text-xs">{error.requestId}</code> : null}
          </Notice>
        ) : null}
        <div>
          <h3 className="mb-1 font-medium">The same with the API</h3>
          <CodeBlock snippets={snippets({ method: 'POST', path: '/v1/jobs', body })} />
        </div>
      </div>
    </Dialog>
  )
}

/** How much of the limits a job may use. */
export function Speed({ value, onChange }: { value: string; onChange: (share: string) => void }) {
  return (
    <Field label="Speed" hint="How much of each limit per minute the job may use. The rest stays free for your calls.">
      {(p) => (
        <Select {...p} className="w-full sm:w-60" value={value} onChange={(e) => onChange(e.target.value)}>
          <option value="0.5">Half of the limits</option>
          <option value="0.25">A quarter</option>
          <option value="0.1">A tenth</option>
        </Select>
      )}
    </Field>
  )
}
