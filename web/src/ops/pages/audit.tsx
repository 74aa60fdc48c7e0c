import { useState } from 'react'
import {
  Badge,
  Card,
  Chips,
  Empty,
  Facts,
  Id,
  Json,
  More,
  NoMatch,
  PageHead,
  Query,
  SearchInput,
  Select,
  Sheet,
  Table,
  Time,
  type Column,
} from '@/ui'
import { useFilters, useTyped } from '@/lib/filters'
import { useAudit } from '../hooks'
import { OrgLink } from '../parts'
import type { Entry } from '../types'

const columns: Column<Entry>[] = [
  { key: 'at', head: 'Time', cell: (e) => <Time at={e.at} className="whitespace-nowrap" /> },
  {
    key: 'who',
    head: 'Actor',
    cell: (e) => (
      <span className="inline-flex min-w-0 flex-wrap items-center gap-1.5">
        <span className="break-words">{e.actor.label || e.actor.id}</span>{' '}
        <Badge tone={e.actor.kind === 'operator' ? 'warn' : 'neutral'}>{e.actor.kind}</Badge>
      </span>
    ),
  },
  { key: 'what', head: 'Action', cell: (e) => <span className="font-mono text-xs break-all">{e.action}</span> },
  {
    key: 'target',
    head: 'Target',
    from: 'md',
    cell: (e) => <span className="font-mono text-xs break-all text-mute">{e.target}</span>,
  },
  {
    key: 'org',
    head: 'Organisation',
    from: 'sm',
    cell: (e) => (e.org ? <OrgLink org={e.org} /> : <span className="text-mute">Service</span>),
  },
]

export default function Audit() {
  const f = useFilters({ action: '', target: '', org: '', actorKind: '', own: '' })
  const [action, setAction] = useTyped(f.values.action, (v) => f.set({ action: v.trim() }))
  const [target, setTarget] = useTyped(f.values.target, (v) => f.set({ target: v.trim() }))
  const list = useAudit(f.values)
  const [shown, setShown] = useState<Entry | null>(null)
  return (
    <>
      <PageHead title="Audit log" hint="Who changed what, in all organisations and in the service itself" />
      <Card
        flush
        tools={
          <span className="flex flex-wrap gap-2">
            <SearchInput
              label="Action, such as org.update"
              value={action}
              onChange={setAction}
              className="w-full sm:w-60"
            />
            <SearchInput label="Target id" value={target} onChange={setTarget} className="w-full sm:w-60" />
          </span>
        }
        actions={
          <>
            <Select
              aria-label="Actor"
              value={f.values.actorKind}
              onChange={(e) => f.set({ actorKind: e.target.value })}
            >
              <option value="">All actors</option>
              {['operator', 'member', 'key', 'creator', 'system'].map((k) => (
                <option key={k} value={k}>
                  {k}
                </option>
              ))}
            </Select>
            <Chips
              label="Log"
              items={[
                { value: '', label: 'All logs' },
                { value: 'true', label: 'Service only' },
              ]}
              value={f.values.own}
              onChange={(own) => f.set({ own, org: '' })}
            />
            {f.values.org ? (
              <Chips
                label="Organisation"
                items={[{ value: f.values.org, label: 'One organisation ✕' }]}
                value={f.values.org}
                onChange={() => f.set({ org: '' })}
              />
            ) : null}
          </>
        }
      >
        <Query query={list} what="the audit log">
          {() =>
            list.rows!.length === 0 ? (
              f.active ? (
                <NoMatch title="No entry matches" onClear={f.clear} />
              ) : (
                <Empty title="No changes yet" />
              )
            ) : (
              <>
                <Table
                  dense
                  label="Entries"
                  columns={columns}
                  rows={list.rows!}
                  rowKey={(e) => e.id}
                  onRow={setShown}
                  selected={shown?.id ?? null}
                />
                <More shown={list.rows!.length} what="entries" query={list} />
              </>
            )
          }
        </Query>
      </Card>
      <Sheet open={shown !== null} onOpenChange={(o) => !o && setShown(null)} title={shown?.action ?? ''}>
        {shown ? (
          <div className="space-y-4 p-4">
            <Facts
              items={[
                ['Time', <Time key="w" at={shown.at} as="exact" />],
                ['Actor', `${shown.actor.label || shown.actor.id} (${shown.actor.kind})`],
                ['Target', <Id key="t" id={shown.target} />],
                ['Organisation', shown.org ? <OrgLink key="o" org={shown.org} /> : 'Service'],
                ['Request', <Id key="r" id={shown.requestId} />],
                [
                  'Source',
                  <span key="i" className="font-mono text-xs" title="The same source always has the same value">
                    {shown.ipHash}
                  </span>,
                ],
                ['Entry', <Id key="e" id={shown.id} />],
              ]}
            />
            <Json value={shown.changes} />
          </div>
        ) : null}
      </Sheet>
    </>
  )
}
