import { useQueryClient } from '@tanstack/react-query'
import { api } from '@/api/client'
import { keys } from '@/api/hooks'
import type { Key } from '@/api/types'
import { plural } from '@/lib/format'
import { useCan } from '@/shell/session'
import { Confirm, Skeleton, toast } from '@/ui'
import { useKeyCalls } from './calls'
import { usedBy } from './scopes'

/** Asks before a key is revoked, and shows what used it and would stop working. */
export function Revoke({ subject, onClose }: { subject: Key | null; onClose: () => void }) {
  const client = useQueryClient()
  return (
    <Confirm
      open={subject !== null}
      onOpenChange={(open) => (open ? undefined : onClose())}
      title={`Revoke ${subject?.label || 'this key'}?`}
      action="Revoke"
      danger
      run={async () => {
        if (!subject) return
        await api.delete('/v1/me/keys/{id}', { path: { id: subject.id } })
        toast.ok('Key revoked. Every server now refuses it.')
        await client.invalidateQueries({ queryKey: keys.keys })
      }}
    >
      <p>
        New calls with this key fail immediately, and its streams are closed. You cannot undo this; create a new key
        instead.
      </p>
      {subject ? <Used id={subject.id} /> : null}
    </Confirm>
  )
}

function Used({ id }: { id: string }) {
  const may = useCan('usage:read')
  const calls = useKeyCalls(may ? id : null, 1)
  if (!may) return <p>Your role cannot see what used this key.</p>
  if (calls.isPending) return <Skeleton className="h-5 w-3/4" />
  if (calls.isError) return <p>We could not load what used this key in the last 24 hours.</p>
  const { logs, more } = calls.data
  if (logs.length === 0) return <p className="text-ok-text">Nothing used this key in the last 24 hours.</p>
  const { methods, accounts } = usedBy(logs)
  return (
    <div className="rounded-lg bg-warn-soft p-3 text-warn-text">
      <p className="font-medium">
        {more ? 'More than ' : ''}
        {plural(logs.length, 'call')} in the last 24 hours{accounts > 0 ? `, on ${plural(accounts, 'account')}` : ''}:
      </p>
      <ul className="mt-1 space-y-0.5">
        {methods.slice(0, 6).map(([name, n]) => (
          <li key={name} className="flex justify-between gap-3 font-mono text-xs">
            <span className="break-all">{name}</span>
            <span>{n}×</span>
          </li>
        ))}
      </ul>
      {methods.length > 6 ? <p className="mt-1 text-xs">and {plural(methods.length - 6, 'other method')}</p> : null}
    </div>
  )
}
