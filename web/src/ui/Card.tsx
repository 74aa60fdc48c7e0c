import { useEffect, useRef, type ReactNode } from 'react'
import { cx } from '@/lib/cx'

/** A card with an optional header: a title, or `tools` such as a search field. `flush` removes the padding (tables, lists). */
export function Card({
  title,
  hint,
  tools,
  actions,
  children,
  className,
  flush,
}: {
  title?: ReactNode
  hint?: ReactNode
  tools?: ReactNode
  actions?: ReactNode
  children: ReactNode
  className?: string
  flush?: boolean
}) {
  return (
    <section className={cx('card flex flex-col', className)}>
      {title || tools || actions ? (
        <div className={cx('flex flex-wrap items-start gap-x-4 gap-y-2 px-4 pt-3.5', flush ? 'border-b pb-3' : 'pb-2')}>
          <div className="min-w-0 flex-1 basis-32">
            {title ? <h2 className="font-semibold">{title}</h2> : null}
            {hint ? <p className="text-xs text-mute">{hint}</p> : null}
            {tools}
          </div>
          {actions ? <div className="flex flex-wrap items-center gap-2">{actions}</div> : null}
        </div>
      ) : null}
      <div className={cx('min-w-0 flex-1', !flush && 'px-4 pb-4', !flush && !title && !tools && !actions && 'pt-4')}>
        {children}
      </div>
    </section>
  )
}

/** The header of every page: one h1, a line below it, actions on the right. */
export function PageHead({
  title,
  hint,
  actions,
  back,
}: {
  title: ReactNode
  hint?: ReactNode
  actions?: ReactNode
  back?: ReactNode
}) {
  const head = useRef<HTMLHeadingElement>(null)
  // The tab's title follows the page's.
  useEffect(() => {
    const text = head.current?.firstChild?.textContent?.trim()
    if (text) document.title = `${text} · Stagedoor`
  })
  return (
    <header className="mb-4 flex flex-wrap items-end gap-x-4 gap-y-3">
      <div className="min-w-0 flex-1 basis-60">
        {back ? <div className="mb-1 text-xs">{back}</div> : null}
        <h1
          ref={head}
          className="flex flex-wrap items-center gap-x-3 gap-y-1 text-lg leading-7 font-semibold tracking-tight break-words"
        >
          {title}
        </h1>
        {hint ? <div className="text-mute">{hint}</div> : null}
      </div>
      {actions ? <div className="flex flex-wrap items-center gap-2">{actions}</div> : null}
    </header>
  )
}

/** A list of names and values, as at the top of a detail pane. */
export function Facts({ items, className }: { items: [ReactNode, ReactNode][]; className?: string }) {
  return (
    <dl className={cx('grid grid-cols-[minmax(88px,auto)_minmax(0,1fr)] gap-x-4 gap-y-1', className)}>
      {items.map(([name, value], i) => (
        <div key={i} className="contents">
          <dt className="text-mute">{name}</dt>
          <dd className="min-w-0 break-words">{value ?? '–'}</dd>
        </div>
      ))}
    </dl>
  )
}
