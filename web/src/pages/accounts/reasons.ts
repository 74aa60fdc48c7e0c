// Why an account is in its state, and what to do about it, in words. The codes are the API's.
import type { Account } from '@/api/types'
import { words } from '@/lib/format'

const reasons: Record<string, string> = {
  session_expired: 'Session ended by the platform',
  logged_out: 'Signed out on the platform',
  credentials_changed: 'The stored password is no longer accepted',
  challenge_pending: 'The platform asks for a security check',
  upstream_unavailable: 'The platform does not answer as it should',
  upstream_rate_limited: 'The platform is slowing this account down',
  egress_down: 'The way to the platform fails',
  listener_down: 'Events cannot be listened to right now',
  locked: 'Locked by the platform',
  banned: 'Banned by the platform',
  terms_required: 'The platform wants new terms accepted',
  paused_by_caller: 'Paused by your organisation',
  plan_limit: 'More accounts than the plan allows',
  operator: 'Paused by the operators of this service',
}

export function reasonOf(a: Pick<Account, 'stateReason'>): string | null {
  return a.stateReason ? (reasons[a.stateReason] ?? words(a.stateReason)) : null
}

export function nameOf(a: Pick<Account, 'label' | 'displayName' | 'username' | 'id'>): string {
  return a.label || a.displayName || a.username || a.id
}

/** States in which somebody should look. */
export const attention = ['reconnect_required', 'restricted', 'degraded'] as const
