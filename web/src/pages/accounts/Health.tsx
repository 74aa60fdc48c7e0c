import type { ReactNode } from 'react'
import { Link } from '@tanstack/react-router'
import { useQuery } from '@tanstack/react-query'
import { CircleCheck, CircleDashed, CircleX } from 'lucide-react'
import { call } from '@/api/client'
import { keys, useEndpoints, useSeries, useStatus, useUsage } from '@/api/hooks'
import type { Account, Event } from '@/api/types'
import { words } from '@/lib/format'
import { outcomes } from '@/lib/outcomes'
import { useDialogs } from '@/shell/dialogs'
import { useWhyNot } from '@/shell/session'
import {
  Bars,
  Boundary,
  Button,
  Card,
  Dot,
  Empty,
  Facts,
  Query,
  SkeletonRows,
  State,
  Time,
  WindowMeter,
  type Tone,
} from '@/ui'
import { useAccountActions, useHookState } from './actions'
import { Endpoints, endpointsOf } from './endpoints'
import { nameOf, reasonOf } from './reasons'

export function Health({ account: a }: { account: Account }) {
  return (
    <div className="grid gap-3 lg:grid-cols-2">
      <Card title="Session">
        <Facts
          items={[
            ['State', <State key="s" state={a.state} />],
            ['Since', <Time key="t" at={a.stateChangedAt} />],
            ...(reasonOf(a) ? [['Why', reasonOf(a)] as [ReactNode, ReactNode]] : []),
            ['Last good call', <Time key="l" at={a.lastSeenAt} />],
            ['Last checked', <Time key="c" at={a.lastCheckedAt} />],
            [
              'Session ends',
              a.sessionExpiresAt ? <Time key="e" at={a.sessionExpiresAt} /> : 'not given by the platform',
            ],
          ]}
        />
        <Next account={a} />
      </Card>
      <div className="grid gap-3">
        <Checks account={a} />
        <Limits account={a} />
      </div>
      <Boundary what="the timeline">
        <Timeline account={a} />
      </Boundary>
      <CallsChart account={a} />
    </div>
  )
}

// The next steps, most useful first.
function Next({ account: a }: { account: Account }) {
  const { link, connect } = useDialogs()
  const why = useWhyNot('accounts:write', 'reconnect accounts')
  const { resume, reauthenticate } = useAccountActions(a)
  const steps: ReactNode[] = []
  if (a.userAction === 'reconnect') {
    steps.push(
      <>
        Send the creator a link to sign in again.
        <Button size="sm" variant="primary" why={why} onClick={() => link({ accountId: a.id, label: nameOf(a) })}>
          Send reconnect link
        </Button>
      </>,
      a.rememberCredentials ? (
        <>
          Or sign in again with the stored credentials.
          <Button size="sm" why={why} busy={reauthenticate.isPending} onClick={() => reauthenticate.mutate()}>
            Reauthenticate
          </Button>
        </>
      ) : (
        <>
          Or sign in here, if the creator is with you.
          <Button size="sm" why={why} onClick={() => connect({ accountId: a.id, label: nameOf(a) })}>
            Reconnect
          </Button>
        </>
      ),
    )
  } else if (a.userAction === 'solve_challenge') {
    steps.push(
      <>
        The platform requires a security check before we can sign in again.
        {a.pendingAttemptId ? (
          <Link to="/connect/attempts/$id" params={{ id: a.pendingAttemptId }} className="link">
            Open the attempt
          </Link>
        ) : null}
      </>,
    )
  } else if (a.userAction === 'resume') {
    steps.push(
      <>
        Calls are refused while the account is paused.
        <Button size="sm" variant="primary" why={why} busy={resume.isPending} onClick={() => resume.mutate()}>
          Resume
        </Button>
      </>,
    )
  } else if (a.userAction === 'open_native') {
    steps.push(
      'The creator must resolve this on the platform. We check again every six hours, and immediately when the account is reconnected.',
    )
  } else if (a.userAction === 'upgrade') {
    steps.push('You have more connected accounts than your plan allows. Disconnect some or ask for a larger plan.')
  } else if (a.userAction === 'wait') {
    steps.push('No action needed. We are retrying automatically. Until then, calls may fail; you can retry them.')
  }
  if (steps.length === 0) return null
  return (
    <div className="mt-4 border-t pt-3">
      <h3 className="mb-2 font-semibold">Next</h3>
      <ol className="space-y-2">
        {steps.map((s, i) => (
          <li key={i} className="flex flex-wrap items-center gap-x-3 gap-y-1">
            {steps.length > 1 ? <span className="text-mute">{i + 1}</span> : null}
            {s}
          </li>
        ))}
      </ol>
    </div>
  )
}

type Verdict = 'ok' | 'bad' | 'unknown'
const icons = {
  ok: <CircleCheck className="size-4 shrink-0 text-ok" aria-label="works" />,
  bad: <CircleX className="size-4 shrink-0 text-bad" aria-label="does not work" />,
  unknown: <CircleDashed className="size-4 shrink-0 text-mute" aria-label="unknown" />,
}

function Checks({ account: a }: { account: Account }) {
  const status = useStatus()
  const region = status.data?.regions.find((r) => r.region === a.proxyCountry)
  const hook = useHookState(a.id)
  const endpoints = useEndpoints({ enabled: hook.data !== undefined })
  const of = endpointsOf(a, endpoints.data)
  const states = [...(hook.data ? [hook.data] : []), ...of.map((e) => e.health.state)]
  const dead = a.state === 'reconnect_required' || a.state === 'restricted'
  const rows: [string, Verdict, ReactNode][] = [
    [
      'Session',
      dead ? 'bad' : a.state === 'active' || a.state === 'degraded' ? 'ok' : 'unknown',
      dead ? (
        (reasonOf(a) ?? 'ended')
      ) : a.lastCheckedAt ? (
        <>
          checked <Time at={a.lastCheckedAt} />
        </>
      ) : (
        'not checked yet'
      ),
    ],
    [
      'Proxy',
      region ? (region.ok ? 'ok' : 'bad') : 'unknown',
      <>
        {a.proxyCountry}
        {region?.latencyMs != null ? ` · ${Math.round(region.latencyMs)} ms` : ''}
      </>,
    ],
    [
      'Listener',
      a.listener.state === 'up' ? 'ok' : a.listener.state === 'down' ? 'bad' : 'unknown',
      <>
        {words(a.listener.state)}
        {a.listener.since ? (
          <>
            {' '}
            since <Time at={a.listener.since} />
          </>
        ) : null}
        {a.listener.lastEventAt ? (
          <>
            {' · '}last event <Time at={a.listener.lastEventAt} />
          </>
        ) : null}
      </>,
    ],
    [
      'Webhook',
      states.includes('failing') ? 'bad' : states.includes('healthy') ? 'ok' : 'unknown',
      hook.isError ? (
        'could not be loaded'
      ) : hook.data === undefined ? (
        '…'
      ) : hook.data === null && of.length === 0 ? (
        'none'
      ) : (
        <>
          {hook.data ? words(hook.data) : null}
          {hook.data && of.length > 0 ? ' · ' : null}
          <Endpoints list={of} />
        </>
      ),
    ],
  ]
  return (
    <Card title="Checks">
      <ul className="space-y-2">
        {rows.map(([name, verdict, text]) => (
          <li key={name} className="flex items-start gap-2">
            <span className="mt-0.5">{icons[verdict]}</span>
            <span className="w-20 shrink-0">{name}</span>
            <span className="min-w-0 text-mute">{text}</span>
          </li>
        ))}
      </ul>
    </Card>
  )
}

function Limits({ account: a }: { account: Account }) {
  const usage = useUsage(a.id)
  return (
    <Card title="Account limits">
      <Query query={usage} what="the limits" skeleton={<SkeletonRows rows={2} />}>
        {(u) => {
          const w = u.rateLimits.account
          if (!w) return <p className="text-mute">There are no usage figures for this account.</p>
          return (
            <div className="space-y-4">
              <WindowMeter label="Reads per minute" window={w.read} />
              <WindowMeter label="Writes per minute" window={w.write} />
            </div>
          )
        }}
      </Query>
    </Card>
  )
}

const tones: Record<string, Tone> = {
  'account.connected': 'ok',
  'account.reconnected': 'ok',
  'account.recovered': 'ok',
  'account.resumed': 'ok',
  'account.degraded': 'warn',
  'account.session_expiring': 'warn',
  'account.challenge_required': 'warn',
  'account.reconnect_required': 'bad',
  'account.restricted': 'bad',
}

function Timeline({ account: a }: { account: Account }) {
  const events = useQuery({
    queryKey: keys.events({ account: a.id, kind: 'timeline' }),
    queryFn: async ({ signal }) =>
      (
        await call<{ events: Event[] | null }>('GET', '/v1/events', {
          query: { latest: 30, accountId: a.id, events: 'account.*' },
          signal,
        })
      ).events ?? [],
  })
  return (
    <Card title="Timeline" hint="History of the session">
      <Query query={events} what="the timeline" skeleton={<SkeletonRows rows={3} />}>
        {(list) =>
          list.length === 0 ? (
            <Empty title="Nothing has happened yet" className="!py-6" />
          ) : (
            <ol className="relative space-y-3 border-l pl-4">
              {list.map((e) => (
                <li key={e.id} className="relative">
                  <Dot
                    tone={tones[e.event] ?? 'neutral'}
                    className="absolute top-1.5 -left-[19.5px] !size-2 ring-4 ring-panel"
                  />
                  <div className="flex flex-wrap items-baseline gap-x-2">
                    <Link to="/events/$id" params={{ id: e.id }} className="font-medium hover:underline">
                      {words(e.event.replace('account.', ''))}
                    </Link>
                    <Time at={e.ts} className="text-xs text-mute" />
                  </div>
                  {reasonIn(e) ? <div className="text-xs text-mute">{reasonIn(e)}</div> : null}
                </li>
              ))}
            </ol>
          )
        }
      </Query>
    </Card>
  )
}

function reasonIn(e: Event): string | null {
  const data = e.data as { reason?: unknown } | null
  return typeof data?.reason === 'string' ? reasonOf({ stateReason: data.reason }) : null
}

function CallsChart({ account: a }: { account: Account }) {
  const series = useSeries(24, { filter: { accountId: a.id } })
  return (
    <Card title="Calls" hint="Last 24 hours, by outcome">
      <Query query={series} what="the calls">
        {({ series: s }) =>
          s.every((p) => p.calls === 0) ? (
            <Empty title="No calls in the last day" className="!py-6" />
          ) : (
            <Bars label={`Calls on ${nameOf(a)}`} height={160} times={s.map((p) => p.at)} series={outcomes(s)} />
          )
        }
      </Query>
    </Card>
  )
}
