import { useState } from 'react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api, idempotent, isProblem } from '@/api/client'
import { keys, useKinds, usePlatforms } from '@/api/hooks'
import type { Endpoint } from '@/api/types'
import { plural } from '@/lib/format'
import { snippets } from '@/lib/snippets'
import { useWhyNot } from '@/shell/session'
import { AccountList } from '@/ui/AccountList'
import { Button, Checkbox, CodeBlock, Dialog, Field, Input, Notice, Select, toast } from '@/ui'
import { EventsField } from './EventsField'
import { eventList } from './hook'
import { SecretOnce } from './SecretOnce'

const mostAccounts = 1000

/** Adds an endpoint or changes one. With `replace`, it takes over the webhooks of accounts that have this URL. */
export function EndpointDialog({
  endpoint: e,
  replace,
  onClose,
  onSaved,
}: {
  endpoint?: Endpoint
  replace?: { url: string; webhooks: number }
  onClose: () => void
  onSaved?: (id: string) => void
}) {
  const client = useQueryClient()
  const why = useWhyNot('webhooks:write', 'change webhooks')
  const platforms = usePlatforms()
  const kinds = useKinds().map((k) => k.name)
  const [key] = useState(() => crypto.randomUUID())
  const [url, setURL] = useState(e?.url ?? replace?.url ?? '')
  const [description, setDescription] = useState(e?.description ?? '')
  const [some, setSome] = useState(Boolean(e?.events?.length))
  const [events, setEvents] = useState((e?.events ?? []).join('\n'))
  const [limited, setLimited] = useState(Boolean(e?.accountIds))
  const [accounts, setAccounts] = useState<string[]>(e?.accountIds ?? [])
  const [on, setOn] = useState<string[]>(e?.platforms ?? [])
  const [ordering, setOrdering] = useState<'account' | 'none'>(e?.ordering ?? 'account')
  const [secret, setSecret] = useState('')
  const [made, setMade] = useState<Endpoint | null>(null)
  const list = eventList(events)
  const chosen = {
    events: some ? list : null,
    accountIds: limited ? accounts : null,
    platforms: on.length ? on : null,
  }
  // A new endpoint leaves out what it does not limit; a change says null.
  const given = Object.fromEntries(Object.entries(chosen).filter(([, v]) => v !== null))
  const body = {
    url: url.trim(),
    ...(e || description.trim() ? { description: description.trim() } : {}),
    ...(e ? chosen : given),
    ...(e || ordering !== 'account' ? { ordering } : {}),
    ...(replace ? { replaceWebhooks: true } : {}),
  }
  const save = useMutation({
    mutationFn: async () =>
      e
        ? (await api.patch('/v1/webhook-endpoints/{id}', { path: { id: e.id }, body })).endpoint
        : (
            await api.post('/v1/webhook-endpoints', {
              body: { ...body, ...(secret ? { signingSecret: secret } : {}) } as never,
              headers: idempotent(key),
            })
          ).endpoint,
    onSuccess: (saved) => {
      void client.invalidateQueries({ queryKey: keys.endpoints })
      void client.invalidateQueries({ queryKey: keys.endpoint(saved.id) })
      if (replace) void client.invalidateQueries({ queryKey: ['webhooks'] })
      if (!e && !secret && saved.signingSecret) return setMade(saved)
      toast.ok(e ? 'Saved. Failed deliveries are retried immediately.' : 'Endpoint added')
      done(saved)
    },
  })
  const done = (saved: Endpoint) => {
    onClose()
    onSaved?.(saved.id)
  }
  const error = save.error && isProblem(save.error) ? save.error : null
  const missing = !url.trim()
    ? 'Enter a URL'
    : some && list.length === 0
      ? 'Enter at least one event'
      : limited && accounts.length === 0
        ? 'Choose at least one account'
        : null
  if (made)
    return (
      <SecretOnce
        secret={made.signingSecret ?? ''}
        title="Endpoint added"
        note={
          replace
            ? `It took over ${plural(made.replacedWebhooks ?? 0, 'webhook')}. Their old secrets no longer sign.`
            : 'It gets events from now on. Replay sends older ones.'
        }
        onClose={() => done(made)}
      />
    )
  return (
    <Dialog
      open
      onOpenChange={(o) => !o && onClose()}
      size="lg"
      title={
        e
          ? 'Edit endpoint'
          : replace
            ? `Move ${plural(replace.webhooks, 'webhook')} to one endpoint`
            : 'Add an endpoint'
      }
      description={
        replace
          ? 'The endpoint continues where each webhook stopped. Nothing is lost; events of the last seconds may arrive twice, with the same id.'
          : 'One URL for the events of many accounts and of the organisation, signed and at least once.'
      }
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" why={why ?? missing} busy={save.isPending} onClick={() => save.mutate()}>
            {e ? 'Save' : replace ? 'Move' : 'Add endpoint'}
          </Button>
        </>
      }
    >
      <div className="space-y-4">
        {replace ? (
          <Notice tone="warn">
            The webhooks with this URL are deleted, except paused ones. Deliveries are then signed with the secret of
            the endpoint, so enter the secret that your receiver knows, or give it the new one.
          </Notice>
        ) : null}
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
              readOnly={Boolean(replace)}
              spellCheck={false}
              placeholder="https://example.com/hooks/stagedoor"
              value={url}
              onChange={(x) => setURL(x.target.value)}
            />
          )}
        </Field>
        <Field
          label="Description"
          note="optional"
          hint="What it is for, such as “CRM”."
          error={error?.field('description')}
        >
          {(p) => <Input {...p} maxLength={500} value={description} onChange={(x) => setDescription(x.target.value)} />}
        </Field>
        <EventsField some={some} onSome={setSome} value={events} onChange={setEvents} kinds={kinds} error={error} />
        <div className="space-y-2">
          <Checkbox
            label="Only some accounts"
            hint="Without a limit, it gets the events of all accounts, including new ones, and of the organisation."
            checked={limited}
            onChange={(x) => setLimited(x.target.checked)}
          />
          {limited ? (
            <AccountList
              className="pl-6"
              value={accounts}
              onChange={setAccounts}
              most={mostAccounts}
              error={error?.field('accountIds')}
            />
          ) : null}
        </div>
        {platforms.several ? (
          <fieldset>
            <legend className="mb-1 font-medium">
              Platforms <span className="text-xs font-normal text-mute">all if none is ticked</span>
            </legend>
            <div className="flex flex-wrap gap-x-4 gap-y-1">
              {platforms.list.map((p) => (
                <Checkbox
                  key={p.id}
                  label={p.name}
                  checked={on.includes(p.id)}
                  onChange={(x) => setOn(x.target.checked ? [...on, p.id] : on.filter((id) => id !== p.id))}
                />
              ))}
            </div>
          </fieldset>
        ) : null}
        <div className="grid gap-3 sm:grid-cols-2">
          <Field
            label="Order"
            hint={
              ordering === 'account' ? 'The events of an account arrive in order' : 'Faster; sort by meta.seq yourself'
            }
            error={error?.field('ordering')}
          >
            {(p) => (
              <Select
                {...p}
                className="w-full"
                value={ordering}
                onChange={(x) => setOrdering(x.target.value as 'account')}
              >
                <option value="account">Per account</option>
                <option value="none">As fast as possible</option>
              </Select>
            )}
          </Field>
          {e ? null : (
            <Field
              label="Signing secret"
              note="optional"
              hint="Leave empty to generate one, which is shown once"
              error={error?.field('signingSecret')}
            >
              {(p) => (
                <Input
                  {...p}
                  type="password"
                  autoComplete="new-password"
                  minLength={16}
                  maxLength={128}
                  value={secret}
                  onChange={(x) => setSecret(x.target.value)}
                />
              )}
            </Field>
          )}
        </div>
        {error && !error.problem.errors?.length && error.code !== 'unknown-event' ? (
          <Notice tone="bad">
            {error.detail} {error.requestId ? <code className="text-xs">{error.requestId}</code> : null}
          </Notice>
        ) : null}
        <div>
          <h3 className="mb-1 font-medium">The same with the API</h3>
          <CodeBlock
            snippets={snippets({
              method: e ? 'PATCH' : 'POST',
              path: e ? `/v1/webhook-endpoints/${e.id}` : '/v1/webhook-endpoints',
              body,
            })}
          />
        </div>
      </div>
    </Dialog>
  )
}
