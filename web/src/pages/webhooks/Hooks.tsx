import { Link } from '@tanstack/react-router'
import { keys, usePages } from '@/api/hooks'
import type { WebhookList, WebhookRow } from '@/api/types'
import { useFilters, useTyped } from '@/lib/filters'
import { duration, number, plural, shortId, words } from '@/lib/format'
import { useWhyNot } from '@/shell/session'
import {
  Button,
  ButtonLink,
  Card,
  Chips,
  Copy,
  Empty,
  More,
  NoMatch,
  Query,
  SearchInput,
  Segments,
  State,
  Status,
  Table,
  Time,
  type Column,
} from '@/ui'
import { ByURL } from './ByURL'
import { failureTitle } from './failures'

const states = ['failing', 'healthy', 'paused', 'disabled'] as const

/** The webhooks of single accounts. */
export function Hooks({ onAdd }: { onAdd: () => void }) {
  const f = useFilters({ tab: '', state: '', q: '', url: '', by: '' })
  const { by, state, q, url } = f.values
  const filter = { state, q, url }
  // The tab is no filter.
  const clear = () => f.set({ tab: 'accounts', state: '', q: '', url: '' })
  const [text, setText] = useTyped(q, (q) => f.set({ q: q.trim() }))
  const why = useWhyNot('webhooks:write', 'add webhooks')
  const list = usePages(keys.webhooks(filter), '/v1/webhooks', filter, (p: WebhookList) => p.webhooks, {
    refetchInterval: 60_000,
    enabled: by === '',
  })
  const counts = list.first?.counts
  const total = counts ? states.reduce((n, s) => n + (counts[s] ?? 0), 0) : undefined
  const columns: Column<WebhookRow>[] = [
    {
      key: 'account',
      head: 'Account',
      cell: (w) => (
        <div className="min-w-0 max-w-40 lg:max-w-56">
          <Link
            to="/webhooks/$account"
            params={{ account: w.accountId }}
            className="block truncate leading-6 font-medium hover:underline"
          >
            {w.label || shortId(w.accountId)}
          </Link>
          <span className="font-mono text-xs text-mute">{shortId(w.accountId)}</span>
        </div>
      ),
    },
    {
      key: 'state',
      head: 'State',
      cell: (w) => (
        <div>
          <State state={w.health.laneState === 'lagging' ? 'lagging' : w.health.state} />
          {w.health.state === 'failing' && w.health.failingSince ? (
            <div className="mt-0.5 text-xs whitespace-nowrap text-mute">
              since <Time at={w.health.failingSince} />
            </div>
          ) : null}
        </div>
      ),
    },
    {
      key: 'url',
      head: 'URL',
      from: 'lg',
      className: 'max-w-0 w-2/5',
      cell: (w) => (
        <span className="flex min-w-0 items-center gap-1">
          <span className="truncate font-mono text-xs" title={w.url}>
            {w.url}
          </span>
          <Copy text={w.url} label="Copy the URL" />
        </span>
      ),
    },
    {
      key: 'events',
      head: 'Events',
      from: 'xl',
      cell: (w) => (
        <span className="font-mono text-xs whitespace-nowrap">
          {w.events?.length
            ? `${w.events.slice(0, 2).join(', ')}${w.events.length > 2 ? ` +${w.events.length - 2}` : ''}`
            : 'all'}
        </span>
      ),
    },
    {
      key: 'backlog',
      head: 'Waiting',
      align: 'right',
      from: 'md',
      cell: (w) =>
        w.health.backlog ? (
          <div className="whitespace-nowrap">
            {number(w.health.backlog)}
            <div className="text-xs text-mute">oldest {duration(w.health.lagSec)}</div>
          </div>
        ) : (
          <span className="text-mute">0</span>
        ),
    },
    {
      key: 'last',
      head: 'Last response',
      from: 'sm',
      cell: (w) =>
        w.health.lastStatus ? (
          <Status status={w.health.lastStatus} />
        ) : w.health.lastError ? (
          <span className="text-xs text-bad-text">{failureTitle(w.health.lastError)}</span>
        ) : (
          <span className="text-mute">nothing sent</span>
        ),
    },
    {
      key: 'delivered',
      head: 'Last delivered',
      from: 'xl',
      cell: (w) => <Time at={w.health.lastSuccessAt} className="whitespace-nowrap text-mute" />,
    },
    {
      key: 'open',
      head: <span className="sr-only">Action</span>,
      align: 'right',
      from: 'sm',
      cell: (w) => (
        <ButtonLink
          size="sm"
          to="/webhooks/$account"
          params={{ account: w.accountId }}
          aria-label={`Open the webhook of ${w.label || w.accountId}`}
        >
          Open
        </ButtonLink>
      ),
    },
  ]
  return (
    <Card flush>
      <div className="flex flex-wrap items-center gap-2 border-b px-4 py-3">
        <Segments
          label="Show"
          items={[
            { value: '', label: 'List' },
            { value: 'url', label: 'By URL' },
          ]}
          value={by}
          onChange={(next) => f.set({ by: next, state: '', url: '' })}
        />
        {by === '' ? (
          <Chips
            label="State"
            value={state}
            onChange={(state) => f.set({ state, tab: 'accounts' })}
            items={[
              { value: '', label: 'All', count: total },
              ...states.map((s) => ({ value: s, label: words(s), count: counts?.[s] })),
              { value: 'attention', label: 'Needs attention', count: counts?.['attention'] },
            ]}
          />
        ) : null}
        <SearchInput
          label={by === '' ? 'URL, account or id' : 'URL'}
          value={text}
          onChange={setText}
          className="w-full sm:ml-auto sm:w-56"
        />
      </div>
      {url || counts?.none ? (
        <div className="flex flex-wrap items-center gap-x-4 gap-y-1 border-b px-4 py-2 text-xs text-mute">
          {url ? (
            <span className="flex min-w-0 items-center gap-2">
              <span className="truncate font-mono" title={url}>
                {url}
              </span>
              <button type="button" className="link shrink-0" onClick={() => f.set({ url: '' })}>
                All URLs
              </button>
            </span>
          ) : null}
          {by === '' && counts?.none ? (
            <span>
              {plural(counts.none, 'account')} without a webhook of {counts.none === 1 ? 'its' : 'their'} own
            </span>
          ) : null}
        </div>
      ) : null}
      {by === 'url' ? (
        <ByURL q={q} onClear={clear} onShow={(url) => f.set({ url, by: '', q: '' })} />
      ) : (
        <Query query={list} what="the webhooks">
          {() =>
            (list.rows ?? []).length === 0 ? (
              state || q || url ? (
                <NoMatch
                  title={state === 'attention' ? 'No webhook needs attention' : `No webhook is ${state}`}
                  onClear={clear}
                />
              ) : (
                <Empty
                  title="No webhooks of accounts"
                  action={
                    <Button variant="primary" why={why} onClick={onAdd}>
                      Add webhook
                    </Button>
                  }
                >
                  An account can have a webhook of its own, in addition to the endpoints. Most organisations need only
                  endpoints.
                </Empty>
              )
            ) : (
              <>
                <Table label="Webhooks" columns={columns} rows={list.rows ?? []} rowKey={(w) => w.accountId} />
                <More
                  shown={list.rows?.length ?? 0}
                  what={list.rows?.length === 1 ? 'webhook' : 'webhooks'}
                  query={list}
                />
              </>
            )
          }
        </Query>
      )}
    </Card>
  )
}
