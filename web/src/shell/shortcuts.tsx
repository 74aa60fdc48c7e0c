import { useEffect, useRef, useState } from 'react'
import { Dialog } from '@/ui/Dialog'

interface Shortcut {
  keys: string
  what: string
  run: () => void
}

const registry = new Set<{ current: Shortcut }>()

/**
 * Registers a shortcut, listed under `?`: 'j', 'g a' (one after the other), 'Escape'. It is ignored
 * while the user types in a field or a dialog is open.
 */
export function useShortcut(keys: string, what: string, run: () => void, enabled = true): void {
  const ref = useRef<Shortcut>({ keys, what, run })
  ref.current = { keys, what, run }
  useEffect(() => {
    if (!enabled) return
    registry.add(ref)
    return () => {
      registry.delete(ref)
    }
  }, [enabled])
}

function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  return (
    target.isContentEditable ||
    ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName) ||
    Boolean(target.closest('[role=dialog],[role=menu]'))
  )
}

/** Listens for all shortcuts and lists them on `?`. The shell renders it once. */
export function Shortcuts() {
  const [open, setOpen] = useState(false)
  const before = useRef<{ key: string; at: number } | null>(null)
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || typing(e.target)) return
      if (e.key === '?') {
        e.preventDefault()
        setOpen(true)
        return
      }
      const name = e.key === ' ' ? 'Space' : e.key
      const prefix = before.current && Date.now() - before.current.at < 1200 ? before.current.key + ' ' : ''
      before.current = { key: name, at: Date.now() }
      // Buttons and links handle Space and Enter themselves.
      if (
        (name === 'Space' || name === 'Enter') &&
        e.target instanceof HTMLElement &&
        e.target.closest('button,a,summary,[tabindex]:not(main)')
      )
        return
      for (const want of [prefix + name, name]) {
        const all = [...registry].filter((r) => r.current.keys === want)
        const last = all[all.length - 1]
        if (last) {
          e.preventDefault()
          before.current = null
          last.current.run()
          return
        }
      }
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [])
  const list = open ? [...registry].map((r) => r.current) : []
  return (
    <Dialog open={open} onOpenChange={setOpen} title="Keyboard shortcuts" size="sm">
      <dl className="grid grid-cols-[auto_1fr] items-center gap-x-4 gap-y-2">
        {[{ keys: 'Ctrl K', what: 'Search or jump to a page' }, { keys: '?', what: 'Show this list' }, ...list].map(
          (s) => (
            <div key={s.keys} className="contents">
              <dt className="flex gap-1">
                {s.keys.split(' ').map((k) => (
                  <kbd key={k} className="rounded border bg-subtle px-1.5 text-xs">
                    {k}
                  </kbd>
                ))}
              </dt>
              <dd>{s.what}</dd>
            </div>
          ),
        )}
      </dl>
    </Dialog>
  )
}
