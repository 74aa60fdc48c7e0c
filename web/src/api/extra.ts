// Hand-written response types. Where schema.d.ts has the operation (npm run types), prefer api.get and delete the
// type here.
import { call, type Query } from './client'
import type { Webhook } from './types'

export interface SeriesPoint {
  at: string
  calls: number
  succeeded: number
  limited: number
  clientErrors: number
  failed: number
  p50Ms: number | null
  p95Ms: number | null
  /** Null for a single account: events are counted per organisation. */
  eventsReceived: number | null
  delivered: number | null
  deliveryFailed: number | null
}
export type SeriesTotals = Omit<SeriesPoint, 'at'>
export interface UsageSeries {
  series: SeriesPoint[]
  totals: SeriesTotals
  previous: SeriesTotals
  /** Events that webhooks should have accepted by now. Null for a single account. */
  eventsWaiting: number | null
}
export function usageSeries(
  query: { since?: string; until?: string; by?: 'hour' | 'day'; accountId?: string },
  signal?: AbortSignal,
): Promise<UsageSeries> {
  return call('GET', '/v1/usage/series', { query: query as Query, ...(signal ? { signal } : {}) })
}

/** Fields that GET /v1/accounts adds to each account. */
export interface AccountExtras {
  webhook?: { state: string } | null
  calls24h?: number | null
  /** Calls per hour of the last day, oldest first. */
  activity?: number[] | null
}
export type AccountCounts = Partial<Record<string, number>>

/** A webhook in the list: the fields of a single webhook, and its account. */
export type WebhookRow = Webhook & { accountId: string; label: string }
export interface WebhookList {
  webhooks: WebhookRow[]
  counts: Partial<Record<string, number>>
  nextCursor?: string | null
}

export interface SystemStatus {
  status: string
  message?: string | null
  regions: { region: string; ok: boolean; latencyMs: number | null }[]
  banner?: { text: string; level: 'info' | 'warning' | 'critical'; url: string | null } | null
}

export interface Member {
  id: string
  email: string
  name: string
  role: Role
  joinedAt: string
  lastSeenAt: string | null
  you: boolean
}
export interface Invitation {
  id: string
  email: string
  role: Role
  createdAt: string
  expiresAt: string
  invitedBy: string
}
export type Role = 'owner' | 'admin' | 'developer' | 'support'
export interface BrowserSession {
  id: string
  person: { id: string; email: string }
  createdAt: string
  lastSeenAt: string | null
  expiresAt: string
  userAgent: string
  current: boolean
}

export interface FunnelWay {
  credentials: number
  challenge: number
  connected: number
  failed: number
}
export interface Funnel extends FunnelWay {
  since?: string
  until?: string
  linksMade?: number
  opened: number
  byMethod: Record<string, FunnelWay>
  failures: { reason: string; count: number }[]
}

export type SignatureVerdict =
  | 'match'
  | 'wrong_secret'
  | 'other_account'
  | 'previous_secret'
  | 'body_changed'
  | 'header_missing'
  | 'header_malformed'
  | 'timestamp_old'
  | 'base64'
export interface SignatureCheck {
  verdict: SignatureVerdict
  message: string
  details: { code: string; message: string }[]
  accountId?: string | null
  eventId?: string | null
  secretOfAccountId?: string | null
}

/** Fields of links. schema.d.ts has them too, in SessionBody. */
export interface LinkExtras {
  label?: string
  reconnect_account_id?: string | null
  opened_at?: string | null
  finished_at?: string | null
}

/** GET /v1/events?latest=N: newest first; nextCursor is for `before`. */
export interface LatestEvents<E> {
  events: E[] | null
  nextCursor: string | null
  gap: boolean
}

/** GET /v1/sandbox/personas. */
export interface Persona {
  persona: string
  login: string
  group: 'works' | 'asks' | 'refuses' | 'breaks' | 'later'
  effect: string
}
export interface Personas {
  personas: Persona[] | null
  codes: { code: string; effect: string }[] | null
  password: string
  domain: string
}
/** POST /v1/sandbox/accounts/{id}/fault. */
export interface SandboxFault {
  kind: 'rate_limit' | 'error' | 'slow' | 'down' | 'otp_next'
  value?: number
  seconds?: number
  count?: number
}
