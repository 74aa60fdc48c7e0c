import { useState } from 'react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api, isProblem } from '@/api/client'
import { keys } from '@/api/hooks'
import type { Key } from '@/api/types'
import { useUTC } from '@/lib/clock'
import { day } from '@/lib/format'
import { useWhyNot } from '@/shell/session'
import { Button, Dialog, Field, Input, Notice, toast } from '@/ui'
import { ExpiryField, expiryOf, type Expiry } from './Expiry'
import { LimitFields, listsOf, missingIn, ScopeFields, type Limits } from './LimitFields'
import { messagesOf } from './problems'

const same = (a: readonly string[] | null | undefined, b: readonly string[] | null) =>
  JSON.stringify(a ?? null) === JSON.stringify(b)

/** Changes a key. Its scopes can only be taken away. */
export function EditKey({ subject: k, onClose }: { subject: Key; onClose: () => void }) {
  const client = useQueryClient()
  const utc = useUTC()
  const why = useWhyNot('me:write', 'change keys')
  const [label, setLabel] = useState(k.label)
  const [scopes, setScopes] = useState<ReadonlySet<string>>(new Set(k.scopes))
  const [expiry, setExpiry] = useState<Expiry>({ choice: 'keep', date: '' })
  const [limits, setLimits] = useState<Limits>({
    narrow: Boolean(k.methods),
    methods: (k.methods ?? []).join('\n'),
    limited: Boolean(k.accountIds),
    accounts: k.accountIds ?? [],
    bound: Boolean(k.allowedIps),
    networks: (k.allowedIps ?? []).join('\n'),
  })
  const kept = k.scopes.filter((s) => scopes.has(s))
  const lists = listsOf(limits)
  const expiresAt = expiryOf(expiry)
  // Only what differs is sent: a limit of the key that was not touched stays as it is.
  const body = {
    ...(label.trim() === k.label ? {} : { label: label.trim() }),
    ...(kept.length === k.scopes.length ? {} : { scopes: kept }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...(same(k.methods, lists.methods) ? {} : { methods: lists.methods }),
    ...(same(k.accountIds, lists.accountIds) ? {} : { accountIds: lists.accountIds }),
    ...(same(k.allowedIps, lists.allowedIps) ? {} : { allowedIps: lists.allowedIps }),
  }
  const save = useMutation({
    mutationFn: () => api.patch('/v1/me/keys/{id}', { path: { id: k.id }, body: body as never }),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.keys })
      toast.ok('Key changed. Every server now uses the new settings.')
      onClose()
    },
  })
  const at = messagesOf(save.error)
  const problem = isProblem(save.error) ? save.error : null
  const shown = ['label', 'scopes', 'expiresAt', 'methods', 'accountIds', 'allowedIps'].some(at)
  const missing =
    label.trim() === ''
      ? 'Enter a label.'
      : kept.length === 0
        ? 'Keep at least one scope. To end the key, revoke it.'
        : expiry.choice === 'date' && !expiry.date
          ? 'Choose an expiry date.'
          : (missingIn(limits) ?? (Object.keys(body).length === 0 ? 'Nothing has changed.' : null))
  return (
    <Dialog
      open
      onOpenChange={(o) => !o && onClose()}
      size="lg"
      title={`Edit ${k.label || 'key'}`}
      description="The change holds for all calls that start after it. The key itself stays the same."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" why={why ?? missing} busy={save.isPending} onClick={() => save.mutate()}>
            Save
          </Button>
        </>
      }
    >
      <form
        className="space-y-5"
        onSubmit={(e) => {
          e.preventDefault()
          if (!why && !missing && !save.isPending) save.mutate()
        }}
      >
        <div className="grid gap-4 sm:grid-cols-[minmax(0,1fr)_200px]">
          <Field label="Label" required error={at('label')}>
            {(p) => (
              <Input
                {...p}
                value={label}
                maxLength={120}
                onChange={(e) => setLabel(e.target.value)}
                autoComplete="off"
              />
            )}
          </Field>
          <ExpiryField
            value={expiry}
            onChange={setExpiry}
            keep={k.expiresAt ? `On ${day(new Date(k.expiresAt), utc)}, as now` : 'Never, as now'}
            error={at('expiresAt')}
          />
        </div>
        <ScopeFields
          value={new Set(kept)}
          onChange={setScopes}
          whyNot={(s) =>
            (k.scopes as readonly string[]).includes(s)
              ? null
              : 'The key does not have this scope. Scopes can only be taken away.'
          }
          error={at('scopes')}
        />
        <LimitFields value={limits} onChange={setLimits} at={at} />
        {k.inheritedMethods ? (
          <p className="text-xs text-mute">The limits of the keys from which this key was created apply as well.</p>
        ) : null}
        {problem && !shown ? <Notice tone="bad">{problem.detail}</Notice> : null}
      </form>
    </Dialog>
  )
}
