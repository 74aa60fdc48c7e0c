import { TriangleAlert } from 'lucide-react'
import { isProblem } from '@/api/client'
import { Button } from '@/ui/Button'
import { Id } from '@/ui/Copy'

/** The whole page when there is no session to render the shell with. */
export function Plain({ error, retry }: { error: unknown; retry: () => void }) {
  const none = !isProblem(error)
  return (
    <main className="mx-auto grid min-h-dvh max-w-md place-content-center px-6 text-center">
      <TriangleAlert className="mx-auto mb-3 size-6 text-warn" aria-hidden />
      <h1 className="text-base font-semibold">
        {none ? 'You are not a member of any organisation' : 'The dashboard could not start'}
      </h1>
      <p className="mt-1 text-mute">{none ? 'Ask an admin of your organisation to invite you.' : error.detail}</p>
      <div className="mt-4 flex flex-wrap items-center justify-center gap-2">
        <Button onClick={retry}>Retry</Button>
        {isProblem(error) && error.requestId ? <Id id={error.requestId} /> : null}
      </div>
    </main>
  )
}
