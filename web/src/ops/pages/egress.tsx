import { useState } from 'react'
import { useQueryClient } from '@tanstack/react-query'
import { call } from '@/api/client'
import {
  Badge,
  Button,
  ButtonLink,
  Card,
  Confirm,
  Empty,
  Notice,
  PageHead,
  Query,
  Skeleton,
  Table,
  Time,
  toast,
  type Column,
} from '@/ui'
import { number, words } from '@/lib/format'
import { useCan, useEgress } from '../hooks'
import { WithReason } from '../parts'
import type { Proxy as EgressProxy, Region } from '../types'

export default function Egress() {
  const query = useEgress()
  return (
    <>
      <PageHead
        title="Egress"
        hint={
          query.data
            ? `Proxies by region. Health and connections are as seen by ${query.data.node}; draining applies to all nodes.`
            : 'Proxies by region'
        }
      />
      <Query
        query={query}
        what="the proxies"
        skeleton={
          <Card>
            <Skeleton className="h-40 w-full" />
          </Card>
        }
      >
        {(data) =>
          data.regions.length === 0 ? (
            <Card>
              <Empty title="No regions configured">
                Set proxies in <code>STAGEDOOR_EGRESS</code>. Without them, no account can be used.
              </Empty>
            </Card>
          ) : (
            <div className="grid gap-3">
              {data.regions.map((r) => (
                <RegionCard key={r.region} region={r} />
              ))}
            </div>
          )
        }
      </Query>
    </>
  )
}

function RegionCard({ region }: { region: Region }) {
  const client = useQueryClient()
  const can = useCan('operator')
  const [draining, setDraining] = useState<EgressProxy | null>(null)
  const [back, setBack] = useState<EgressProxy | null>(null)
  const usable = region.proxies.filter((p) => p.healthy && !p.draining)
  const last = draining !== null && usable.every((p) => p.proxy === draining.proxy)
  const path = (p: EgressProxy, what: string) => `/admin/v1/egress/${region.region}/${p.proxy}/${what}`
  const columns: Column<EgressProxy>[] = [
    {
      key: 'proxy',
      head: 'Proxy',
      cell: (p) => (
        <span className="font-mono">
          {region.region}/{p.proxy}
        </span>
      ),
    },
    {
      key: 'state',
      head: 'State',
      cell: (p) => (
        <span className="flex flex-wrap gap-1.5">
          {p.healthy ? (
            <Badge tone="ok" dot>
              Healthy
            </Badge>
          ) : (
            <Badge tone="bad" dot>
              Down
            </Badge>
          )}
          {p.draining ? (
            <Badge tone="warn" dot>
              Drained
            </Badge>
          ) : null}
        </span>
      ),
    },
    { key: 'since', head: 'Since', from: 'md', cell: (p) => <Time at={p.since} /> },
    { key: 'why', head: 'Last failure', from: 'sm', cell: (p) => (p.lastFailure ? words(p.lastFailure) : '–') },
    {
      key: 'drained',
      head: 'Drained',
      from: 'lg',
      cell: (p) =>
        p.draining ? (
          <span className="break-words">
            <Time at={p.drainedAt} /> by {p.drainedBy}: {p.reason}
          </span>
        ) : (
          '–'
        ),
    },
    {
      key: 'open',
      head: 'Open',
      align: 'right',
      cell: (p) => <span title="Connections of this node">{number(p.openConnections)}</span>,
    },
    {
      key: 'act',
      head: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (p) =>
        !can ? null : p.draining ? (
          <Button size="sm" onClick={() => setBack(p)}>
            Use again
          </Button>
        ) : (
          <Button size="sm" onClick={() => setDraining(p)}>
            Drain
          </Button>
        ),
    },
  ]
  return (
    <Card
      flush
      title={<span>Region {region.region}</span>}
      actions={
        <>
          {!region.on ? (
            <Badge tone="bad" dot>
              Switched off
            </Badge>
          ) : region.available ? (
            <Badge tone="ok" dot>
              Available
            </Badge>
          ) : (
            <Badge tone="bad" dot>
              No usable proxy
            </Badge>
          )}
          <ButtonLink size="sm" to="/accounts" search={{ region: region.region }}>
            Accounts
          </ButtonLink>
        </>
      }
    >
      {!region.on ? (
        <Notice tone="bad" className="m-3">
          No traffic leaves through this region until it is switched on again.
        </Notice>
      ) : null}
      <Table label={`Proxies of ${region.region}`} columns={columns} rows={region.proxies} rowKey={(p) => p.proxy} />
      <WithReason
        open={draining !== null}
        onOpenChange={(o) => !o && setDraining(null)}
        title={`Drain ${region.region}/${draining?.proxy ?? ''}?`}
        action="Drain"
        danger={last}
        hint="Recorded in the operators' log."
        run={async (reason) => {
          await call('POST', path(draining!, 'drain'), { body: { reason } })
          await client.invalidateQueries({ queryKey: ['egress'] })
          toast.ok(`${region.region}/${draining!.proxy} gets no new traffic`)
        }}
      >
        <p>
          No node sends new traffic through this proxy. Calls in progress may finish; after two minutes the rest are cut
          off. Listeners reconnect through another proxy.
        </p>
        {last ? (
          <Notice tone="bad">
            This is the last usable proxy. Without it, calls for every account in the region are refused.
          </Notice>
        ) : null}
      </WithReason>
      <Confirm
        open={back !== null}
        onOpenChange={(o) => !o && setBack(null)}
        title={`Use ${region.region}/${back?.proxy ?? ''} again?`}
        action="Use again"
        run={async () => {
          await call('POST', path(back!, 'undrain'))
          await client.invalidateQueries({ queryKey: ['egress'] })
          toast.ok(`${region.region}/${back!.proxy} is in use again`)
        }}
      >
        <p>Its accounts return to it with their next call.</p>
      </Confirm>
    </Card>
  )
}
