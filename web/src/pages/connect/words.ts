// The texts of the connect flow. Those for creators match the connect pages; those for developers come with the code.
import type { Attempt, Platform } from '@/api/types'
import { words } from '@/lib/format'

export type Method = 'token' | 'mobile' | 'login' | 'cookie' | 'curl'

/** The three steps of each method. */
export const steps: Record<Method, [string, string, string]> = {
  token: ['Paste', 'Check', 'Done'],
  mobile: ['Scan', 'Approve', 'Done'],
  login: ['Sign in', 'Verify', 'Done'],
  cookie: ['Paste', 'Check', 'Done'],
  curl: ['Paste', 'Check', 'Done'],
}

// What the API calls each method.
const flows: Record<Method, string> = {
  token: 'token',
  mobile: 'mobile_app',
  login: 'credentials',
  cookie: 'cookie',
  curl: 'curl',
}

/** Reports whether a platform has a method. While the platform is not known, it has all but a key. */
export function hasMethod(platform: Pick<Platform, 'flows'> | null, method: Method): boolean {
  return platform ? platform.flows.includes(flows[method]) : method !== 'token'
}

/** The wizard's method for the kind of an attempt. */
export function methodOf(kind: string): Method {
  if (kind === 'mobile_app') return 'mobile'
  return kind === 'token' || kind === 'cookie' || kind === 'curl' ? kind : 'login'
}

export const kindWords: Record<string, string> = {
  token: 'Key',
  credentials: 'Email & password',
  mobile_app: 'Mobile QR',
  cookie: 'Cookies',
  curl: 'cURL',
  reauth: 'Stored credentials',
}
export function kindWord(kind: string): string {
  return kindWords[kind] ?? words(kind)
}

export function finished(a: Pick<Attempt, 'state'>): boolean {
  return a.state === 'completed_success' || a.state === 'completed_failed'
}
export function can(a: Pick<Attempt, 'next_actions'>, action: string): boolean {
  return (a.next_actions ?? []).includes(action)
}

/** Which of the three steps an attempt is at, from 0. */
export function stepOf(a: Attempt): number {
  if (a.state === 'completed_success') return 2
  if (a.state === 'awaiting_mobile_session') return a.progress === 'scanned' ? 1 : 0
  if (a.state === 'pending' && (a.progress === 'queued' || a.progress === 'signing_in'))
    return methodOf(a.kind) === 'login' ? 0 : 1
  return 1
}

// What the connect pages tell creators when an attempt fails.
const failures: Record<string, string> = {
  invalid_credentials: 'The platform did not accept this email and password. Check them and try again.',
  account_locked: 'The platform has locked sign-in for now. Open the platform, unlock your account, then come back.',
  account_banned: 'The platform has closed this account, so it cannot be connected. Contact the platform.',
  terms_required: 'The platform wants you to accept its terms first. Open the platform, accept them, then come back.',
  captcha_required:
    'The platform asked for a check that only you can do. Start again and choose the app on your phone.',
  two_factor_failed: 'The codes did not match. Start again, or choose the app on your phone.',
  two_factor_locked: 'The platform is not accepting more codes for now. Wait a while, or choose the app on your phone.',
  code_expired: 'The code was not entered in time. Start again and we will ask for a new one.',
  face_rejected: 'The platform did not accept the selfie. Start again in good light, or choose the app on your phone.',
  mobile_denied: 'The request was declined on your phone. If that was a mistake, try again.',
  mobile_session_expired: 'The request was not approved on the phone in time. Start again and scan the new code.',
  session_invalid:
    'The platform did not accept the sign-in or the key. Try again. A key may have been deleted, or belong to another site.',
  session_incomplete: 'Part of the session is missing. Sign in again.',
  not_a_creator: 'This is not a creator account. Sign in with the account you publish with.',
  account_mismatch: 'This is not the account that was connected before. Sign in with that account, or use its own key.',
  egress_unavailable: 'We cannot reach the platform right now. Try again in a few minutes.',
  upstream_unavailable: 'The platform is not responding right now. Try again in a few minutes.',
  upstream_rate_limited: 'The platform accepts no more sign-ins for now. Try again later.',
  upstream_timeout: 'The platform took too long to respond. Try again in a few minutes.',
  upstream_changed: 'The platform asked for a check we do not support yet.',
  expired: 'You did not finish in time. Start again when you are ready.',
  cancelled: 'You cancelled this attempt.',
  superseded: 'You started again in another window. Continue there.',
  interrupted: 'The attempt was interrupted. Start again.',
  account_deleted: 'The account was disconnected in the meantime.',
  account_limit: 'No more accounts can be connected right now.',
  org_suspended: 'No accounts can be connected right now.',
  internal: 'Something went wrong on our side. Try again in a few minutes.',
}
/** What the creator sees; null for an unknown code. */
export function creatorReads(code: string): string | null {
  return failures[code] ?? null
}
export function failureWord(code: string): string {
  return words(code)
}

export const channelWords: Record<string, string> = {
  sms: 'Get a text message instead',
  app: 'Use an authenticator app',
  email: 'Get an email instead',
  face: 'Take a selfie instead',
}

/** Says what is wrong with a code before it is sent; null if nothing is. Spaces and dashes are ignored. */
export function codeProblem(text: string): string | null {
  const code = text.replace(/[\s-]/g, '')
  if (code === '') return 'Enter the code.'
  if (!/^[0-9a-z]+$/i.test(code)) return 'The code must be a number, such as 123456.'
  if (code.length < 4) return 'The code has too few digits. Enter it as you received it.'
  if (code.length > 16) return 'The code has too many digits. Enter it as you received it.'
  return null
}

/** 98 → "1:38". */
export function countdown(seconds: number): string {
  const s = Math.max(0, Math.ceil(seconds))
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, '0')}`
}
