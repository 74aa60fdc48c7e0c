import type { ReactNode } from 'react'
import { Link } from '@tanstack/react-router'
import { scopes } from '@/api/facts'
import type { Key } from '@/api/types'
import { number, plural } from '@/lib/format'
import { useCan, useWhyNot } from '@/shell/session'
import { Bars, Button, ButtonLink, Empty, Facts, Id, Query, Sheet, Skeleton, Time } from '@/ui'
import { useKeyCalls } from './calls'
import { KeyStateBadge } from './KeyStateBadge'
import { byHour, keyState, usedBy } from './scopes'

/** One key: its permissions, and its calls in the last day. */
export function KeySheet({
  subject: k,
  wanted,
  loaded,
  onClose,
  onEdit,
  onRotate,
  onRevoke,
}: {
  subject: Key | null
  wanted: string
  loaded: boolean
  onClose: () => void
  onEdit: (k: Key) => void
  onRotate: (k: Key) => void
  onRevoke: (k: Key) => void
}) {
  const why = useWhyNot('me:write', 'change keys')
  const may = useCan('usage:read')
  return (
    <Sheet
      open={wanted !== ''}
      onOpenChange={(open) => (open ? undefined : onClose())}
      title={k?.label || 'API key'}
      actions={
        k && keyState(k) !== 'revoked' ? (
          <>
            {keyState(k) === 'active' ? (
              <>
                <Button size="sm" why={why} onClick={() => onEdit(k)}>
                  Edit
                </Button>
                <Button size="sm" why={why} onClick={() => onRotate(k)}>
                  Rotate
                </Button>
              </>
            ) : null}
            <Button
              size="sm"
              variant="danger"
              why={k.current ? 'A key cannot revoke itself.' : why}
              onClick={() => onRevoke(k)}
            >
              Revoke
            </Button>
          </>
        ) : null
      }
    >
      {k ? (
        <div className="space-y-5 p-4">
          <Facts
            items={[
              ['Id', <Id key="id" id={k.id} />],
              ['State', <KeyStateBadge key="s" k={k} />],
              [
                'Starts with',
                <code key="h" className="text-xs">
                  {k.hint}…
                </code>,
              ],
              ['Created', <Time key="c" at={k.createdAt} as="exact" />],
              ['Expires', k.expiresAt ? <Time key="e" at={k.expiresAt} as="exact" /> : 'never'],
              ...(k.replacedBy ? ([['Replaced by', <Id key="b" id={k.replacedBy} />]] as [string, ReactNode][]) : []),
              ...(k.revokedAt
                ? ([['Revoked', <Time key="r" at={k.revokedAt} as="exact" />]] as [string, ReactNode][])
                : []),
            ]}
          />
          <section>
            <h3 className="mb-1.5 font-semibold">Permissions</h3>
            <ul className="space-y-1">
              {scopes.map((s) => {
                const has = k.scopes?.includes(s.name)
                return (
                  <li key={s.name} className={has ? '' : 'text-mute line-through'}>
                    {s.title} <code className="text-xs text-mute">{s.name}</code>
                    {has ? null : <span className="sr-only"> (not allowed)</span>}
                  </li>
                )
              })}
            </ul>
            <Facts
              className="mt-3"
              items={[
                [
                  'Methods',
                  k.methods || k.inheritedMethods ? (
                    <Patterns key="m" lists={[...(k.inheritedMethods ?? []), k.methods]} />
                  ) : (
                    'all'
                  ),
                ],
                [
                  'Accounts',
                  k.accountIds ? (
                    <span key="a" className="flex flex-col">
                      {k.accountIds.map((a) => (
                        <Link
                          key={a}
                          to="/accounts/$id"
                          params={{ id: a }}
                          className="link flex min-h-6 items-center font-mono text-xs break-all"
                        >
                          {a}
                        </Link>
                      ))}
                    </span>
                  ) : (
                    'all'
                  ),
                ],
                [
                  'Networks',
                  k.allowedIps ? (
                    <span key="n" className="font-mono text-xs break-words">
                      {k.allowedIps.join(', ')}
                    </span>
                  ) : (
                    'all'
                  ),
                ],
              ]}
            />
          </section>
          <section>
            <div className="mb-2 flex items-center gap-2">
              <h3 className="font-semibold">Last 24 hours</h3>
              {may ? (
                <ButtonLink size="sm" variant="ghost" className="ml-auto" to="/logs" search={{ key: k.id }}>
                  Open logs
                </ButtonLink>
              ) : null}
            </div>
            {may ? <Usage id={k.id} /> : <p className="text-mute">Your role cannot see usage.</p>}
          </section>
        </div>
      ) : loaded ? (
        <Empty title="Key not found">
          This organisation has no key <code className="break-all">{wanted}</code>.
        </Empty>
      ) : (
        <div className="space-y-3 p-4">
          <Skeleton />
          <Skeleton className="h-4 w-2/3" />
        </div>
      )}
    </Sheet>
  )
}

function Patterns({ lists }: { lists: (readonly string[] | null | undefined)[] }) {
  const all = lists.filter((l): l is string[] => Boolean(l))
  return (
    <span className="flex flex-col gap-1">
      {all.map((l, i) => (
        <span key={i} className="font-mono text-xs break-words">
          {all.length > 1 && i > 0 ? <span className="font-sans text-mute">and </span> : null}
          {l.join(', ') || 'nothing'}
        </span>
      ))}
    </span>
  )
}

function Usage({ id }: { id: string }) {
  const calls = useKeyCalls(id)
  return (
    <Query query={calls} what="the calls with this key" skeleton={<Skeleton className="h-40 w-full" />}>
      {({ logs, more }) => {
        if (logs.length === 0) return <p className="text-mute">No calls in the last 24 hours.</p>
        const hours = byHour(logs)
        const { methods, accounts } = usedBy(logs)
        return (
          <>
            <Bars
              label="Calls with this key by hour"
              height={120}
              times={hours.map((h) => h.at)}
              series={[
                { name: 'Succeeded', color: 'var(--accent)', values: hours.map((h) => h.succeeded) },
                { name: 'Rate limited', color: 'var(--warn)', values: hours.map((h) => h.limited) },
                { name: 'Failed', color: 'var(--bad)', values: hours.map((h) => h.failed) },
              ]}
            />
            <p className="mt-2 text-xs text-mute">
              {more ? `The newest ${number(logs.length)} calls.` : `${plural(logs.length, 'call')}.`}{' '}
              {accounts > 0 ? `${plural(accounts, 'account')}.` : ''}
            </p>
            <ul className="mt-2 divide-y rounded-lg border">
              {methods.slice(0, 8).map(([name, n]) => (
                <li key={name} className="flex justify-between gap-3 px-3 py-1 font-mono text-xs">
                  <span className="break-all">{name}</span>
                  <span>{number(n)}</span>
                </li>
              ))}
            </ul>
          </>
        )
      }}
    </Query>
  )
}
