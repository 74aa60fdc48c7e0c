import { useEffect, useId, useRef, useState, type KeyboardEvent } from 'react'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { ChevronsUpDown } from 'lucide-react'
import { api, call } from '@/api/client'
import { keys, usePlatforms } from '@/api/hooks'
import type { Account } from '@/api/types'
import { cx } from '@/lib/cx'
import { shortId } from '@/lib/format'
import { named, siteName } from '@/lib/platforms'
import { State } from './Badge'
import { Chips } from './Chips'
import { control } from './Input'
import { PlatformMark } from './Platform'

const nameOf = (a: Pick<Account, 'label' | 'displayName' | 'username' | 'id'>) =>
  a.label || a.displayName || a.username || a.id

export interface AccountPickerProps {
  /** The name for screen readers. Not needed inside a Field, which passes `id`. */
  label?: string
  id?: string
  value: string | null
  onChange: (id: string | null, account: Account | null) => void
  /** Adds an option for no account, with this text. */
  none?: string
  /** Ids that are hidden because they are already chosen. */
  without?: readonly string[]
  placeholder?: string
  /** Only accounts on this platform. */
  platform?: string
  className?: string
  'aria-describedby'?: string | undefined
}

/** Picks an account by typing a label, id or upstream id, among those of one platform if there are several. The server does the search. */
export function AccountPicker({
  label,
  id,
  value,
  onChange,
  none,
  without = [],
  placeholder = 'Choose an account',
  platform: only,
  className,
  ...rest
}: AccountPickerProps) {
  const own = useId()
  const [open, setOpen] = useState(false)
  const [text, setText] = useState('')
  const [q, setQ] = useState('')
  const [at, setAt] = useState(0)
  const [chosenPlatform, setPlatform] = useState('')
  const platform = only ?? chosenPlatform
  const platforms = usePlatforms()
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const timer = setTimeout(() => setQ(text.trim()), 200)
    return () => clearTimeout(timer)
  }, [text])
  const list = useQuery({
    queryKey: keys.accounts({ pick: q, platform }),
    queryFn: async ({ signal }) =>
      (await call<{ accounts: Account[] | null }>('GET', '/v1/accounts', { query: { q, platform, limit: 20 }, signal }))
        .accounts ?? [],
    enabled: open,
    placeholderData: keepPreviousData,
    staleTime: 15_000,
  })
  const chosen = useChosen(value)
  const rows: (Account | null)[] = [
    ...(none && !q ? [null] : []),
    ...(list.data ?? []).filter((a) => !without.includes(a.id)),
  ]
  const close = () => {
    setOpen(false)
    setText('')
    setQ('')
  }
  const pick = (a: Account | null) => {
    onChange(a?.id ?? null, a)
    close()
  }
  const key = (e: KeyboardEvent) => {
    if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
      e.preventDefault()
      if (!open) setOpen(true)
      else setAt((i) => Math.max(0, Math.min(rows.length - 1, i + (e.key === 'ArrowDown' ? 1 : -1))))
    } else if (e.key === 'Enter' && open) {
      e.preventDefault()
      const row = rows[at]
      if (row !== undefined) pick(row)
    } else if (e.key === 'Escape' && open) {
      e.stopPropagation()
      close()
    }
  }
  const shown = open ? text : value ? (chosen ? nameOf(chosen) : shortId(value)) : (none ?? '')
  return (
    <div
      ref={box}
      className={cx('relative min-w-0', className)}
      onBlur={(e) => {
        if (!box.current?.contains(e.relatedTarget as Node | null)) close()
      }}
    >
      <input
        id={id}
        role="combobox"
        aria-label={label}
        aria-expanded={open}
        aria-controls={open ? own + 'list' : undefined}
        aria-activedescendant={open && rows[at] !== undefined ? own + at : undefined}
        aria-autocomplete="list"
        autoComplete="off"
        spellCheck={false}
        className={cx(control, 'h-8 truncate pr-8')}
        placeholder={open && value ? (chosen ? nameOf(chosen) : value) : placeholder}
        value={shown}
        onClick={() => setOpen(true)}
        onChange={(e) => {
          setOpen(true)
          setAt(0)
          setText(open ? e.target.value : e.target.value.replace(shown, ''))
        }}
        onKeyDown={key}
        {...rest}
      />
      <ChevronsUpDown className="pointer-events-none absolute top-2 right-2.5 size-4 text-mute" aria-hidden />
      {open ? (
        <div className="absolute top-full right-0 z-30 mt-1 w-full min-w-[min(320px,calc(100vw-32px))] rounded-xl border bg-panel p-1 shadow-lg">
          {platforms.several && only === undefined ? (
            <Chips
              label="Platform"
              className="border-b px-1 pb-1"
              items={[{ value: '', label: 'All' }, ...platforms.list.map((p) => ({ value: p.id, label: p.name }))]}
              value={platform}
              onChange={(p) => {
                setPlatform(p)
                setAt(0)
              }}
            />
          ) : null}
          {rows.length > 0 ? (
            <ul id={own + 'list'} role="listbox" aria-label="Accounts" className="max-h-72 overflow-y-auto">
              {rows.map((a, i) => (
                <li
                  key={a?.id ?? 'none'}
                  id={own + i}
                  role="option"
                  aria-selected={(a?.id ?? null) === value}
                  className={cx(
                    'flex cursor-pointer items-center gap-2 rounded-lg px-2 py-1.5',
                    i === at && 'bg-subtle',
                  )}
                  onPointerMove={() => setAt(i)}
                  onMouseDown={(e) => {
                    e.preventDefault()
                    pick(a)
                  }}
                >
                  {a ? (
                    <>
                      <PlatformMark platform={named(platforms.list, a.platform)} />
                      <span className="min-w-0 flex-1">
                        <span className="block truncate">{nameOf(a)}</span>
                        <span className="block truncate text-xs text-mute">
                          <span className="font-mono">{shortId(a.id)}</span>
                          {platforms.several ? ` · ${named(platforms.list, a.platform).name}` : ''}
                          {a.site ? ` · ${siteName(a.site)}` : ''}
                        </span>
                      </span>
                      <State state={a.state} />
                    </>
                  ) : (
                    <span className="text-mute">{none}</span>
                  )}
                </li>
              ))}
            </ul>
          ) : (
            <p id={own + 'list'} role="status" className="px-2 py-3 text-center text-mute">
              {list.isPending
                ? 'Loading…'
                : list.isError
                  ? 'We could not load the accounts.'
                  : q || platform
                    ? 'No account matches.'
                    : 'No accounts yet.'}
            </p>
          )}
        </div>
      ) : null}
    </div>
  )
}

/** Loads the chosen account for its name. Shares the cache with the account's page. */
function useChosen(id: string | null): Account | null {
  const found = useQuery({
    queryKey: keys.account(id ?? ''),
    queryFn: async ({ signal }) => (await api.get('/v1/accounts/{id}', { path: { id: id ?? '' }, signal })).account,
    enabled: Boolean(id),
    staleTime: 60_000,
  })
  return id ? (found.data ?? null) : null
}
