import { useState } from 'react'
import { useMutation } from '@tanstack/react-query'
import { call, isProblem } from '@/api/client'
import { Button, Dialog, Field, Notice, Select } from '@/ui'
import { pathOf, type Target } from './target'

/** What is known of a webhook or endpoint whose secret was rotated. */
export interface Rotated {
  signingSecret?: string
  previousSecretUntil?: string | null
}

/** Asks how long the old secret also signs, and rotates it. */
export function Rotate({ of, onClose, onDone }: { of: Target; onClose: () => void; onDone: (made: Rotated) => void }) {
  const [overlap, setOverlap] = useState('86400')
  const run = useMutation({
    mutationFn: async () => {
      const made = await call<{ webhook?: Rotated; endpoint?: Rotated }>('POST', pathOf(of) + '/rotate-secret', {
        body: { overlapSec: Number(overlap) },
      })
      return (made.webhook ?? made.endpoint) as Rotated
    },
    onSuccess: onDone,
  })
  return (
    <Dialog
      open
      onOpenChange={(o) => !o && onClose()}
      size="sm"
      title="Rotate the signing secret"
      description="The new secret signs from now on. It is shown once."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" busy={run.isPending} onClick={() => run.mutate()}>
            Rotate
          </Button>
        </>
      }
    >
      <div className="space-y-3">
        <Field
          label="The old secret also signs for"
          hint="In X-Webhook-Signature-Previous, and as a second webhook-signature"
        >
          {(p) => (
            <Select {...p} className="w-full" value={overlap} onChange={(e) => setOverlap(e.target.value)}>
              <option value="0">no overlap</option>
              <option value="3600">1 hour</option>
              <option value="86400">24 hours</option>
              <option value="604800">7 days</option>
            </Select>
          )}
        </Field>
        {overlap === '0' ? (
          <Notice tone="warn">
            Until your receiver has the new secret, it refuses deliveries. We retry them later.
          </Notice>
        ) : null}
        {run.error ? (
          <Notice tone="bad">{isProblem(run.error) ? run.error.detail : 'Something went wrong. Try again.'}</Notice>
        ) : null}
      </div>
    </Dialog>
  )
}
