import { useSyncExternalStore } from 'react'
import { recall, remember } from './storage'

export type Theme = 'light' | 'dark' | 'system'

const media = typeof matchMedia === 'undefined' ? null : matchMedia('(prefers-color-scheme: dark)')
const listeners = new Set<() => void>()
let theme: Theme = ((t) => (t === 'light' || t === 'dark' ? t : 'system'))(recall('theme'))

function apply() {
  document.documentElement.dataset.theme = resolved()
  for (const f of listeners) f()
}

/** The theme in use: light or dark. */
export function resolved(): 'light' | 'dark' {
  return theme === 'system' ? (media?.matches ? 'dark' : 'light') : theme
}

export function setTheme(next: Theme): void {
  theme = next
  remember('theme', next === 'system' ? null : next)
  apply()
}

/** Call once, before the first render. */
export function startTheme(): void {
  media?.addEventListener('change', apply)
  apply()
}

function subscribe(f: () => void) {
  listeners.add(f)
  return () => listeners.delete(f)
}

export function useTheme(): { theme: Theme; shown: 'light' | 'dark' } {
  useSyncExternalStore(subscribe, () => theme + resolved())
  return { theme, shown: resolved() }
}
