import { useState, type ReactNode } from 'react'
import { Link } from '@tanstack/react-router'
import { Download } from 'lucide-react'
import { download, type Query as Ask } from '@/api/client'
import { keys, usePages } from '@/api/hooks'
import type { AuditEntry } from '@/api/types'
import { cx } from '@/lib/cx'
import { useFilters, useTyped } from '@/lib/filters'
import { shortId, words } from '@/lib/format'
import { targetOf } from '@/lib/ids'
import { useSession } from '@/shell/session'
import {
  Badge,
  Button,
  Card,
  Empty,
  Facts,
  Id,
  Input,
  More,
  NoMatch,
  PageHead,
  Query,
  Select,
  Sheet,
  Table,
  Time,
  toast,
  type Column,
} from '@/ui'
import { actions, actionWords, actorWords, changesOf, plain, reasonOf } from './words'

const ranges: [string, string, number][] = [
  ['24h', 'Last 24 hours', 24],
  ['7d', 'Last 7 days', 168],
  ['30d', 'Last 30 days', 720],
]

export default function Audit() {
  const { org } = useSession()
  const f = useFilters({ action: '', actorId: '', target: '', range: '', entry: '' })
  const { action, actorId, target, range, entry } = f.values
  const [actorText, setActor] = useTyped(actorId, (v) => f.set({ actorId: v.trim() }))
  const [targetText, setTarget] = useTyped(target, (v) => f.set({ target: v.trim() }))
  const [saving, setSaving] = useState(false)
  const since = () => {
    const hours = ranges.find(([v]) => v === range)?.[2]
    // Rounded to the minute, so that the same view sends the same query.
    return hours ? new Date(Math.floor(Date.now() / 60_000) * 60_000 - hours * 3_600_000).toISOString() : undefined
  }
  const filters: Ask = { action, actorId, target }
  const list = usePages(
    keys.audit({ action, actorId, target, range }),
    '/v1/me/audit',
    { ...filters, since: since() },
    (p: { entries: AuditEntry[] | null; nextCursor: string | null }) => p.entries,
  )
  const filtered = Boolean(action || actorId || target || range)
  const shown = list.rows?.find((e) => e.id === entry)
  const clear = () => f.set({ action: '', actorId: '', target: '', range: '' })

  const columns: Column<AuditEntry>[] = [
    {
      key: 'what',
      head: 'Action',
      cell: (e) => (
        <div className="min-w-0">
          <button
            type="button"
            className="min-h-6 text-left font-medium hover:underline"
            onClick={() => f.set({ entry: e.id }, { push: true })}
          >
            {actionWords(e.action)}
          </button>
          {reasonOf(e.changes) ? (
            <div className="max-w-64 truncate text-xs text-mute">{reasonOf(e.changes)}</div>
          ) : null}
          <div className="flex flex-wrap items-center gap-x-2 text-xs text-mute sm:hidden">
            <Who e={e} /> <Time at={e.at} />
          </div>
        </div>
      ),
    },
    { key: 'target', head: 'Target', from: 'md', cell: (e) => <Target id={e.target} /> },
    { key: 'who', head: 'Actor', from: 'sm', cell: (e) => <Who e={e} onFilter={(id) => f.set({ actorId: id })} /> },
    {
      key: 'from',
      head: 'Source',
      from: 'xl',
      cell: (e) =>
        e.ipHash ? (
          <code
            className="text-xs text-mute"
            title="A fingerprint of the IP address: the same address always has the same one"
          >
            {e.ipHash.slice(0, 10)}
          </code>
        ) : (
          <span className="text-mute">–</span>
        ),
    },
    { key: 'when', head: 'Time', from: 'sm', cell: (e) => <Time at={e.at} className="whitespace-nowrap text-mute" /> },
    {
      key: 'result',
      head: 'Result',
      from: 'lg',
      cell: (e) => (
        <Badge tone={e.outcome === 'success' ? 'ok' : 'bad'}>
          {e.outcome === 'success' ? 'Done' : words(e.outcome)}
        </Badge>
      ),
    },
  ]

  const csv = async () => {
    setSaving(true)
    try {
      await download(
        '/v1/me/audit',
        { ...filters, since: since() },
        'text/csv',
        `audit-${org.name.replace(/[^\w-]+/g, '-').toLowerCase()}.csv`,
      )
    } catch (e) {
      toast.problem(e)
    } finally {
      setSaving(false)
    }
  }

  return (
    <>
      <PageHead
        title="Audit log"
        hint="Who changed what. Entries cannot be changed or deleted."
        actions={
          <Button icon={<Download className="size-4" aria-hidden />} busy={saving} onClick={() => void csv()}>
            Export CSV
          </Button>
        }
      />
      <Card flush>
        <div className="grid gap-2 border-b px-4 py-3 sm:grid-cols-2 lg:grid-cols-[220px_minmax(0,1fr)_minmax(0,1fr)_160px]">
          <Select aria-label="Action" value={action} onChange={(e) => f.set({ action: e.target.value })}>
            <option value="">All actions</option>
            {action && !actions.some(([v]) => v === action) ? (
              <option value={action}>{actionWords(action)}</option>
            ) : null}
            {actions.map(([v, text]) => (
              <option key={v} value={v}>
                {text}
              </option>
            ))}
          </Select>
          <Input
            aria-label="Actor id"
            placeholder="Actor: usr_… or key_…"
            mono
            className="text-xs"
            value={actorText}
            onChange={(e) => setActor(e.target.value)}
            spellCheck={false}
          />
          <Input
            aria-label="Target id"
            placeholder="Target: acct_…, key_…, usr_…"
            mono
            className="text-xs"
            value={targetText}
            onChange={(e) => setTarget(e.target.value)}
            spellCheck={false}
          />
          <Select aria-label="Time" value={range} onChange={(e) => f.set({ range: e.target.value })}>
            <option value="">All time</option>
            {ranges.map(([v, text]) => (
              <option key={v} value={v}>
                {text}
              </option>
            ))}
          </Select>
        </div>
        <Query query={list} what="the audit log">
          {() =>
            list.rows && list.rows.length > 0 ? (
              <>
                <Table
                  label="Audit log"
                  dense
                  columns={columns}
                  rows={list.rows}
                  rowKey={(e) => e.id}
                  selected={entry || null}
                />
                <More shown={list.rows.length} what="entries" query={list} />
              </>
            ) : list.hasNextPage ? (
              <div className="p-6 text-center">
                <Button onClick={() => void list.fetchNextPage()} busy={list.isFetchingNextPage}>
                  Load older entries
                </Button>
              </div>
            ) : filtered ? (
              <NoMatch title="No entry matches" onClear={clear} />
            ) : (
              <Empty title="No changes yet">Changes to accounts, keys, webhooks and the team appear here.</Empty>
            )
          }
        </Query>
      </Card>
      <Sheet
        open={entry !== ''}
        onOpenChange={(open) => (open ? undefined : f.set({ entry: '' }))}
        title={shown ? actionWords(shown.action) : 'Audit entry'}
      >
        {shown ? (
          <Detail e={shown} />
        ) : list.isPending ? null : (
          <Empty title="Entry not loaded">
            The entry <code className="break-all">{entry}</code> is not in the loaded list. Clear the filters or load
            more.
          </Empty>
        )}
      </Sheet>
    </>
  )
}

function Who({ e, onFilter }: { e: AuditEntry; onFilter?: (id: string) => void }): ReactNode {
  const kind = actorWords[e.actor.kind] ?? e.actor.kind
  const name = e.actor.label || e.actor.id
  return (
    <span className="inline-flex max-w-full min-w-0 flex-wrap items-center gap-x-1.5">
      {onFilter && e.actor.id ? (
        <button
          type="button"
          className="min-h-6 max-w-40 min-w-0 truncate lg:max-w-64 text-left hover:underline"
          title={`Show only entries of ${name}`}
          onClick={() => onFilter(e.actor.id)}
        >
          {name}
        </button>
      ) : name ? (
        <span className="min-w-0 break-all">{name}</span>
      ) : null}
      <Badge tone={e.actor.kind === 'operator' ? 'warn' : 'neutral'}>{kind}</Badge>
    </span>
  )
}

function Target({ id, whole }: { id: string; whole?: boolean }) {
  if (!id) return <span className="text-mute">–</span>
  const to = targetOf(id)
  const text = whole ? id : shortId(id)
  if (!to || to.id !== id)
    return <code className={cx('text-xs text-mute', whole ? 'break-all' : 'whitespace-nowrap')}>{text}</code>
  const [path, query] = to.to.split('?')
  return (
    <Link
      to={path as never}
      search={Object.fromEntries(new URLSearchParams(query ?? '')) as never}
      className={cx('link font-mono text-xs', whole ? 'break-all' : 'whitespace-nowrap')}
      title={`${to.kind} ${id}`}
    >
      {text}
    </Link>
  )
}

function Detail({ e }: { e: AuditEntry }) {
  const changes = changesOf(e.changes)
  return (
    <div className="space-y-5 p-4">
      <Facts
        items={[
          ['Time', <Time key="t" at={e.at} as="exact" />],
          ['Actor', <Who key="w" e={e} />],
          ['Actor id', e.actor.id ? <Id key="i" id={e.actor.id} /> : '–'],
          [
            'Action',
            <code key="a" className="text-xs">
              {e.action}
            </code>,
          ],
          ['Target', <Target key="x" id={e.target} whole />],
          [
            'Source',
            e.ipHash ? (
              <code key="f" className="text-xs break-all">
                {e.ipHash}
              </code>
            ) : (
              '–'
            ),
          ],
          ['Result', e.outcome === 'success' ? 'Done. Failed changes are not logged.' : e.outcome],
          ['Request', e.requestId ? <Target key="r" id={e.requestId} whole /> : '–'],
          ['Entry', <Id key="e" id={e.id} />],
        ]}
      />
      {e.ipHash ? (
        <p className="text-xs text-mute">
          The source is a fingerprint of the IP address. The same address always has the same fingerprint, but the
          address cannot be recovered from it.
        </p>
      ) : null}
      {changes.length > 0 ? (
        <section>
          <h3 className="mb-1.5 font-semibold">Changes</h3>
          <div className="relative overflow-x-auto rounded-lg border" tabIndex={0} role="group" aria-label="Changes">
            <table className="w-full text-left text-xs">
              <thead>
                <tr className="border-b text-mute">
                  <th scope="col" className="px-3 py-1.5 font-medium">
                    Field
                  </th>
                  <th scope="col" className="px-3 py-1.5 font-medium">
                    From
                  </th>
                  <th scope="col" className="px-3 py-1.5 font-medium">
                    To
                  </th>
                </tr>
              </thead>
              <tbody className="divide-y">
                {changes.map((c) => (
                  <tr key={c.field}>
                    <th scope="row" className="px-3 py-1.5 align-top font-mono font-normal">
                      {c.field}
                    </th>
                    <td className="px-3 py-1.5 align-top font-mono break-all text-mute">{plain(c.from)}</td>
                    <td className="px-3 py-1.5 align-top font-mono break-all">{plain(c.to)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </section>
      ) : null}
    </div>
  )
}
