import type { UseQueryResult } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { ArrowRight } from 'lucide-react'
import { useFunnel } from '@/api/hooks'
import type { UsageSeries } from '@/api/types'
import { duration, millis } from '@/lib/format'
import { outcomes } from '@/lib/outcomes'
import { Bars, Boundary, ButtonLink, Card, Lines, Query, Skeleton, type Series } from '@/ui'
import { Steps } from '../connect/Steps'

type Result = UseQueryResult<UsageSeries>

const loading = <Skeleton className="h-56 w-full" />

// Charts compare point by point, so the period before has the times of this one.
const before = (name: string, values: (number | null)[] | undefined): Series[] =>
  values ? [{ name, color: 'var(--mute)', values, shape: 'line', dashed: true }] : []

/** Calls by outcome. A click on a point opens its calls; `search` is the filter of the logs, null if they have none like it. */
export function Calls({
  now,
  earlier,
  step,
  search,
}: {
  now: Result
  earlier: UsageSeries | undefined
  step: { by: string; ms: number }
  search: ((since: string, until: string) => Record<string, string>) | null
}) {
  const navigate = useNavigate()
  return (
    <Card
      title="API calls"
      hint={`Per ${step.by}, by outcome`}
      actions={
        search && now.data ? (
          <ButtonLink size="sm" variant="ghost" to="/logs" search={search(now.data.since, now.data.until) as never}>
            Open logs <ArrowRight className="size-4" aria-hidden />
          </ButtonLink>
        ) : undefined
      }
    >
      <Boundary what="the chart">
        <Query query={now} what="the calls" skeleton={loading}>
          {({ series: s }) => (
            <Bars
              label="API calls by outcome"
              fill
              height={240}
              times={s.map((p) => p.at)}
              series={[
                ...outcomes(s),
                ...before(
                  'Period before',
                  earlier?.series.map((p) => p.calls),
                ),
              ]}
              {...(search
                ? {
                    onPick: (i: number) => {
                      const at = s[i]?.at
                      if (!at) return
                      const until = new Date(new Date(at).getTime() + step.ms).toISOString()
                      void navigate({ to: '/logs', search: search(at, until) as never })
                    },
                  }
                : {})}
            />
          )}
        </Query>
      </Boundary>
    </Card>
  )
}

export function Latency({ now, earlier }: { now: Result; earlier: UsageSeries | undefined }) {
  return (
    <Card title="Latency" hint="Half, 95 % and 99 % of the calls took at most this long">
      <Boundary what="the chart">
        <Query query={now} what="the latency" skeleton={loading}>
          {({ series: s }) => (
            <Lines
              label="Latency of calls"
              format={millis}
              axis={short}
              height={180}
              times={s.map((p) => p.at)}
              series={[
                { name: 'p50', color: 'var(--accent)', values: s.map((p) => p.p50Ms) },
                { name: 'p95', color: 'var(--warn)', values: s.map((p) => p.p95Ms) },
                { name: 'p99', color: 'var(--bad)', values: s.map((p) => p.p99Ms) },
                ...before(
                  'p95 before',
                  earlier?.series.map((p) => p.p95Ms),
                ),
              ]}
            />
          )}
        </Query>
      </Boundary>
    </Card>
  )
}

export function Events({ now, earlier }: { now: Result; earlier: UsageSeries | undefined }) {
  return (
    <Card
      title="Events"
      hint="Received, and accepted by your webhooks"
      actions={
        <Link to="/events" className="link text-xs">
          Live events
        </Link>
      }
    >
      <Boundary what="the chart">
        <Query query={now} what="the events" skeleton={loading}>
          {({ series: s }) => (
            <Bars
              label="Events received and delivered"
              height={180}
              times={s.map((p) => p.at)}
              series={[
                { name: 'Delivered', color: 'var(--ok)', values: s.map((p) => p.delivered) },
                { name: 'Failed attempts', color: 'var(--bad)', values: s.map((p) => p.deliveryFailed) },
                { name: 'Received', color: 'var(--accent)', values: s.map((p) => p.eventsReceived), shape: 'line' },
                ...before(
                  'Received before',
                  earlier?.series.map((p) => p.eventsReceived),
                ),
              ]}
            />
          )}
        </Query>
      </Boundary>
    </Card>
  )
}

/** How late events arrive: the slowest accepted delivery of each point, and the oldest event that waits now. */
export function Lag({ now }: { now: Result }) {
  return (
    <Card title="Delivery lag" hint="From an event to your response, the slowest delivery of each point">
      <Boundary what="the chart">
        <Query query={now} what="the lag" skeleton={loading}>
          {({ series: s, deliveryLagSec: oldest }) => (
            <Lines
              label="Slowest delivery"
              format={millis}
              axis={short}
              height={180}
              times={s.map((p) => p.at)}
              series={[
                {
                  name: 'Slowest delivery',
                  color: 'var(--info)',
                  values: s.map((p) => (p.delivered ? p.slowestDeliveryMs : null)),
                },
              ]}
              foot={
                oldest ? (
                  <Link
                    to="/webhooks"
                    search={{ state: 'attention' } as never}
                    className="text-bad-text hover:underline"
                  >
                    The oldest waiting event is {duration(oldest)} old
                  </Link>
                ) : (
                  <span className="text-mute">No event is waiting</span>
                )
              }
            />
          )}
        </Query>
      </Boundary>
    </Card>
  )
}

export function Connects({ hours }: { hours: number }) {
  const query = useFunnel(hours)
  return (
    <Card
      title="Connect funnel"
      hint="All attempts with one link count as one creator"
      actions={
        <Link to="/connect" className="link text-xs">
          All attempts
        </Link>
      }
    >
      <Boundary what="the funnel">
        <Query query={query} what="the funnel" skeleton={loading}>
          {(d) => <Steps d={d} />}
        </Query>
      </Boundary>
    </Card>
  )
}

// 1500 → "1.5 s", narrow enough for an axis.
const short = (ms: number) =>
  ms >= 60_000 ? `${Math.round(ms / 6000) / 10}m` : ms >= 1000 ? `${Math.round(ms / 100) / 10}s` : `${Math.round(ms)}ms`
