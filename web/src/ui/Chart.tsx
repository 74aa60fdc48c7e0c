import { useId, useMemo, useRef, useState, type KeyboardEvent, type PointerEvent, type ReactNode } from 'react'
import { cx } from '@/lib/cx'
import { useUTC } from '@/lib/clock'
import { compact, exact, number, tick } from '@/lib/format'

/** A sparkline: a trend without figures. `label` says what it shows. */
export function Spark({
  values,
  label,
  className,
  tone = 'accent',
}: {
  values: number[]
  label: string
  className?: string
  tone?: 'accent' | 'bad'
}) {
  const w = 96
  const h = 28
  const max = Math.max(...values, 0)
  const min = Math.min(...values, max)
  const x = (i: number) => (values.length < 2 ? w / 2 : (i / (values.length - 1)) * w)
  const y = (v: number) => (max === min ? (max > 0 ? h / 2 : h - 1) : h - 2 - ((v - min) / (max - min)) * (h - 4))
  const line = values.map((v, i) => `${i ? 'L' : 'M'}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join('')
  return (
    <svg
      viewBox={`0 0 ${w} ${h}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
      className={cx('h-7 w-24', tone === 'bad' ? 'text-bad' : 'text-accent', className)}
    >
      {values.length > 1 ? (
        <>
          <path d={`${line}L${w} ${h}L0 ${h}Z`} fill="currentColor" opacity="0.12" />
          <path
            d={line}
            fill="none"
            stroke="currentColor"
            strokeWidth="1.5"
            vectorEffect="non-scaling-stroke"
            strokeLinejoin="round"
          />
        </>
      ) : (
        <line
          x1="0"
          x2={w}
          y1={h - 1}
          y2={h - 1}
          stroke="currentColor"
          opacity="0.3"
          vectorEffect="non-scaling-stroke"
        />
      )}
    </svg>
  )
}

export interface Series {
  name: string
  /** A CSS colour; the tokens are var(--accent), var(--warn), var(--bad), var(--ok), var(--info), var(--mute). */
  color: string
  /** Null where there is no value: a line has a gap there. */
  values: (number | null)[]
  /** Bars are stacked. A line is drawn above them. */
  shape?: 'bar' | 'line'
  dashed?: boolean
}

export interface ChartProps {
  /** What the chart shows, for screen readers and the table. */
  label: string
  /** The start of each point. */
  times: (string | number | Date)[]
  series: Series[]
  /** The height of the plot in px; with `fill`, the minimum height. */
  height?: number
  fill?: boolean
  /** Formats a value in the tooltip and the table. */
  format?: (n: number) => string
  /** A horizontal line, such as a limit. */
  mark?: { value: number; label: string }
  /** Formats the ticks of the axis. */
  axis?: (n: number) => string
  onPick?: (index: number) => void
  foot?: ReactNode
}

function nice(max: number): number[] {
  if (max <= 0) return [0, 1]
  const rough = max / 4
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough) ?? power * 10
  const top = Math.ceil(max / step) * step
  const out: number[] = []
  for (let v = 0; v <= top + step / 2; v += step) out.push(v)
  return out
}

/** Stacked bars over time, with tooltips, arrow keys and a table view. */
export function Bars(props: ChartProps) {
  return <Chart {...props} shape="bar" />
}

/** Lines over time, with the same tooltips, keys and table view. */
export function Lines(props: ChartProps) {
  return <Chart {...props} shape="line" />
}

/** The path of a line; a point between two gaps becomes a short stroke. */
export function linePath(values: readonly (number | null)[], top: number): string {
  let path = ''
  values.forEach((v, i) => {
    if (v === null) return
    const x = i + 0.5
    const y = +(top - v).toFixed(4)
    const before = values[i - 1] ?? null
    const after = values[i + 1] ?? null
    if (before === null && after === null) path += `M${x - 0.3} ${y}H${x + 0.3}`
    else path += `${before === null ? 'M' : 'L'}${x} ${y}`
  })
  return path
}

function Chart({
  label,
  times,
  series,
  height = 220,
  fill,
  format = number,
  axis = compact,
  mark,
  onPick,
  foot,
  shape,
}: ChartProps & { shape: 'bar' | 'line' }) {
  const utc = useUTC()
  const id = useId()
  const [at, setAt] = useState<number | null>(null)
  const [table, setTable] = useState(false)
  const box = useRef<HTMLDivElement>(null)
  const dates = useMemo(() => times.map((t) => new Date(t)), [times])
  const n = dates.length
  const bars = useMemo(() => series.filter((s) => (s.shape ?? shape) === 'bar'), [series, shape])
  const lines = useMemo(() => series.filter((s) => (s.shape ?? shape) === 'line'), [series, shape])
  const most = useMemo(
    () =>
      dates.reduce(
        (max, _, i) =>
          Math.max(
            max,
            bars.reduce((sum, s) => sum + (s.values[i] ?? 0), 0),
            ...lines.map((s) => s.values[i] ?? 0),
          ),
        0,
      ),
    [dates, bars, lines],
  )
  const show = (v: number | null | undefined) => (v === null || v === undefined ? '–' : format(v))
  const ticks = nice(Math.max(most, mark?.value ?? 0))
  const top = ticks[ticks.length - 1] ?? 1
  const span = n > 1 ? (dates[n - 1]?.getTime() ?? 0) - (dates[0]?.getTime() ?? 0) : 0
  const every = Math.max(1, Math.ceil(n / 6))

  const pick = (e: PointerEvent<HTMLDivElement>) => {
    const r = box.current?.getBoundingClientRect()
    if (!r || n === 0) return
    setAt(Math.min(n - 1, Math.max(0, Math.floor(((e.clientX - r.left) / r.width) * n))))
  }
  const key = (e: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[e.key]
    if (step !== undefined) setAt((i) => Math.min(n - 1, Math.max(0, (i ?? (step > 0 ? -1 : n)) + step)))
    else if (e.key === 'Home') setAt(0)
    else if (e.key === 'End') setAt(n - 1)
    else if (e.key === 'Escape') setAt(null)
    else if (e.key === 'Enter' && at !== null) onPick?.(at)
    else return
    e.preventDefault()
  }
  const say = (i: number) =>
    `${dates[i] ? exact(dates[i], utc) : ''}: ${series.map((s) => `${s.name} ${show(s.values[i])}`).join(', ')}`

  return (
    <figure aria-labelledby={id} className={cx('flex min-w-0 flex-col', fill && 'h-full')}>
      <figcaption id={id} className="sr-only">
        {label}
      </figcaption>
      {table ? (
        <div
          className="relative overflow-auto rounded-lg border"
          style={{ maxHeight: height + 24 }}
          tabIndex={0}
          role="group"
          aria-label={`${label}, as a table`}
        >
          <table className="w-full text-xs">
            <thead className="sticky top-0 bg-panel">
              <tr>
                <th scope="col" className="px-3 py-1.5 text-left font-medium">
                  Time
                </th>
                {series.map((s) => (
                  <th key={s.name} scope="col" className="px-3 py-1.5 text-right font-medium">
                    {s.name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody className="divide-y">
              {dates.map((d, i) => (
                <tr key={i}>
                  <th scope="row" className="px-3 py-1 text-left font-normal whitespace-nowrap text-mute">
                    {exact(d, utc)}
                  </th>
                  {series.map((s) => (
                    <td key={s.name} className="px-3 py-1 text-right font-mono">
                      {show(s.values[i])}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <div className="grid flex-1 grid-cols-[auto_minmax(0,1fr)] grid-rows-[minmax(0,1fr)_auto] gap-x-2 pt-3">
          <div className="relative w-9 text-right text-[11px] text-mute" style={{ minHeight: height }} aria-hidden>
            {ticks.map((t) => (
              <span
                key={t}
                className="absolute right-0 leading-none"
                style={{ bottom: `calc(${(t / top) * 100}% - 0.5em)` }}
              >
                {axis(t)}
              </span>
            ))}
          </div>
          <div
            ref={box}
            tabIndex={0}
            role="slider"
            aria-label={`${label}. Use the arrow keys to read the values.`}
            aria-valuemin={0}
            aria-valuemax={Math.max(0, n - 1)}
            aria-valuenow={at ?? 0}
            aria-valuetext={at === null ? `${n} points` : say(at)}
            className={cx('relative rounded', onPick && at !== null && 'cursor-pointer')}
            style={{ minHeight: height }}
            onPointerMove={pick}
            onPointerLeave={() => setAt(null)}
            onKeyDown={key}
            onBlur={() => setAt(null)}
            onClick={() => at !== null && onPick?.(at)}
          >
            <svg
              viewBox={`0 0 ${Math.max(n, 1)} ${top}`}
              preserveAspectRatio="none"
              className="absolute inset-0 size-full overflow-visible"
              aria-hidden
            >
              {ticks.map((t) => (
                <line
                  key={t}
                  x1={0}
                  x2={Math.max(n, 1)}
                  y1={top - t}
                  y2={top - t}
                  stroke="var(--line)"
                  vectorEffect="non-scaling-stroke"
                />
              ))}
              {dates.map((_, i) => {
                let y = top
                return (
                  <g key={i} opacity={at === null || at === i ? 1 : 0.5}>
                    {bars.map((s) => {
                      const v = s.values[i] ?? 0
                      if (v <= 0) return null
                      y -= v
                      return <rect key={s.name} x={i + 0.12} width={0.76} y={y} height={v} fill={s.color} />
                    })}
                  </g>
                )
              })}
              {lines.map((s) => (
                <path
                  key={s.name}
                  d={linePath(s.values, top)}
                  fill="none"
                  stroke={s.color}
                  strokeWidth="1.75"
                  strokeLinejoin="round"
                  strokeLinecap="round"
                  strokeDasharray={s.dashed ? '4 4' : undefined}
                  vectorEffect="non-scaling-stroke"
                />
              ))}
              {at !== null && lines.length > 0 ? (
                <line
                  x1={at + 0.5}
                  x2={at + 0.5}
                  y1={0}
                  y2={top}
                  stroke="var(--line-strong)"
                  vectorEffect="non-scaling-stroke"
                />
              ) : null}
              {mark ? (
                <line
                  x1={0}
                  x2={Math.max(n, 1)}
                  y1={top - mark.value}
                  y2={top - mark.value}
                  stroke="var(--bad)"
                  strokeDasharray="4 3"
                  vectorEffect="non-scaling-stroke"
                />
              ) : null}
            </svg>
            {at !== null && dates[at] ? (
              <div
                className={cx(
                  'pointer-events-none absolute top-1 z-10 min-w-36 rounded-lg border bg-panel px-2.5 py-1.5 text-xs shadow-md',
                  at < n / 2 ? 'translate-x-2' : '-translate-x-[calc(100%+8px)]',
                )}
                style={{ left: `${((at + 0.5) / n) * 100}%` }}
              >
                <div className="mb-0.5 whitespace-nowrap text-mute">{exact(dates[at], utc)}</div>
                {series.map((s) => (
                  <div key={s.name} className="flex items-center gap-1.5 whitespace-nowrap">
                    <span className="size-2 rounded-full" style={{ background: s.color }} aria-hidden />
                    {s.name}
                    <span className="ml-auto pl-3 font-mono">{show(s.values[at])}</span>
                  </div>
                ))}
              </div>
            ) : null}
          </div>
          <span />
          <div className="relative h-5 overflow-hidden text-[11px] text-mute" aria-hidden>
            {dates.map((d, i) =>
              i % every === Math.floor(every / 2) ? (
                <span
                  key={i}
                  className="absolute top-1 -translate-x-1/2 whitespace-nowrap"
                  style={{ left: `${((i + 0.5) / n) * 100}%` }}
                >
                  {tick(d, utc, span)}
                </span>
              ) : null,
            )}
          </div>
        </div>
      )}
      <div className="mt-2 flex flex-wrap items-center gap-x-4 gap-y-1 text-xs">
        {series.map((s) => (
          <span key={s.name} className="inline-flex items-center gap-1.5">
            <span className="size-2 rounded-full" style={{ background: s.color }} aria-hidden />
            {s.name}
          </span>
        ))}
        {mark ? <span className="text-mute">Dashed: {mark.label}</span> : null}
        {foot}
        <button type="button" className="link ml-auto" aria-pressed={table} onClick={() => setTable(!table)}>
          {table ? 'View as chart' : 'View as table'}
        </button>
      </div>
    </figure>
  )
}
