import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api } from '@/api/client'
import { Button } from '@/ui/Button'
import { Time } from '@/ui/Time'
import { toast } from '@/ui/Toast'
import { useSession } from './session'

/** Says that the organisation is being deleted; owners can restore it until everything is destroyed. */
export function DeletionBanner({ purgeAt }: { purgeAt: string }) {
  const { org } = useSession()
  const client = useQueryClient()
  const restore = useMutation({
    mutationFn: () => api.post('/v1/org/restore', {}),
    onSuccess: () => {
      toast.ok(`${org.name} is restored`)
      void client.invalidateQueries()
    },
    onError: toast.problem,
  })
  const final = new Date(purgeAt) <= new Date()
  return (
    <div
      role="region"
      aria-label="Deletion"
      className="flex flex-wrap items-center gap-x-3 gap-y-1.5 border-b bg-bad-soft px-3 py-1.5 text-bad-text md:px-5"
    >
      <span className="min-w-0 flex-1 basis-64">
        <strong className="font-semibold">This organisation is being deleted.</strong> Calls are refused.{' '}
        {final ? (
          'Everything is being destroyed, and it can no longer be restored.'
        ) : (
          <>
            Everything is destroyed at <Time at={purgeAt} as="exact" />; until then an owner can restore it.
          </>
        )}
      </span>
      {org.role === 'owner' && !final ? (
        <Button size="sm" busy={restore.isPending} onClick={() => restore.mutate()}>
          Restore
        </Button>
      ) : null}
    </div>
  )
}
