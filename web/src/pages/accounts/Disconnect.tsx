import { useNavigate } from '@tanstack/react-router'
import { useQueryClient } from '@tanstack/react-query'
import { api } from '@/api/client'
import type { Account } from '@/api/types'
import { Confirm, toast } from '@/ui'
import { nameOf } from './reasons'

/** Asks for the account's name, then disconnects it permanently. */
export function Disconnect({
  account: a,
  open,
  onOpenChange,
}: {
  account: Account
  open: boolean
  onOpenChange: (open: boolean) => void
}) {
  const navigate = useNavigate()
  const client = useQueryClient()
  return (
    <Confirm
      open={open}
      onOpenChange={onOpenChange}
      title={`Disconnect ${nameOf(a)}?`}
      action="Disconnect"
      danger
      typed={nameOf(a)}
      run={async () => {
        await api.delete('/v1/accounts/{id}', { path: { id: a.id } })
        toast.ok(`${nameOf(a)} is disconnected`)
        await navigate({ to: '/accounts' })
        client.removeQueries({ queryKey: ['account', a.id] })
        void client.invalidateQueries({ queryKey: ['accounts'] })
        void client.invalidateQueries({ queryKey: ['usage'] })
      }}
    >
      <p>
        This permanently deletes the session and stored credentials, signs out on the platform, and stops events and
        webhooks. Events already received are kept as long as your plan allows.
      </p>
      <p>You cannot undo this. If the creator connects again, you get a new account.</p>
    </Confirm>
  )
}
