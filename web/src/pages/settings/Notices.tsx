import { useEffect, useState } from 'react'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { api, isProblem } from '@/api/client'
import type { NoticeSettings } from '@/api/types'
import { useWhyNot } from '@/shell/session'
import { Badge, Button, Card, Checkbox, Confirm, Empty, Field, Input, Notice, Select, toast } from '@/ui'
import { Boxed } from './Boxed'

const noticesKey = ['notices'] as const

type Kind = 'webhook_failing' | 'account_attention' | 'usage' | 'key_expiring'
const kinds: { value: Kind; label: string; hint: string }[] = [
  {
    value: 'webhook_failing',
    label: 'Failing webhooks',
    hint: 'A webhook or endpoint has been failing for 10 minutes.',
  },
  {
    value: 'account_attention',
    label: 'Accounts that need a person',
    hint: 'The creator must connect again or answer a challenge, or the platform has locked the account.',
  },
  { value: 'usage', label: 'Usage', hint: '80 % and 100 % of the month’s calls are used.' },
  { value: 'key_expiring', label: 'Expiring keys', hint: 'An API key expires within days.' },
]

/** What the organisation is told by email and Slack, and who gets it. */
export function Notices() {
  const notices = useQuery({
    queryKey: noticesKey,
    queryFn: async ({ signal }) => (await api.get('/v1/org/notices', { signal })).notices,
  })
  return (
    <Boxed query={notices} what="the notices">
      {(n) => (
        <div className="grid min-w-0 items-start gap-3 lg:grid-cols-2">
          <Choices notices={n} />
          <div className="grid min-w-0 gap-3">
            <Slack notices={n} />
            <Recipients notices={n} />
          </div>
        </div>
      )}
    </Boxed>
  )
}

function Choices({ notices }: { notices: NoticeSettings }) {
  const client = useQueryClient()
  const why = useWhyNot('me:write', 'change the notices')
  const [chosen, setChosen] = useState(notices.kinds)
  const [locale, setLocale] = useState(notices.locale)
  useEffect(() => {
    setChosen(notices.kinds)
    setLocale(notices.locale)
  }, [notices])
  const save = useMutation({
    mutationFn: () =>
      api.post('/v1/org/notices', {
        body: { kinds: kinds.map((k) => k.value).filter((k) => chosen.includes(k)), locale },
      }),
    onSuccess: (now) => {
      client.setQueryData(noticesKey, now.notices)
      toast.ok('Saved')
    },
  })
  const same =
    locale === notices.locale && kinds.every((k) => chosen.includes(k.value) === notices.kinds.includes(k.value))
  return (
    <Card title="Notices" hint="At most one of each kind per hour">
      <form
        className="space-y-4"
        onSubmit={(e) => {
          e.preventDefault()
          if (!why && !same && chosen.length > 0) save.mutate()
        }}
      >
        <fieldset className="space-y-3" disabled={Boolean(why)}>
          <legend className="sr-only">Kinds of notices</legend>
          {kinds.map((k) => (
            <Checkbox
              key={k.value}
              label={k.label}
              hint={k.hint}
              checked={chosen.includes(k.value)}
              disabled={Boolean(why)}
              onChange={(e) => setChosen(e.target.checked ? [...chosen, k.value] : chosen.filter((c) => c !== k.value))}
            />
          ))}
        </fieldset>
        <Field label="Language" error={chosen.length === 0 ? 'Choose at least one kind.' : undefined}>
          {(p) => (
            <Select
              {...p}
              value={locale}
              disabled={Boolean(why)}
              onChange={(e) => setLocale(e.target.value === 'es' ? 'es' : 'en')}
            >
              <option value="en">English</option>
              <option value="es">Spanish</option>
            </Select>
          )}
        </Field>
        {isProblem(save.error) ? <Notice tone="bad">{save.error.detail}</Notice> : null}
        <Button type="submit" variant="primary" why={why} busy={save.isPending} disabled={same || chosen.length === 0}>
          Save
        </Button>
      </form>
    </Card>
  )
}

function Slack({ notices }: { notices: NoticeSettings }) {
  const client = useQueryClient()
  const why = useWhyNot('me:write', 'change the notices')
  const [url, setURL] = useState('')
  const [removing, setRemoving] = useState(false)
  const save = useMutation({
    mutationFn: () => api.post('/v1/org/notices', { body: { slackUrl: url.trim() } }),
    onSuccess: (now) => {
      client.setQueryData(noticesKey, now.notices)
      setURL('')
      toast.ok('Notices go to this URL')
    },
  })
  const problem = isProblem(save.error) ? save.error : null
  return (
    <Card title="Slack" hint="Or anything that takes Slack’s format">
      <form
        className="space-y-4"
        onSubmit={(e) => {
          e.preventDefault()
          if (!why && url.trim()) save.mutate()
        }}
      >
        {notices.slackHost ? (
          <p className="flex flex-wrap items-center justify-between gap-2">
            <span className="min-w-0 break-all">
              Notices go to <code>{notices.slackHost}</code>.
            </span>
            <Button size="sm" variant="danger" why={why} onClick={() => setRemoving(true)}>
              Remove
            </Button>
          </p>
        ) : null}
        <Field
          label={notices.slackHost ? 'New webhook URL' : 'Webhook URL'}
          hint="An incoming webhook of Slack, Mattermost or Discord (with /slack at its end). It is stored encrypted and not shown again."
          error={problem?.field('slackUrl') ?? problem?.detail}
        >
          {(p) => (
            <Input
              {...p}
              mono
              value={url}
              maxLength={2048}
              disabled={Boolean(why)}
              placeholder="https://hooks.slack.com/services/…"
              onChange={(e) => setURL(e.target.value)}
              spellCheck={false}
              autoComplete="off"
            />
          )}
        </Field>
        <Button type="submit" why={why} busy={save.isPending} disabled={url.trim() === ''}>
          {notices.slackHost ? 'Replace' : 'Add'}
        </Button>
      </form>
      <Confirm
        open={removing}
        onOpenChange={setRemoving}
        title="Stop notices to Slack?"
        action="Remove"
        danger
        run={async () => {
          const now = await api.delete('/v1/org/notices', {})
          client.setQueryData(noticesKey, now.notices)
          toast.ok('Notices are sent by email only')
        }}
      >
        <p>The URL is deleted. All kinds of notices are sent by email, in English, until you choose again.</p>
      </Confirm>
    </Card>
  )
}

function Recipients({ notices }: { notices: NoticeSettings }) {
  return (
    <Card title="Email" hint="Owners and admins; without members, the contact address">
      <div className="space-y-3">
        {notices.mail === 'not_configured' ? (
          <Notice tone="warn">
            This service has no mail server, so no emails are sent. The audit log says which ones would have been.
          </Notice>
        ) : null}
        {notices.recipients.length === 0 ? (
          <Empty title="No recipients">Invite an owner or admin, or set a contact address.</Empty>
        ) : (
          <ul className="divide-y rounded-lg border">
            {notices.recipients.map((r) => (
              <li key={r.email} className="flex items-center justify-between gap-2 px-3 py-2">
                <span className="min-w-0 break-all">{r.email}</span>
                {r.subscribed ? null : <Badge>unsubscribed</Badge>}
              </li>
            ))}
          </ul>
        )}
        <p className="text-xs text-mute">Recipients unsubscribe, and subscribe again, with the link in each email.</p>
      </div>
    </Card>
  )
}
