import { useNow, useUTC } from '@/lib/clock'
import { clock, day, exact, relative } from '@/lib/format'

/**
 * A time: "12 min ago" with the exact time on hover; as="clock" 22:04:11, as="millis" 22:04:11.123,
 * as="exact" with the date, as="day". Null renders a dash.
 */
export function Time({
  at,
  as = 'relative',
  className,
}: {
  at: string | number | Date | null | undefined
  as?: 'relative' | 'clock' | 'millis' | 'exact' | 'day'
  className?: string
}) {
  const utc = useUTC()
  if (at === null || at === undefined || at === '') return <span className={className}>–</span>
  const date = new Date(at)
  if (Number.isNaN(date.getTime())) return <span className={className}>–</span>
  const full = exact(date, utc)
  return (
    <time dateTime={date.toISOString()} title={full} className={className}>
      {as === 'relative' ? (
        <Relative date={date} />
      ) : as === 'clock' ? (
        clock(date, utc)
      ) : as === 'millis' ? (
        clock(date, utc, true)
      ) : as === 'day' ? (
        day(date, utc)
      ) : (
        full
      )}
    </time>
  )
}

function Relative({ date }: { date: Date }) {
  const near = Math.abs(Date.now() - date.getTime()) < 120_000
  return relative(date, useNow(near ? 1 : 15))
}
