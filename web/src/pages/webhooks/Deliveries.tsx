import { useState, type ReactNode } from 'react'
import { useQuery } from '@tanstack/react-query'
import { call } from '@/api/client'
import { keys, usePages } from '@/api/hooks'
import { useAccountNames } from '@/api/names'
import type { Delivery } from '@/api/types'
import { useFilters, useTyped } from '@/lib/filters'
import { millis, number, percent } from '@/lib/format'
import {
  Badge,
  Bars,
  Boundary,
  Button,
  ButtonLink,
  Card,
  Chips,
  Code,
  Empty,
  Id,
  More,
  NoMatch,
  Notice,
  Query,
  SearchInput,
  Sheet,
  Status,
  Table,
  Time,
  type Column,
} from '@/ui'
import { failureTitle } from './failures'
import { pathOf, type Target } from './target'

interface Page {
  deliveries: Delivery[] | null
  nextCursor: string | null
}

export interface Tested {
  delivered: boolean
  status: number
  durationMs: number
  responseSnippet: string
  error: string | null
}

// The recent attempts: the height of each bar is its duration.
export function Attempts({ of }: { of: Target }) {
  const last = useQuery({
    queryKey: keys.deliveries(of.id, { chart: true }),
    queryFn: async ({ signal }) =>
      (await call<Page>('GET', pathOf(of) + '/deliveries', { query: { limit: 100 }, signal })).deliveries?.slice(
        0,
        100,
      ) ?? [],
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

/** The result of a test delivery. */
export function TestResult({ r, onClose }: { r: Tested; onClose: () => void }) {
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
      {r.status ? ` · ${r.status}` : r.error ? `: ${r.error}` : ''} · {millis(r.durationMs)}
      {r.responseSnippet ? <Code code={r.responseSnippet} label="response" wrap className="mt-2 text-fg" /> : null}
    </Notice>
  )
}

/** The log of deliveries, with its filters and the details of each. */
export function Deliveries({
  of,
  exists,
  inspect,
}: {
  of: Target
  /** False if nothing receives events here yet. */
  exists: boolean
  inspect: (delivery: Delivery) => ReactNode
}) {
  const name = useAccountNames()
  const f = useFilters({ state: '', event: '' })
  const [text, setText] = useTyped(f.values.event, (event) => f.set({ event: event.trim() }))
  const [shown, setShown] = useState<Delivery | null>(null)
  const list = usePages(
    keys.deliveries(of.id, f.values),
    pathOf(of) + '/deliveries',
    f.values,
    (p: Page) => p.deliveries,
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
    ...(of.kind === 'endpoint'
      ? [
          {
            key: 'account',
            head: 'Account',
            from: 'md' as const,
            cell: (d: Delivery) => (
              <span className="block max-w-40 truncate text-soft">
                {d.accountId ? name(d.accountId) : 'organisation'}
              </span>
            ),
          },
        ]
      : []),
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
        d.status ? (
          <Status status={d.status} />
        ) : (
          <span className="text-xs text-bad-text">{failureTitle(d.error)}</span>
        ),
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
                {exists ? 'Send a test, or wait for an event.' : 'Add a webhook to receive events.'}
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
              {inspect(shown)}
            </Boundary>
          </div>
        ) : null}
      </Sheet>
    </Card>
  )
}
