import { useState } from 'react'
import { Link, useNavigate } from '@tanstack/react-router'
import { Plus, ShieldCheck } from 'lucide-react'
import { keys, useEvents, usePages } from '@/api/hooks'
import { useQueryClient } from '@tanstack/react-query'
import type { WebhookList, WebhookRow } from '@/api/types'
import { useFilters } from '@/lib/filters'
import { plural, shortId, words } from '@/lib/format'
import { useWhyNot } from '@/shell/session'
import {
  Button,
  ButtonLink,
  Card,
  Chips,
  Code,
  Copy,
  Empty,
  More,
  NoMatch,
  PageHead,
  Query,
  State,
  Status,
  Table,
  Time,
  type Column,
} from '@/ui'
import { HookDialog } from './HookDialog'

const states = ['failing', 'healthy', 'paused', 'disabled'] as const

/** The webhooks of all accounts. */
export default function Webhooks() {
  const f = useFilters({ state: '' })
  const navigate = useNavigate()
  const client = useQueryClient()
  const why = useWhyNot('webhooks:write', 'add webhooks')
  const [adding, setAdding] = useState(false)
  useEvents((batch) => {
    if (batch.some((e) => e.event.startsWith('webhook.'))) void client.invalidateQueries({ queryKey: ['webhooks'] })
  })
  const list = usePages(keys.webhooks(f.values), '/v1/webhooks', f.values, (p: WebhookList) => p.webhooks, {
    refetchInterval: 60_000,
  })
  const counts = list.first?.counts
  const total = counts ? states.reduce((n, s) => n + (counts[s] ?? 0), 0) : undefined
  const none = counts?.['none']
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
      key: 'last',
      head: 'Last response',
      from: 'sm',
      cell: (w) =>
        w.health.lastStatus ? (
          <Status status={w.health.lastStatus} />
        ) : w.health.lastError ? (
          <span className="text-bad-text">{words(w.health.lastError)}</span>
        ) : (
          <span className="text-mute">nothing sent</span>
        ),
    },
    {
      key: 'delivered',
      head: 'Last delivered',
      from: 'lg',
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
    <>
      <PageHead
        title="Webhooks"
        hint={
          counts
            ? `${plural(total ?? 0, 'webhook')}${none ? ` · ${plural(none, 'account')} without one` : ''}`
            : 'Events of your accounts, sent to your URLs'
        }
        actions={
          <>
            <ButtonLink to="/webhooks/signature" icon={<ShieldCheck className="size-4" aria-hidden />}>
              Check a signature
            </ButtonLink>
            <Button
              variant="primary"
              icon={<Plus className="size-4" aria-hidden />}
              why={why}
              onClick={() => setAdding(true)}
            >
              Add webhook
            </Button>
          </>
        }
      />
      <Card flush>
        <div className="border-b px-4 py-3">
          <Chips
            label="State"
            value={f.values.state}
            onChange={(state) => f.set({ state })}
            items={[
              { value: '', label: 'All', count: total },
              ...states.map((s) => ({ value: s, label: words(s), count: counts?.[s] })),
              { value: 'attention', label: 'Needs attention', count: counts?.['attention'] },
            ]}
          />
        </div>
        <Query query={list} what="the webhooks">
          {() =>
            (list.rows ?? []).length === 0 ? (
              f.active ? (
                <NoMatch
                  title={
                    f.values.state === 'attention' ? 'No webhook needs attention' : `No webhook is ${f.values.state}`
                  }
                  onClear={f.clear}
                />
              ) : (
                <Empty
                  title="No webhooks yet"
                  action={
                    <Button variant="primary" why={why} onClick={() => setAdding(true)}>
                      Add webhook
                    </Button>
                  }
                >
                  Add a URL, or run this command to receive events on your machine:
                  <div className="mt-3 text-left">
                    <Code code="stagedoor listen --forward-to localhost:3000" label="command" wrap />
                  </div>
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
      </Card>
      {adding ? (
        <HookDialog
          onClose={() => setAdding(false)}
          onSaved={(account) => void navigate({ to: '/webhooks/$account', params: { account } as never })}
        />
      ) : null}
    </>
  )
}
