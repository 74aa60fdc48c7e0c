import { useState } from 'react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api, isProblem } from '@/api/client'
import { keys, useKinds } from '@/api/hooks'
import { useAccountPlaces } from '@/api/names'
import type { Webhook } from '@/api/types'
import { kindsOf } from '@/lib/platforms'
import { snippets } from '@/lib/snippets'
import { useWhyNot } from '@/shell/session'
import { AccountPicker } from '@/ui/AccountPicker'
import { Button, CodeBlock, Dialog, Field, Input, Notice, Select, toast } from '@/ui'
import { EventsField } from './EventsField'
import { eventList } from './hook'
import { SecretOnce } from './SecretOnce'

/** Adds a webhook to an account, or changes the one it has. */
export function HookDialog({
  account: given,
  hook,
  onClose,
  onSaved,
}: {
  account?: string
  hook?: Webhook | null
  onClose: () => void
  onSaved?: (account: string) => void
}) {
  const client = useQueryClient()
  const why = useWhyNot('webhooks:write', 'change webhooks')
  const [account, setAccount] = useState<string | null>(given ?? null)
  const [url, setURL] = useState(hook?.url ?? '')
  const [which, setWhich] = useState(hook?.events?.length ? 'some' : 'all')
  const [events, setEvents] = useState((hook?.events ?? []).join('\n'))
  const [ordering, setOrdering] = useState<'strict' | 'none'>(hook?.ordering ?? 'strict')
  const [flight, setFlight] = useState(String(hook && hook.ordering === 'none' ? hook.maxInFlight : 8))
  const [secret, setSecret] = useState('')
  const [shown, setShown] = useState<string | null>(null)
  const list = eventList(events)
  const place = useAccountPlaces()(account)
  const kinds = kindsOf(useKinds(), place?.platform ?? null)
  const body = {
    url: url.trim(),
    ...(which === 'some' && list.length ? { events: list } : {}),
    ...(ordering === 'none' ? { ordering, maxInFlight: Number(flight) || 8 } : {}),
  }
  const save = useMutation({
    mutationFn: async () =>
      (
        await api.put('/v1/accounts/{id}/webhook', {
          path: { id: account ?? '' },
          body: { ...body, ...(secret ? { signingSecret: secret } : {}) } as never,
        })
      ).webhook,
    onSuccess: (w) => {
      void client.invalidateQueries({ queryKey: ['webhooks'] })
      void client.invalidateQueries({ queryKey: keys.webhook(account ?? '') })
      void client.invalidateQueries({ queryKey: ['accounts'] })
      if (!hook && !secret && w.signingSecret) setShown(w.signingSecret)
      else {
        toast.ok(hook ? 'Saved. Failed deliveries are retried immediately.' : 'Webhook added')
        done()
      }
    },
  })
  const done = () => {
    onClose()
    if (account) onSaved?.(account)
  }
  const error = save.error && isProblem(save.error) ? save.error : null
  const missing = !account
    ? 'Choose an account'
    : !url.trim()
      ? 'Enter a URL'
      : which === 'some' && list.length === 0
        ? 'Enter at least one event'
        : null
  if (shown) return <SecretOnce secret={shown} title="Webhook added" onClose={done} />
  return (
    <Dialog
      open
      onOpenChange={(o) => !o && onClose()}
      size="lg"
      title={hook ? 'Edit webhook' : 'Add a webhook'}
      description="Sends the events of one account, signed, in order and at least once."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" why={why ?? missing} busy={save.isPending} onClick={() => save.mutate()}>
            {hook ? 'Save' : 'Add webhook'}
          </Button>
        </>
      }
    >
      <div className="space-y-4">
        {given ? null : (
          <Field label="Account" error={error?.code === 'account-not-found' ? error.detail : undefined}>
            {({ id, 'aria-describedby': described }) => (
              <AccountPicker id={id} aria-describedby={described} value={account} onChange={(v) => setAccount(v)} />
            )}
          </Field>
        )}
        <Field
          label="URL"
          hint="Use https and a public host, without a user name or password. A sandbox on your own machine also accepts http://127.0.0.1:…"
          error={error?.field('url')}
        >
          {(p) => (
            <Input
              {...p}
              mono
              type="url"
              spellCheck={false}
              placeholder="https://example.com/hooks/stagedoor"
              value={url}
              onChange={(e) => setURL(e.target.value)}
            />
          )}
        </Field>
        <EventsField
          some={which === 'some'}
          onSome={(on) => setWhich(on ? 'some' : 'all')}
          value={events}
          onChange={setEvents}
          kinds={kinds}
          error={error}
        />
        <div className="grid gap-3 sm:grid-cols-2">
          <Field
            label="Order"
            hint={ordering === 'strict' ? 'One event at a time, in order' : 'Faster; sort by meta.seq yourself'}
            error={error?.field('ordering')}
          >
            {(p) => (
              <Select
                {...p}
                className="w-full"
                value={ordering}
                onChange={(e) => setOrdering(e.target.value as 'strict')}
              >
                <option value="strict">Strict</option>
                <option value="none">As fast as possible</option>
              </Select>
            )}
          </Field>
          {ordering === 'none' ? (
            <Field label="Concurrent deliveries" hint="1 to 32" error={error?.field('maxInFlight')}>
              {(p) => (
                <Input
                  {...p}
                  type="number"
                  min={1}
                  max={32}
                  value={flight}
                  onChange={(e) => setFlight(e.target.value)}
                />
              )}
            </Field>
          ) : null}
          <Field
            label="Signing secret"
            note="optional"
            hint={hook ? 'Leave empty to keep the current one' : 'Leave empty to generate one, which is shown once'}
            error={error?.field('signingSecret')}
            className={ordering === 'none' ? 'sm:col-span-2' : ''}
          >
            {(p) => (
              <Input
                {...p}
                type="password"
                autoComplete="new-password"
                minLength={16}
                maxLength={128}
                value={secret}
                onChange={(e) => setSecret(e.target.value)}
              />
            )}
          </Field>
        </div>
        {error && !error.problem.errors?.length ? (
          <Notice tone="bad">
            {error.detail} {error.requestId ? <code className="text-xs">{error.requestId}</code> : null}
          </Notice>
        ) : null}
        <div>
          <h3 className="mb-1 font-medium">The same with the API</h3>
          <CodeBlock snippets={snippets({ method: 'PUT', path: `/v1/accounts/${account ?? '{id}'}/webhook`, body })} />
        </div>
      </div>
    </Dialog>
  )
}
