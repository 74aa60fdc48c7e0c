import { useNavigate } from '@tanstack/react-router'
import {
  Badge,
  Card,
  Chips,
  Empty,
  Id,
  More,
  NoMatch,
  PageHead,
  Query,
  SearchInput,
  Select,
  Table,
  Time,
  type Column,
} from '@/ui'
import { useFilters, useTyped } from '@/lib/filters'
import { useOrgs, usePlans } from '../hooks'
import { OrgLink } from '../parts'
import type { Org } from '../types'

const columns: Column<Org>[] = [
  {
    key: 'name',
    head: 'Organisation',
    cell: (o) => (
      <div className="min-w-0">
        <OrgLink org={o} />
        <div>
          <Id id={o.id} short />
        </div>
      </div>
    ),
  },
  { key: 'plan', head: 'Plan', cell: (o) => <span className="capitalize">{o.plan}</span> },
  {
    key: 'env',
    head: 'Environment',
    from: 'sm',
    cell: (o) => <Badge tone={o.environment === 'live' ? 'accent' : 'neutral'}>{o.environment}</Badge>,
  },
  {
    key: 'state',
    head: 'State',
    cell: (o) =>
      o.suspended ? (
        <Badge tone="bad" dot>
          Suspended
        </Badge>
      ) : (
        <Badge tone="ok" dot>
          Active
        </Badge>
      ),
  },
  { key: 'overrides', head: 'Overrides', from: 'lg', cell: (o) => Object.keys(o.limits).length || '–' },
  { key: 'contact', head: 'Contact', from: 'lg', cell: (o) => <span className="break-all">{o.contactEmail}</span> },
  { key: 'created', head: 'Created', from: 'md', align: 'right', cell: (o) => <Time at={o.createdAt} as="day" /> },
]

export default function Orgs() {
  const f = useFilters({ q: '', plan: '', environment: '', suspended: '' })
  const [text, setText] = useTyped(f.values.q, (q) => f.set({ q }))
  const list = useOrgs(f.values)
  const plans = usePlans()
  const navigate = useNavigate()
  return (
    <>
      <PageHead title="Organisations" hint="Plans, limits, suspension and support access" />
      <Card
        flush
        tools={<SearchInput label="Name, email or id" value={text} onChange={setText} className="w-full sm:w-72" />}
        actions={
          <>
            <Select aria-label="Plan" value={f.values.plan} onChange={(e) => f.set({ plan: e.target.value })}>
              <option value="">All plans</option>
              {plans.data?.map((p) => (
                <option key={p.name} value={p.name}>
                  {p.name}
                </option>
              ))}
            </Select>
            <Chips
              label="Environment"
              items={[
                { value: '', label: 'All' },
                { value: 'live', label: 'Live' },
                { value: 'sandbox', label: 'Sandbox' },
              ]}
              value={f.values.environment}
              onChange={(environment) => f.set({ environment })}
            />
            <Chips
              label="State"
              items={[
                { value: '', label: 'Any state' },
                { value: 'true', label: 'Suspended' },
              ]}
              value={f.values.suspended}
              onChange={(suspended) => f.set({ suspended })}
            />
          </>
        }
      >
        <Query query={list} what="the organisations">
          {() =>
            list.rows!.length === 0 ? (
              f.active ? (
                <NoMatch title="No organisation matches" onClear={f.clear} />
              ) : (
                <Empty title="No organisations yet">
                  Create one with <code>stagedoord admin org create</code>.
                </Empty>
              )
            ) : (
              <>
                <Table
                  label="Organisations"
                  columns={columns}
                  rows={list.rows!}
                  rowKey={(o) => o.id}
                  onRow={(o) => void navigate({ to: '/orgs/$id', params: { id: o.id } as never })}
                />
                <More shown={list.rows!.length} what="organisations" query={list} />
              </>
            )
          }
        </Query>
      </Card>
    </>
  )
}
