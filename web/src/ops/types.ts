// Response types of the admin API (internal/server/admin), which is not in the public OpenAPI document.

export type Role = 'viewer' | 'support' | 'operator' | 'owner'
export interface Operator {
  /** The email address, the name that was entered with a token, or token. */
  name: string
  role: Role
  /** Whether the operator signed in at the identity provider. */
  person: boolean
  node: string
  version: string
}
export interface Node {
  id: string
  name: string
  roles: string[]
  version: string
  startedAt: string
  seenAt: string
}
export type Harm = 'critical' | 'warning' | 'notice'
/** Something that is wrong with the service. */
export interface Trouble {
  name: string
  harm: Harm
  title: string
  detail: string
  /** The nodes, the region, the role or the switch; empty for the whole service. */
  where: string
  since: string | null
  runbook: string | null
}
export interface Objective {
  name: string
  title: string
  target: number
  /** The share that went well in the last 30 days; null without traffic. */
  month: number | null
  /** The share of the error budget that is left; negative if it is overdrawn. */
  left: number | null
  burn: number
}
export interface Home {
  at: string
  counted: string | null
  troubles: Trouble[]
  objectives: Objective[]
  chart: { at: string; requests: number; failed: number; p95Ms: number; lagSeconds: number; backlog: number }[]
  engines: { name: string; nodes: number; down: string[] }[]
  regions: { name: string; healthy: number; all: number }[]
  nodes: number
}
export interface Plan {
  name: string
  limits: Record<string, number>
}
export interface OrgRef {
  id: string
  name: string
}
export interface Org {
  id: string
  name: string
  plan: string
  environment: 'sandbox' | 'live'
  contactEmail: string
  limits: Record<string, number>
  suspended: boolean
  suspendedAt?: string
  suspendedReason?: string
  /** Present while the organisation is being deleted. */
  deletion?: { requestedAt: string; purgeAt: string; receiptUrl: string }
  createdAt: string
  updatedAt: string
}
export interface OrgDetail {
  org: Org
  effectiveLimits: { name: string; value: number; overridden: boolean }[]
  month: { used: number; limit: number }
  accounts: Record<string, number>
  webhooks: Record<string, number>
}
/** A request for access to an organisation or, once it is granted, the access. */
export interface Access {
  id: string
  state: 'requested' | 'granted' | 'ended' | 'expired'
  operator: string
  mine: boolean
  reason: string
  requestedAt: string
  grantedAt: string | null
  expiresAt: string
  endedAt: string | null
}
export interface OperatorSession {
  id: string
  operator: string
  person: boolean
  role: Role | null
  createdAt: string
  lastSeenAt: string
  expiresAt: string
  userAgent: string
}
export interface Account {
  id: string
  org: OrgRef
  /** The names are null unless the organisation has granted access and they were asked for. */
  ofUserId: string | null
  username: string | null
  label: string | null
  state: string
  stateReason: string | null
  stateChangedAt: string
  region: string
  createdAt: string
  lastSeenAt: string | null
  lastCheckedAt: string | null
  listener: { state: string; since: string | null; shard: number }
}
export interface Work {
  kind: string
  free: number
  slots: { slot: number; node: string | null; epoch: number; listeners?: Record<string, number> }[]
  nodes: { id: string; name: string; slots: number; until: string; live: boolean; leaving: boolean }[]
}
export interface Proxy {
  proxy: string
  healthy: boolean
  since: string | null
  lastFailure: string | null
  draining: boolean
  drainedAt: string | null
  drainedBy: string | null
  reason: string | null
  openConnections: number
}
export interface Region {
  region: string
  on: boolean
  available: boolean
  proxies: Proxy[]
}
export interface Lane {
  org: OrgRef
  accountId: string
  host: string
  state: string
  reason: string | null
  failingSince: string | null
  failCount: number
  nextAttemptAt: string | null
  lastStatus: number
  lastError: string | null
  backlog: number
}
export interface Job {
  id: number
  kind: string
  queue: string
  state: string
  attempt: number
  maxAttempts: number
  createdAt: string
  scheduledAt: string
  attemptedAt: string | null
  finalizedAt: string | null
  failedAt: string | null
}
export interface Wrap {
  id: string
  version: number
}
export interface Keyring {
  kms: 'up' | 'down'
  wrapsNow: Wrap | null
  root: Wrap | null
  orgKeys: { by: Wrap; keys: number; current: boolean }[]
  orgs: number
  dataKeys: number
  renewed: number
  waiting: number
  percentDone: number | null
  holders: number
  shredded: number
}
export interface Switch {
  name: string
  on: boolean
  about: string
  reason: string
  by: string
  since: string | null
}
export interface Banner {
  text: string
  level: 'info' | 'warning' | 'critical'
  url: string | null
  until: string | null
  by: string
  since: string
}
export interface Entry {
  id: string
  org: OrgRef | null
  at: string
  actor: { kind: string; id: string; label: string }
  action: string
  target: string
  requestId: string
  ipHash: string
  changes: unknown
}
export type Paged<K extends string, R> = Record<K, R[]> & { nextCursor: string | null }
