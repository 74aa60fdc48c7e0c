import {
  memo,
  useCallback,
  useEffect,
  useImperativeHandle,
  useLayoutEffect,
  useRef,
  useState,
  type KeyboardEvent,
  type Ref,
} from 'react'
import { usePlatforms } from '@/api/hooks'
import type { Place } from '@/api/names'
import type { Delivery, Event, Platform } from '@/api/types'
import { useUTC } from '@/lib/clock'
import { cx } from '@/lib/cx'
import { eventText, eventTone } from '@/lib/events'
import { clock, exact, millis, tick } from '@/lib/format'
import { named, siteName } from '@/lib/platforms'
import { Badge, PlatformMark } from '@/ui'
import { failureTitle } from '../webhooks/failures'

export interface TapeHandle {
  /** The rows currently on the screen. */
  visible: () => readonly Event[]
}

export interface TapeProps {
  rows: readonly Event[]
  selected: string | null
  onSelect: (e: Event, open: boolean) => void
  onSpace: () => void
  name: (id: string | null) => string
  place: (id: string | null) => Place | null
  delivery: ((e: Event) => Delivery | null | 'none' | 'unknown') | null
  /** How many other events a row stands for. */
  folded: ReadonlyMap<string, number>
  /** Shows the day next to the time, for rows of more than a day. */
  withDay?: boolean
  handle?: Ref<TapeHandle>
}

const over = 8

/** The rows of the tail. Only those on the screen are rendered, and they keep their place while others arrive above. */
export function Tape({ rows, selected, onSelect, onSpace, name, place, delivery, folded, withDay, handle }: TapeProps) {
  const platforms = usePlatforms()
  const box = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  const [height, setHeight] = useState(600)
  const [narrow, setNarrow] = useState(false)
  const line = narrow ? 54 : 33
  useEffect(() => {
    const el = box.current
    if (!el) return
    const watch = new ResizeObserver(() => {
      setHeight(el.clientHeight)
      setNarrow(el.clientWidth < 560)
    })
    watch.observe(el)
    return () => watch.disconnect()
  }, [])

  // If the user has scrolled down, new rows move the scroll position, not the text.
  const head = useRef<string | null>(null)
  useLayoutEffect(() => {
    const el = box.current
    const before = head.current
    head.current = rows[0]?.id ?? null
    if (!el || !before || el.scrollTop < line / 2) return
    const added = rows.findIndex((r) => r.id === before)
    if (added > 0) el.scrollTop += added * line
  }, [rows, line])

  // Scroll a selected row into view once; afterwards it may move out of view with the others.
  const at = rows.findIndex((r) => r.id === selected)
  const placed = useRef(at)
  placed.current = at
  useLayoutEffect(() => {
    const el = box.current
    if (!el || placed.current < 0) return
    const from = placed.current * line
    if (from < el.scrollTop) el.scrollTop = from
    else if (from + line > el.scrollTop + el.clientHeight) el.scrollTop = from + line - el.clientHeight
  }, [selected, line])

  const first = Math.max(0, Math.floor(top / line) - over)
  const last = Math.min(rows.length, Math.ceil((top + height) / line) + over)
  useImperativeHandle(handle, () => ({ visible: () => rows.slice(first, last) }), [rows, first, last])

  const move = (by: number) => {
    const next = rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))]
    if (next) onSelect(next, false)
  }
  const key = (e: KeyboardEvent) => {
    if (e.key === 'ArrowDown') move(1)
    else if (e.key === 'ArrowUp') move(-1)
    else if (e.key === 'PageDown') move(15)
    else if (e.key === 'PageUp') move(-15)
    else if (e.key === 'Home') move(-rows.length)
    else if (e.key === 'End') move(rows.length)
    else if (e.key === ' ') onSpace()
    else if (e.key === 'Enter' && at >= 0) onSelect(rows[at]!, true)
    else return
    e.preventDefault()
  }
  const shown = at >= first && at < last
  const chosen = useRef(onSelect)
  chosen.current = onSelect
  const pick = useCallback((e: Event) => chosen.current(e, true), [])
  return (
    <div
      ref={box}
      role="listbox"
      aria-label="Events, newest first"
      aria-activedescendant={shown ? 'tape-' + selected : undefined}
      tabIndex={0}
      onKeyDown={key}
      onScroll={(e) => setTop(e.currentTarget.scrollTop)}
      className="relative min-h-0 flex-1 overflow-x-hidden overflow-y-auto overscroll-contain focus-visible:-outline-offset-2"
    >
      <div role="presentation" style={{ height: rows.length * line, paddingTop: first * line }}>
        {rows.slice(first, last).map((e) => (
          <Line
            key={e.id}
            event={e}
            height={line}
            narrow={narrow}
            on={e.id === selected}
            account={e.accountId ? name(e.accountId) : 'organisation'}
            place={place(e.accountId)}
            platforms={platforms.list}
            delivery={delivery ? delivery(e) : null}
            withDelivery={delivery !== null}
            folded={folded.get(e.id) ?? 0}
            withDay={withDay === true}
            onSelect={pick}
          />
        ))}
      </div>
    </div>
  )
}

interface LineProps {
  event: Event
  height: number
  narrow: boolean
  on: boolean
  account: string
  place: Place | null
  platforms: readonly Platform[]
  delivery: Delivery | null | 'none' | 'unknown'
  withDelivery: boolean
  folded: number
  withDay: boolean
  onSelect: (e: Event) => void
}

// Rows arrive up to ten times a second; existing ones are not rendered again.
const Line = memo(function Line({
  event: e,
  height,
  narrow,
  on,
  account,
  place,
  platforms,
  delivery,
  withDelivery,
  folded,
  withDay,
  onSelect,
}: LineProps) {
  const utc = useUTC()
  const said = eventText(e) + (folded > 0 ? ` · QR code renewed ${folded}×` : '')
  const at = new Date(e.ts)
  const when = (
    <span className="font-mono text-xs whitespace-nowrap text-mute" title={exact(at, utc)}>
      {withDay ? `${tick(at, utc, Infinity)} ${clock(at, utc).slice(0, 5)}` : clock(at, utc, true)}
    </span>
  )
  const kind = (
    <Badge mono tone={eventTone(e.event)}>
      {e.event}
    </Badge>
  )
  const platform = place ? named(platforms, place.platform) : null
  const where = platform ? [platform.name, siteName(place?.site)].filter(Boolean).join(' · ') : undefined
  const whose = (
    <>
      {platform ? (
        <>
          <PlatformMark platform={platform} />
          <span className="sr-only">{platform.name}</span>
        </>
      ) : null}
      <span className="truncate">{account}</span>
    </>
  )
  return (
    <div
      id={'tape-' + e.id}
      role="option"
      aria-selected={on}
      onClick={() => onSelect(e)}
      style={{ height }}
      className={cx('cursor-pointer border-b px-3', on ? 'bg-accent-soft' : 'hover:bg-subtle/60')}
    >
      {narrow ? (
        <div className="flex h-full flex-col justify-center gap-0.5">
          <div className="flex min-w-0 items-center gap-2">
            {when}
            <span className="min-w-0 flex-1">{kind}</span>
            {withDelivery ? <Sent d={delivery} /> : null}
          </div>
          <div className="flex min-w-0 items-center gap-1.5 text-xs" title={where}>
            {whose}
            <span className="min-w-0 flex-1 truncate text-mute">{said}</span>
          </div>
        </div>
      ) : (
        <div
          className={cx(
            'grid h-full items-center gap-3',
            withDelivery
              ? 'grid-cols-[88px_minmax(0,2.3fr)_minmax(0,1.5fr)_minmax(0,2fr)_118px]'
              : 'grid-cols-[88px_minmax(0,2fr)_minmax(0,1.6fr)_minmax(0,3fr)]',
          )}
        >
          {when}
          <span className="min-w-0">{kind}</span>
          <span className="flex min-w-0 items-center gap-1.5" title={where}>
            {whose}
          </span>
          <span className="truncate text-soft">{said}</span>
          {withDelivery ? (
            <span className="text-right">
              <Sent d={delivery} />
            </span>
          ) : null}
        </div>
      )}
    </div>
  )
})

function Sent({ d }: { d: Delivery | null | 'none' | 'unknown' }) {
  if (d === 'none') return <span className="font-mono text-xs whitespace-nowrap text-mute">stream only</span>
  if (d === 'unknown' || d === null) return <span className="font-mono text-xs text-mute">…</span>
  if (d.state === 'delivered')
    return (
      <span className="font-mono text-xs whitespace-nowrap text-mute">
        {d.status} · {millis(d.durationMs)}
      </span>
    )
  return (
    <span className="font-mono text-xs whitespace-nowrap text-bad-text">
      {d.status || failureTitle(d.error).toLowerCase()} · try {d.attempt}
    </span>
  )
}
