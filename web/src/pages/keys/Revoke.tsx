import { useQueryClient } from '@tanstack/react-query'
import { api } from '@/api/client'
import { keys } from '@/api/hooks'
import type { Key } from '@/api/types'
import { plural } from '@/lib/format'
import { useCan } from '@/shell/session'
import { Confirm, Skeleton, toast } from '@/ui'
import { useKeyCalls } from './calls'
import { usedBy } from './scopes'

/** Asks before a key is revoked, and says what used it: that will stop. */
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
        toast.ok('Revoked. No call succeeds with it any more, on any server.')
        await client.invalidateQueries({ queryKey: keys.keys })
      }}
    >
      <p>Calls that start after this fail at once, and its streams are closed. It cannot be taken back: make a new key instead.</p>
      {subject ? <Used id={subject.id} /> : null}
    </Confirm>
  )
}

function Used({ id }: { id: string }) {
  const may = useCan('usage:read')
  const calls = useKeyCalls(may ? id : null, 1)
  if (!may) return <p>Your role cannot see what used it.</p>
  if (calls.isPending) return <Skeleton className="h-5 w-3/4" />
  if (calls.isError) return <p>What used it in the last 24 hours could not be loaded.</p>
  const { logs, more } = calls.data
  if (logs.length === 0) return <p className="text-ok-text">Nothing used it in the last 24 hours.</p>
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
