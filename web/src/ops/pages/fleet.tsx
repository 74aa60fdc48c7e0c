import { Badge, Card, Empty, Facts, Id, Notice, PageHead, Query, Table, Time, type Column } from '@/ui'
import { plural } from '@/lib/format'
import { useEgress, useLeases, useNodes } from '../hooks'
import type { Node } from '../types'

const columns: Column<Node>[] = [
  {
    key: 'name',
    head: 'Node',
    cell: (n) => (
      <div className="min-w-0">
        <div className="font-medium">{n.name}</div>
        <Id id={n.id} short />
      </div>
    ),
  },
  {
    key: 'roles',
    head: 'Roles',
    cell: (n) => (
      <span className="flex flex-wrap gap-1">
        {n.roles.map((r) => (
          <Badge key={r}>{r}</Badge>
        ))}
      </span>
    ),
  },
  { key: 'version', head: 'Version', from: 'sm', cell: (n) => <span className="font-mono text-xs">{n.version}</span> },
  { key: 'started', head: 'Started', from: 'md', cell: (n) => <Time at={n.startedAt} /> },
  { key: 'seen', head: 'Last heartbeat', align: 'right', cell: (n) => <Time at={n.seenAt} /> },
]

export default function Fleet() {
  const nodes = useNodes()
  const leases = useLeases()
  const egress = useEgress()
  const versions = new Set(nodes.data?.map((n) => n.version))
  return (
    <>
      <PageHead title="Fleet" hint="Running nodes and their work" />
      {versions.size > 1 ? (
        <Notice tone="info" className="mb-4">
          {versions.size} versions are running: an upgrade is in progress or was interrupted.
        </Notice>
      ) : null}
      <div className="grid gap-3 lg:grid-cols-[minmax(0,2fr)_minmax(0,1fr)]">
        <Card flush title="Nodes" hint={nodes.data ? plural(nodes.data.length, 'node') : undefined}>
          <Query query={nodes} what="the nodes">
            {(list) =>
              list.length === 0 ? (
                <Empty title="No nodes are alive">
                  A node answered this request, but its heartbeat does not reach the database.
                </Empty>
              ) : (
                <Table label="Nodes" columns={columns} rows={list} rowKey={(n) => n.id} />
              )
            }
          </Query>
        </Card>
        <div className="grid min-w-0 content-start gap-3">
          <Card title="Work">
            <Query query={leases} what="the leases">
              {(work) => (
                <Facts
                  items={work.map((w) => [
                    w.kind,
                    w.free > 0 ? (
                      <Badge tone="warn" dot>
                        {w.free} of {w.slots.length} slots free
                      </Badge>
                    ) : (
                      `${plural(w.slots.length, 'slot')} on ${plural(w.nodes.filter((n) => n.live).length, 'node')}`
                    ),
                  ])}
                />
              )}
            </Query>
          </Card>
          <Card title="Regions">
            <Query query={egress} what="the regions">
              {(e) =>
                e.regions.length === 0 ? (
                  <p className="text-mute">No regions configured (STAGEDOOR_EGRESS).</p>
                ) : (
                  <Facts
                    items={e.regions.map((r) => [
                      r.region,
                      <Badge
                        key="b"
                        dot
                        tone={
                          !r.on || !r.available
                            ? 'bad'
                            : r.proxies.some((p) => !p.healthy || p.draining)
                              ? 'warn'
                              : 'ok'
                        }
                      >
                        {!r.on
                          ? 'Switched off'
                          : !r.available
                            ? 'No usable proxy'
                            : `${r.proxies.filter((p) => p.healthy && !p.draining).length} of ${plural(r.proxies.length, 'proxy', 'proxies')} in use`}
                      </Badge>,
                    ])}
                  />
                )
              }
            </Query>
          </Card>
        </div>
      </div>
    </>
  )
}
