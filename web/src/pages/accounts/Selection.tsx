import { useState } from 'react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Pause, Play, X } from 'lucide-react'
import { api } from '@/api/client'
import { plural } from '@/lib/format'
import type { ListedAccount } from '@/api/types'
import { Button, toast } from '@/ui'

const actions = {
  pause: {
    done: 'paused',
    fits: (a: ListedAccount) => a.state !== 'paused',
    run: (id: string) => api.post('/v1/accounts/{id}/pause', { path: { id } }),
  },
  resume: {
    done: 'resumed',
    fits: (a: ListedAccount) => a.state === 'paused',
    run: (id: string) => api.post('/v1/accounts/{id}/resume', { path: { id } }),
  },
}

/** The accounts that are ticked in a list. Those that the list does not show any more do not count. */
export function useSelection(rows: ListedAccount[]) {
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set())
  const chosen = rows.filter((a) => ids.has(a.id))
  return {
    chosen,
    has: (id: string) => ids.has(id),
    all: rows.length > 0 && chosen.length === rows.length,
    toggle: (id: string) =>
      setIds((before) => {
        const next = new Set(before)
        if (!next.delete(id)) next.add(id)
        return next
      }),
    toggleAll: () => setIds(chosen.length === rows.length ? new Set() : new Set(rows.map((a) => a.id))),
    clear: () => setIds(new Set()),
  }
}

/** What can be done with the accounts that are ticked. One that fails stays ticked. */
export function SelectionBar({ selection, why }: { selection: ReturnType<typeof useSelection>; why: string | null }) {
  const client = useQueryClient()
  const run = useMutation({
    mutationFn: async (name: keyof typeof actions) => {
      const action = actions[name]
      const due = selection.chosen.filter(action.fits)
      let failed = 0
      let first: unknown
      for (const a of due) {
        try {
          await action.run(a.id)
          selection.toggle(a.id)
        } catch (e) {
          failed++
          first ??= e
        }
      }
      return { done: due.length - failed, failed, first, what: action.done }
    },
    onSuccess: ({ done, failed, first, what }) => {
      if (done) toast.ok(`${plural(done, 'account')} ${what}`)
      if (failed) toast.problem(first)
      void client.invalidateQueries({ queryKey: ['accounts'] })
      void client.invalidateQueries({ queryKey: ['account'] })
    },
  })
  const count = (name: keyof typeof actions) => selection.chosen.filter(actions[name].fits).length
  if (selection.chosen.length === 0) return null
  return (
    <div
      role="region"
      aria-label="Selected accounts"
      className="flex flex-wrap items-center gap-2 border-b bg-accent-soft px-4 py-2"
    >
      <span className="mr-2 font-medium">{plural(selection.chosen.length, 'account')} selected</span>
      <Button
        size="sm"
        why={why}
        busy={run.isPending && run.variables === 'pause'}
        disabled={run.isPending || count('pause') === 0}
        icon={<Pause className="size-3.5" aria-hidden />}
        onClick={() => run.mutate('pause')}
      >
        Pause {count('pause') || ''}
      </Button>
      <Button
        size="sm"
        why={why}
        busy={run.isPending && run.variables === 'resume'}
        disabled={run.isPending || count('resume') === 0}
        icon={<Play className="size-3.5" aria-hidden />}
        onClick={() => run.mutate('resume')}
      >
        Resume {count('resume') || ''}
      </Button>
      <Button size="sm" icon={<X className="size-3.5" aria-hidden />} onClick={selection.clear}>
        Clear
      </Button>
    </div>
  )
}
