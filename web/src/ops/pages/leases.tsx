import { Badge, Card, Empty, PageHead, Query, Skeleton, Table, Time, type Column } from '@/ui'
import { cx } from '@/lib/cx'
import { number, plural } from '@/lib/format'
import { useLeases } from '../hooks'
import { Stage } from '../parts'
import type { Work } from '../types'

const about: Record<string, string> = {
  listen: "Accounts' live connections to the platforms",
  ingest: 'Storing events and delivering webhooks',
}
// Each node has its own colour in the slot map. The table names the nodes, so colour is never the only cue.
const colours = ['bg-accent', 'bg-ok', 'bg-info', 'bg-warn', 'bg-accent/50', 'bg-ok/50', 'bg-info/50', 'bg-warn/50']

export default function Leases() {
  const query = useLeases()
  return (
    <>
      <PageHead
        title="Leases"
        hint="Which node does which share of the work. If a node dies, others take over within seconds."
      />
      <Query
        query={query}
        what="the leases"
        skeleton={
          <Card>
            <Skeleton className="h-40 w-full" />
          </Card>
        }
      >
        {(work) =>
          work.length === 0 ? (
            <Card>
              <Empty title="No leases yet">No worker or listener has started yet.</Empty>
            </Card>
          ) : (
            <div className="grid gap-3">
              {work.map((w) => (
                <Kind key={w.kind} work={w} />
              ))}
            </div>
          )
        }
      </Query>
    </>
  )
}

function Kind({ work }: { work: Work }) {
  const place = new Map(work.nodes.map((n, i) => [n.id, i]))
  const listeners: Record<string, number> = {}
  for (const s of work.slots)
    for (const [state, n] of Object.entries(s.listeners ?? {})) listeners[state] = (listeners[state] ?? 0) + n
  const columns: Column<Work['nodes'][number]>[] = [
    {
      key: 'node',
      head: 'Node',
      cell: (n) => (
        <span className="inline-flex min-w-0 items-center gap-2">
          <span
            className={cx('size-2.5 shrink-0 rounded-sm', colours[(place.get(n.id) ?? 0) % colours.length])}
            aria-hidden
          />
          <span className="truncate">{n.name || n.id}</span>
        </span>
      ),
    },
    {
      key: 'state',
      head: 'State',
      cell: (n) =>
        n.leaving ? (
          <Badge tone="warn" dot>
            Leaving
          </Badge>
        ) : n.live ? (
          <Badge tone="ok" dot>
            Alive
          </Badge>
        ) : (
          <Badge tone="neutral" dot>
            Down
          </Badge>
        ),
    },
    { key: 'slots', head: 'Slots', align: 'right', cell: (n) => number(n.slots) },
    { key: 'until', head: 'Lease until', from: 'sm', align: 'right', cell: (n) => <Time at={n.until} /> },
  ]
  return (
    <Card
      flush
      title={<span className="capitalize">{work.kind}</span>}
      hint={about[work.kind]}
      actions={
        work.free > 0 ? (
          <Badge tone="warn" dot>
            {plural(work.free, 'slot')} free
          </Badge>
        ) : (
          <Badge tone="ok" dot>
            All {work.slots.length} slots held
          </Badge>
        )
      }
    >
      <div className="border-b px-4 py-3">
        <ul className="flex flex-wrap gap-[3px]" aria-label={`Slots of ${work.kind}`}>
          {work.slots.map((s) => {
            const at = s.node ? place.get(s.node) : undefined
            const name = work.nodes.find((n) => n.id === s.node)?.name ?? s.node ?? 'unassigned'
            const text = `Slot ${s.slot}: ${name}, epoch ${s.epoch}${
              s.listeners
                ? ', ' +
                  (
                    Object.entries(s.listeners)
                      .map(([k, n]) => `${n} ${k}`)
                      .join(', ') || 'no account'
                  )
                : ''
            }`
            return (
              <li
                key={s.slot}
                title={text}
                className={cx(
                  'size-2.5 rounded-sm',
                  at === undefined ? 'border border-bad' : colours[at % colours.length],
                )}
              >
                <span className="sr-only">{text}</span>
              </li>
            )
          })}
        </ul>
        {Object.keys(listeners).length > 0 ? (
          <div className="mt-3 flex flex-wrap gap-3">
            {Object.entries(listeners).map(([state, n]) => (
              <span key={state} className="inline-flex items-center gap-1.5">
                <Stage state={state} /> {number(n)}
              </span>
            ))}
          </div>
        ) : null}
      </div>
      {work.nodes.length === 0 ? (
        <Empty title="No node holds a lease" />
      ) : (
        <Table dense label={`Nodes of ${work.kind}`} columns={columns} rows={work.nodes} rowKey={(n) => n.id} />
      )}
    </Card>
  )
}
