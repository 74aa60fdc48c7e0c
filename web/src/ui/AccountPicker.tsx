import { useEffect, useId, useRef, useState, type KeyboardEvent } from 'react'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { ChevronsUpDown } from 'lucide-react'
import { api, call } from '@/api/client'
import { keys } from '@/api/hooks'
import type { Account } from '@/api/types'
import { cx } from '@/lib/cx'
import { shortId } from '@/lib/format'
import { State } from './Badge'
import { control } from './Input'

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
  className?: string
  'aria-describedby'?: string | undefined
}

/** Picks an account by typing a label, id or upstream id. The server does the search. */
export function AccountPicker({
  label,
  id,
  value,
  onChange,
  none,
  without = [],
  placeholder = 'Choose an account',
  className,
  ...rest
}: AccountPickerProps) {
  const own = useId()
  const [open, setOpen] = useState(false)
  const [text, setText] = useState('')
  const [q, setQ] = useState('')
  const [at, setAt] = useState(0)
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const timer = setTimeout(() => setQ(text.trim()), 200)
    return () => clearTimeout(timer)
  }, [text])
  const list = useQuery({
    queryKey: keys.accounts({ pick: q }),
    queryFn: async ({ signal }) =>
      (await call<{ accounts: Account[] | null }>('GET', '/v1/accounts', { query: { q, limit: 20 }, signal }))
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
                      <span className="min-w-0 flex-1">
                        <span className="block truncate">{nameOf(a)}</span>
                        <span className="block truncate font-mono text-xs text-mute">{shortId(a.id)}</span>
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
                  : q
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
