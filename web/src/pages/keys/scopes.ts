import { scopes } from '@/api/facts'
import type { Key, Log, Scope } from '@/api/types'

const allScopes: readonly Scope[] = scopes.map((s) => s.name)

export interface Preset {
  id: string
  label: string
  scopes: readonly Scope[]
}

/** Everyday omits me:write: a program that calls methods does not need to create keys. */
export const presets: Preset[] = [
  { id: 'read', label: 'Read-only', scopes: ['accounts:read', 'webhooks:read', 'usage:read', 'me:read'] },
  { id: 'everyday', label: 'Everyday', scopes: allScopes.filter((s) => s !== 'me:write') },
  { id: 'webhooks', label: 'Webhooks only', scopes: ['webhooks:read', 'webhooks:write'] },
]

/** The preset with exactly these scopes; '' if there is none. */
export function presetOf(scopes: ReadonlySet<string>): string {
  return presets.find((p) => p.scopes.length === scopes.size && p.scopes.every((s) => scopes.has(s)))?.id ?? ''
}

/** "all 8", "6 of 8", "none". */
export function scopeCount(held: readonly string[] | null | undefined): string {
  const n = (held ?? []).filter((s) => (allScopes as readonly string[]).includes(s)).length
  return n === allScopes.length ? `all ${n}` : n === 0 ? 'none' : `${n} of ${allScopes.length}`
}

export type KeyState = 'active' | 'expired' | 'revoked'

export function keyState(k: Pick<Key, 'expiresAt' | 'revokedAt'>, now = Date.now()): KeyState {
  if (k.revokedAt) return 'revoked'
  return k.expiresAt && new Date(k.expiresAt).getTime() <= now ? 'expired' : 'active'
}

const soon = 14 * 86_400_000

/** Reports whether a key that still works ends within two weeks. */
export function expiresSoon(k: Pick<Key, 'expiresAt' | 'revokedAt'>, now = Date.now()): boolean {
  return keyState(k, now) === 'active' && Boolean(k.expiresAt) && new Date(k.expiresAt ?? 0).getTime() - now < soon
}

/** Splits a field at line breaks and commas, trims the parts and drops empty ones. */
export function lines(text: string): string[] {
  return text
    .split(/[\n,]/)
    .map((l) => l.trim())
    .filter(Boolean)
}

/** What used a key: methods with their counts, most used first, and the number of accounts. */
export function usedBy(logs: readonly Pick<Log, 'method' | 'accountId'>[]): {
  methods: [string, number][]
  accounts: number
} {
  const counts = new Map<string, number>()
  const accounts = new Set<string>()
  for (const l of logs) {
    counts.set(l.method, (counts.get(l.method) ?? 0) + 1)
    if (l.accountId) accounts.add(l.accountId)
  }
  return { methods: [...counts].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])), accounts: accounts.size }
}

export interface Hour {
  at: number
  succeeded: number
  limited: number
  failed: number
}

/** Requests of the last day by hour and outcome; the last hour is the current one. */
export function byHour(logs: readonly Pick<Log, 'at' | 'status'>[], now = Date.now(), hours = 24): Hour[] {
  const step = 3_600_000
  const last = Math.floor(now / step) * step
  const out: Hour[] = Array.from({ length: hours }, (_, i) => ({
    at: last - (hours - 1 - i) * step,
    succeeded: 0,
    limited: 0,
    failed: 0,
  }))
  const first = out[0]?.at ?? last
  for (const l of logs) {
    const slot = out[Math.floor((new Date(l.at).getTime() - first) / step)]
    if (!slot) continue
    if (l.status === 429) slot.limited++
    else if (l.status < 400) slot.succeeded++
    else slot.failed++
  }
  return out
}
