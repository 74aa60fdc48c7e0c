import { useState, type ReactNode } from 'react'
import { Link } from '@tanstack/react-router'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { RotateCcw } from 'lucide-react'
import { api, call, isProblem } from '@/api/client'
import { useAccountNames, useAccountPlaces } from '@/api/names'
import type { Delivery, Event } from '@/api/types'
import { eventTone } from '@/lib/events'
import { millis } from '@/lib/format'
import { cli, curl } from '@/lib/snippets'
import { useWhyNot } from '@/shell/session'
import {
  Badge,
  Button,
  Code,
  CopyButton,
  Facts,
  Id,
  Json,
  Platform,
  Query,
  Skeleton,
  State,
  Status,
  Time,
  toast,
} from '@/ui'
import { failureTitle } from '../webhooks/failures'
import { pathOf, type Target } from '../webhooks/target'
import { endpointsFor, useHooked } from './useDeliveries'

/** All attempts to deliver an event, newest first. */
export function useEventDeliveries(id: string, enabled = true) {
  return useQuery({
    queryKey: ['deliveries', 'event', id],
    queryFn: async ({ signal }) =>
      (
        await call<{ deliveries: Delivery[] | null }>('GET', '/v1/deliveries', {
          query: { event: id, limit: 50 },
          signal,
        })
      ).deliveries ?? [],
    enabled,
    staleTime: 5_000,
  })
}

// Times are stored more precisely than they are shown.
const justAfter = (ts: string): string => new Date(Date.parse(ts) + 1).toISOString()

/** Sends an event to its webhook again. `why` is the reason if that is not possible. */
export function useReplay(e: Event | null) {
  const client = useQueryClient()
  const role = useWhyNot('webhooks:write', 'replay events')
  const hooked = useHooked()
  const why = !e
    ? 'Choose an event first'
    : (role ??
      (e.meta.class === 'ephemeral'
        ? 'Ephemeral events are not stored'
        : hooked && !hooked.has(e.accountId)
          ? e.accountId
            ? 'No webhook receives the events of this account'
            : 'No endpoint receives the events of the organisation'
          : null))
  const run = useMutation({
    mutationFn: async (event: Event) => {
      const account = event.accountId
      const { deliveries } = await call<{ deliveries: Delivery[] | null }>('GET', '/v1/deliveries', {
        query: { event: event.id, limit: 1 },
      })
      const last = deliveries?.[0]
      // Redeliver the last delivery if there is one; otherwise replay this one event.
      if (last) {
        const of: Target = last.endpointId
          ? { kind: 'endpoint', id: last.endpointId }
          : { kind: 'account', id: last.accountId }
        return call('POST', `${pathOf(of)}/deliveries/${last.id}/redeliver`)
      }
      const endpoint =
        account && hooked?.accounts.has(account) ? null : endpointsFor(hooked?.endpoints ?? [], account)[0]
      if (endpoint)
        return api.post('/v1/webhook-endpoints/{id}/replay', {
          path: { id: endpoint.id },
          body: {
            fromTime: event.ts,
            toTime: justAfter(event.ts),
            events: [event.event],
            ...(account ? { accountIds: [account] } : {}),
          },
        })
      return api.post('/v1/accounts/{id}/webhook/replay', {
        path: { id: account ?? '' },
        body: { fromId: event.id, toTime: justAfter(event.ts), events: [event.event] },
      })
    },
    onSuccess: (_, event) => {
      toast.ok('Sending the event again')
      // The log of deliveries is a second or two behind.
      setTimeout(() => void client.invalidateQueries({ queryKey: ['deliveries', 'event', event.id] }), 2500)
    },
    onError: (e2) =>
      isProblem(e2) && e2.code === 'webhook-not-found' ? toast.bad('The account has no webhook.') : toast.problem(e2),
  })
  return { why, busy: run.isPending, run: () => e && !why && !run.isPending && run.mutate(e) }
}

/** The details of one event. Set `head` to false where the page already has a title. */
export function Pane({ event: e, head = true }: { event: Event; head?: boolean }) {
  const name = useAccountNames()
  const place = useAccountPlaces()(e.accountId)
  const hooked = useHooked()
  const replay = useReplay(e)
  const isHooked = Boolean(hooked?.has(e.accountId))
  const deliveries = useEventDeliveries(e.id, e.meta.class === 'durable')
  const [format, setFormat] = useState<'tree' | 'curl'>('tree')
  const get = { method: 'GET', path: `/v1/events/${e.id}` }
  const last = deliveries.data?.[0]
  const facts: [ReactNode, ReactNode][] = [
    [
      'Account',
      e.accountId ? (
        <Link to="/accounts/$id" params={{ id: e.accountId }} className="link">
          {name(e.accountId)}
        </Link>
      ) : (
        'the organisation'
      ),
    ],
    ...(place
      ? ([['Platform', <Platform key="p" id={place.platform} site={place.site} />]] as [ReactNode, ReactNode][])
      : []),
    [
      'Delivery',
      last ? (
        <DeliveryWord d={last} />
      ) : deliveries.isFetching && !deliveries.data ? (
        <Skeleton className="h-4 w-24" />
      ) : isHooked ? (
        'not sent (not yet, or not selected by the webhook)'
      ) : (
        'stream only'
      ),
    ],
    ['Signature', isHooked ? <Signature e={e} /> : 'none (not sent)'],
    ['Sequence', e.meta.seq === null ? 'none (ephemeral)' : <span className="font-mono text-xs">{e.meta.seq}</span>],
    ['Stored', <Time key="t" at={e.ts} as="exact" />],
    ...(e.meta.upstreamAt
      ? ([['Happened', <Time key="u" at={e.meta.upstreamAt} as="exact" />]] as [ReactNode, ReactNode][])
      : []),
  ]
  return (
    <div className="space-y-4">
      {head ? (
        <div className="flex flex-wrap items-center gap-2">
          <h2 className="inline-flex min-w-0">
            <Badge mono tone={eventTone(e.event)}>
              {e.event}
            </Badge>
          </h2>
          <Id id={e.id} short />
          <span className="ml-auto">
            <ReplayButton replay={replay} />
          </span>
        </div>
      ) : null}
      <Facts items={facts} />
      {format === 'tree' ? <Json value={e} label="event" open={4} /> : <Code code={curl(get)} label="curl" />}
      <div className="flex flex-wrap gap-2">
        <Button size="sm" variant="ghost" onClick={() => setFormat(format === 'tree' ? 'curl' : 'tree')}>
          {format === 'tree' ? 'Show as curl' : 'Show payload'}
        </Button>
        <CopyButton size="sm" text={curl(get)}>
          Copy as curl
        </CopyButton>
        <CopyButton size="sm" text={cli(get)}>
          Copy as CLI
        </CopyButton>
        <CopyButton size="sm" text={() => JSON.stringify(e, null, 2) + '\n'}>
          Copy as fixture
        </CopyButton>
      </div>
      <div>
        <h3 className="mb-1 font-medium">Open in the CLI</h3>
        <Code
          code={`stagedoor listen${e.accountId ? ` -a ${e.accountId}` : ''} --since ${e.id}`}
          label="command"
          wrap
        />
      </div>
      {e.meta.class === 'durable' ? (
        <div>
          <h3 className="mb-1 font-medium">Deliveries</h3>
          <Query query={deliveries} what="the deliveries" skeleton={<Skeleton className="h-10 w-full" />}>
            {(list) =>
              list.length === 0 ? (
                <p className="text-mute">{isHooked ? 'None yet.' : 'None. No webhook receives this event.'}</p>
              ) : (
                <Deliveries list={list} />
              )
            }
          </Query>
        </div>
      ) : null}
    </div>
  )
}

export function ReplayButton({ replay, size = 'md' }: { replay: ReturnType<typeof useReplay>; size?: 'sm' | 'md' }) {
  return (
    <Button
      size={size}
      icon={<RotateCcw className="size-4" aria-hidden />}
      why={replay.why}
      busy={replay.busy}
      onClick={replay.run}
      aria-keyshortcuts="r"
    >
      Replay
    </Button>
  )
}

export function DeliveryWord({ d }: { d: Delivery }) {
  const text = d.status ? `${d.status} · ${millis(d.durationMs)}` : failureTitle(d.error)
  return (
    <span className="inline-flex flex-wrap items-center gap-2">
      <State state={d.state} />
      <span className="font-mono text-xs">{text}</span>
    </span>
  )
}

// The signature uses the account's secret, which is never shown again. This says how it is made and where to check one.
function Signature({ e }: { e: Event }) {
  return (
    <span>
      <code className="text-xs">sha256=</code>HMAC of the raw body.{' '}
      <Link
        to="/webhooks/signature"
        search={{ event: e.id, account: e.accountId ?? '' } as never}
        className="link underline"
      >
        Check a signature
      </Link>
    </span>
  )
}

function Deliveries({ list }: { list: Delivery[] }) {
  return (
    <ul className="divide-y rounded-lg border">
      {list.map((d) => (
        <li key={d.id} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-3 py-1.5">
          <Link to="/webhooks/deliveries/$id" params={{ id: d.id }} className="link">
            <Time at={d.at} as="clock" className="font-mono text-xs" />
          </Link>
          {d.status ? <Status status={d.status} /> : <Badge tone="bad">{failureTitle(d.error)}</Badge>}
          <span className="font-mono text-xs text-mute">{millis(d.durationMs)}</span>
          <span className="ml-auto text-xs text-mute">
            {d.endpointId ? 'endpoint · ' : ''}
            {d.cause === 'live' || d.cause === 'retry' ? `attempt ${d.attempt}` : d.cause}
          </span>
        </li>
      ))}
    </ul>
  )
}
