import { useState, type ReactNode } from 'react'
import { ChevronRight } from 'lucide-react'
import { cx } from '@/lib/cx'
import { Copy } from './Copy'

const longText = 2000
const manyChildren = 100

/** A JSON value as a collapsible tree. Everything in it is text, never a link or markup. */
export function Json({
  value,
  label = 'JSON',
  className,
  open = 3,
}: {
  value: unknown
  label?: string
  className?: string
  open?: number
}) {
  return (
    <div className={cx('relative min-w-0 rounded-lg bg-subtle', className)}>
      <div
        role="group"
        aria-label={label}
        tabIndex={0}
        className="overflow-x-auto p-3 pr-10 font-mono text-xs leading-5"
      >
        <Node value={value} depth={0} open={open} tail="" />
      </div>
      <Copy
        text={JSON.stringify(value, null, 2) ?? ''}
        label={`Copy ${label}`}
        className="absolute top-2 right-2 bg-subtle"
      />
    </div>
  )
}

function Node({
  name,
  value,
  depth,
  open,
  tail,
}: {
  name?: string
  value: unknown
  depth: number
  open: number
  tail: string
}) {
  const entries: [string | undefined, unknown][] | null = Array.isArray(value)
    ? value.map((v) => [undefined, v])
    : value !== null && typeof value === 'object'
      ? Object.entries(value)
      : null
  const [shown, setShown] = useState(depth < open)
  const [limit, setLimit] = useState(manyChildren)
  const key = name === undefined ? null : <span className="text-fg">{JSON.stringify(name)}: </span>
  if (!entries || entries.length === 0) {
    return (
      <div className="whitespace-pre">
        {key}
        {entries ? Array.isArray(value) ? '[]' : '{}' : <Scalar value={value} />}
        {tail}
      </div>
    )
  }
  const [left, right] = Array.isArray(value) ? ['[', ']'] : ['{', '}']
  return (
    <div>
      <div className="whitespace-pre">
        <button
          type="button"
          aria-expanded={shown}
          aria-label={`${shown ? 'Collapse' : 'Expand'} ${name ?? 'value'}`}
          className="-ml-3 inline-grid size-3 place-items-center rounded align-[-1px] text-mute hover:text-fg"
          onClick={() => setShown(!shown)}
        >
          <ChevronRight className={cx('size-3 transition-transform', shown && 'rotate-90')} aria-hidden />
        </button>
        {key}
        {left}
        {shown ? null : (
          <>
            <span className="text-mute"> {entries.length} </span>
            {right}
            {tail}
          </>
        )}
      </div>
      {shown ? (
        <>
          <div className="pl-4">
            {entries.slice(0, limit).map(([k, v], i) => (
              <Node
                key={k ?? i}
                {...(k === undefined ? {} : { name: k })}
                value={v}
                depth={depth + 1}
                open={open}
                tail={i < entries.length - 1 ? ',' : ''}
              />
            ))}
            {entries.length > limit ? (
              <button type="button" className="link" onClick={() => setLimit(limit + 1000)}>
                {entries.length - limit} more
              </button>
            ) : null}
          </div>
          <div>
            {right}
            {tail}
          </div>
        </>
      ) : null}
    </div>
  )
}

function Scalar({ value }: { value: unknown }): ReactNode {
  const [all, setAll] = useState(false)
  if (typeof value === 'string') {
    const cut = value.length > longText && !all
    return (
      <span className="text-ok-text">
        {JSON.stringify(cut ? value.slice(0, longText) : value)}
        {cut ? (
          <button type="button" className="link" onClick={() => setAll(true)}>
            {' '}
            … {value.length - longText} more characters
          </button>
        ) : null}
      </span>
    )
  }
  if (typeof value === 'number') return <span className="text-info-text">{String(value)}</span>
  return <span className="text-warn-text">{value === undefined ? 'null' : String(value)}</span>
}
