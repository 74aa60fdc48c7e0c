import type { ReactNode } from 'react'
import { Link, useParams } from '@tanstack/react-router'
import { useQuery } from '@tanstack/react-query'
import { SquareTerminal } from 'lucide-react'
import { api, isProblem } from '@/api/client'
import { keys } from '@/api/hooks'
import { useAccountNames, useAccountPlaces } from '@/api/names'
import type { Log } from '@/api/types'
import { bytes, millis, shortId } from '@/lib/format'
import { snippets } from '@/lib/snippets'
import {
  Badge,
  ButtonLink,
  Card,
  CodeBlock,
  Empty,
  Facts,
  Failed,
  Id,
  Json,
  PageHead,
  Platform,
  SkeletonRows,
  State,
  Status,
  Time,
} from '@/ui'
import { ProblemDoc, useProblemPage } from '@/ui/ProblemDoc'
import { useEventDeliveries } from '../events/Pane'
import { useKeyNames } from '@/shell/keyNames'
import { useCan } from '@/shell/session'
import { sourceOf } from './index'
import { fieldsOf, limitOf, membersOf, problemOf, usedOf } from './problem'

/** One request: the page of a pasted req_ id. */
export default function LogPage() {
  const { id } = useParams({ strict: false }) as { id: string }
  const query = useQuery({
    queryKey: keys.log(id),
    queryFn: async ({ signal }) => (await api.get('/v1/logs/{requestId}', { path: { requestId: id }, signal })).log,
    staleTime: Infinity,
  })
  const l = query.data
  const gone = query.isError && isProblem(query.error) && query.error.notFound
  return (
    <>
      <PageHead
        title={
          l ? (
            <>
              <span className="min-w-0 font-mono text-base break-all">{l.method}</span>
              <Status status={l.status} />
            </>
          ) : (
            'Request'
          )
        }
        back={
          <Link to="/logs" className="link">
            ← API logs
          </Link>
        }
        hint={<Id id={id} />}
        actions={
          l?.method.includes('.') ? (
            <ButtonLink
              to="/explorer"
              search={{ method: l.method, ...(l.accountId ? { account: l.accountId } : {}) }}
              icon={<SquareTerminal className="size-4" aria-hidden />}
            >
              Run again in explorer
            </ButtonLink>
          ) : undefined
        }
      />
      {l ? (
        <Body l={l} />
      ) : (
        <Card>
          {gone ? (
            <Empty title="Request not found" action={<ButtonLink to="/logs">API logs</ButtonLink>}>
              A request appears here a second or two after its response, and is kept as long as your plan allows. It may
              also belong to another organisation.
            </Empty>
          ) : query.isError ? (
            <Failed what="the request" error={query.error} retry={() => void query.refetch()} />
          ) : (
            <SkeletonRows rows={6} />
          )}
        </Card>
      )}
    </>
  )
}

function Body({ l }: { l: Log }) {
  const name = useAccountNames()
  const place = useAccountPlaces()(l.accountId)
  const keyNames = useKeyNames()
  const limit = limitOf(l)
  const used = usedOf(l)
  const members = membersOf(l)
  const wrong = fieldsOf(l)
  const facts: [ReactNode, ReactNode][] = [
    ['Status', <Status key="s" status={l.status} />],
    [
      'HTTP',
      <span key="h" className="font-mono text-xs">
        {l.http}
      </span>,
    ],
    ['Time', <Time key="t" at={l.at} as="exact" />],
    [
      'Duration',
      <span key="d">
        {millis(l.durationMs)}
        {l.upstreamMs !== null && l.upstreamMs !== undefined
          ? `, of which ${millis(l.upstreamMs)} on the platform`
          : ''}
      </span>,
    ],
    [
      'Account',
      l.accountId ? (
        <Link key="a" to="/accounts/$id" params={{ id: l.accountId }} className="link">
          {name(l.accountId)}
        </Link>
      ) : (
        'none'
      ),
    ],
    ...(place
      ? ([['Platform', <Platform key="p" id={place.platform} site={place.site} />]] as [ReactNode, ReactNode][])
      : []),
    [
      'Caller',
      sourceOf(l) === 'dashboard' ? (
        'a member in the dashboard'
      ) : (
        <Link key="k" to="/keys" search={{ key: l.keyId } as never} className="link">
          {keyNames.get(l.keyId) ?? shortId(l.keyId)}
        </Link>
      ),
    ],
    ['Source', <Badge key="so">{sourceOf(l)}</Badge>],
    ['Size', `${bytes(l.bytesIn)} in, ${bytes(l.bytesOut)} out`],
    ...(limit
      ? ([
          [
            'Limit reached',
            <span key="l">
              {limit} <span className="font-mono text-xs text-mute">{l.reason}</span>
              {used ? <span className="block text-mute">{used}</span> : null}
            </span>,
          ],
          ...(l.resetAt
            ? [
                [
                  'Limit reset',
                  <span key="r">
                    <Time at={l.resetAt} as="exact" /> <span className="text-mute">at the latest</span>
                  </span>,
                ],
              ]
            : []),
        ] as [ReactNode, ReactNode][])
      : []),
    ...members.map(([name, value]): [ReactNode, ReactNode] => [
      name,
      <span key={name} className="font-mono text-xs break-all">
        {value}
      </span>,
    ]),
    ...(wrong.length
      ? ([
          [
            wrong.length === 1 ? 'Invalid field' : 'Invalid fields',
            <ul key="w">
              {wrong.map((w) => (
                <li key={w} className="font-mono text-xs break-all">
                  {w}
                </li>
              ))}
            </ul>,
          ],
        ] as [ReactNode, ReactNode][])
      : []),
    ...(l.upstreamCode !== null && l.upstreamCode !== undefined
      ? ([
          [
            'Platform code',
            <span key="u" className="font-mono text-xs">
              {String(l.upstreamCode)}
            </span>,
          ],
        ] as [ReactNode, ReactNode][])
      : []),
    ...(l.replayed
      ? ([['Replayed', 'the response of an earlier request with the same Idempotency-Key']] as [ReactNode, ReactNode][])
      : []),
    ...(l.dryRun ? ([['Dry run', 'nothing was sent to the platform']] as [ReactNode, ReactNode][]) : []),
  ]
  const about = (
    <Card title="Request details">
      <Facts items={facts} />
      <p className="mt-3 text-xs text-mute">Request and response bodies are not stored.</p>
      <div className="mt-3 flex flex-wrap gap-2">
        <ButtonLink size="sm" to="/logs" search={{ method: l.method }}>
          All calls of {l.method}
        </ButtonLink>
        {l.code ? (
          <ButtonLink size="sm" to="/logs" search={{ code: l.code, source: 'all' }}>
            All {l.code} errors
          </ButtonLink>
        ) : null}
        {l.reason ? (
          <ButtonLink size="sm" to="/logs" search={{ reason: l.reason, source: 'all' }}>
            All calls that this limit refused
          </ButtonLink>
        ) : null}
      </div>
    </Card>
  )
  const caused = l.events?.length ? <Caused events={l.events} /> : null
  const code = <CodeBlock snippets={snippets({ method: 'GET', path: `/v1/logs/${l.requestId}` })} />
  if (!l.code)
    return (
      <div className="grid items-start gap-3 lg:grid-cols-2">
        <div className="min-w-0 space-y-3">
          {about}
          {caused}
        </div>
        {code}
      </div>
    )
  return (
    <div className="grid items-start gap-3 lg:grid-cols-2">
      <div className="min-w-0 space-y-3">
        {about}
        {caused}
        <ProblemBody l={l} code={l.code} />
        {code}
      </div>
      <Card title="What it means">
        <ProblemDoc code={l.code} />
      </Card>
    </div>
  )
}

// The problem's detail was only in the response; the rest comes from the log entry and the catalogue.
function ProblemBody({ l, code }: { l: Log; code: string }) {
  const page = useProblemPage(code)
  return (
    <Card title="Problem" hint="The detail was only in the response, which is not stored">
      <Json label="problem" value={problemOf(l, code, location.origin, page.data)} />
    </Card>
  )
}

// The events that a request caused, each with its newest delivery.
function Caused({ events }: { events: Log['events'] }) {
  return (
    <Card flush title="Events" hint="What this service sent because of the request">
      <ul className="divide-y">
        {events.map((e) => (
          <CausedEvent key={e.id} event={e} />
        ))}
      </ul>
    </Card>
  )
}

function CausedEvent({ event: e }: { event: Log['events'][number] }) {
  const may = useCan('webhooks:read')
  const last = useEventDeliveries(e.id, may).data?.[0]
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 px-4 py-2.5">
      <Link to="/events/$id" params={{ id: e.id }} className="min-w-0 font-mono text-xs break-all hover:underline">
        {e.event}
      </Link>
      <Id id={e.id} short />
      <span className="ml-auto text-xs">
        {last ? (
          <Link to="/webhooks/deliveries/$id" params={{ id: last.id }} className="inline-flex hover:underline">
            <State state={last.state} />
          </Link>
        ) : (
          <span className="text-mute">no delivery</span>
        )}
      </span>
    </li>
  )
}
