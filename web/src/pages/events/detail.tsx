import { Link, useParams } from '@tanstack/react-router'
import { useQuery } from '@tanstack/react-query'
import { isProblem } from '@/api/client'
import { keys } from '@/api/hooks'
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
