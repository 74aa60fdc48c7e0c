import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { api } from '@/api/client'
import { keys, useEndpoints } from '@/api/hooks'
import type { Account, Delivery } from '@/api/types'
import { millis, number, words } from '@/lib/format'
import { useHookState } from './actions'
import { Endpoints, endpointsOf } from './endpoints'
import { Badge, ButtonLink, Card, Code, Empty, Facts, Query, State, Status, Table, Time, type Column } from '@/ui'

export function WebhookTab({ account: a }: { account: Account }) {
  const state = useHookState(a.id)
  const endpoints = useEndpoints({ enabled: state.data !== undefined })
  const of = endpointsOf(a, endpoints.data)
  const hook = useQuery({
    queryKey: [...keys.webhook(a.id), 'tab', state.data],
    queryFn: async ({ signal }) =>
      state.data === null ? null : (await api.get('/v1/accounts/{id}/webhook', { path: { id: a.id }, signal })).webhook,
    enabled: state.data !== undefined,
  })
  const open = (
    <ButtonLink to="/webhooks/$account" params={{ account: a.id }}>
      {hook.data ? 'Open webhook' : 'Add a webhook'}
    </ButtonLink>
  )
  return (
    <div className="space-y-3">
      <Card title="Webhook" actions={hook.data ? open : undefined}>
        <Query
          query={state.isError && state.data === undefined ? (state as UseQueryResult<never>) : hook}
          what="the webhook"
        >
          {(w) =>
            w === null && of.length > 0 ? (
              <Empty title="No webhook of its own" action={open}>
                The events of this account go to <Endpoints list={of} />.
              </Empty>
            ) : w === null ? (
              <Empty title="No webhook yet" action={open}>
                Add a URL, or run this command to receive events on your machine:
                <div className="mt-3 text-left">
                  <Code code={`stagedoor listen -a ${a.id} --forward-to localhost:3000`} label="command" wrap />
                </div>
              </Empty>
            ) : (
              <Facts
                items={[
                  ['State', <State key="s" state={w.health.state} />],
                  [
                    'URL',
                    <span key="u" className="font-mono text-xs break-all">
                      {w.url}
                    </span>,
                  ],
                  ['Events', w.events?.length ? w.events.join(', ') : 'all'],
                  ['Last delivered', <Time key="d" at={w.health.lastSuccessAt} />],
                  [
                    'Last response',
                    w.health.lastStatus ? (
                      <Status key="l" status={w.health.lastStatus} />
                    ) : w.health.lastError ? (
                      words(w.health.lastError)
                    ) : (
                      '–'
                    ),
                  ],
                  ['Waiting', w.health.backlog ? `${number(w.health.backlog)} events` : 'none'],
                  ...(w.health.failingSince
                    ? [['Failing since', <Time key="f" at={w.health.failingSince} />] as [string, React.ReactNode]]
                    : []),
                  ['Order', w.ordering === 'strict' ? 'strict' : 'as fast as possible'],
                ]}
              />
            )
          }
        </Query>
      </Card>
      {hook.data ? <Deliveries account={a} /> : null}
    </div>
  )
}

function Deliveries({ account: a }: { account: Account }) {
  const list = useQuery({
    queryKey: keys.deliveries(a.id, { limit: 10 }),
    queryFn: async ({ signal }) =>
      (await api.get('/v1/accounts/{id}/webhook/deliveries', { path: { id: a.id }, query: { limit: 10 }, signal }))
        .deliveries ?? [],
    refetchInterval: 30_000,
  })
  const columns: Column<Delivery>[] = [
    { key: 'at', head: 'Time', cell: (d) => <Time at={d.at} as="clock" className="font-mono text-xs text-mute" /> },
    {
      key: 'event',
      head: 'Event',
      cell: (d) => (
        <Badge mono className="max-sm:max-w-32">
          {d.event}
        </Badge>
      ),
    },
    { key: 'state', head: 'State', cell: (d) => <State state={d.state} /> },
    {
      key: 'status',
      head: 'Response',
      from: 'sm',
      cell: (d) => (d.status ? <Status status={d.status} /> : words(d.error ?? 'none')),
    },
    {
      key: 'ms',
      head: 'Duration',
      align: 'right',
      from: 'sm',
      cell: (d) => <span className="font-mono text-xs">{millis(d.durationMs)}</span>,
    },
  ]
  return (
    <Card flush title="Latest deliveries">
      <Query query={list} what="the deliveries">
        {(rows) =>
          rows.length === 0 ? (
            <Empty title="No deliveries yet" />
          ) : (
            <Table label="Deliveries" dense columns={columns} rows={rows} rowKey={(d) => d.id} />
          )
        }
      </Query>
    </Card>
  )
}
