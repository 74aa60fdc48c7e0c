import { useState } from 'react'
import { Link, useParams } from '@tanstack/react-router'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { call, isProblem } from '@/api/client'
import { number, plural, words } from '@/lib/format'
import {
  Badge,
  Button,
  ButtonLink,
  Card,
  Confirm,
  CopyButton,
  Dialog,
  Empty,
  Facts,
  Failed,
  Field,
  Id,
  Input,
  Meter,
  Notice,
  PageHead,
  Query,
  Select,
  Skeleton,
  State,
  Table,
  Time,
  toast,
  type Column,
} from '@/ui'
import { useAccess, useAudit, useCan, useOrg, usePlans } from '../hooks'
import { Stage, WithReason } from '../parts'
import type { Access, Entry, Org, OrgDetail } from '../types'

export default function OrgPage() {
  const { id } = useParams({ strict: false }) as { id: string }
  const query = useOrg(id)
  const back = (
    <Link to="/orgs" className="link">
      ← Organisations
    </Link>
  )
  if (query.data) return <Detail id={id} data={query.data} back={back} />
  return (
    <>
      <PageHead title="Organisation" back={back} />
      <Card>
        {query.isError ? (
          <Failed what="this organisation" error={query.error} retry={() => void query.refetch()} />
        ) : (
          <Skeleton className="h-40 w-full" />
        )}
      </Card>
    </>
  )
}

function Detail({ id, data, back }: { id: string; data: OrgDetail; back: React.ReactNode }) {
  const { org } = data
  const client = useQueryClient()
  const [suspending, setSuspending] = useState(false)
  const [resuming, setResuming] = useState(false)
  const operates = useCan('operator')
  const owns = useCan('owner')
  const supports = useCan('support')
  const [deleting, setDeleting] = useState(false)
  const [restoring, setRestoring] = useState(false)
  const final = org.deletion !== undefined && new Date(org.deletion.purgeAt) <= new Date()
  const change = async (method: string, path = '', body?: object) => {
    await call(method, `/admin/v1/orgs/${encodeURIComponent(id)}${path}`, { body })
    await Promise.all([
      client.invalidateQueries({ queryKey: ['org', id] }),
      client.invalidateQueries({ queryKey: ['orgs'] }),
      client.invalidateQueries({ queryKey: ['entries'] }),
    ])
  }
  const patch = (body: object) => change('PATCH', '', body)
  return (
    <>
      <PageHead
        back={back}
        title={
          <>
            <span>{org.name}</span>{' '}
            {org.suspended ? (
              <Badge tone="bad" dot>
                {org.deletion ? 'Being deleted' : 'Suspended'}
              </Badge>
            ) : null}{' '}
            <Badge tone={org.environment === 'live' ? 'accent' : 'neutral'}>{org.environment}</Badge>
          </>
        }
        hint={<Id id={org.id} />}
        actions={
          <>
            {!operates || final ? null : org.deletion ? (
              <Button onClick={() => setRestoring(true)}>Restore</Button>
            ) : (
              <>
                {org.suspended ? (
                  <Button onClick={() => setResuming(true)}>End suspension</Button>
                ) : (
                  <Button variant="danger" onClick={() => setSuspending(true)}>
                    Suspend
                  </Button>
                )}
                {owns ? (
                  <Button variant="danger" onClick={() => setDeleting(true)}>
                    Delete
                  </Button>
                ) : null}
              </>
            )}
          </>
        }
      />
      {org.deletion ? (
        <Notice tone="bad" className="mb-4">
          Deletion requested <Time at={org.deletion.requestedAt} />. All its keys are refused.{' '}
          {final ? (
            'Everything is being destroyed, and it can no longer be restored.'
          ) : (
            <>
              Everything is destroyed at <Time at={org.deletion.purgeAt} as="exact" />; until then it can be restored.
            </>
          )}
        </Notice>
      ) : org.suspended ? (
        <Notice tone="bad" className="mb-4">
          Suspended <Time at={org.suspendedAt} />
          {org.suspendedReason ? `: ${org.suspendedReason}` : ''}. All its keys are refused.
        </Notice>
      ) : null}
      <div className="grid gap-3 lg:grid-cols-2">
        <Card title="About" actions={operates ? <Edit org={org} save={patch} /> : null}>
          <Facts
            items={[
              [
                'Plan',
                <span key="p" className="capitalize">
                  {org.plan}
                </span>,
              ],
              [
                'Contact',
                <span key="c" className="break-all">
                  {org.contactEmail}
                </span>,
              ],
              ['Created', <Time key="m" at={org.createdAt} as="exact" />],
              ['Updated', <Time key="u" at={org.updatedAt} />],
            ]}
          />
          <div className="mt-4">
            <Meter label="Calls this month" used={data.month.used} limit={data.month.limit} />
          </div>
        </Card>
        <Card
          title="Resources"
          actions={
            <>
              <ButtonLink size="sm" to="/accounts" search={{ org: id }}>
                Accounts
              </ButtonLink>
              <ButtonLink size="sm" to="/webhooks" search={{ org: id }}>
                Lanes
              </ButtonLink>
            </>
          }
        >
          <h3 className="text-xs text-mute">Accounts</h3>
          <div className="mt-1 flex flex-wrap gap-2">
            {Object.keys(data.accounts).length === 0 ? <span className="text-mute">None</span> : null}
            {Object.entries(data.accounts).map(([state, n]) => (
              <span key={state} className="inline-flex items-center gap-1.5">
                <State state={state} /> {number(n)}
              </span>
            ))}
          </div>
          <h3 className="mt-4 text-xs text-mute">Webhooks</h3>
          <div className="mt-1 flex flex-wrap gap-2">
            {Object.values(data.webhooks).every((n) => n === 0) ? <span className="text-mute">None</span> : null}
            {Object.entries(data.webhooks)
              .filter(([, n]) => n > 0)
              .map(([state, n]) => (
                <span key={state} className="inline-flex items-center gap-1.5">
                  <Stage state={state} /> {number(n)}
                </span>
              ))}
          </div>
        </Card>
        <Limits data={data} save={patch} />
        {supports ? <SupportAccess org={org} /> : null}
        <History id={id} />
      </div>

      <WithReason
        open={suspending}
        onOpenChange={setSuspending}
        title={`Suspend ${org.name}?`}
        action="Suspend"
        danger
        hint="Only operators see the reason. The customer sees only that the organisation is suspended."
        run={async (suspendedReason) => {
          await patch({ suspended: true, suspendedReason })
          toast.ok(`${org.name} is suspended`)
        }}
      >
        <p>
          From the next call, every node refuses all its keys and browser sessions. Accounts, keys and settings are
          kept.
        </p>
      </WithReason>
      <Confirm
        open={resuming}
        onOpenChange={setResuming}
        title={`End the suspension of ${org.name}?`}
        action="End suspension"
        run={async () => {
          await patch({ suspended: false })
          toast.ok(`${org.name} is no longer suspended`)
        }}
      >
        <p>Its keys work again from the next call.</p>
      </Confirm>
      <Confirm
        open={deleting}
        onOpenChange={setDeleting}
        title={`Delete ${org.name}?`}
        action="Delete"
        danger
        typed={org.name}
        run={async () => {
          await change('DELETE')
          toast.ok(`${org.name} is being deleted`)
        }}
      >
        <p>
          It is suspended immediately. After 7 days everything of it is destroyed and cannot be brought back. Until then
          you can restore it, and so can its owners, unless it was suspended before.
        </p>
      </Confirm>
      <Confirm
        open={restoring}
        onOpenChange={setRestoring}
        title={`Restore ${org.name}?`}
        action="Restore"
        run={async () => {
          await change('POST', '/restore')
          toast.ok(`${org.name} is restored`)
        }}
      >
        <p>It is not deleted. If it was suspended before the deletion, it stays suspended.</p>
      </Confirm>
    </>
  )
}

const accessTones = { requested: 'warn', granted: 'ok', ended: 'neutral', expired: 'neutral' } as const

// What an operator may read is up to the owners of the organisation.
function SupportAccess({ org }: { org: Org }) {
  const client = useQueryClient()
  const list = useAccess(org.id)
  const [asking, setAsking] = useState(false)
  const [opened, setOpened] = useState<{ url: string; expiresAt: string } | null>(null)
  const path = `/admin/v1/orgs/${encodeURIComponent(org.id)}`
  const granted = list.data?.some((a) => a.mine && a.state === 'granted') ?? false
  const refresh = () =>
    Promise.all([
      client.invalidateQueries({ queryKey: ['access', org.id] }),
      client.invalidateQueries({ queryKey: ['entries'] }),
    ])
  const open = useMutation({
    mutationFn: () => call<{ url: string; expiresAt: string }>('POST', `${path}/open`),
    onSuccess: (link) => {
      setOpened(link)
      void refresh()
    },
    onError: (e) => toast.bad(isProblem(e) ? e.detail : 'Something went wrong. Try again.'),
  })
  const columns: Column<Access>[] = [
    {
      key: 'who',
      head: 'Operator',
      cell: (a) => (
        <div className="min-w-0">
          <span className="break-all">{a.operator}</span>
          <span className="block text-xs break-words text-mute">{a.reason}</span>
        </div>
      ),
    },
    {
      key: 'state',
      head: 'State',
      cell: (a) => (
        <Badge tone={accessTones[a.state]} dot>
          {words(a.state)}
        </Badge>
      ),
    },
    { key: 'until', head: 'Expires', align: 'right', cell: (a) => <Time at={a.endedAt ?? a.expiresAt} /> },
  ]
  return (
    <Card
      flush
      title="Support access"
      hint="An owner of the organisation grants it. Without it you see states and counts."
      actions={
        granted ? (
          <>
            <ButtonLink size="sm" to="/accounts" search={{ org: org.id, names: 'true' }}>
              Accounts with names
            </ButtonLink>
            <Button size="sm" variant="primary" busy={open.isPending} onClick={() => open.mutate()}>
              Open dashboard
            </Button>
          </>
        ) : (
          <Button size="sm" onClick={() => setAsking(true)}>
            Request access
          </Button>
        )
      }
    >
      <Query query={list} what="the requests">
        {(rows) =>
          rows.length === 0 ? (
            <Empty title="No requests" />
          ) : (
            <Table dense label="Requests for access" columns={columns} rows={rows} rowKey={(a) => a.id} />
          )
        }
      </Query>
      <WithReason
        open={asking}
        onOpenChange={setAsking}
        title={`Request access to ${org.name}?`}
        action="Request access"
        hint="The owners read it before they decide, with your name. It is in their audit log."
        run={async (reason) => {
          await call('POST', `${path}/access`, { body: { reason } })
          toast.ok('The owners see the request in their settings')
          await refresh()
        }}
      >
        <p>
          An owner grants it for 1 hour to 7 days and can revoke it at any time. You can then open the dashboard
          read-only. The customer sees what you read.
        </p>
      </WithReason>
      <Dialog
        open={opened !== null}
        onOpenChange={(next) => !next && setOpened(null)}
        title={`Dashboard of ${org.name}`}
        description="The link works once and expires soon."
        size="sm"
        footer={
          opened ? (
            <>
              <CopyButton text={opened.url}>Copy link</CopyButton>
              <a
                href={opened.url}
                target="_blank"
                rel="noopener noreferrer"
                className="inline-flex h-8 items-center rounded-lg bg-accent px-3 text-sm font-medium text-accent-fg hover:bg-accent-hover"
                onClick={() => setOpened(null)}
              >
                Open
              </a>
            </>
          ) : null
        }
      >
        <p className="text-soft">
          Open it before <Time at={opened?.expiresAt} as="clock" />. It signs this browser in to this organisation only,
          as support, for 30 minutes.
        </p>
      </Dialog>
    </Card>
  )
}

function Edit({ org, save }: { org: Org; save: (body: object) => Promise<void> }) {
  const [open, setOpen] = useState(false)
  return (
    <>
      <Button size="sm" onClick={() => setOpen(true)}>
        Change
      </Button>
      {open ? <EditForm org={org} save={save} close={() => setOpen(false)} /> : null}
    </>
  )
}

function EditForm({ org, save, close }: { org: Org; save: (body: object) => Promise<void>; close: () => void }) {
  const [name, setName] = useState(org.name)
  const [email, setEmail] = useState(org.contactEmail)
  const [plan, setPlan] = useState(org.plan)
  const offered = usePlans().data?.map((one) => one.name) ?? []
  // A plan that is not offered any more can be kept.
  const plans = offered.includes(org.plan) ? offered : [org.plan, ...offered]
  const change: Record<string, string> = {}
  if (name.trim() !== org.name) change.name = name.trim()
  if (email.trim() !== org.contactEmail) change.contactEmail = email.trim()
  if (plan !== org.plan) change.plan = plan
  const m = useMutation({
    mutationFn: () => save(change),
    onSuccess: () => {
      toast.ok('Saved. Takes effect with the next call, on every node.')
      close()
    },
  })
  const problem = isProblem(m.error) ? m.error : null
  return (
    <Dialog
      open
      onOpenChange={(o) => !o && close()}
      title={`Change ${org.name}`}
      size="sm"
      footer={
        <>
          <Button onClick={close}>Cancel</Button>
          <Button
            variant="primary"
            busy={m.isPending}
            disabled={Object.keys(change).length === 0}
            onClick={() => m.mutate()}
          >
            Save
          </Button>
        </>
      }
    >
      <form
        className="space-y-4"
        onSubmit={(e) => {
          e.preventDefault()
          if (Object.keys(change).length > 0) m.mutate()
        }}
      >
        <Field label="Plan" error={problem?.field('plan')}>
          {(p) => (
            <Select {...p} className="w-full" value={plan} onChange={(e) => setPlan(e.target.value)}>
              {plans.map((one) => (
                <option key={one} value={one}>
                  {one}
                </option>
              ))}
            </Select>
          )}
        </Field>
        <Field label="Name" error={problem?.field('name')}>
          {(p) => <Input {...p} value={name} maxLength={120} onChange={(e) => setName(e.target.value)} />}
        </Field>
        <Field label="Contact email" error={problem?.field('contactEmail')}>
          {(p) => (
            <Input {...p} type="email" value={email} maxLength={254} onChange={(e) => setEmail(e.target.value)} />
          )}
        </Field>
        {problem && !problem.problem.errors?.length ? <Notice tone="bad">{problem.detail}</Notice> : null}
        <button type="submit" className="sr-only">
          Save
        </button>
      </form>
    </Dialog>
  )
}

type Limit = OrgDetail['effectiveLimits'][number]

function Limits({ data, save }: { data: OrgDetail; save: (body: object) => Promise<void> }) {
  const [editing, setEditing] = useState<Limit | null>(null)
  const operates = useCan('operator')
  const columns: Column<Limit>[] = [
    { key: 'name', head: 'Limit', cell: (l) => words(l.name.replace(/([A-Z])/g, ' $1').toLowerCase()) },
    {
      key: 'value',
      head: 'Value',
      align: 'right',
      cell: (l) => (
        <span className="inline-flex flex-wrap items-center justify-end gap-2">
          {l.overridden ? <Badge tone="accent">override</Badge> : null}
          <span className="font-mono">{l.value < 0 ? 'no limit' : number(l.value)}</span>
        </span>
      ),
    },
  ]
  if (operates)
    columns.push({
      key: 'edit',
      head: <span className="sr-only">Change</span>,
      align: 'right',
      cell: (l) => (
        <Button size="sm" aria-label={`Change ${l.name}`} onClick={() => setEditing(l)}>
          Change
        </Button>
      ),
    })
  return (
    <Card flush title="Limits" hint="The plan's limits and any overrides">
      <Table dense label="Limits" columns={columns} rows={data.effectiveLimits} rowKey={(l) => l.name} />
      {editing ? (
        <LimitForm
          limit={editing}
          close={() => setEditing(null)}
          save={async (value) => {
            // The API replaces the whole set of overrides.
            const next = { ...data.org.limits }
            if (value === null) delete next[editing.name]
            else next[editing.name] = value
            await save({ limits: next })
          }}
        />
      ) : null}
    </Card>
  )
}

function LimitForm({
  limit,
  close,
  save,
}: {
  limit: Limit
  close: () => void
  save: (value: number | null) => Promise<void>
}) {
  const [text, setText] = useState(limit.value < 0 ? '' : String(limit.value))
  const m = useMutation({
    mutationFn: (value: number | null) => save(value),
    onSuccess: () => {
      toast.ok('Saved. Takes effect with the next call.')
      close()
    },
  })
  const n = text.trim() === '' ? -1 : Number(text)
  const sound = Number.isInteger(n) && (n === -1 || n >= 1)
  return (
    <Dialog
      open
      onOpenChange={(o) => !o && close()}
      title={limit.name}
      size="sm"
      footer={
        <>
          {limit.overridden ? (
            <Button className="mr-auto" busy={m.isPending} onClick={() => m.mutate(null)}>
              Use the plan’s limit
            </Button>
          ) : null}
          <Button onClick={close}>Cancel</Button>
          <Button variant="primary" busy={m.isPending} disabled={!sound} onClick={() => m.mutate(n)}>
            Override
          </Button>
        </>
      }
    >
      <Field
        label="Value"
        hint="Leave empty for no limit."
        error={sound ? undefined : 'Must be a whole number of at least 1.'}
      >
        {(p) => <Input {...p} inputMode="numeric" value={text} onChange={(e) => setText(e.target.value)} />}
      </Field>
      {isProblem(m.error) ? (
        <Notice tone="bad" className="mt-4">
          {m.error.problem.errors?.[0]?.detail ?? m.error.detail}
        </Notice>
      ) : null}
    </Dialog>
  )
}

function History({ id }: { id: string }) {
  const list = useAudit({ org: id })
  const rows = list.rows?.slice(0, 10) ?? []
  const columns: Column<Entry>[] = [
    { key: 'at', head: 'Time', cell: (e) => <Time at={e.at} /> },
    { key: 'who', head: 'Actor', cell: (e) => <span className="break-words">{e.actor.label || e.actor.id}</span> },
    { key: 'what', head: 'Action', cell: (e) => <span className="font-mono text-xs break-all">{e.action}</span> },
  ]
  return (
    <Card
      flush
      title="Recent activity"
      hint={list.rows ? plural(rows.length, 'entry', 'entries') : undefined}
      actions={
        <ButtonLink size="sm" to="/audit" search={{ org: id }}>
          All
        </ButtonLink>
      }
    >
      <Query query={list} what="the audit log">
        {() =>
          rows.length === 0 ? (
            <Empty title="No activity yet" />
          ) : (
            <Table dense label="Latest entries" columns={columns} rows={rows} rowKey={(e) => e.id} />
          )
        }
      </Query>
    </Card>
  )
}
