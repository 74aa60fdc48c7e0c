import { useSyncExternalStore } from 'react'

/** One call run in this browser tab. Responses are not stored: they are the creators' data. */
export interface Run {
  id: number
  org: string
  at: number
  name: string
  access: string
  account: string
  accountName: string
  platform: string
  body: unknown
  status: number
  ms: number
  requestId: string | null
  code: string | null
  dryRun: boolean
}

const storeKey = 'sd.explorer.history'
const most = 50
const watchers = new Set<() => void>()

function load(): Run[] {
  try {
    return JSON.parse(sessionStorage.getItem(storeKey) ?? '[]') as Run[]
  } catch {
    return []
  }
}

let runs: readonly Run[] = load()

function set(next: readonly Run[]) {
  runs = next
  try {
    sessionStorage.setItem(storeKey, JSON.stringify(next))
  } catch {
    // Then the list lasts only as long as the page.
  }
  for (const f of watchers) f()
}

export function record(run: Omit<Run, 'id' | 'at'>): void {
  set([{ ...run, id: (runs[0]?.id ?? 0) + 1, at: Date.now() }, ...runs].slice(0, most))
}

export function forget(org: string): void {
  set(runs.filter((r) => r.org !== org))
}

/** The runs in an org, newest first. */
export function useHistory(org: string): Run[] {
  const all = useSyncExternalStore(
    (f) => {
      watchers.add(f)
      return () => watchers.delete(f)
    },
    () => runs,
  )
  return all.filter((r) => r.org === org)
}
