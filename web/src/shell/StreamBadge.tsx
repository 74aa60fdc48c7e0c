import { useStreamState } from '@/api/hooks'
import { orgStream } from '@/api/stream'
import { Badge } from '@/ui/Badge'

/** The state of the tab's event stream: Live, Reconnecting, Paused. */
export function StreamBadge({ paused, held }: { paused?: boolean; held?: number }) {
  const state = useStreamState()
  const stream = orgStream()
  if (paused)
    return (
      <Badge tone="neutral" dot>
        Paused{held ? ` · ${held} held` : ''}
      </Badge>
    )
  if (state === 'live')
    return (
      <Badge tone="ok" dot>
        Live
      </Badge>
    )
  if (state === 'refused')
    return (
      <Badge tone="bad" dot>
        {stream.problem?.forbidden ? 'No access to events' : 'Stream refused'}
      </Badge>
    )
  if (state === 'reconnecting')
    return (
      <span className="inline-flex items-center gap-2" role="status">
        <Badge tone="warn" dot>
          Reconnecting
        </Badge>
        <button type="button" className="link text-xs" onClick={() => stream.retryNow()}>
          Retry now
        </button>
      </span>
    )
  return (
    <Badge tone="info" dot>
      {state === 'off' ? 'Off' : 'Connecting'}
    </Badge>
  )
}
