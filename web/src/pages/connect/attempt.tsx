import { Link, useParams } from '@tanstack/react-router'
import { isProblem } from '@/api/client'
import { snippets } from '@/lib/snippets'
import { useDialogs } from '@/shell/dialogs'
import {
  ButtonLink,
  Card,
  CodeBlock,
  Empty,
  Facts,
  Failed,
  Id,
  Json,
  PageHead,
  Platform,
  SkeletonRows,
  Time,
} from '@/ui'
import { AttemptState, Flow } from './Flow'
import { masked } from './mask'
import { useAttempt } from './useAttempt'
import { finished, kindWord, methodOf } from './words'

/** One attempt: its current step, or its result. */
export default function AttemptPage() {
  const { id } = useParams({ strict: false }) as { id: string }
  const { query, attempt: a } = useAttempt(id)
  const { connect } = useDialogs()
  const back = (
    <Link to="/connect" className="link">
      ← Connect
    </Link>
  )
  if (!a) {
    const gone = query.isError && isProblem(query.error) && query.error.notFound
    return (
      <>
        <PageHead title="Connect attempt" back={back} hint={<Id id={id} />} />
        <Card>
          {gone ? (
            <Empty title="Attempt not found" action={<ButtonLink to="/connect">All attempts</ButtonLink>}>
              We keep attempts for seven days after they end. This one may also belong to another organisation.
            </Empty>
          ) : query.isError ? (
            <Failed what="the attempt" error={query.error} retry={() => void query.refetch()} />
          ) : (
            <SkeletonRows rows={4} />
          )}
        </Card>
      </>
    )
  }
  const facts: [string, React.ReactNode][] = [
    ['State', <AttemptState key="s" a={a} />],
    ['Platform', <Platform key="p" id={a.platform} site={a.site} />],
    ['Method', kindWord(a.kind)],
    [
      'Account',
      a.account_id ? (
        <Link key="a" to="/accounts/$id" params={{ id: a.account_id }} className="link font-mono text-xs break-all">
          {a.account_id}
        </Link>
      ) : (
        'not yet'
      ),
    ],
    ...(a.reconnect_account_id
      ? ([
          [
            'Reconnects',
            <Link
              key="r"
              to="/accounts/$id"
              params={{ id: a.reconnect_account_id }}
              className="link font-mono text-xs break-all"
            >
              {a.reconnect_account_id}
            </Link>,
          ],
        ] as [string, React.ReactNode][])
      : []),
    [
      'Link',
      a.session_id ? (
        <Link
          key="l"
          to="/connect/links/$id"
          params={{ id: a.session_id }}
          className="link font-mono text-xs break-all"
        >
          {a.session_id}
        </Link>
      ) : (
        'none (API or dashboard)'
      ),
    ],
    ['Reference', a.reference_id],
    ['Region', a.proxy_country],
    ['Reconnect', a.reconnect ? 'yes' : 'no'],
    ['Started', <Time key="b" at={a.created_at} as="exact" />],
    ['Updated', <Time key="c" at={a.updated_at} />],
    ...(finished(a) ? [] : ([['Expires', <Time key="e" at={a.expires_at} />]] as [string, React.ReactNode][])),
  ]
  return (
    <>
      <PageHead
        title={
          <>
            <span className="min-w-0 break-words">{a.label || (a.reconnect ? 'Reconnect' : 'Connect attempt')}</span>
            <AttemptState a={a} />
          </>
        }
        back={back}
        hint={<Id id={a.attempt_id} />}
      />
      <div className="grid items-start gap-3 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <div className="grid gap-3">
          <Card title={finished(a) ? 'Result' : 'Current step'}>
            <Flow
              id={id}
              onAgain={(m) =>
                connect({
                  method: m ?? methodOf(a.kind),
                  ...(a.reconnect_account_id
                    ? { accountId: a.reconnect_account_id }
                    : { platform: a.platform, site: a.site }),
                  label: a.label,
                })
              }
            />
          </Card>
          <Card title="API response">
            <Json value={masked(a)} label="attempt" open={2} />
          </Card>
        </div>
        <div className="grid gap-3">
          <Card title="Details">
            <Facts items={facts} />
          </Card>
          <CodeBlock snippets={snippets({ method: 'GET', path: `/v1/connect/login/${a.attempt_id}` })} />
        </div>
      </div>
    </>
  )
}
