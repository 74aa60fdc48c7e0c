import { useState } from 'react'
import { Link } from '@tanstack/react-router'
import { useQuery } from '@tanstack/react-query'
import { call } from '@/api/client'
import { useErrors, useSeries } from '@/api/hooks'
import type { ErrorGroup } from '@/api/types'
import { useFilters } from '@/lib/filters'
import { number, plural } from '@/lib/format'
import { outcomes } from '@/lib/outcomes'
import {
  Badge,
  Bars,
  Boundary,
  Button,
  ButtonLink,
  Card,
  Chips,
  Empty,
  NoMatch,
  PageHead,
  Query,
  SearchInput,
  Segments,
  Sheet,
  Status,
  Time,
} from '@/ui'
import { ProblemDoc, type ProblemPage } from '@/ui/ProblemDoc'

/** Failed calls, grouped by code and method, with the fix for each. */
export default function Errors() {
  const f = useFilters({ hours: '24', status: '', q: '' })
  const hours = Number(f.values.hours) || 24
  const errors = useErrors(hours)
  const fixes = useFixes()
  const [shown, setShown] = useState<ErrorGroup | null>(null)
  const q = f.values.q.toLowerCase()
  const all = errors.data?.errors ?? []
  const list = all.filter(
    (e) =>
      (!f.values.status ||
        (f.values.status === '429' ? e.status === 429 : Math.floor(e.status / 100) === Number(f.values.status[0]))) &&
      (!q || e.code.includes(q) || e.method.toLowerCase().includes(q)),
  )
  const total = all.reduce((n, e) => n + e.count, 0)
  const classes = (c: string) =>
    all.filter((e) => (c === '429' ? e.status === 429 : Math.floor(e.status / 100) === Number(c[0]))).length
  const sinceOf = () => new Date(Date.now() - hours * 3_600_000).toISOString()
  return (
    <>
      <PageHead
        title="Errors"
        hint={
          errors.data
            ? total
              ? `${plural(total, 'failed call')} in ${plural(all.length, 'group')}`
              : 'Calls that did not succeed'
            : 'Calls that did not succeed, grouped'
        }
        actions={
          <Segments
            label="Period"
            items={[
              { value: '1', label: '1 h' },
              { value: '24', label: '24 h' },
              { value: '168', label: '7 days' },
              { value: '720', label: '30 days' },
            ]}
            value={String(hours)}
            onChange={(h) => f.set({ hours: h })}
          />
        }
      />
      {hours >= 24 && total > 0 ? (
        <Card title="Failed calls" hint={hours > 72 ? 'By day' : 'By hour'} className="mb-3">
          <Boundary what="the chart">
            <Chart hours={hours} />
          </Boundary>
        </Card>
      ) : null}
      <Card flush>
        <div className="flex flex-wrap items-center gap-2 border-b px-4 py-3">
          <Chips
            label="Status"
            items={[
              { value: '', label: 'All', count: errors.data ? all.length : undefined },
              ...['4xx', '429', '5xx'].map((value) => ({
                value,
                label: value,
                count: errors.data ? classes(value) : undefined,
              })),
            ]}
            value={f.values.status}
            onChange={(status) => f.set({ status })}
          />
          <SearchInput
            label="Code or method"
            value={f.values.q}
            onChange={(v) => f.set({ q: v })}
            className="w-full sm:ml-auto sm:w-56"
          />
        </div>
        <Query query={errors} what="the errors">
          {() =>
            all.length === 0 ? (
              <Empty good title="No errors in this period">
                Every call succeeded.
              </Empty>
            ) : list.length === 0 ? (
              <NoMatch title="No error matches" onClear={() => f.set({ status: '', q: '' })} />
            ) : (
              <ul className="divide-y">
                {list.map((e) => (
                  <Group
                    key={e.code + e.method + e.status}
                    e={e}
                    fix={fixes.get(e.code)?.fix}
                    since={sinceOf()}
                    onShow={() => setShown(e)}
                  />
                ))}
              </ul>
            )
          }
        </Query>
        {list.length >= 100 ? (
          <p className="border-t px-4 py-2 text-xs text-mute">Showing the 100 most frequent.</p>
        ) : null}
      </Card>
      <Sheet open={shown !== null} onOpenChange={(o) => !o && setShown(null)} title={shown?.code ?? 'Problem'}>
        <div className="p-4">{shown ? <ProblemDoc code={shown.code} /> : null}</div>
      </Sheet>
    </>
  )
}

function Group({
  e,
  fix,
  since,
  onShow,
}: {
  e: ErrorGroup
  fix: string | undefined
  since: string
  onShow: () => void
}) {
  return (
    <li className="flex flex-wrap items-start gap-x-4 gap-y-2 px-4 py-3">
      <div className="min-w-0 flex-1 basis-72">
        <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <span className="font-mono font-medium">{number(e.count)}×</span>
          <Link
            to="/logs"
            search={{ code: e.code, method: e.method, source: 'all', since } as never}
            className="font-mono text-xs break-all text-bad-text hover:underline"
          >
            {e.code}
          </Link>
          <Status status={e.status} />
          <span className="font-mono text-xs break-all text-soft">{e.method}</span>
          {e.retryable ? <Badge tone="info">can be retried</Badge> : null}
        </div>
        {fix ? <p className="mt-1 text-soft">{fix}</p> : null}
        <p className="mt-1 text-xs text-mute">
          {e.accounts > 0 ? `${plural(e.accounts, 'account')} · ` : ''}first <Time at={e.firstAt} /> · last{' '}
          <Time at={e.lastAt} />
        </p>
      </div>
      <div className="flex flex-wrap gap-2">
        <ButtonLink
          size="sm"
          to="/logs/$id"
          params={{ id: e.lastRequestId }}
          aria-label={`Latest request with ${e.code} in ${e.method}`}
        >
          Latest request
        </ButtonLink>
        <Button size="sm" onClick={onShow} aria-label={`What it means: ${e.code}`}>
          What it means
        </Button>
      </div>
    </li>
  )
}

function Chart({ hours }: { hours: number }) {
  const series = useSeries(hours)
  return (
    <Query query={series} what="the chart">
      {(d) => (
        <Bars
          label="Failed calls"
          height={140}
          times={d.series.map((p) => p.at)}
          series={outcomes(d.series, { failures: true })}
        />
      )}
    </Query>
  )
}

/** The problem pages by code, with the fix for each. */
function useFixes(): ReadonlyMap<string, ProblemPage> {
  const list = useQuery({
    queryKey: ['problems'],
    queryFn: ({ signal }) => call<{ problems: ProblemPage[] }>('GET', '/problems', { signal }),
    staleTime: Infinity,
    retry: false,
  })
  return new Map((list.data?.problems ?? []).map((p) => [p.code, p]))
}
