import { useSyncExternalStore } from 'react'
import { recall, remember } from './storage'

// One timer for all relative times on a page, and one setting for UTC or local time.
let now = Date.now()
let timer: ReturnType<typeof setInterval> | undefined
const ticking = new Set<() => void>()

function subscribe(f: () => void) {
  ticking.add(f)
  timer ??= setInterval(() => {
    if (document.hidden) return
    now = Date.now()
    for (const g of ticking) g()
  }, 1000)
  return () => {
    ticking.delete(f)
    if (ticking.size === 0) {
      clearInterval(timer)
      timer = undefined
    }
  }
}

/** The current time in milliseconds, updated every `step` seconds. */
export function useNow(step = 1): number {
  return useSyncExternalStore(subscribe, () => Math.floor(now / (step * 1000)) * step * 1000)
}

let utc = recall('utc') !== 'local'
const choosing = new Set<() => void>()

export function setUTC(next: boolean): void {
  utc = next
  remember('utc', next ? null : 'local')
  for (const f of choosing) f()
}

/** Reports whether times are shown in UTC (the default) or in local time. */
export function useUTC(): boolean {
  return useSyncExternalStore(
    (f) => {
      choosing.add(f)
      return () => choosing.delete(f)
    },
    () => utc,
  )
}
