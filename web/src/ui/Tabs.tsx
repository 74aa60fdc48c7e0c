import { useEffect, useRef, type ReactNode } from 'react'
import * as T from '@radix-ui/react-tabs'
import { cx } from '@/lib/cx'

export interface Tab {
  value: string
  label: ReactNode
}

/** Tabs with panels. Keep `value` in the URL if a tab can be linked to. Hidden panels are not mounted. */
export function Tabs({
  label,
  tabs,
  value,
  onChange,
  children,
  className,
}: {
  label: string
  tabs: Tab[]
  value: string
  onChange: (value: string) => void
  children: (value: string) => ReactNode
  className?: string
}) {
  const list = useRef<HTMLDivElement>(null)
  // If the tabs overflow, scroll the open one into view.
  useEffect(() => {
    const box = list.current
    const on = box?.querySelector<HTMLElement>('[data-state=active]')
    if (!box || !on) return
    const end = on.offsetLeft + on.offsetWidth - box.clientWidth
    if (box.scrollLeft < end) box.scrollLeft = end
    else if (box.scrollLeft > on.offsetLeft) box.scrollLeft = on.offsetLeft
  }, [value])
  return (
    <T.Root value={value} onValueChange={onChange} className={cx('min-w-0', className)}>
      <T.List ref={list} aria-label={label} className="relative flex gap-1 overflow-x-auto border-b">
        {tabs.map((t) => (
          <T.Trigger
            key={t.value}
            value={t.value}
            className="-mb-px h-9 shrink-0 border-b-2 border-transparent px-3 font-medium text-mute hover:text-fg focus-visible:-outline-offset-2 data-[state=active]:border-accent-text data-[state=active]:text-fg"
          >
            {t.label}
          </T.Trigger>
        ))}
      </T.List>
      {tabs.map((t) => (
        <T.Content key={t.value} value={t.value} className="pt-4">
          {t.value === value ? children(t.value) : null}
        </T.Content>
      ))}
    </T.Root>
  )
}
