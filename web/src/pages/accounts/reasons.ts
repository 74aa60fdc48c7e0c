// Says in words why an account is in its state. The codes are the API's.
import type { Account } from '@/api/types'
import { words } from '@/lib/format'

const reasons: Record<string, string> = {
  session_expired: 'Session ended by the platform',
  logged_out: 'Signed out on the platform',
  credentials_changed: 'The stored password is no longer accepted',
  challenge_pending: 'The platform requires a security check',
  upstream_unavailable: 'The platform is not responding normally',
  upstream_rate_limited: 'The platform is rate limiting this account',
  egress_down: 'The connection to the platform is down',
  listener_down: 'The event listener is down',
  locked: 'Locked by the platform',
  banned: 'Banned by the platform',
  terms_required: 'The creator must accept new terms on the platform',
  paused_by_caller: 'Paused by your organisation',
  plan_limit: 'More accounts than the plan allows',
  operator: 'Paused by an operator of this service',
}

export function reasonOf(a: Pick<Account, 'stateReason'>): string | null {
  return a.stateReason ? (reasons[a.stateReason] ?? words(a.stateReason)) : null
}

export function nameOf(a: Pick<Account, 'label' | 'displayName' | 'username' | 'id'>): string {
  return a.label || a.displayName || a.username || a.id
}

/** States that need attention. */
export const attention = ['reconnect_required', 'restricted', 'degraded'] as const
