import { useEffect, useState } from 'react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api, isProblem } from '@/api/client'
import { keys, useMe } from '@/api/hooks'
import type { Identity } from '@/api/types'
import { bytes, number } from '@/lib/format'
import { useSession, useWhyNot } from '@/shell/session'
import { Badge, Button, ButtonLink, Card, Confirm, Facts, Field, Id, Input, Notice, Skeleton, toast } from '@/ui'
import { Boxed } from './Boxed'
import { Export } from './Export'

export function Organisation() {
  const me = useMe()
  return (
    <Boxed
      query={me}
      what="the organisation"
      skeleton={
        <Card>
          <div className="space-y-4">
            <Skeleton className="h-8 w-full" />
            <Skeleton className="h-8 w-full" />
          </div>
        </Card>
      }
    >
      {(d) => (
        <div className="grid min-w-0 items-start gap-3 lg:grid-cols-2">
          <Names me={d} />
          <Plan me={d} />
          <Export />
          <Deletion />
        </div>
      )}
    </Boxed>
  )
}

function Names({ me }: { me: Identity }) {
  const client = useQueryClient()
  const why = useWhyNot('me:write', 'change the organisation')
  const [name, setName] = useState(me.org.name)
  const [email, setEmail] = useState(me.org.contactEmail)
  useEffect(() => {
    setName(me.org.name)
    setEmail(me.org.contactEmail)
  }, [me.org.name, me.org.contactEmail])
  const save = useMutation({
    mutationFn: () =>
      api.patch('/v1/me', {
        body: {
          ...(name.trim() !== me.org.name ? { name: name.trim() } : {}),
          ...(email.trim() !== me.org.contactEmail ? { contactEmail: email.trim() } : {}),
        },
      }),
    onSuccess: (now) => {
      client.setQueryData(keys.me, now)
      void client.invalidateQueries({ queryKey: ['session'] })
      toast.ok('Saved')
    },
  })
  const problem = isProblem(save.error) ? save.error : null
  const same = name.trim() === me.org.name && email.trim() === me.org.contactEmail
  return (
    <Card title="Organisation">
      <form
        className="space-y-4"
        onSubmit={(e) => {
          e.preventDefault()
          if (!why && !same && name.trim()) save.mutate()
        }}
      >
        <Field
          label="Name"
          hint="Creators see this name on the connect pages."
          error={name.trim() === '' ? 'Enter a name.' : problem?.field('name')}
          required
        >
          {(p) => (
            <Input
              {...p}
              value={name}
              maxLength={120}
              disabled={Boolean(why)}
              onChange={(e) => setName(e.target.value)}
            />
          )}
        </Field>
        <Field
          label="Contact email"
          hint="We use it to contact you about limits and incidents."
          error={problem?.field('contactEmail')}
        >
          {(p) => (
            <Input
              {...p}
              type="email"
              value={email}
              maxLength={254}
              disabled={Boolean(why)}
              onChange={(e) => setEmail(e.target.value)}
              placeholder="ops@example.com"
            />
          )}
        </Field>
        {problem && !problem.problem.errors?.length ? <Notice tone="bad">{problem.detail}</Notice> : null}
        <Button type="submit" variant="primary" why={why} busy={save.isPending} disabled={same || name.trim() === ''}>
          Save
        </Button>
        {why ? <p className="text-xs text-mute">{why}</p> : null}
      </form>
    </Card>
  )
}

// Deletes the organisation. While that is in progress, the banner of the shell says so and restores it.
function Deletion() {
  const { org } = useSession()
  const client = useQueryClient()
  const [asking, setAsking] = useState(false)
  if (org.role !== 'owner' || org.purgeAt) return null
  return (
    <Card title="Delete organisation">
      <p className="text-soft">
        Its keys stop working immediately, and nothing is sent or called for it any more. After 7 days everything is
        destroyed. Until then an owner can restore it here.
      </p>
      <Button className="mt-4" variant="danger" onClick={() => setAsking(true)}>
        Delete organisation
      </Button>
      <Confirm
        open={asking}
        onOpenChange={setAsking}
        title={`Delete ${org.name}?`}
        action="Delete organisation"
        danger
        typed={org.name}
        run={async () => {
          await api.delete('/v1/org', {})
          toast.ok(`${org.name} is being deleted`)
          await client.invalidateQueries()
        }}
      >
        <p>
          All keys of {org.name} are refused from now on, and webhooks and connect pages stop. For 7 days an owner can
          undo this with Restore in the dashboard.
        </p>
        <p>
          Then all of it is destroyed and cannot be brought back: connected accounts with their sessions and events,
          keys, members, usage and the audit log. What is left is a signed receipt.
        </p>
      </Confirm>
    </Card>
  )
}

const count = (n: number, unit = '') => (n < 0 ? 'no limit' : number(n) + unit)

function Plan({ me }: { me: Identity }) {
  const { org } = useSession()
  const l = me.limits
  return (
    <Card
      title="Plan"
      actions={
        <ButtonLink size="sm" to="/usage">
          Limits & usage
        </ButtonLink>
      }
    >
      <Facts
        items={[
          [
            'Plan',
            <Badge key="p" tone="accent">
              {me.org.plan}
            </Badge>,
          ],
          [
            'Environment',
            <Badge key="e" tone={org.environment === 'live' ? 'ok' : 'warn'}>
              {org.environment}
            </Badge>,
          ],
          ['Id', <Id key="i" id={me.org.id} />],
          ['Accounts', count(l.maxAccounts)],
          ['Calls', `${count(l.callsPerMinute)} per minute, ${count(l.callsPerMonth)} per month`],
          [
            'Per account',
            `${count(l.accountReadPerMinute)} reads, ${count(l.accountWritePerMinute)} writes per minute`,
          ],
          ['Connect attempts', count(l.connectAttemptsPerHour, ' per hour')],
          ['Keys', count(l.maxKeys)],
          ['Event retention', count(l.eventRetentionDays, ' days')],
          ['Delivery retention', count(l.deliveryRetentionDays, ' days')],
          ['Largest upload', l.uploadMaxBytes < 0 ? 'no limit' : bytes(l.uploadMaxBytes)],
          ['Regions', (l.proxyCountries ?? []).join(', ') || '–'],
        ]}
      />
      <p className="mt-3 text-xs text-mute">
        To change your plan, contact the operators of this service.{' '}
        {me.org.contactEmail ? null : 'Set a contact email so that they can reach you.'}
      </p>
    </Card>
  )
}
