import { Link, useParams } from '@tanstack/react-router'
import { useQuery } from '@tanstack/react-query'
import { api } from '@/api/client'
import { plural } from '@/lib/format'
import { snippets } from '@/lib/snippets'
import { useDialogs } from '@/shell/dialogs'
import { useWhyNot } from '@/shell/session'
import { Button, Card, CodeBlock, Empty, Facts, Id, PageHead, Platform, Query, State, Time } from '@/ui'
import { kindWord } from './words'

/** One link for a creator, and its attempts. */
export default function LinkPage() {
  const { id } = useParams({ strict: false }) as { id: string }
  const { link } = useDialogs()
  const why = useWhyNot('accounts:write', 'create connect links')
  const query = useQuery({
    queryKey: ['links', 'one', id],
    queryFn: async ({ signal }) => (await api.get('/v1/connect/sessions/{id}', { path: { id }, signal })).session,
    refetchInterval: (q) => (q.state.data && ['open', 'in_progress'].includes(q.state.data.status) ? 30_000 : false),
  })
  const s = query.data
  return (
    <>
      <PageHead
        title={
          <>
            <span className="min-w-0 break-words">{s?.label || s?.reference_id || 'Connect link'}</span>
            {s ? <State state={s.status} /> : null}
          </>
        }
        back={
          <Link to="/connect" search={{ tab: 'links' } as never} className="link">
            ← Links
          </Link>
        }
        hint={<Id id={id} />}
        actions={
          <Button
            why={why}
            onClick={() =>
              link(
                s?.reconnect_account_id
                  ? { accountId: s.reconnect_account_id, ...(s.label ? { label: s.label } : {}) }
                  : {},
              )
            }
          >
            Create a new link
          </Button>
        }
      />
      <div className="grid items-start gap-3 lg:grid-cols-2">
        <Card title="Details">
          <Query query={query} what="the link">
            {(d) => (
              <Facts
                items={[
                  ['State', <State key="s" state={d.status} />],
                  ...(d.platform
                    ? ([['Platform', <Platform key="p" id={d.platform} site={d.site} />]] as [
                        string,
                        React.ReactNode,
                      ][])
                    : []),
                  ['Methods', (d.kinds ?? []).map(kindWord).join(', ')],
                  [
                    'Account',
                    d.account_id ? (
                      <Link
                        key="a"
                        to="/accounts/$id"
                        params={{ id: d.account_id }}
                        className="link font-mono text-xs break-all"
                      >
                        {d.account_id}
                      </Link>
                    ) : (
                      'none yet'
                    ),
                  ],
                  ...(d.reconnect_account_id
                    ? ([
                        [
                          'Reconnects',
                          <Link
                            key="r"
                            to="/accounts/$id"
                            params={{ id: d.reconnect_account_id }}
                            className="link font-mono text-xs break-all"
                          >
                            {d.reconnect_account_id}
                          </Link>,
                        ],
                      ] as [string, React.ReactNode][])
                    : []),
                  ['Reference', d.reference_id],
                  ['Created', <Time key="m" at={d.created_at} as="exact" />],
                  ...(d.opened_at !== undefined
                    ? ([['Opened', d.opened_at ? <Time key="o" at={d.opened_at} /> : 'not yet']] as [
                        string,
                        React.ReactNode,
                      ][])
                    : []),
                  ...(d.finished_at
                    ? ([['Finished', <Time key="f" at={d.finished_at} />]] as [string, React.ReactNode][])
                    : []),
                  ['Expires', <Time key="e" at={d.expires_at} />],
                ]}
              />
            )}
          </Query>
          <p className="mt-3 text-xs text-mute">
            The link itself was shown once, when it was created. We keep only a hash of it.
          </p>
        </Card>
        <Card title="Attempts" hint={s ? plural((s.attempts ?? []).length, 'attempt') : undefined}>
          <Query query={query} what="the attempts">
            {(d) =>
              (d.attempts ?? []).length === 0 ? (
                <Empty title={d.opened_at ? 'Opened, no attempts yet' : 'Not opened yet'} className="!py-8">
                  Opening the link does not use it up.
                </Empty>
              ) : (
                <ul className="divide-y">
                  {[...(d.attempts ?? [])].reverse().map((a) => (
                    <li key={a} className="py-1.5">
                      <Link to="/connect/attempts/$id" params={{ id: a }} className="link font-mono text-xs break-all">
                        {a}
                      </Link>
                    </li>
                  ))}
                </ul>
              )
            }
          </Query>
        </Card>
        <CodeBlock
          className="lg:col-span-2"
          snippets={snippets({ method: 'GET', path: `/v1/connect/sessions/${id}` })}
        />
      </div>
    </>
  )
}
