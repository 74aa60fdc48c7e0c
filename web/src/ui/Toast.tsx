import { useSyncExternalStore } from 'react'
import { CircleAlert, CircleCheck, X } from 'lucide-react'
import { isProblem } from '@/api/client'

interface Item {
  id: number
  tone: 'ok' | 'bad'
  text: string
}

let items: readonly Item[] = []
let next = 1
const listeners = new Set<() => void>()

function set(list: readonly Item[]) {
  items = list
  for (const f of listeners) f()
}
function add(tone: Item['tone'], text: string) {
  const id = next++
  set([...items.slice(-3), { id, tone, text }])
  setTimeout(() => set(items.filter((i) => i.id !== id)), tone === 'bad' ? 9000 : 4000)
}

/** Reports the result of an action. Do not use it for anything else. */
export const toast = {
  ok: (text: string) => add('ok', text),
  bad: (text: string) => add('bad', text),
  /** For an action that failed: shows the problem's detail. */
  problem: (e: unknown) =>
    add(
      'bad',
      isProblem(e) ? (e.requestId ? `${e.detail} (${e.requestId})` : e.detail) : 'Something went wrong. Try again.',
    ),
}

/** Shows the toasts; the shell renders it once. */
export function Toaster() {
  const list = useSyncExternalStore(
    (f) => {
      listeners.add(f)
      return () => listeners.delete(f)
    },
    () => items,
  )
  return (
    <div
      role="region"
      aria-label="Results"
      aria-live="polite"
      className="pointer-events-none fixed right-4 bottom-4 left-4 z-[60] flex flex-col items-end gap-2"
    >
      {list.map((i) => (
        <div
          key={i.id}
          className="pointer-events-auto flex max-w-sm animate-[rise_.15s_ease-out] items-start gap-2 rounded-lg border bg-panel px-3 py-2 shadow-lg"
        >
          {i.tone === 'ok' ? (
            <CircleCheck className="mt-0.5 size-4 shrink-0 text-ok" aria-hidden />
          ) : (
            <CircleAlert className="mt-0.5 size-4 shrink-0 text-bad" aria-hidden />
          )}
          <span className="min-w-0 break-words">{i.text}</span>
          <button
            type="button"
            aria-label="Dismiss"
            className="grid size-5 shrink-0 place-items-center rounded text-mute hover:text-fg"
            onClick={() => set(items.filter((x) => x.id !== i.id))}
          >
            <X className="size-3.5" aria-hidden />
          </button>
        </div>
      ))}
    </div>
  )
}
