import type { ReactNode } from 'react'
import type { Window } from '@/api/types'
import { useNow } from '@/lib/clock'
import { cx } from '@/lib/cx'
import { duration, number } from '@/lib/format'
import { Time } from './Time'

/** How much of a limit is used: a bar, the figures, and a note below. A negative limit means no limit. */
export function Meter({ label, used, limit, note }: { label: string; used: number; limit: number; note?: ReactNode }) {
  const share = limit > 0 ? Math.min(1, Math.max(0, used / limit)) : 0
  const tone = share >= 1 ? 'bg-bad' : share >= 0.8 ? 'bg-warn' : 'bg-accent'
  return (
    <div>
      <div className="flex flex-wrap items-baseline justify-between gap-x-3">
        <span>{label}</span>
        <span className="font-mono text-xs text-mute">
          {number(used)} / {limit >= 0 ? number(limit) : 'no limit'}
        </span>
      </div>
      <div
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={Math.max(limit, 1)}
        aria-valuenow={Math.min(used, Math.max(limit, 1))}
        aria-valuetext={limit >= 0 ? `${number(used)} of ${number(limit)}` : `${number(used)}, no limit`}
        className="mt-1 h-1.5 overflow-hidden rounded-full bg-subtle"
      >
        <div className={cx('h-full rounded-full', tone)} style={{ width: `${share * 100}%` }} />
      </div>
      {note ? <div className="mt-1 text-xs text-mute">{note}</div> : null}
    </div>
  )
}

// "resets in 21 s", counting down.
function Resets({ window: w }: { window: Window }) {
  const now = useNow(1)
  if (w.limit < 0) return <>no limit on this plan</>
  const left = w.reset - now / 1000
  if (left <= 0 || w.remaining >= w.limit) return <>nothing used</>
  if (left <= 86_400) return <>resets in {duration(Math.max(1, left))}</>
  return (
    <>
      resets <Time at={w.reset * 1000} as="day" />
    </>
  )
}

/** A meter of a limit that resets: when it resets and how much is left. */
export function WindowMeter({ label, window: w }: { label: string; window: Window }) {
  const used = w.limit >= 0 ? Math.max(0, w.limit - w.remaining) : 0
  const share = w.limit > 0 ? used / w.limit : 0
  return (
    <Meter
      label={label}
      used={used}
      limit={w.limit}
      note={
        <span className="flex flex-wrap justify-between gap-x-3">
          <span>
            <Resets window={w} />
          </span>
          {w.limit > 0 ? (
            <span className={share >= 1 ? 'text-bad-text' : share >= 0.8 ? 'text-warn-text' : undefined}>
              {share >= 1 ? 'limit reached: calls are refused' : `${number(w.remaining)} left`}
            </span>
          ) : null}
        </span>
      }
    />
  )
}
