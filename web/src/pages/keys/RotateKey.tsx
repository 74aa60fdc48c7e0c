import { useState } from 'react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api, idempotent, isProblem, type Answer } from '@/api/client'
import { keys } from '@/api/hooks'
import type { Key } from '@/api/types'
import { useWhyNot } from '@/shell/session'
import { Button, Dialog, Field, Notice, Select, Time } from '@/ui'
import { Reveal } from './NewKey'

type Rotated = Answer<'post', '/v1/me/keys/{id}/rotate'>

/** Replaces a key by a new one with the same rights, and shows the new one once. */
export function RotateKey({ subject: k, onClose }: { subject: Key; onClose: () => void }) {
  const client = useQueryClient()
  const why = useWhyNot('me:write', 'rotate keys')
  const [key] = useState(() => crypto.randomUUID())
  const [overlap, setOverlap] = useState('3600')
  const [made, setMade] = useState<Rotated | null>(null)
  const run = useMutation({
    mutationFn: () =>
      api.post('/v1/me/keys/{id}/rotate', {
        path: { id: k.id },
        body: { overlapSec: Number(overlap) },
        headers: idempotent(key + overlap),
      }),
    onSuccess: (answer) => {
      void client.invalidateQueries({ queryKey: keys.keys })
      setMade(answer)
    },
  })
  if (made)
    return (
      <Reveal
        open
        made={made}
        onClose={onClose}
        note={
          overlap === '0' ? (
            'The old key has stopped working.'
          ) : (
            <>
              The old key works until <Time at={made.replaces.endsAt} as="exact" />. Replace it before then.
            </>
          )
        }
      />
    )
  return (
    <Dialog
      open
      onOpenChange={(o) => !o && onClose()}
      size="sm"
      title={`Rotate ${k.label || 'this key'}?`}
      description="Creates a key with the same label, rights and end. It is shown once."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" why={why} busy={run.isPending} onClick={() => run.mutate()}>
            Rotate
          </Button>
        </>
      }
    >
      <div className="space-y-3">
        <Field label="The old key still works for" hint="Until then, replace it in your programs.">
          {(p) => (
            <Select {...p} className="w-full" value={overlap} onChange={(e) => setOverlap(e.target.value)}>
              <option value="0">no time: revoke it immediately</option>
              <option value="3600">1 hour</option>
              <option value="21600">6 hours</option>
              <option value="86400">24 hours</option>
            </Select>
          )}
        </Field>
        {overlap === '0' ? (
          <Notice tone="warn">Programs that use the old key are refused until they have the new one.</Notice>
        ) : null}
        {run.error ? (
          <Notice tone="bad">{isProblem(run.error) ? run.error.detail : 'Something went wrong. Try again.'}</Notice>
        ) : null}
      </div>
    </Dialog>
  )
}
