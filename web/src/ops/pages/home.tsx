import type { ReactNode } from 'react'
import { Link } from '@tanstack/react-router'
import { BookOpen } from 'lucide-react'
import { Badge, Bars, Card, Empty, Facts, PageHead, Query, Table, Time, type Column, type Tone } from '@/ui'
import { isWebLink, number, percent, plural, words } from '@/lib/format'
import { useHome } from '../hooks'
import type { Harm, Home as Answer, Objective, Trouble } from '../types'

// A newer server may know more.
const harms: Partial<Record<Harm, { word: string; tone: Tone }>> = {
  critical: { word: 'Customers notice', tone: 'bad' },
  warning: { word: 'Look soon', tone: 'warn' },
  notice: { word: 'Intended', tone: 'info' },
}

// The pages of the console that show more about a trouble.
const pages: Record<string, string> = {
  region: '/egress',
  paused: '/control',
  node_died: '/fleet',
  role_missing: '/fleet',
  delivery: '/webhooks',
  dead_letters: '/webhooks',
  kms: '/keys',
}

function HarmBadge({ harm }: { harm: Harm }) {
  return (
    <Badge tone={harms[harm]?.tone} dot>
      {harms[harm]?.word ?? harm}
    </Badge>
  )
}

const troubleColumns: Column<Trouble>[] = [
  {
    key: 'what',
    head: 'What is wrong',
    cell: (t) => (
      <div className="min-w-0 py-0.5">
        <div className="font-medium">{t.title}</div>
        <div className="text-mute">{t.detail}</div>
        <div className="mt-1 flex flex-wrap items-center gap-x-2 gap-y-1 sm:hidden">
          <HarmBadge harm={t.harm} />
          <span>{t.where || 'Everywhere'}</span>
          {t.since ? <Time at={t.since} /> : null}
        </div>
      </div>
    ),
  },
  { key: 'harm', head: 'Harm', from: 'sm', cell: (t) => <HarmBadge harm={t.harm} /> },
  { key: 'where', head: 'Where', from: 'sm', cell: (t) => t.where || 'Everywhere' },
  { key: 'since', head: 'Since', from: 'sm', cell: (t) => (t.since ? <Time at={t.since} /> : 'Unknown') },
  {
    key: 'do',
    head: 'What to do',
    align: 'right',
    cell: (t) => (
      <span className="inline-flex flex-wrap justify-end gap-x-3">
        {pages[t.name] ? (
          <Link to={pages[t.name] as never} className="link inline-flex min-h-6 items-center">
            Show
          </Link>
        ) : null}
        {t.runbook && isWebLink(t.runbook) ? (
          <a href={t.runbook} target="_blank" rel="noopener" className="link inline-flex min-h-6 items-center gap-1">
            <BookOpen className="size-3.5" aria-hidden /> Runbook
          </a>
        ) : null}
      </span>
    ),
  },
]

// The short names of the objectives.
const objectives: Record<string, string> = {
  availability: 'Requests',
  overhead: 'Speed of calls',
  arrival: 'Events',
  delivery: 'Webhooks',
}

function budgetTone(o: Objective): Tone {
  if (o.left === null) return 'neutral'
  if (o.left <= 0 || o.burn >= 14.4) return 'bad'
  return o.left < 0.25 || o.burn >= 3 ? 'warn' : 'ok'
}

function Budgets({ home }: { home: Answer }) {
  return (
    <Card title="Error budgets" hint="Of 30 days">
      <Facts
        items={home.objectives.map((o) => [
          <span key="n" title={o.title}>
            {objectives[o.name] ?? words(o.name)}
          </span>,
          o.month === null || o.left === null ? (
            <span className="text-mute">No traffic</span>
          ) : (
            <span className="flex flex-wrap items-center gap-x-2">
              <Badge tone={budgetTone(o)} dot>
                {o.left <= 0 ? 'Used up' : `${percent(o.left, 0)} left`}
              </Badge>
              <span className="text-mute">
                {percent(o.month, 3)} of {percent(o.target)}
              </span>
            </span>
          ),
        ])}
      />
    </Card>
  )
}

function Engines({ home }: { home: Answer }) {
  return (
    <Card title="Engines" hint={plural(home.nodes, 'node')}>
      <Facts
        items={home.engines.map((e) => [
          engineNames[e.name] ?? e.name,
          e.nodes === 0 ? (
            <span className="text-mute">Not checked yet</span>
          ) : (
            <Badge key="b" dot tone={e.down.length === 0 ? 'ok' : 'bad'}>
              {e.down.length === 0 ? 'Works' : `Down for ${e.down.join(', ')}`}
            </Badge>
          ),
        ])}
      />
    </Card>
  )
}

const engineNames: Record<string, string> = {
  postgres: 'PostgreSQL',
  redis: 'Redis',
  nats: 'NATS',
  kms: 'Keys',
  objects: 'Objects',
}

function Regions({ home }: { home: Answer }) {
  return (
    <Card title="Regions">
      {home.regions.length === 0 ? (
        <p className="text-mute">No node has reported a region yet.</p>
      ) : (
        <Facts
          items={home.regions.map((r) => [
            r.name,
            <Badge key="b" dot tone={r.healthy === 0 ? 'bad' : r.healthy < r.all ? 'warn' : 'ok'}>
              {`${r.healthy} of ${plural(r.all, 'proxy', 'proxies')}`}
            </Badge>,
          ])}
        />
      )}
    </Card>
  )
}

function Chart({
  home,
  title,
  hint,
  name,
  color,
  value,
  format,
  more,
}: {
  home: Answer
  title: string
  hint: string
  name: string
  color: string
  value: (p: Answer['chart'][number]) => number
  format?: (n: number) => string
  more?: { name: string; color: string; values: number[] }
}): ReactNode {
  const series = [{ name, color, values: home.chart.map(value) }, ...(more ? [more] : [])]
  return (
    <Card title={title} hint={hint}>
      <Bars label={title} height={120} times={home.chart.map((p) => p.at)} series={series} format={format} />
    </Card>
  )
}

const seconds = (n: number) => `${Math.round(n * 10) / 10} s`
const milliseconds = (n: number) => `${number(n)} ms`

export default function Home() {
  const query = useHome()
  return (
    <>
      <PageHead title="Home" hint="Is anything wrong, where, since when, and what to do" />
      <Query query={query} what="the state of the service">
        {(home) => (
          <div className="grid gap-3">
            <Card
              flush={home.troubles.length > 0}
              title={home.troubles.length > 0 ? plural(home.troubles.length, 'trouble') : undefined}
              hint={home.troubles.length > 0 ? 'The worst first' : undefined}
            >
              {home.troubles.length > 0 ? (
                <Table
                  label="Troubles"
                  columns={troubleColumns}
                  rows={home.troubles}
                  rowKey={(t) => `${t.name} ${t.where}`}
                />
              ) : (
                <Empty good title="Nothing is wrong">
                  {home.counted ? (
                    <>
                      {plural(home.nodes, 'node')}, counted <Time at={home.counted} />.
                    </>
                  ) : (
                    'The nodes have just started. They report every minute.'
                  )}
                </Empty>
              )}
            </Card>
            <div className="grid gap-3 md:grid-cols-3">
              <Budgets home={home} />
              <Engines home={home} />
              <Regions home={home} />
            </div>
            <div className="grid gap-3 lg:grid-cols-2">
              <Chart
                home={home}
                title="Requests"
                hint="Failures are this service's own"
                name="Answered"
                color="var(--accent)"
                value={(p) => p.requests - p.failed}
                more={{ name: 'Failed', color: 'var(--bad)', values: home.chart.map((p) => p.failed) }}
              />
              <Chart
                home={home}
                title="Time added to calls"
                hint="95 of 100 calls were faster"
                name="Added"
                color="var(--info)"
                value={(p) => p.p95Ms}
                format={milliseconds}
              />
              <Chart
                home={home}
                title="Lag of the event store"
                hint="Customers notice more than 15 s"
                name="Lag"
                color="var(--warn)"
                value={(p) => p.lagSeconds}
                format={seconds}
              />
              <Chart
                home={home}
                title="Deliveries that wait"
                hint="Accounts with webhooks to send"
                name="Accounts"
                color="var(--mute)"
                value={(p) => p.backlog}
              />
            </div>
          </div>
        )}
      </Query>
    </>
  )
}
