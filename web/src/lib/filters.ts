import { useCallback, useEffect, useRef, useState } from 'react'
import { useNavigate, useSearch } from '@tanstack/react-router'

type Search = Record<string, string | undefined>

/**
 * Filters that are kept in the URL, so that a view can be shared. Pass the defaults; a value that equals
 * its default is not in the URL.
 *   const f = useFilters({ q: '', state: '' });  f.values.q;  f.set({ state: 'failed' });  f.clear()
 */
export function useFilters<T extends Record<string, string>>(defaults: T) {
  const search = useSearch({ strict: false }) as Search
  const navigate = useNavigate()
  const base = useRef(defaults).current
  const values = { ...base }
  for (const name of Object.keys(base) as (keyof T & string)[]) {
    const v = search[name]
    if (v !== undefined) values[name] = v as T[typeof name]
  }
  const set = useCallback(
    (patch: Partial<T>, opts: { push?: boolean } = {}) => {
      void navigate({
        to: '.',
        replace: !opts.push,
        resetScroll: false,
        search: ((old: Search) => {
          const next: Search = { ...old }
          for (const [name, v] of Object.entries(patch) as [string, string][]) {
            if (v === undefined || v === base[name]) delete next[name]
            else next[name] = v
          }
          return next
        }) as never,
      })
    },
    [navigate, base],
  )
  const clear = useCallback(() => set(base), [set, base])
  const active = (Object.keys(base) as (keyof T)[]).some((name) => values[name] !== base[name])
  return { values, set, clear, active }
}

/** Debounces typed text, for search fields tied to the URL. */
export function useTyped(value: string, commit: (value: string) => void, ms = 250): [string, (text: string) => void] {
  const [text, setText] = useState(value)
  const latest = useRef(commit)
  latest.current = commit
  const mine = useRef(value)
  useEffect(() => {
    // Changed from outside (back button, Clear): follow it.
    if (value !== mine.current) {
      mine.current = value
      setText(value)
    }
  }, [value])
  useEffect(() => {
    if (text === mine.current) return
    const timer = setTimeout(() => {
      mine.current = text
      latest.current(text)
    }, ms)
    return () => clearTimeout(timer)
  }, [text, ms])
  return [text, setText]
}
