import { Link, useParams } from '@tanstack/react-router'
import { useQuery } from '@tanstack/react-query'
import { api, isProblem } from '@/api/client'
import { keys } from '@/api/hooks'
import { useCan } from '@/shell/session'
import { eventText } from '@/lib/events'
import { useShortcut } from '@/shell/shortcuts'
import { Badge, ButtonLink, Card, Empty, Failed, Id, PageHead, SkeletonRows, toast } from '@/ui'
import { Pane, ReplayButton, useReplay } from './Pane'
import { rawEvent } from './raw'

/** One event: the page of a pasted evt_ id. */
export default function EventPage() {
  const { id } = useParams({ strict: false }) as { id: string }
  const query = useQuery({
    queryKey: keys.event(id),
    queryFn: ({ signal }) => rawEvent(id, signal),
    staleTime: Infinity,
  })
  const e = query.data?.event ?? null
  const replay = useReplay(e)
  useShortcut('r', 'Replay the event', () => {
    if (replay.why) toast.bad(replay.why)
    else replay.run()
  })
  const gone = query.isError && isProblem(query.error) && query.error.notFound
  return (
    <>
      <PageHead
        title={
          e ? (
            <>
              <span>{e.event}</span>
              <Badge>{e.meta.class}</Badge>
            </>
          ) : (
            'Event'
          )
        }
        back={
          <Link to="/events" className="link">
            ← Live events
          </Link>
        }
        hint={<Id id={id} />}
        actions={e ? <ReplayButton replay={replay} /> : undefined}
      />
      <Card>
        {e ? (
          <>
            {eventText(e) ? <p className="mb-3 text-soft">{eventText(e)}</p> : null}
            <h2 className="sr-only">Details</h2>
            <Pane event={e} head={false} />
            <Cause id={e.id} />
          </>
        ) : gone ? (
          <Empty title="Event not found" action={<ButtonLink to="/events">Live events</ButtonLink>}>
            It may be older than your plan keeps events, or belong to another organisation.
          </Empty>
        ) : query.isError ? (
          <Failed what="the event" error={query.error} retry={() => void query.refetch()} />
        ) : (
          <SkeletonRows rows={5} />
        )}
      </Card>
    </>
  )
}

// The request that caused the event. Events of the platform have none.
function Cause({ id }: { id: string }) {
  const may = useCan('usage:read')
  const query = useQuery({
    queryKey: keys.logs({ eventId: id }),
    queryFn: async ({ signal }) => (await api.get('/v1/logs', { query: { eventId: id, limit: 1 }, signal })).logs,
    enabled: may,
    staleTime: 30_000,
    retry: false,
  })
  const request = query.data?.[0]
  if (!request) return null
  return (
    <p className="mt-4 border-t pt-3 text-xs text-mute">
      Caused by the request{' '}
      <Link to="/logs/$id" params={{ id: request.requestId }} className="link font-mono">
        {request.method}
      </Link>
    </p>
  )
}
