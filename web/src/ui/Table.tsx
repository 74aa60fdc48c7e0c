import { useEffect, useLayoutEffect, useRef, useState, type ReactNode } from 'react'
import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { ArrowDown, ArrowUp, ChevronsUpDown } from 'lucide-react'
import { cx } from '@/lib/cx'
import { number } from '@/lib/format'
import { Button } from './Button'

export interface Column<R> {
  key: string
  head: ReactNode
  cell: (row: R) => ReactNode
  /** Hides the column below this width. */
  from?: 'sm' | 'md' | 'lg' | 'xl'
  align?: 'right'
  className?: string
  /** Makes the head a button that sorts by this column. */
  sort?: { direction: 'ascending' | 'descending' | 'none'; toggle: () => void }
}

export interface TableProps<R> {
  /** What the table lists, for screen readers. */
  label: string
  columns: Column<R>[]
  rows: R[]
  rowKey: (row: R) => string
  /** Runs on a click on a row, or on Enter. If the row has a page, also put a real link into a cell. */
  onRow?: (row: R) => void
  selected?: string | null
  /** The estimated height of a row in px, for long tables. */
  rowHeight?: number
  dense?: boolean
}

const from = { sm: 'max-sm:hidden', md: 'max-md:hidden', lg: 'max-lg:hidden', xl: 'max-xl:hidden' }
const manyRows = 120
// Aligned with the header of the card.
const edge = 'px-3 first:pl-4 last:pr-4'

/** A table. Above 120 rows it renders only those on the screen, so 10,000 rows are fine. */
export function Table<R>(props: TableProps<R>) {
  return props.rows.length > manyRows ? <LongTable {...props} /> : <Frame {...props} rows={props.rows} />
}

function LongTable<R>(props: TableProps<R>) {
  const box = useRef<HTMLDivElement>(null)
  const [offset, setOffset] = useState(0)
  useLayoutEffect(() => {
    setOffset((box.current?.getBoundingClientRect().top ?? 0) + window.scrollY)
  }, [])
  const height = props.rowHeight ?? (props.dense ? 36 : 64)
  const virtual = useWindowVirtualizer({
    count: props.rows.length,
    estimateSize: () => height,
    overscan: 12,
    scrollMargin: offset,
  })
  const items = virtual.getVirtualItems()
  const first = items[0]
  const last = items[items.length - 1]
  return (
    <div ref={box}>
      <Frame
        {...props}
        rows={items.flatMap((i) => props.rows[i.index] ?? [])}
        count={props.rows.length}
        start={first?.index ?? 0}
        above={first ? first.start - offset : 0}
        below={last ? virtual.getTotalSize() - (last.end - offset) : 0}
      />
    </div>
  )
}

function Frame<R>({
  label,
  columns,
  rows,
  rowKey,
  onRow,
  selected,
  dense,
  count,
  start = 0,
  above = 0,
  below = 0,
}: TableProps<R> & { count?: number; start?: number; above?: number; below?: number }) {
  const pad = cx(edge, dense ? 'py-1.5' : 'py-2.5')
  const box = useRef<HTMLDivElement>(null)
  const [scrolls, setScrolls] = useState(false)
  // A table that overflows must be focusable, so that it can be scrolled with the keyboard.
  useEffect(() => {
    const el = box.current
    if (!el) return
    const watch = new ResizeObserver(() => setScrolls(el.scrollWidth > el.clientWidth + 1))
    watch.observe(el)
    return () => watch.disconnect()
  }, [])
  return (
    <div
      ref={box}
      className="relative overflow-x-auto"
      {...(scrolls ? { tabIndex: 0, role: 'group', 'aria-label': `${label}, scrolls sideways` } : {})}
    >
      <table
        className="w-full border-collapse text-left"
        aria-label={label}
        aria-rowcount={count !== undefined ? count + 1 : undefined}
      >
        <thead>
          <tr className="border-b">
            {columns.map((c) => (
              <th
                key={c.key}
                scope="col"
                aria-sort={c.sort?.direction}
                className={cx(
                  'h-9 text-xs font-medium whitespace-nowrap text-mute',
                  edge,
                  c.from && from[c.from],
                  c.align === 'right' && 'text-right',
                  c.className,
                )}
              >
                {c.sort ? (
                  <button
                    type="button"
                    className="inline-flex items-center gap-1 rounded font-medium hover:text-fg"
                    onClick={c.sort.toggle}
                  >
                    {c.head}
                    <SortIcon direction={c.sort.direction} />
                  </button>
                ) : (
                  c.head
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {above > 0 ? (
            <tr aria-hidden>
              <td colSpan={columns.length} style={{ height: above, padding: 0 }} />
            </tr>
          ) : null}
          {rows.map((row, i) => {
            const key = rowKey(row)
            return (
              <tr
                key={key}
                aria-rowindex={count !== undefined ? start + i + 2 : undefined}
                aria-selected={selected !== undefined ? selected === key : undefined}
                tabIndex={onRow ? 0 : undefined}
                onClick={onRow ? () => onRow(row) : undefined}
                onKeyDown={
                  onRow
                    ? (e) => {
                        if (e.key === 'Enter' && e.target === e.currentTarget) onRow(row)
                      }
                    : undefined
                }
                className={cx(
                  'border-b last:border-b-0',
                  onRow && 'cursor-pointer focus-visible:-outline-offset-2',
                  selected === key ? 'bg-accent-soft' : onRow && 'hover:bg-subtle/60',
                )}
              >
                {columns.map((c) => (
                  <td
                    key={c.key}
                    className={cx(
                      pad,
                      'align-middle',
                      c.from && from[c.from],
                      c.align === 'right' && 'text-right',
                      c.className,
                    )}
                  >
                    {c.cell(row)}
                  </td>
                ))}
              </tr>
            )
          })}
          {below > 0 ? (
            <tr aria-hidden>
              <td colSpan={columns.length} style={{ height: below, padding: 0 }} />
            </tr>
          ) : null}
        </tbody>
      </table>
    </div>
  )
}

function SortIcon({ direction }: { direction: 'ascending' | 'descending' | 'none' }) {
  const Icon = { ascending: ArrowUp, descending: ArrowDown, none: ChevronsUpDown }[direction]
  return <Icon className="size-3" aria-hidden />
}

/** The footer of a paginated list. */
export function More({
  shown,
  what,
  query,
}: {
  shown: number
  what: string
  query: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => unknown }
}) {
  return (
    <div className="flex flex-wrap items-center justify-between gap-2 border-t px-4 py-2 text-xs text-mute">
      <span>
        {query.hasNextPage ? 'First ' : ''}
        {number(shown)} {what}
      </span>
      {query.hasNextPage ? (
        <Button size="sm" busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          Load more
        </Button>
      ) : null}
    </div>
  )
}
