// The live tail, without the page: it turns a stream of any speed into at most twenty rows a second.
// Events are parsed only when they become rows, and rendered in batches.
import type { Frame } from '@/api/stream'
import type { Event } from '@/api/types'
import { matchesKinds } from '@/lib/events'

export const perSecond = 20
export const keep = 500
/** How many events may wait before the oldest are skipped: two seconds' worth. */
const queued = 2 * perSecond
const window = 2000

export interface Snapshot {
  /** Newest first. */
  rows: readonly Event[]
  paused: boolean
  /** Events that arrived while paused. */
  held: number
  /** Events that were never shown, because there were too many. */
  skipped: number
  /** Matching events per second. */
  rate: number
  /** One in this many events is shown; 1 if all are. */
  oneOf: number
  /** Whether older rows were dropped. */
  cut: boolean
}

export interface Filter {
  account: string
  /** In the API's form: "message*,tips". */
  kinds: string
}

export class Tail {
  private rows: readonly Event[] = []
  private readonly ids = new Set<string>()
  private queue: string[] = []
  private kept: string[] = []
  private isPaused = false
  private held = 0
  private skipped = 0
  private cut = false
  private tokens = perSecond
  private at: number
  // Counts of arrived and shown events, per tenth of a second over the last two seconds.
  private came: [number, number][] = []
  private shown: [number, number][] = []
  private readonly passes = new Map<string, boolean>()
  private readonly needle: string
  private snap: Snapshot = { rows: [], paused: false, held: 0, skipped: 0, rate: 0, oneOf: 1, cut: false }
  readonly filter: Filter

  constructor(filter: Filter, now: number) {
    this.filter = filter
    this.at = now
    this.needle = filter.account ? `"accountId":"${filter.account}"` : ''
  }

  private wants(f: Frame): boolean {
    let ok = this.passes.get(f.event)
    if (ok === undefined) {
      ok = matchesKinds(this.filter.kinds, f.event)
      this.passes.set(f.event, ok)
    }
    return ok && (!this.needle || f.data.includes(this.needle))
  }

  /** Takes one event; reports whether it needs a flush. */
  push(f: Frame, now: number): boolean {
    if (f.event === 'problem' || f.event === 'ready' || f.event === 'heartbeat' || !this.wants(f)) return false
    count(this.came, now)
    if (this.isPaused) {
      this.held++
      this.kept.push(f.data)
      if (this.kept.length > keep) this.kept.shift()
      return true
    }
    this.queue.push(f.data)
    if (this.queue.length > queued) {
      this.queue.shift()
      this.skipped++
    }
    return true
  }

  /** Turns the events that may be shown now into rows; reports whether another flush is needed. */
  flush(now: number): boolean {
    this.tokens = Math.min(perSecond, this.tokens + ((now - this.at) / 1000) * perSecond)
    this.at = now
    const n = Math.min(Math.floor(this.tokens), this.queue.length)
    if (n > 0) {
      this.tokens -= n
      this.add(this.queue.splice(0, n))
      count(this.shown, now, n)
    }
    this.take(now)
    return this.queue.length > 0 || this.snap.rate > 0
  }

  pause(now: number): void {
    this.isPaused = true
    // Queued events are held with those that follow.
    this.kept = this.queue
    this.held = this.queue.length
    this.queue = []
    this.take(now)
  }

  resume(now: number): void {
    this.isPaused = false
    this.skipped += Math.max(0, this.held - this.kept.length)
    this.add(this.kept)
    this.kept = []
    this.held = 0
    this.take(now)
  }

  /** Appends stored events, newest first, after the existing rows. */
  append(events: readonly Event[], now: number): void {
    const more = events.filter((e) => !this.ids.has(e.id))
    for (const e of more) this.ids.add(e.id)
    this.rows = [...this.rows, ...more]
    this.take(now)
  }

  private add(texts: string[]): void {
    const fresh: Event[] = []
    for (const text of texts) {
      const e = JSON.parse(text) as Event
      if (this.ids.has(e.id) || (this.filter.account && e.accountId !== this.filter.account)) continue
      this.ids.add(e.id)
      fresh.push(e)
    }
    if (fresh.length === 0) return
    const all = [...fresh.reverse(), ...this.rows]
    if (all.length > keep) {
      this.cut = true
      for (const gone of all.slice(keep)) this.ids.delete(gone.id)
      all.length = keep
    }
    this.rows = all
  }

  private take(now: number): void {
    const came = sum(this.came, now)
    const shown = sum(this.shown, now)
    const rate = Math.round((came / window) * 1000)
    this.snap = {
      rows: this.rows,
      paused: this.isPaused,
      held: this.held,
      skipped: this.skipped,
      rate,
      oneOf: this.isPaused || rate <= perSecond ? 1 : Math.max(1, Math.round(came / Math.max(1, shown))),
      cut: this.cut,
    }
  }

  snapshot = (): Snapshot => this.snap
}

function count(list: [number, number][], now: number, n = 1): void {
  const slot = Math.floor(now / 100)
  const last = list[list.length - 1]
  if (last && last[0] === slot) last[1] += n
  else list.push([slot, n])
  while (list.length > window / 100 + 1) list.shift()
}
function sum(list: [number, number][], now: number): number {
  const first = Math.floor((now - window) / 100)
  let total = 0
  for (const [slot, n] of list) if (slot > first) total += n
  return total
}
