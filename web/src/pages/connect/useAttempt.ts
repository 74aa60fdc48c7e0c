import { useEffect, useState } from 'react'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { api, fill, isProblem } from '@/api/client'
import { keys } from '@/api/hooks'
import { read } from '@/api/stream'
import type { Attempt } from '@/api/types'
import { finished } from './words'

export type Follow = 'connecting' | 'live' | 'polling' | 'over'

const silence = 45_000 // a heartbeat comes every 15 s
const polls = 6

/** Returns the newer of two versions of an attempt: responses and the stream may overtake each other. */
export function newer(old: Attempt | undefined, next: Attempt): Attempt {
  return old && Date.parse(old.updated_at) > Date.parse(next.updated_at) ? old : next
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}

/** Follows an attempt to its end over its stream, and polls while the stream is not available. */
export async function follow(
  id: string,
  signal: AbortSignal,
  take: (a: Attempt) => boolean,
  mode: (m: Follow) => void,
): Promise<void> {
  const path = fill('/v1/connect/login/{id}/events', { id })
  let over = false
  const seen = (a: Attempt) => {
    over = take(a) || over
  }
  while (!signal.aborted && !over) {
    const inner = new AbortController()
    const stop = () => inner.abort()
    signal.addEventListener('abort', stop)
    let quiet = setTimeout(stop, silence)
    try {
      await read(path, {
        signal: inner.signal,
        onOpen: () => mode('live'),
        onFrame: (f) => {
          clearTimeout(quiet)
          quiet = setTimeout(stop, silence)
          if (f.event === 'attempt') seen(JSON.parse(f.data) as Attempt)
        },
      })
      if (!over) await pause(500, signal)
    } catch (e) {
      if (signal.aborted) return
      if (isProblem(e) && (e.status === 401 || e.status === 403 || e.status === 404)) return mode('over')
      mode('polling')
      for (let i = 0; i < polls && !over && !signal.aborted; i++) {
        const wait = await api
          .get('/v1/connect/login/{attemptId}', { path: { attemptId: id }, signal })
          .then((a) => {
            seen(a as Attempt)
            return (a as Attempt).poll_after_sec ?? 2
          })
          .catch(() => 5)
        if (!over) await pause(Math.max(1, wait) * 1000, signal)
      }
    } finally {
      clearTimeout(quiet)
      signal.removeEventListener('abort', stop)
    }
  }
  if (over) mode('over')
}

/** An attempt, kept up to date while it runs. */
export function useAttempt(id: string, first?: Attempt) {
  const client = useQueryClient()
  const [mode, setMode] = useState<Follow>('connecting')
  const query = useQuery({
    queryKey: keys.attempt(id),
    queryFn: async ({ signal }) =>
      newer(
        client.getQueryData<Attempt>(keys.attempt(id)),
        (await api.get('/v1/connect/login/{attemptId}', { path: { attemptId: id }, signal })) as Attempt,
      ),
    ...(first ? { initialData: first } : {}),
    staleTime: 5_000,
    // The links to the attempt's pages must not outlive the view.
    gcTime: 60_000,
  })
  const known = query.data !== undefined
  const done = query.data ? finished(query.data) : false
  useEffect(() => {
    if (!known || done) return
    const abort = new AbortController()
    void follow(
      id,
      abort.signal,
      (a) => {
        client.setQueryData<Attempt>(keys.attempt(id), (old) => newer(old, a))
        return finished(a)
      },
      setMode,
    )
    return () => abort.abort()
  }, [id, known, done, client])
  return {
    query,
    attempt: query.data,
    mode: done ? ('over' as const) : mode,
    set: (a: Attempt) => client.setQueryData<Attempt>(keys.attempt(id), (old) => newer(old, a)),
  }
}
