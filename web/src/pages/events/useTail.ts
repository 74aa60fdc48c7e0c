import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from 'react'
import { useQuery } from '@tanstack/react-query'
import { call } from '@/api/client'
import type { LatestEvents } from '@/api/types'
import { keys } from '@/api/hooks'
import { orgStream } from '@/api/stream'
import { Tail, type Filter, type Snapshot } from './tail'

const page = 50
const every = 100 // minimum ms between two renders

/** Connects a tail to the tab's stream and to the animation frames. */
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
  /** The stored events that the tail starts with. */
  stored: ReturnType<typeof useQuery<LatestEvents>>
  pause: () => void
  resume: () => void
  toggle: () => void
  /** Pauses and loads older events; reloads from the log if the tail has gaps. */
  older: () => Promise<void>
  hasOlder: boolean
  loadingOlder: boolean
}

function latest(filter: Filter, before: string | null, signal?: AbortSignal) {
  return call<LatestEvents>('GET', '/v1/events', {
    query: {
      latest: page,
      accountId: filter.account,
      events: filter.kinds
        .split(/[\s,]+/)
        .filter(Boolean)
        .join(','),
      before,
    },
    ...(signal ? { signal } : {}),
  })
}

/** The tail of the org's events with a filter. */
export function useTail(account: string, kinds: string): Live {
  const filter = useMemo(() => ({ account, kinds }), [account, kinds])
  // How often the tail was reloaded from the log with this filter. A reloaded tail starts paused.
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
      // A tail with gaps does not line up with the next page of the log: reload from the newest event.
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
  return {
    ...snap,
    stored,
    pause,
    resume,
    toggle: () => (snap.paused ? resume() : pause()),
    older,
    hasOlder: cursor !== null || snap.cut || snap.skipped > 0,
    loadingOlder,
  }
}
