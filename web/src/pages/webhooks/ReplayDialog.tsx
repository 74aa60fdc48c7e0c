import { useState } from 'react'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { call, isProblem } from '@/api/client'
import { plural } from '@/lib/format'
import { AccountPicker } from '@/ui/AccountPicker'
import { Button, Checkbox, Dialog, Field, Input, Notice, Select, Skeleton, toast } from '@/ui'
import { eventList } from './hook'
import { pathOf, type Target } from './target'

interface Answer {
  replay: {
    id: string
    /** Of an endpoint: how many events are sent. */
    events?: number
    /** Of an account: the first and the last event. */
    from?: string
    to?: string
  }
}

const spans: [string, string][] = [
  ['1', 'the last hour'],
  ['24', 'the last 24 hours'],
  ['168', 'the last 7 days'],
  ['', 'a specific time…'],
]

// The server stops counting here.
const counted = 10_000

/** How many events a replay sends, in words. */
function amount(of: Target, { replay: r }: Answer, filtered: boolean): string {
  if (of.kind === 'endpoint')
    return (r.events ?? 0) >= counted ? `${plural(counted, 'event')} or more` : plural(r.events ?? 0, 'event')
  const many = Math.max(0, Number(r.to) - Number(r.from) + 1)
  return filtered && many > 0 ? `up to ${plural(many, 'event')}` : plural(many, 'event')
}

/** Sends events of a period again. Says first how many there are. */
export function ReplayDialog({ of, onClose }: { of: Target; onClose: () => void }) {
  const client = useQueryClient()
  const [opened] = useState(() => Date.now())
  const [span, setSpan] = useState('24')
  const [from, setFrom] = useState('')
  const [to, setTo] = useState('')
  const [kinds, setKinds] = useState('')
  const [account, setAccount] = useState<string | null>(null)
  const [failed, setFailed] = useState(of.kind === 'account')
  const since = span ? new Date(opened - Number(span) * 3_600_000) : from ? new Date(from) : null
  const events = eventList(kinds)
  const body = since && {
    fromTime: since.toISOString(),
    ...(to ? { toTime: new Date(to).toISOString() } : {}),
    ...(events.length ? { events } : {}),
    ...(account ? { accountIds: [account] } : {}),
    ...(of.kind === 'account' && failed ? { onlyFailed: true } : {}),
  }
  const path = pathOf(of) + '/replay'
  const preview = useQuery({
    queryKey: ['replay', of.id, body],
    queryFn: ({ signal }) => call<Answer>('POST', path, { body: { ...body, dryRun: true }, signal }),
    enabled: body !== null,
    staleTime: 30_000,
    retry: false,
  })
  const run = useMutation({
    mutationFn: () => call<Answer>('POST', path, { body }),
    onSuccess: () => {
      toast.ok('Replay started. Its deliveries appear in the log.')
      setTimeout(() => void client.invalidateQueries({ queryKey: ['deliveries', of.id] }), 2500)
      onClose()
    },
  })
  const error = run.error ?? preview.error
  const bad = error && isProblem(error) ? error : null
  const filtered = failed || events.length > 0
  return (
    <Dialog
      open
      onOpenChange={(o) => !o && onClose()}
      size="sm"
      title="Replay"
      description="Sends events from the log again, with their original bytes and ids, alongside live events."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            variant="primary"
            why={body === null ? 'Enter a time' : null}
            busy={run.isPending}
            onClick={() => run.mutate()}
          >
            Replay
          </Button>
        </>
      }
    >
      <div className="space-y-3">
        <Field label="From">
          {(p) => (
            <Select {...p} className="w-full" value={span} onChange={(e) => setSpan(e.target.value)}>
              {spans.map(([v, text]) => (
                <option key={v} value={v}>
                  {text}
                </option>
              ))}
            </Select>
          )}
        </Field>
        {span === '' ? (
          <div className="grid gap-3 sm:grid-cols-2">
            <Field label="Since" hint="In your local time" error={bad?.field('fromTime')}>
              {(p) => <Input {...p} type="datetime-local" value={from} onChange={(e) => setFrom(e.target.value)} />}
            </Field>
            <Field label="Until" note="optional" error={bad?.field('toTime')}>
              {(p) => <Input {...p} type="datetime-local" value={to} onChange={(e) => setTo(e.target.value)} />}
            </Field>
          </div>
        ) : null}
        <Field
          label="Events"
          note="optional"
          hint="Names, and wildcards such as message*"
          error={bad?.field('events') ?? (bad?.code === 'unknown-event' ? bad.detail : undefined)}
        >
          {(p) => (
            <Input
              {...p}
              mono
              spellCheck={false}
              placeholder="all"
              value={kinds}
              onChange={(e) => setKinds(e.target.value)}
            />
          )}
        </Field>
        {of.kind === 'endpoint' ? (
          <Field label="Account">
            {({ id, 'aria-describedby': described }) => (
              <AccountPicker
                id={id}
                aria-describedby={described}
                none="All accounts"
                value={account}
                onChange={(v) => setAccount(v)}
              />
            )}
          </Field>
        ) : (
          <Checkbox
            label="Only failed events"
            hint="Only events that were never delivered successfully."
            checked={failed}
            onChange={(e) => setFailed(e.target.checked)}
          />
        )}
        <div role="status">
          {preview.data ? (
            <Notice tone="info">
              This sends <strong>{amount(of, preview.data, filtered)}</strong>.
            </Notice>
          ) : preview.isFetching ? (
            <Skeleton className="h-9 w-full" />
          ) : null}
        </div>
        {bad && !bad.problem.errors?.length && bad.code !== 'unknown-event' ? (
          <Notice tone="bad">{bad.detail}</Notice>
        ) : null}
      </div>
    </Dialog>
  )
}
