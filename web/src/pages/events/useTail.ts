import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from 'react'
import { useQuery } from '@tanstack/react-query'
import { call } from '@/api/client'
import type { LatestEvents } from '@/api/extra'
import { keys } from '@/api/hooks'
import { orgStream } from '@/api/stream'
import type { Event } from '@/api/types'
import { Tail, type Filter, type Snapshot } from './tail'

const page = 50
const every = 100 // ms between two draws at most

/** Ties a tail to the tab's stream and to the animation frames. */
function driver(tail: Tail) {
  const listeners = new Set<() => void>()
  let frame = 0
  let timer: ReturnType<typeof setTimeout> | undefined
  let last = 0
  const tell = () => {
    for (const f of listeners) f()
  }
  const draw = () => {
    frame = 0
    last = performance.now()
    const more = tail.flush(last)
    tell()
    if (more) schedule()
  }
  const schedule = () => {
    if (frame || timer !== undefined) return
    const wait = Math.max(0, every - (performance.now() - last))
    timer = setTimeout(() => {
      timer = undefined
      frame = requestAnimationFrame(draw)
    }, wait)
  }
  return {
    subscribe: (f: () => void) => {
      listeners.add(f)
      return () => listeners.delete(f)
    },
    tell,
    start: () => {
      const stop = orgStream().listen((f) => {
        if (tail.push(f, performance.now())) schedule()
      })
      return () => {
        stop()
        clearTimeout(timer)
        timer = undefined
        cancelAnimationFrame(frame)
        frame = 0
      }
    },
  }
}

export interface Live extends Snapshot {
  /** The stored events that the tail begins with. */
  stored: ReturnType<typeof useQuery<LatestEvents<Event>>>
  pause: () => void
  resume: () => void
  toggle: () => void
  /** Loads older events; pauses, and begins anew from the log if the tail has holes. */
  older: () => Promise<void>
  hasOlder: boolean
  loadingOlder: boolean
}

function latest(filter: Filter, before: string | null, signal?: AbortSignal) {
  return call<LatestEvents<Event>>('GET', '/v1/events', {
    query: { latest: page, accountId: filter.account, events: filter.kinds.split(/[\s,]+/).filter(Boolean).join(','), before },
    ...(signal ? { signal } : {}),
  })
}

/** The tail of the org's events with a filter. */
export function useTail(account: string, kinds: string): Live {
  const filter = useMemo(() => ({ account, kinds }), [account, kinds])
  // How often the log was begun anew with this filter: such a tail is paused from its beginning.
  const [again, setAgain] = useState({ filter, round: 0 })
  const round = again.filter === filter ? again.round : 0
  const { tail, drive } = useMemo(() => {
    const t = new Tail(filter, performance.now())
    if (round > 0) t.pause(performance.now())
    return { tail: t, drive: driver(t) }
  }, [filter, round])
  const snap = useSyncExternalStore(drive.subscribe, tail.snapshot)
  const [cursor, setCursor] = useState<string | null>(null)
  const [loadingOlder, setLoading] = useState(false)
  const stored = useQuery({
    queryKey: keys.events({ ...filter, latest: page, round }),
    queryFn: ({ signal }) => latest(filter, null, signal),
    staleTime: Infinity,
    gcTime: 0,
    refetchOnWindowFocus: false,
  })
  useEffect(() => drive.start(), [drive])
  useEffect(() => {
    if (!stored.data) return
    tail.append(stored.data.events ?? [], performance.now())
    setCursor(stored.data.nextCursor)
    drive.tell()
  }, [stored.data, tail, drive])
  const pause = useCallback(() => {
    tail.pause(performance.now())
    drive.tell()
  }, [tail, drive])
  const resume = useCallback(() => {
    tail.resume(performance.now())
    drive.tell()
  }, [tail, drive])
  const older = async () => {
    setLoading(true)
    try {
      if (!snap.paused) pause()
      // With holes in it the tail does not meet the page of the log: that is read from its newest.
      if (snap.cut || snap.skipped > 0) {
        setAgain({ filter, round: round + 1 })
        return
      }
      const next = await latest(filter, cursor)
      tail.append(next.events ?? [], performance.now())
      setCursor(next.nextCursor)
      drive.tell()
    } finally {
      setLoading(false)
    }
  }
  return { ...snap, stored, pause, resume, toggle: () => (snap.paused ? resume() : pause()), older, hasOlder: cursor !== null || snap.cut || snap.skipped > 0, loadingOlder }
}
