import { useDeferredValue, useEffect, useId, useMemo, useRef, useState, type ReactNode } from 'react'
import * as D from '@radix-ui/react-dialog'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { ArrowRight, Hash, Link2, Moon, Plus, Search, User } from 'lucide-react'
import { call } from '@/api/client'
import type { Account } from '@/api/types'
import { cx } from '@/lib/cx'
import { targetOf } from '@/lib/ids'
import { setTheme, useTheme } from '@/lib/theme'
import { useDialogs } from './dialogs'
import { nav } from './nav'
import { useSession } from './session'

interface Item {
  id: string
  group: string
  label: string
  hint?: string
  icon: ReactNode
  run: () => void
}

const icon = 'size-4 shrink-0 text-mute'

/** Searches pages, actions and accounts, and opens any pasted id. */
export function Palette({ open, onOpenChange }: { open: boolean; onOpenChange: (open: boolean) => void }) {
  return (
    <D.Root open={open} onOpenChange={onOpenChange}>
      <D.Portal>
        <D.Overlay className="fixed inset-0 z-40 bg-overlay" />
        <D.Content
          aria-describedby={undefined}
          className="fixed inset-x-3 top-[10vh] z-50 mx-auto flex max-h-[70dvh] max-w-xl flex-col overflow-hidden rounded-2xl border bg-panel shadow-xl focus:outline-none"
        >
          <D.Title className="sr-only">Search and jump</D.Title>
          <Body close={() => onOpenChange(false)} />
        </D.Content>
      </D.Portal>
    </D.Root>
  )
}

function Body({ close }: { close: () => void }) {
  const id = useId()
  const navigate = useNavigate()
  const { orgs, org, switchOrg } = useSession()
  const dialogs = useDialogs()
  const { shown } = useTheme()
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const list = useRef<HTMLDivElement>(null)
  const query = useDeferredValue(text.trim())
  const target = useMemo(() => targetOf(text), [text])
  const accounts = useQuery({
    queryKey: ['accounts', 'palette', query],
    queryFn: ({ signal }) =>
      call<{ accounts: Account[] | null }>('GET', '/v1/accounts', { query: { q: query, limit: 6 }, signal }),
    enabled: query.length >= 2 && !target,
    staleTime: 30_000,
  })

  const items = useMemo<Item[]>(() => {
    const go = (to: string) => () => {
      const url = new URL(to, location.origin)
      void navigate({ to: url.pathname, search: Object.fromEntries(url.searchParams) as never })
    }
    const words = query.toLowerCase().split(/\s+/).filter(Boolean)
    const fits = (s: string) => words.every((w) => s.toLowerCase().includes(w))
    const out: Item[] = []
    if (target) {
      const own = orgs.find((o) => o.id === target.id)
      out.push({
        id: 'target',
        group: 'Go to',
        label: own && own.id !== org.id ? `Switch to ${own.name}` : `${target.kind} ${target.id}`,
        icon: <Hash className={icon} aria-hidden />,
        run: own && own.id !== org.id ? () => void switchOrg(own.id) : go(target.to),
      })
    }
    for (const group of nav) {
      for (const n of group.items) {
        if (n.sandboxOnly && org.environment !== 'sandbox') continue
        if (!fits(`${n.label} ${n.words ?? ''} ${group.label ?? ''}`)) continue
        const Icon = n.icon
        out.push({
          id: n.to,
          group: 'Pages',
          label: n.label,
          icon: <Icon className={icon} aria-hidden />,
          run: n.external ? () => window.open(n.to, '_blank', 'noopener') : go(n.to),
        })
      }
    }
    for (const a of accounts.data?.accounts ?? []) {
      if (!fits(`${a.label} ${a.username} ${a.id} ${a.ofUserId}`)) continue
      out.push({
        id: a.id,
        group: 'Accounts',
        label: a.label || a.username || a.id,
        hint: a.id,
        icon: <User className={icon} aria-hidden />,
        run: go(`/accounts/${a.id}`),
      })
    }
    const actions: Item[] = [
      {
        id: 'connect',
        group: 'Actions',
        label: 'Connect account',
        icon: <Plus className={icon} aria-hidden />,
        run: () => dialogs.connect(),
      },
      {
        id: 'link',
        group: 'Actions',
        label: 'Create connect link',
        icon: <Link2 className={icon} aria-hidden />,
        run: () => dialogs.link(),
      },
      {
        id: 'theme',
        group: 'Actions',
        label: shown === 'dark' ? 'Use the light theme' : 'Use the dark theme',
        icon: <Moon className={icon} aria-hidden />,
        run: () => setTheme(shown === 'dark' ? 'light' : 'dark'),
      },
      ...orgs
        .filter((o) => o.id !== org.id)
        .map((o) => ({
          id: o.id,
          group: 'Actions',
          label: `Switch to ${o.name}`,
          hint: o.environment,
          icon: <ArrowRight className={icon} aria-hidden />,
          run: () => void switchOrg(o.id),
        })),
    ]
    out.push(...actions.filter((a) => fits(a.label)))
    return out
  }, [query, target, accounts.data, navigate, org, orgs, switchOrg, dialogs, shown])

  const current = Math.min(at, Math.max(0, items.length - 1))
  useEffect(() => {
    list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' })
  }, [current, items])
  const choose = (i: number) => {
    const item = items[i]
    if (!item) return
    close()
    item.run()
  }

  return (
    <>
      <div className="flex items-center gap-2 border-b px-4">
        <Search className="size-4 text-mute" aria-hidden />
        <input
          autoFocus
          role="combobox"
          aria-expanded
          aria-controls={id}
          aria-activedescendant={items[current] ? `${id}-${current}` : undefined}
          aria-label="Search accounts, pages, or paste an id"
          placeholder="Search accounts, pages, or paste an id"
          className="h-12 w-full bg-transparent text-base outline-none"
          value={text}
          autoComplete="off"
          spellCheck={false}
          onChange={(e) => {
            setText(e.target.value)
            setAt(0)
          }}
          onKeyDown={(e) => {
            if (e.key === 'ArrowDown') setAt((current + 1) % Math.max(1, items.length))
            else if (e.key === 'ArrowUp') setAt((current - 1 + items.length) % Math.max(1, items.length))
            else if (e.key === 'Enter') choose(current)
            else return
            e.preventDefault()
          }}
        />
      </div>
      <div
        ref={list}
        id={id}
        role="listbox"
        aria-label="Results"
        className="relative min-h-0 flex-1 overflow-y-auto p-1"
      >
        {items.map((item, i) => (
          <div key={item.group + item.id}>
            {i === 0 || items[i - 1]?.group !== item.group ? (
              <div role="presentation" className="px-3 pt-2 pb-1 text-xs text-mute">
                {item.group}
              </div>
            ) : null}
            <div
              id={`${id}-${i}`}
              role="option"
              aria-selected={i === current}
              className={cx(
                'flex cursor-pointer items-center gap-2.5 rounded-lg px-3 py-2',
                i === current && 'bg-accent-soft text-accent-text',
              )}
              onPointerMove={() => setAt(i)}
              onClick={() => choose(i)}
            >
              {item.icon}
              <span className="truncate">{item.label}</span>
              {item.hint ? (
                <span className="ml-auto truncate pl-3 font-mono text-xs text-mute">{item.hint}</span>
              ) : null}
            </div>
          </div>
        ))}
      </div>
      {items.length === 0 ? (
        <p role="status" className="px-4 pb-5 text-center text-mute">
          {accounts.isFetching ? 'Searching…' : 'No results. Paste a full id (acct_…, evt_…, req_…) to open it.'}
        </p>
      ) : null}
    </>
  )
}
