import { useState, type ReactNode } from 'react'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Ellipsis, KeyRound, Pause, Pencil, Play, RotateCcw, Send, Trash2 } from 'lucide-react'
import { api, isProblem } from '@/api/client'
import { keys, usePlatforms } from '@/api/hooks'
import { useAccountNames } from '@/api/names'
import type { Endpoint } from '@/api/types'
import { duration, plural } from '@/lib/format'
import { named } from '@/lib/platforms'
import { useWhyNot } from '@/shell/session'
import {
  Boundary,
  Button,
  ButtonLink,
  Card,
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
import { EndpointDialog } from './EndpointDialog'
import { Rate } from './Endpoints'
import { failureTitle } from './failures'
import { EndpointInspector } from './Inspector'
import { ReplayDialog } from './ReplayDialog'
import { Rotate } from './Rotate'
import { SecretOnce } from './SecretOnce'
import type { Target } from './target'
import { endpointName, endpointState, useEndpoint, useLiveWebhooks } from './useEndpoints'

type Open = 'edit' | 'replay' | 'rotate' | 'delete' | null

const reasons: Record<NonNullable<Endpoint['disabledReason']>, string> = {
  paused: 'Disabled by your organisation. Events wait in the log.',
  gone: 'The receiver returned 410 (Gone). Enable the endpoint when the URL works again.',
  failing: 'Deliveries failed for 72 hours. Events wait in the log; enable the endpoint when the URL works again.',
}

/** One endpoint: its state, deliveries and actions. */
export default function EndpointPage() {
  const { id } = useParams({ strict: false }) as { id: string }
  const of: Target = { kind: 'endpoint', id }
  const name = useAccountNames()
  const endpoint = useEndpoint(id)
  const client = useQueryClient()
  const navigate = useNavigate()
  const why = useWhyNot('webhooks:write', 'change webhooks')
  const [open, setOpen] = useState<Open>(null)
  const [secret, setSecret] = useState<{ text: string; overlaps: boolean } | null>(null)
  useLiveWebhooks()
  const e = endpoint.data
  const refresh = () => {
    void client.invalidateQueries({ queryKey: keys.endpoint(id) })
    void client.invalidateQueries({ queryKey: keys.endpoints })
  }
  const enable = useMutation({
    mutationFn: (enabled: boolean) => api.patch('/v1/webhook-endpoints/{id}', { path: { id }, body: { enabled } }),
    onSuccess: (_, enabled) => {
      refresh()
      toast.ok(enabled ? 'Enabled. It continues where it stopped.' : 'Disabled. Events wait in the log.')
    },
    onError: toast.problem,
  })
  const test = useMutation({
    mutationFn: () => api.post('/v1/webhook-endpoints/{id}/test', { path: { id } }),
    onSuccess: () => setTimeout(() => void client.invalidateQueries({ queryKey: ['deliveries', id] }), 2500),
    onError: (x) =>
      isProblem(x) && x.status === 429
        ? toast.bad(`You can send ten tests per minute. Try again in ${x.retryAfterSec ?? 60} s.`)
        : toast.problem(x),
  })
  const back = (
    <Link to="/webhooks" className="link">
      ← Endpoints
    </Link>
  )
  if (endpoint.isError && isProblem(endpoint.error) && endpoint.error.notFound)
    return (
      <>
        <PageHead title="Endpoint" back={back} hint={<Id id={id} />} />
        <Card>
          <Empty title="Endpoint not found" action={<ButtonLink to="/webhooks">Endpoints</ButtonLink>}>
            It was deleted, or belongs to another organisation.
          </Empty>
        </Card>
      </>
    )
  return (
    <>
      <PageHead
        title={
          <>
            <span className="min-w-0 break-words">{e ? endpointName(e) : 'Endpoint'}</span>
            {e ? <State state={endpointState(e)} /> : null}
          </>
        }
        back={back}
        hint={<Id id={id} />}
        actions={
          e ? (
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
              {e.enabled ? (
                <Button
                  icon={<Pause className="size-4" aria-hidden />}
                  why={why}
                  busy={enable.isPending}
                  onClick={() => enable.mutate(false)}
                >
                  Disable
                </Button>
              ) : (
                <Button
                  variant="primary"
                  icon={<Play className="size-4" aria-hidden />}
                  why={why}
                  busy={enable.isPending}
                  onClick={() => enable.mutate(true)}
                >
                  Enable
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
          <Query query={endpoint} what="the endpoint">
            {(x) => <About e={x} onRotate={() => setOpen('rotate')} why={why} onEnable={() => enable.mutate(true)} />}
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
        exists={Boolean(e)}
        inspect={(d) => (
          <EndpointInspector
            delivery={d}
            endpoint={id}
            name={d.accountId ? name(d.accountId) : null}
            nextAttemptAt={e?.health.nextAttemptAt}
          />
        )}
      />
      {open === 'edit' && e ? <EndpointDialog endpoint={e} onClose={() => setOpen(null)} /> : null}
      {open === 'replay' ? <ReplayDialog of={of} onClose={() => setOpen(null)} /> : null}
      {open === 'rotate' ? (
        <Rotate
          of={of}
          onClose={() => setOpen(null)}
          onDone={(made) => {
            setOpen(null)
            refresh()
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
        title="Delete the endpoint?"
        action="Delete"
        danger
        run={async () => {
          await api.delete('/v1/webhook-endpoints/{id}', { path: { id } })
          toast.ok('Endpoint deleted')
          void client.invalidateQueries({ queryKey: keys.endpoints })
          void navigate({ to: '/webhooks' })
        }}
      >
        <p>
          Waiting deliveries are dropped. The events stay in the log and on the stream. To stop sending for a while,
          disable the endpoint instead.
        </p>
      </Confirm>
    </>
  )
}

function About({
  e,
  onRotate,
  onEnable,
  why,
}: {
  e: Endpoint
  onRotate: () => void
  onEnable: () => void
  why: string | null
}) {
  const platforms = usePlatforms()
  const h = e.health
  const items: [ReactNode, ReactNode][] = [
    [
      'URL',
      <span key="u" className="flex min-w-0 items-start gap-1">
        <span className="min-w-0 font-mono text-xs leading-6 break-all">{e.url}</span>
        <Copy text={e.url} label="Copy the URL" />
      </span>,
    ],
    [
      'Events',
      e.events?.length ? (
        <span key="e" className="font-mono text-xs break-words">
          {e.events.join(', ')}
        </span>
      ) : (
        'all'
      ),
    ],
    ['Accounts', e.accountIds ? plural(e.accountIds.length, 'account') : 'all, and the organisation'],
    ...(e.platforms
      ? ([['Platforms', e.platforms.map((p) => named(platforms.list, p).name).join(', ')]] as [ReactNode, ReactNode][])
      : []),
    ['Success, 24 h', <Rate key="r" share={h.successRate24h} />],
    ['Waiting', h.backlog ? `${plural(h.backlog, 'event')}, the oldest for ${duration(h.lagSec)}` : 'none'],
    ...(h.accountsBehind ? ([['Lagging', `${plural(h.accountsBehind, 'account')}`]] as [ReactNode, ReactNode][]) : []),
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
    ['Order', e.ordering === 'account' ? 'per account' : 'as fast as possible'],
    [
      'Secret',
      <span key="k" className="inline-flex flex-wrap items-center gap-x-3">
        <code className="text-xs">···{e.signingSecretLast4}</code>
        <button type="button" className="link text-xs disabled:opacity-60" disabled={Boolean(why)} onClick={onRotate}>
          Rotate
        </button>
      </span>,
    ],
    ...(e.previousSecretUntil
      ? ([
          [
            'Old secret',
            <span key="o">
              signs until <Time at={e.previousSecretUntil} />
            </span>,
          ],
        ] as [ReactNode, ReactNode][])
      : []),
    ['Created', <Time key="c" at={e.createdAt} as="day" />],
  ]
  return (
    <div className="space-y-3">
      {e.disabledReason ? (
        <Notice
          tone="warn"
          action={
            <Button size="sm" why={why} onClick={onEnable}>
              Enable
            </Button>
          }
        >
          {reasons[e.disabledReason]}
        </Notice>
      ) : null}
      <Facts items={items} />
    </div>
  )
}
