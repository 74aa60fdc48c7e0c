import { useNavigate } from '@tanstack/react-router'
import { useQueryClient } from '@tanstack/react-query'
import { api } from '@/api/client'
import type { Account } from '@/api/types'
import { Confirm, toast } from '@/ui'
import { nameOf } from './reasons'

/** Asks for the account's name, then removes it for good. */
export function Disconnect({ account: a, open, onOpenChange }: { account: Account; open: boolean; onOpenChange: (open: boolean) => void }) {
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
      <p>This purges the sealed session and stored credentials for good, signs out on the platform, and stops events and webhooks. Events that were received stay as long as the plan keeps them.</p>
      <p>It cannot be undone. A creator who connects again becomes a new account.</p>
    </Confirm>
  )
}
