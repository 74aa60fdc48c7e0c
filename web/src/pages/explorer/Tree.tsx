import { useEffect, useMemo, useRef, useState } from 'react'
import { Link } from '@tanstack/react-router'
import { ChevronRight } from 'lucide-react'
import { cx } from '@/lib/cx'
import { Empty, SearchInput } from '@/ui'
import { grouped, type Entry } from './catalog'

/** All methods by resource. A search opens every resource that has a match. */
export function Tree({
  methods,
  current,
  search,
  onSearch,
  query,
  onPick,
}: {
  methods: Entry[]
  current: string
  search: string
  onSearch: (text: string) => void
  query: Record<string, string | undefined>
  onPick?: () => void
}) {
  const groups = useMemo(() => grouped(methods, search), [methods, search])
  const own = current.split('.')[0] ?? ''
  const [opened, setOpened] = useState<ReadonlySet<string>>(() => new Set([own]))
  const [seen, setSeen] = useState(own)
  if (seen !== own) {
    // Another method was opened from elsewhere: expand its resource.
    setSeen(own)
    setOpened(new Set([...opened, own]))
  }
  const here = useRef<HTMLAnchorElement>(null)
  useEffect(() => {
    here.current?.scrollIntoView({ block: 'nearest' })
  }, [current])
  return (
    <div className="flex min-h-0 flex-1 flex-col">
      <div className="p-2">
        <SearchInput label="Search methods" value={search} onChange={onSearch} className="w-full" />
      </div>
      <nav aria-label="Methods" className="min-h-0 flex-1 overflow-y-auto px-2 pb-2" tabIndex={0}>
        {groups.length === 0 ? (
          <Empty title="No method matches" className="!px-2 !py-8" />
        ) : (
          groups.map((g) => {
            const open = search !== '' || opened.has(g.resource)
            return (
              <div key={g.resource}>
                <button
                  type="button"
                  aria-expanded={open}
                  className="flex h-7 w-full items-center gap-1 rounded-lg px-1 text-xs font-medium text-soft hover:bg-subtle hover:text-fg"
                  onClick={() => {
                    const next = new Set(opened)
                    if (!next.delete(g.resource)) next.add(g.resource)
                    setOpened(next)
                  }}
                >
                  <ChevronRight
                    className={cx('size-3.5 shrink-0 text-mute transition-transform', open && 'rotate-90')}
                    aria-hidden
                  />
                  <span className="truncate">{g.resource}</span>
                  <span className="ml-auto pr-1 font-normal text-mute">{g.methods.length}</span>
                </button>
                {open ? (
                  <ul className="mb-1 space-y-0.5">
                    {g.methods.map((m) => {
                      const name = `${m.resource}.${m.method}`
                      const on = name === current
                      return (
                        <li key={name}>
                          <Link
                            {...(on ? { ref: here } : {})}
                            to="/explorer/$method"
                            params={{ method: name }}
                            search={query as never}
                            {...(onPick ? { onClick: onPick } : {})}
                            aria-current={on ? 'page' : undefined}
                            className={cx(
                              'flex min-h-7 items-center gap-2 rounded-lg py-1 pr-2 pl-5 font-mono text-xs',
                              on ? 'bg-accent-soft text-accent-text' : 'text-fg hover:bg-subtle',
                            )}
                            title={m.description}
                          >
                            <span className="min-w-0 break-words">{m.method}</span>
                            <span
                              className={cx(
                                'ml-auto text-[11px]',
                                on ? 'text-accent-text' : m.access === 'write' ? 'text-warn-text' : 'text-mute',
                              )}
                            >
                              {m.access}
                            </span>
                          </Link>
                        </li>
                      )
                    })}
                  </ul>
                ) : null}
              </div>
            )
          })
        )}
      </nav>
    </div>
  )
}
