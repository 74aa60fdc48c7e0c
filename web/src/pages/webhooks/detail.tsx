import { useState, type ReactNode } from 'react'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Ellipsis, KeyRound, Pause, Pencil, Play, RotateCcw, Send, Trash2 } from 'lucide-react'
import { api, isProblem } from '@/api/client'
import { keys } from '@/api/hooks'
import { useAccountNames } from '@/api/names'
import type { Webhook } from '@/api/types'
import { plural } from '@/lib/format'
import { useWhyNot } from '@/shell/session'
import {
  Boundary,
  Button,
  Card,
  Code,
  Confirm,
  Copy,
  Empty,
  Facts,
  Id,
  IconButton,
  Menu,
  MenuItem,
  Notice,
  PageHead,
  Query,
  State,
  Status,
  Time,
  toast,
} from '@/ui'
import { Attempts, Deliveries, TestResult } from './Deliveries'
import { failureTitle } from './failures'
import { useHook, whyOff } from './hook'
import { HookDialog } from './HookDialog'
import { Inspector } from './Inspector'
import { ReplayDialog } from './ReplayDialog'
import { Rotate } from './Rotate'
import { SecretOnce } from './SecretOnce'
import type { Target } from './target'

type Open = 'edit' | 'replay' | 'rotate' | 'delete' | null

/** One account's webhook: its state, deliveries and actions. */
export default function WebhookPage() {
  const { account } = useParams({ strict: false }) as { account: string }
  const of: Target = { kind: 'account', id: account }
  const name = useAccountNames()
  const hook = useHook(account)
  const client = useQueryClient()
  const navigate = useNavigate()
  const why = useWhyNot('webhooks:write', 'change webhooks')
  const [open, setOpen] = useState<Open>(null)
  const [secret, setSecret] = useState<{ text: string; overlaps: boolean } | null>(null)
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
          <Link to="/webhooks" search={{ tab: 'accounts' } as never} className="link">
            ← Webhooks of accounts
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
            <Attempts of={of} />
          </Boundary>
        </Card>
      </div>
      <Deliveries
        of={of}
        exists={Boolean(w)}
        inspect={(d) => <Inspector delivery={d} account={account} hook={w} name={name(account)} />}
      />
      {open === 'edit' ? <HookDialog account={account} hook={w ?? null} onClose={() => setOpen(null)} /> : null}
      {open === 'replay' ? <ReplayDialog of={of} onClose={() => setOpen(null)} /> : null}
      {open === 'rotate' ? (
        <Rotate
          of={of}
          onClose={() => setOpen(null)}
          onDone={(made) => {
            setOpen(null)
            void client.invalidateQueries({ queryKey: keys.webhook(account) })
            setSecret({ text: made.signingSecret ?? '', overlaps: Boolean(made.previousSecretUntil) })
          }}
        />
      ) : null}
      {secret ? (
        <SecretOnce
          secret={secret.text}
          title="Secret rotated"
          note={
            secret.overlaps
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
          void navigate({ to: '/webhooks', search: { tab: 'accounts' } as never })
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
        <span className="text-bad-text">{failureTitle(h.lastError)}</span>
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
