import { useQuery } from '@tanstack/react-query'
import { call, isProblem } from '@/api/client'
import { keys } from '@/api/hooks'
import type { Method } from '@/api/types'
import type { Schema, Types } from './schema'

/** A method in the compact catalogue: enough for the tree. */
export type Entry = Pick<Method, 'resource' | 'method' | 'access' | 'description'>

/** One method in full. */
export interface FullMethod extends Omit<Method, 'args' | 'example' | 'result'> {
  args: Schema
  result: Schema
  example: Record<string, unknown> | null
}

/** All methods of a platform without their schemas. Not billed, and cached for the whole visit. '' is the default platform; null waits. */
export function useCatalog(platform: string | null) {
  return useQuery({
    queryKey: [...keys.methods, 'compact', platform],
    queryFn: ({ signal }) =>
      call<{ version: string; methods: Entry[] | null }>('GET', '/v1/sdk/methods', {
        query: { format: 'compact', platform },
        signal,
      }),
    enabled: platform !== null,
    staleTime: Infinity,
    // 503: the server has no platform for the environment, so a retry does not help.
    retry: (n, e) => n < 2 && isProblem(e) && e.retryable && e.status !== 429 && e.status !== 503,
    select: (d) => d.methods ?? [],
  })
}

/** The methods of one resource of a platform in full. */
export function useResource(platform: string | null, resource: string | null) {
  return useQuery({
    queryKey: [...keys.methods, 'full', platform, resource],
    queryFn: ({ signal }) =>
      call<{ methods: FullMethod[] | null; types: Types | null }>('GET', '/v1/sdk/methods', {
        query: { resource, platform },
        signal,
      }),
    enabled: platform !== null && Boolean(resource),
    staleTime: Infinity,
  })
}

export interface Group {
  resource: string
  methods: Entry[]
}

/** Groups methods by resource, in the catalogue's order. Search words match the name, access and description. */
export function grouped(methods: readonly Entry[], search: string): Group[] {
  const wanted = search.toLowerCase().split(/\s+/).filter(Boolean)
  const out = new Map<string, Entry[]>()
  for (const m of methods) {
    const text = `${m.resource}.${m.method} ${m.resource} ${m.method} ${m.access} ${m.description}`.toLowerCase()
    if (!wanted.every((w) => text.includes(w))) continue
    const list = out.get(m.resource)
    if (list) list.push(m)
    else out.set(m.resource, [m])
  }
  return [...out].map(([resource, list]) => ({ resource, methods: list }))
}
