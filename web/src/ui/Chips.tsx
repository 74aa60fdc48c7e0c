import { cx } from '@/lib/cx'
import { number } from '@/lib/format'

export interface Chip {
  value: string
  label: string
  count?: number | null | undefined
}

/** A row of chips to choose one value: the filters above lists. The first is usually '' for all. */
export function Chips({
  label,
  items,
  value,
  onChange,
  mono,
  className,
}: {
  label: string
  items: Chip[]
  value: string
  onChange: (value: string) => void
  mono?: boolean
  className?: string
}) {
  return (
    <div role="group" aria-label={label} className={cx('flex flex-wrap items-center gap-1', className)}>
      {items.map((c) => {
        const on = c.value === value
        return (
          <button
            key={c.value}
            type="button"
            aria-pressed={on}
            onClick={() => onChange(c.value)}
            className={cx(
              'h-7 rounded-full px-2.5 text-xs font-medium whitespace-nowrap',
              mono && 'font-mono font-normal',
              on ? 'bg-accent-soft text-accent-text' : 'text-soft hover:bg-subtle hover:text-fg',
            )}
          >
            {c.label}
            {c.count !== null && c.count !== undefined ? (
              <span className={cx('ml-1.5', !on && 'text-mute')}>{number(c.count)}</span>
            ) : null}
          </button>
        )
      })}
    </div>
  )
}

/** Two or three choices in one control: Sandbox | Live, curl | CLI. */
export function Segments({
  label,
  items,
  value,
  onChange,
}: {
  label: string
  items: Chip[]
  value: string
  onChange: (value: string) => void
}) {
  return (
    <div role="group" aria-label={label} className="inline-flex shrink-0 rounded-lg border bg-subtle p-0.5">
      {items.map((c) => (
        <button
          key={c.value}
          type="button"
          aria-pressed={c.value === value}
          onClick={() => onChange(c.value)}
          className={cx(
            'h-6 rounded-md px-2 text-xs font-medium',
            c.value === value ? 'bg-panel text-fg shadow-sm ring-1 ring-line' : 'text-soft hover:text-fg',
          )}
        >
          {c.label}
        </button>
      ))}
    </div>
  )
}
