import { useState, type ReactNode } from 'react'
import { Link } from '@tanstack/react-router'
import { isProblem } from '@/api/client'
import { Badge, Button, Dialog, Field, Notice, Textarea, stateTone, type Tone } from '@/ui'
import { words } from '@/lib/format'
import type { OrgRef } from './types'

/** Links to an organisation by its name. */
export function OrgLink({ org }: { org: OrgRef }) {
  return (
    <Link
      to="/orgs/$id"
      params={{ id: org.id } as never}
      className="line-clamp-2 font-medium text-fg hover:underline"
      title={org.id}
      onClick={(e) => e.stopPropagation()}
    >
      {org.name || org.id}
    </Link>
  )
}

const jobTones: Record<string, Tone> = {
  available: 'info',
  running: 'accent',
  retryable: 'warn',
  scheduled: 'neutral',
  completed: 'ok',
  cancelled: 'neutral',
  discarded: 'bad',
  pending: 'neutral',
}

/** The state of a lane, a job or a listener: a word and a dot. */
export function Stage({ state }: { state: string }) {
  return (
    <Badge tone={jobTones[state] ?? stateTone(state)} dot>
      {words(state)}
    </Badge>
  )
}

/** Asks for a reason before an action; the reason is logged. Stays open and shows the error if the action fails. */
export function WithReason({
  open,
  onOpenChange,
  title,
  action,
  danger,
  hint,
  children,
  run,
}: {
  open: boolean
  onOpenChange: (open: boolean) => void
  title: ReactNode
  action: string
  danger?: boolean
  /** Says who can read the reason. */
  hint: string
  children?: ReactNode
  run: (reason: string) => Promise<unknown>
}) {
  const [reason, setReason] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<unknown>(null)
  const close = (next: boolean) => {
    if (busy) return
    setReason('')
    setError(null)
    onOpenChange(next)
  }
  const go = async () => {
    setBusy(true)
    setError(null)
    try {
      await run(reason.trim())
      setReason('')
      onOpenChange(false)
    } catch (e) {
      setError(e)
    } finally {
      setBusy(false)
    }
  }
  const field = isProblem(error) ? error.field('reason') : undefined
  return (
    <Dialog
      open={open}
      onOpenChange={close}
      title={title}
      size="sm"
      footer={
        <>
          <Button onClick={() => close(false)}>Cancel</Button>
          <Button
            variant={danger ? 'danger' : 'primary'}
            busy={busy}
            disabled={reason.trim().length < 3}
            onClick={() => void go()}
          >
            {action}
          </Button>
        </>
      }
    >
      <div className="space-y-3 text-soft">{children}</div>
      <Field className="mt-4" label="Reason" hint={hint} error={field} required>
        {(p) => (
          <Textarea
            {...p}
            value={reason}
            maxLength={500}
            onChange={(e) => setReason(e.target.value)}
            placeholder="Ticket 1423: …"
          />
        )}
      </Field>
      {error && !field ? (
        <div className="mt-4">
          <Notice tone="bad">{isProblem(error) ? error.detail : 'Something went wrong. Try again.'}</Notice>
        </div>
      ) : null}
    </Dialog>
  )
}
