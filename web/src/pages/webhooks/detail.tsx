import { useState, type ReactNode } from 'react'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Ellipsis, KeyRound, Pause, Pencil, Play, RotateCcw, Send, Trash2 } from 'lucide-react'
import { api, isProblem } from '@/api/client'
import { keys, usePages } from '@/api/hooks'
import { useAccountNames } from '@/api/names'
import type { Delivery, Webhook } from '@/api/types'
import { useFilters, useTyped } from '@/lib/filters'
import { millis, number, percent, plural } from '@/lib/format'
import { useWhyNot } from '@/shell/session'
import {
  Badge,
  Bars,
  Boundary,
  Button,
  ButtonLink,
  Card,
  Checkbox,
  Chips,
  Code,
  Confirm,
  Copy,
  Dialog,
  Empty,
  Facts,
  Field,
  Id,
  IconButton,
  Input,
  Menu,
  MenuItem,
  More,
  NoMatch,
  Notice,
  PageHead,
  Query,
  SearchInput,
  Select,
  Sheet,
  State,
  Status,
  Table,
  Time,
  toast,
  type Column,
} from '@/ui'
import { useHook, whyOff } from './hook'
import { HookDialog } from './HookDialog'
import { errorWord, Inspector } from './Inspector'
import { SecretOnce } from './SecretOnce'

type Open = 'edit' | 'replay' | 'rotate' | 'delete' | null

/** One account's webhook: its state, deliveries and actions. */
export default function WebhookPage() {
  const { account } = useParams({ strict: false }) as { account: string }
  const name = useAccountNames()
  const hook = useHook(account)
  const client = useQueryClient()
  const navigate = useNavigate()
  const why = useWhyNot('webhooks:write', 'change webhooks')
  const [open, setOpen] = useState<Open>(null)
  const [secret, setSecret] = useState<string | null>(null)
  const w = hook.data
  const put = (next: Webhook) => {
    client.setQueryData(keys.webhook(account), next)
    void client.invalidateQueries({ queryKey: ['webhooks'] })
  }
  const pause = useMutation({
    mutationFn: () => api.post('/v1/accounts/{id}/webhook/pause', { path: { id: account } }),
    onSuccess: (r) => {
      put(r.webhook)
      toast.ok('Paused. Events wait in the log.')
    },
    onError: toast.problem,
  })
  const resume = useMutation({
    mutationFn: () => api.post('/v1/accounts/{id}/webhook/resume', { path: { id: account }, body: {} }),
    onSuccess: (r) => {
      put(r.webhook)
      toast.ok('Resumed from where it stopped')
    },
    onError: toast.problem,
  })
  const test = useMutation({
    mutationFn: () => api.post('/v1/accounts/{id}/webhook/test', { path: { id: account } }),
    onSuccess: () => setTimeout(() => void client.invalidateQueries({ queryKey: ['deliveries', account] }), 2500),
    onError: (e) =>
      isProblem(e) && e.status === 429
        ? toast.bad(`You can send ten tests per minute. Try again in ${e.retryAfterSec ?? 60} s.`)
        : toast.problem(e),
  })
  const state = w ? w.health.state : null
  return (
    <>
      <PageHead
        title={
          <>
            <span className="min-w-0 break-words">{name(account)}</span>
            {state ? <State state={state} /> : null}
          </>
        }
        back={
          <Link to="/webhooks" className="link">
            ← Webhooks
          </Link>
        }
        hint={<Id id={account} />}
        actions={
          w ? (
            <>
              <Button
                icon={<Send className="size-4" aria-hidden />}
                why={why}
                busy={test.isPending}
                onClick={() => test.mutate()}
              >
                Send test
              </Button>
              <Button icon={<RotateCcw className="size-4" aria-hidden />} why={why} onClick={() => setOpen('replay')}>
                Replay…
              </Button>
              {w.enabled ? (
                <Button
                  icon={<Pause className="size-4" aria-hidden />}
                  why={why}
                  busy={pause.isPending}
                  onClick={() => pause.mutate()}
                >
                  Pause
                </Button>
              ) : (
                <Button
                  variant="primary"
                  icon={<Play className="size-4" aria-hidden />}
                  why={why}
                  busy={resume.isPending}
                  onClick={() => resume.mutate()}
                >
                  Resume
                </Button>
              )}
              <Button icon={<Pencil className="size-4" aria-hidden />} why={why} onClick={() => setOpen('edit')}>
                Edit
              </Button>
              <Menu
                trigger={
                  <IconButton label="More" variant="secondary">
                    <Ellipsis className="size-4" aria-hidden />
                  </IconButton>
                }
              >
                <MenuItem
                  icon={<KeyRound className="size-4 text-mute" aria-hidden />}
                  disabled={Boolean(why)}
                  onSelect={() => setOpen('rotate')}
                >
                  Rotate secret
                </MenuItem>
                <MenuItem
                  icon={<Trash2 className="size-4" aria-hidden />}
                  danger
                  disabled={Boolean(why)}
                  onSelect={() => setOpen('delete')}
                >
                  Delete
                </MenuItem>
              </Menu>
            </>
          ) : undefined
        }
      />
      {test.data ? <TestResult r={test.data} onClose={() => test.reset()} /> : null}
      <div className="grid gap-3 lg:grid-cols-[minmax(0,2fr)_minmax(0,3fr)]">
        <Card title="Delivery">
          <Query query={hook} what="the webhook">
            {(h) =>
              h === null ? (
                <Empty
                  title="No webhook yet"
                  action={
                    <Button variant="primary" why={why} onClick={() => setOpen('edit')}>
                      Add webhook
                    </Button>
                  }
                >
                  Add a URL, or run this command to receive events on your machine:
                  <div className="mt-3 text-left">
                    <Code code={`stagedoor listen -a ${account} --forward-to localhost:3000`} label="command" wrap />
                  </div>
                </Empty>
              ) : (
                <About w={h} onRotate={() => setOpen('rotate')} why={why} onResume={() => resume.mutate()} />
              )
            }
          </Query>
        </Card>
        <Card title="Recent attempts" hint="Up to 100, oldest on the left">
          <Boundary what="the chart">
            <Chart account={account} />
          </Boundary>
        </Card>
      </div>
      <Deliveries account={account} hook={w} name={name(account)} />
      {open === 'edit' ? <HookDialog account={account} hook={w ?? null} onClose={() => setOpen(null)} /> : null}
      {open === 'replay' ? <Replay account={account} onClose={() => setOpen(null)} /> : null}
      {open === 'rotate' ? (
        <Rotate
          account={account}
          onClose={() => setOpen(null)}
          onDone={(next) => {
            setOpen(null)
            put(next)
            setSecret(next.signingSecret ?? null)
          }}
        />
      ) : null}
      {secret ? (
        <SecretOnce
          secret={secret}
          title="Secret rotated"
          note={
            w?.previousSecretUntil
              ? 'The old secret also signs, in X-Webhook-Signature-Previous, until the overlap ends.'
              : 'The old secret no longer signs.'
          }
          onClose={() => setSecret(null)}
        />
      ) : null}
      <Confirm
        open={open === 'delete'}
        onOpenChange={(o) => !o && setOpen(null)}
        title="Delete the webhook?"
        action="Delete"
        danger
        run={async () => {
          await api.delete('/v1/accounts/{id}/webhook', { path: { id: account } })
          toast.ok('Webhook deleted')
          void client.invalidateQueries({ queryKey: ['webhooks'] })
          void client.invalidateQueries({ queryKey: keys.webhook(account) })
          void navigate({ to: '/webhooks' })
        }}
      >
        <p>
          Waiting deliveries are dropped. The events stay in the log and on the stream, and the delivery log is kept.
        </p>
      </Confirm>
    </>
  )
}

function About({
  w,
  onRotate,
  onResume,
  why,
}: {
  w: Webhook
  onRotate: () => void
  onResume: () => void
  why: string | null
}) {
  const off = whyOff(w)
  const h = w.health
  const items: [ReactNode, ReactNode][] = [
    ['State', <State key="s" state={w.health.state} />],
    [
      'URL',
      <span key="u" className="flex min-w-0 items-start gap-1">
        <span className="min-w-0 font-mono text-xs leading-6 break-all">{w.url}</span>
        <Copy text={w.url} label="Copy the URL" />
      </span>,
    ],
    [
      'Events',
      w.events?.length ? (
        <span key="e" className="font-mono text-xs break-words">
          {w.events.join(', ')}
        </span>
      ) : (
        'all'
      ),
    ],
    [
      'Last response',
      h.lastStatus ? (
        <Status key="l" status={h.lastStatus} />
      ) : h.lastError ? (
        <span className="text-bad-text">{errorWord(h.lastError)}</span>
      ) : (
        'nothing sent yet'
      ),
    ],
    ['Last delivered', <Time key="d" at={h.lastSuccessAt} />],
    ...(h.failingSince ? ([['Failing since', <Time key="f" at={h.failingSince} />]] as [ReactNode, ReactNode][]) : []),
    ...(h.nextAttemptAt ? ([['Next attempt', <Time key="n" at={h.nextAttemptAt} />]] as [ReactNode, ReactNode][]) : []),
    ['Waiting', h.backlog ? plural(h.backlog, 'event') : 'none'],
    ['Order', w.ordering === 'strict' ? 'strict' : `as fast as possible, ${w.maxInFlight} at a time`],
    [
      'Secret',
      <span key="k" className="inline-flex flex-wrap items-center gap-x-3">
        <code className="text-xs">···{w.signingSecretLast4}</code>
        <button type="button" className="link text-xs disabled:opacity-60" disabled={Boolean(why)} onClick={onRotate}>
          Rotate
        </button>
      </span>,
    ],
    ...(w.previousSecretUntil
      ? ([
          [
            'Old secret',
            <span key="o">
              signs until <Time at={w.previousSecretUntil} />
            </span>,
          ],
        ] as [ReactNode, ReactNode][])
      : []),
  ]
  return (
    <div className="space-y-3">
      {off ? (
        <Notice
          tone="warn"
          action={
            w.disabledReason === ('operator' as string) ? undefined : (
              <Button size="sm" why={why} onClick={onResume}>
                Resume
              </Button>
            )
          }
        >
          {off}
        </Notice>
      ) : null}
      <Facts items={items} />
    </div>
  )
}

// The recent attempts: the height of each bar is its duration.
function Chart({ account }: { account: string }) {
  const last = useQuery({
    queryKey: keys.deliveries(account, { chart: true }),
    queryFn: async ({ signal }) =>
      (
        await api.get('/v1/accounts/{id}/webhook/deliveries', { path: { id: account }, query: { limit: 100 }, signal })
      ).deliveries?.slice(0, 100) ?? [],
    refetchInterval: 60_000,
  })
  return (
    <Query query={last} what="the recent attempts">
      {(list) => {
        if (list.length === 0)
          return (
            <Empty title="No deliveries yet" className="!py-8">
              Send a test, or wait for an event.
            </Empty>
          )
        const rows = [...list].reverse()
        const ok = list.filter((d) => d.state === 'delivered').length
        const took = list.map((d) => d.durationMs).sort((x, y) => x - y)
        return (
          <>
            <p className="mb-2 text-soft">
              {percent(ok / list.length, 0)} accepted ({number(ok)} of {number(list.length)}) · median{' '}
              {millis(took[Math.floor(took.length / 2)])}
            </p>
            <Bars
              label="Recent attempts by duration"
              height={130}
              format={millis}
              times={rows.map((d) => d.at)}
              series={[
                {
                  name: 'Delivered, ms',
                  color: 'var(--ok)',
                  values: rows.map((d) => (d.state === 'delivered' ? Math.max(1, d.durationMs) : 0)),
                },
                {
                  name: 'Failed, ms',
                  color: 'var(--bad)',
                  values: rows.map((d) => (d.state === 'failed' ? Math.max(1, d.durationMs) : 0)),
                },
              ]}
            />
          </>
        )
      }}
    </Query>
  )
}

function TestResult({
  r,
  onClose,
}: {
  r: { delivered: boolean; status: number; durationMs: number; responseSnippet: string }
  onClose: () => void
}) {
  return (
    <Notice
      className="mb-3"
      tone={r.delivered ? 'ok' : 'bad'}
      action={
        <Button size="sm" variant="ghost" onClick={onClose}>
          Dismiss
        </Button>
      }
    >
      <strong>
        {r.delivered ? 'The test was delivered' : r.status ? 'The test was refused' : 'The test got no response'}
      </strong>
      {r.status ? ` · ${r.status}` : ''} · {millis(r.durationMs)}
      {r.responseSnippet ? <Code code={r.responseSnippet} label="response" wrap className="mt-2 text-fg" /> : null}
    </Notice>
  )
}

// --- deliveries ----------------------------------------------------------------

function Deliveries({ account, hook, name }: { account: string; hook: Webhook | null | undefined; name: string }) {
  const f = useFilters({ state: '', event: '' })
  const [text, setText] = useTyped(f.values.event, (event) => f.set({ event: event.trim() }))
  const [shown, setShown] = useState<Delivery | null>(null)
  const list = usePages(
    keys.deliveries(account, f.values),
    `/v1/accounts/${encodeURIComponent(account)}/webhook/deliveries`,
    f.values,
    (p: { deliveries: Delivery[] | null; nextCursor: string | null }) => p.deliveries,
    { cursor: 'after', refetchInterval: 30_000 },
  )
  const columns: Column<Delivery>[] = [
    { key: 'at', head: 'Time', cell: (d) => <Time at={d.at} as="clock" className="font-mono text-xs text-mute" /> },
    {
      key: 'event',
      head: 'Event',
      cell: (d) => (
        <button
          type="button"
          className="max-w-full text-left"
          onClick={() => setShown(d)}
          aria-label={`Inspect the delivery of ${d.event}`}
        >
          <Badge mono>{d.event}</Badge>
        </button>
      ),
    },
    {
      key: 'try',
      head: 'Attempt',
      from: 'sm',
      cell: (d) => (
        <span className="whitespace-nowrap text-soft">
          {d.cause === 'live' || d.cause === 'retry' ? d.attempt : `${d.attempt} · ${d.cause}`}
        </span>
      ),
    },
    {
      key: 'status',
      head: 'Response',
      cell: (d) =>
        d.status ? <Status status={d.status} /> : <span className="text-xs text-bad-text">{errorWord(d.error)}</span>,
    },
    {
      key: 'ms',
      head: 'Duration',
      align: 'right',
      from: 'sm',
      cell: (d) => <span className="font-mono text-xs whitespace-nowrap">{millis(d.durationMs)}</span>,
    },
    { key: 'id', head: 'Event id', from: 'lg', cell: (d) => <Id id={d.eventId} short /> },
  ]
  return (
    <Card
      flush
      className="mt-3"
      title="Deliveries"
      hint="Every attempt, newest first. New ones appear after a second or two."
    >
      <div className="flex flex-wrap items-center gap-2 border-b px-4 py-3">
        <Chips
          label="State"
          items={[
            { value: '', label: 'All' },
            { value: 'delivered', label: 'Delivered' },
            { value: 'failed', label: 'Failed' },
          ]}
          value={f.values.state}
          onChange={(state) => f.set({ state })}
        />
        <SearchInput label="Event or evt_ id" value={text} onChange={setText} className="w-full sm:ml-auto sm:w-56" />
      </div>
      <Query query={list} what="the deliveries">
        {() =>
          (list.rows ?? []).length === 0 ? (
            f.active ? (
              <NoMatch title="No delivery matches" onClear={f.clear} />
            ) : (
              <Empty title="No deliveries yet">
                {hook ? 'Send a test, or wait for an event.' : 'Add a webhook to receive events.'}
              </Empty>
            )
          ) : (
            <>
              <Table
                label="Deliveries"
                dense
                columns={columns}
                rows={list.rows ?? []}
                rowKey={(d) => d.id}
                onRow={setShown}
                selected={shown?.id ?? null}
              />
              <More
                shown={list.rows?.length ?? 0}
                what={list.rows?.length === 1 ? 'delivery' : 'deliveries'}
                query={list}
              />
            </>
          )
        }
      </Query>
      <Sheet
        open={shown !== null}
        onOpenChange={(o) => !o && setShown(null)}
        title={shown ? `Delivery of ${shown.event}` : 'Delivery'}
      >
        {shown ? (
          <div className="p-4">
            <div className="mb-3 flex flex-wrap items-center justify-between gap-2">
              <Id id={shown.id} short />
              <ButtonLink size="sm" to="/webhooks/deliveries/$id" params={{ id: shown.id }}>
                Open delivery page
              </ButtonLink>
            </div>
            <Boundary key={shown.id} what="the delivery">
              <Inspector delivery={shown} account={account} hook={hook} name={name} />
            </Boundary>
          </div>
        ) : null}
      </Sheet>
    </Card>
  )
}

// --- dialogs -------------------------------------------------------------------

const spans: [string, string][] = [
  ['1', 'the last hour'],
  ['24', 'the last 24 hours'],
  ['168', 'the last 7 days'],
  ['', 'a specific time…'],
]

function Replay({ account, onClose }: { account: string; onClose: () => void }) {
  const client = useQueryClient()
  const [span, setSpan] = useState('24')
  const [from, setFrom] = useState('')
  const [failed, setFailed] = useState(true)
  const run = useMutation({
    mutationFn: async () => {
      const fromTime = (span ? new Date(Date.now() - Number(span) * 3_600_000) : new Date(from)).toISOString()
      return (
        await api.post('/v1/accounts/{id}/webhook/replay', {
          path: { id: account },
          body: { fromTime, ...(failed ? { onlyFailed: true } : {}) },
        })
      ).replay
    },
    onSuccess: (r) => {
      const many = Number(r.to) - Number(r.from) + 1
      toast.ok(
        many > 0
          ? failed
            ? 'Replaying the failed events'
            : `Replaying up to ${plural(many, 'event')}`
          : 'There was nothing to replay',
      )
      setTimeout(() => void client.invalidateQueries({ queryKey: ['deliveries', account] }), 2500)
      onClose()
    },
  })
  const bad = run.error && isProblem(run.error) ? run.error : null
  return (
    <Dialog
      open
      onOpenChange={(o) => !o && onClose()}
      size="sm"
      title="Replay"
      description="Sends events from the log again, with their original bytes and ids, alongside live events."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            variant="primary"
            why={!span && !from ? 'Enter a time' : null}
            busy={run.isPending}
            onClick={() => run.mutate()}
          >
            Replay
          </Button>
        </>
      }
    >
      <div className="space-y-3">
        <Field label="From">
          {(p) => (
            <Select {...p} className="w-full" value={span} onChange={(e) => setSpan(e.target.value)}>
              {spans.map(([v, text]) => (
                <option key={v} value={v}>
                  {text}
                </option>
              ))}
            </Select>
          )}
        </Field>
        {span === '' ? (
          <Field label="Since" hint="In your local time" error={bad?.field('fromTime')}>
            {(p) => <Input {...p} type="datetime-local" value={from} onChange={(e) => setFrom(e.target.value)} />}
          </Field>
        ) : null}
        <Checkbox
          label="Only failed events"
          hint="Only events that were never delivered successfully."
          checked={failed}
          onChange={(e) => setFailed(e.target.checked)}
        />
        {bad ? <Notice tone="bad">{bad.detail}</Notice> : null}
      </div>
    </Dialog>
  )
}

function Rotate({ account, onClose, onDone }: { account: string; onClose: () => void; onDone: (w: Webhook) => void }) {
  const [overlap, setOverlap] = useState('86400')
  const run = useMutation({
    mutationFn: async () =>
      (
        await api.post('/v1/accounts/{id}/webhook/rotate-secret', {
          path: { id: account },
          body: { overlapSec: Number(overlap) },
        })
      ).webhook,
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
