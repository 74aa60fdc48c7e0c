import { useId, useState, type KeyboardEvent } from 'react'
import { cx } from '@/lib/cx'
import { recall, remember } from '@/lib/storage'
import type { Snippet } from '@/lib/snippets'
import { Copy } from './Copy'

/** Code with a copy button. */
export function Code({
  code,
  label,
  className,
  wrap,
}: {
  code: string
  label?: string
  className?: string
  wrap?: boolean
}) {
  return (
    <div className={cx('relative min-w-0 rounded-lg bg-subtle', className)}>
      <pre
        tabIndex={0}
        aria-label={label ?? 'Code'}
        role="group"
        className={cx('overflow-x-auto p-3 pr-10 font-mono text-xs leading-5', wrap && 'break-all whitespace-pre-wrap')}
      >
        {code}
      </pre>
      <Copy text={code} label={label ? `Copy ${label}` : 'Copy'} className="absolute top-2 right-2 bg-subtle" />
    </div>
  )
}

/** The same code in several languages, as tabs. The chosen language is remembered for all blocks. */
export function CodeBlock({ snippets, className }: { snippets: Snippet[]; className?: string }) {
  const id = useId()
  const [chosen, setChosen] = useState(() => recall('lang') ?? 'curl')
  const at = Math.max(
    0,
    snippets.findIndex((s) => s.name === chosen),
  )
  const current = snippets[at]
  if (!current) return null
  const choose = (i: number) => {
    const s = snippets[(i + snippets.length) % snippets.length]
    if (!s) return
    setChosen(s.name)
    remember('lang', s.name)
    document.getElementById(id + s.name)?.focus()
  }
  const key = (e: KeyboardEvent) => {
    if (e.key === 'ArrowRight') choose(at + 1)
    else if (e.key === 'ArrowLeft') choose(at - 1)
    else return
    e.preventDefault()
  }
  return (
    <div className={cx('card', className)}>
      <div className="flex items-center gap-1 border-b px-2 py-1.5">
        <div
          role="tablist"
          aria-label="Language"
          className="flex min-w-0 flex-1 gap-0.5 overflow-x-auto"
          onKeyDown={key}
        >
          {snippets.map((s, i) => (
            <button
              key={s.name}
              id={id + s.name}
              type="button"
              role="tab"
              aria-selected={i === at}
              aria-controls={id + 'panel'}
              tabIndex={i === at ? 0 : -1}
              onClick={() => choose(i)}
              className={cx(
                'h-7 rounded-lg px-2 text-xs',
                i === at ? 'bg-subtle font-medium text-fg' : 'text-mute hover:text-fg',
              )}
            >
              {s.name}
            </button>
          ))}
        </div>
        <Copy text={current.code} label={`Copy ${current.name}`} />
      </div>
      <pre
        id={id + 'panel'}
        role="tabpanel"
        aria-labelledby={id + current.name}
        tabIndex={0}
        className="overflow-x-auto p-4 font-mono text-xs leading-5"
      >
        {current.code}
      </pre>
    </div>
  )
}
