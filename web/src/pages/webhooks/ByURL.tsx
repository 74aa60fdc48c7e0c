import { useState } from 'react'
import { useQuery } from '@tanstack/react-query'
import { call } from '@/api/client'
import { keys } from '@/api/hooks'
import type { URLCount, WebhookList } from '@/api/types'
import { number, plural } from '@/lib/format'
import { useWhyNot } from '@/shell/session'
import { Button, Copy, Empty, NoMatch, Query, Table, type Column } from '@/ui'
import { EndpointDialog } from './EndpointDialog'

/** The webhooks of accounts by URL. Those with the same URL can be moved to one endpoint. */
export function ByURL({ q, onShow, onClear }: { q: string; onShow: (url: string) => void; onClear: () => void }) {
  const why = useWhyNot('webhooks:write', 'change webhooks')
  const [moving, setMoving] = useState<URLCount | null>(null)
  const list = useQuery({
    queryKey: keys.webhooks({ urls: true, q }),
    queryFn: async ({ signal }) =>
      (await call<WebhookList>('GET', '/v1/webhooks', { query: { urls: true, q, limit: 1 }, signal })).urls ?? [],
    refetchInterval: 60_000,
  })
  const columns: Column<URLCount>[] = [
    {
      key: 'url',
      head: 'URL',
      className: 'max-w-0 w-3/5',
      cell: (u) => (
        <span className="flex min-w-0 items-center gap-1">
          <button
            type="button"
            className="truncate font-mono text-xs hover:underline"
            title={u.url}
            onClick={() => onShow(u.url)}
          >
            {u.url}
          </button>
          <Copy text={u.url} label="Copy the URL" />
        </span>
      ),
    },
    { key: 'webhooks', head: 'Webhooks', align: 'right', cell: (u) => number(u.webhooks) },
    {
      key: 'attention',
      head: 'Need attention',
      align: 'right',
      from: 'sm',
      cell: (u) => <span className={u.attention ? 'text-bad-text' : 'text-mute'}>{number(u.attention)}</span>,
    },
    {
      key: 'move',
      head: <span className="sr-only">Action</span>,
      align: 'right',
      cell: (u) => (
        <Button size="sm" why={why} onClick={() => setMoving(u)} aria-label={`Move to one endpoint: ${u.url}`}>
          <span className="sm:hidden">Move</span>
          <span className="max-sm:hidden">Move to one endpoint</span>
        </Button>
      ),
    },
  ]
  return (
    <>
      <Query query={list} what="the URLs">
        {(urls) =>
          urls.length > 0 ? (
            <>
              <Table label="URLs" columns={columns} rows={urls} rowKey={(u) => u.url} />
              <p className="border-t px-4 py-2 text-xs text-mute">
                {urls.length === 100 ? 'The 100 URLs with the most webhooks' : plural(urls.length, 'URL')}. An endpoint
                sends the events of many accounts to one URL, with one secret.
              </p>
            </>
          ) : q ? (
            <NoMatch title="No URL matches" onClear={onClear} />
          ) : (
            <Empty title="No webhooks of accounts">Endpoints receive the events of all accounts.</Empty>
          )
        }
      </Query>
      {moving ? (
        <EndpointDialog replace={{ url: moving.url, webhooks: moving.webhooks }} onClose={() => setMoving(null)} />
      ) : null}
    </>
  )
}
