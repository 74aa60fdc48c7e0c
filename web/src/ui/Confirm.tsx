import { useState, type ReactNode } from 'react'
import { isProblem } from '@/api/client'
import { Button } from './Button'
import { Dialog } from './Dialog'
import { Field } from './Field'
import { Input } from './Input'
import { Notice } from './Notice'

export interface ConfirmProps {
  open: boolean
  onOpenChange: (open: boolean) => void
  title: ReactNode
  /** What will happen, and what is kept. */
  children: ReactNode
  /** The verb on the button. */
  action: string
  danger?: boolean
  /** Text that the user must type to enable the button: for actions that cannot be undone. */
  typed?: string
  run: () => Promise<unknown>
}

/** Asks before an action that is hard to undo. Stays open and shows the error if the action fails. */
export function Confirm({ open, onOpenChange, title, children, action, danger, typed, run }: ConfirmProps) {
  const [text, setText] = useState('')
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string | null>(null)
  const close = (next: boolean) => {
    if (busy) return
    setText('')
    setError(null)
    onOpenChange(next)
  }
  const go = async () => {
    setBusy(true)
    setError(null)
    try {
      await run()
      setText('')
      onOpenChange(false)
    } catch (e) {
      setError(isProblem(e) ? e.detail : 'Something went wrong. Try again.')
    } finally {
      setBusy(false)
    }
  }
  const ready = !typed || text.trim() === typed
  return (
    <Dialog
      open={open}
      onOpenChange={close}
      title={title}
      size="sm"
      footer={
        <>
          <Button onClick={() => close(false)}>Cancel</Button>
          <Button variant={danger ? 'danger' : 'primary'} busy={busy} disabled={!ready} onClick={() => void go()}>
            {action}
          </Button>
        </>
      }
    >
      <div className="space-y-3 text-soft">{children}</div>
      {typed ? (
        <Field
          className="mt-4"
          label={
            <span className="font-normal">
              Type <strong className="font-semibold break-all">{typed}</strong> to confirm
            </span>
          }
        >
          {(p) => (
            <Input
              {...p}
              value={text}
              onChange={(e) => setText(e.target.value)}
              autoComplete="off"
              spellCheck={false}
            />
          )}
        </Field>
      ) : null}
      {error ? (
        <div className="mt-4">
          <Notice tone="bad">{error}</Notice>
        </div>
      ) : null}
    </Dialog>
  )
}
