// Audit actions in words. The codes are the API's; an unknown code is shown as its own words.
import { words } from '@/lib/format'

export const actions: [string, string][] = [
  ['account.connect', 'Connected an account'],
  ['account.update', 'Changed an account'],
  ['account.pause', 'Paused an account'],
  ['account.resume', 'Resumed an account'],
  ['account.reauthenticate', 'Signed an account in again'],
  ['account.reconnect_link', 'Created a reconnect link'],
  ['account.disconnect', 'Disconnected an account'],
  ['account.revoke', 'Ended a connection (creator)'],
  ['connect.start', 'Started a connect attempt'],
  ['connect.cancel', 'Cancelled a connect attempt'],
  ['connect.session', 'Created a connect link'],
  ['connect.open', 'Opened a connect link (creator)'],
  ['connect.receipt', 'Mailed a receipt to a creator'],
  ['connect.page', 'Changed the connect page'],
  ['connect.logo', 'Changed the logo of the connect page'],
  ['webhook.put', 'Set a webhook'],
  ['webhook.delete', 'Deleted a webhook'],
  ['webhook.pause', 'Paused a webhook'],
  ['webhook.resume', 'Resumed a webhook'],
  ['webhook.test', 'Tested a webhook'],
  ['webhook.replay', 'Replayed events'],
  ['webhook.redeliver', 'Redelivered an event'],
  ['webhook.rotate_secret', 'Rotated a signing secret'],
  ['job.start', 'Started a job'],
  ['job.cancel', 'Cancelled a job'],
  ['key.mint', 'Created an API key'],
  ['key.update', 'Changed an API key'],
  ['key.rotate', 'Rotated an API key'],
  ['key.revoke', 'Revoked an API key'],
  ['member.invite', 'Invited a member'],
  ['invitation.withdraw', 'Withdrew an invitation'],
  ['member.join', 'Joined the organisation'],
  ['member.role', 'Changed a role'],
  ['member.remove', 'Removed a member'],
  ['member.revoke_keys', 'Revoked a member’s keys'],
  ['member.sign_in', 'Signed in'],
  ['session.end', 'Signed a browser out'],
  ['org.create', 'Created the organisation'],
  ['org.update', 'Changed the organisation'],
  ['notice.set', 'Changed the notices'],
  ['notice.reset', 'Reset the notices'],
  ['notice.send', 'Sent a notice'],
  ['mail.fail', 'Could not send an email'],
  ['operator.sign_in', 'Operator signed in'],
  ['operator.access_request', 'Operator asked for access'],
  ['support_access.grant', 'Granted support access'],
  ['support_access.revoke', 'Revoked support access'],
  ['operator.access', 'Operator opened this organisation'],
  ['operator.read', 'Operator read'],
]
const known = new Map(actions)

export function actionWords(action: string): string {
  return known.get(action) ?? words(action)
}

export const actorWords: Record<string, string> = {
  key: 'API key',
  member: 'Member',
  operator: 'Operator',
  system: 'Service',
  creator: 'Creator',
}

export interface Change {
  field: string
  from: unknown
  to: unknown
}

/** Returns changes as rows with from and to. A value in another form becomes a row with only to. */
export function changesOf(changes: unknown): Change[] {
  if (changes === null || changes === undefined) return []
  if (typeof changes !== 'object' || Array.isArray(changes)) return [{ field: 'value', from: undefined, to: changes }]
  return Object.entries(changes as Record<string, unknown>).map(([field, v]) => {
    if (typeof v !== 'object' || v === null || Array.isArray(v)) return { field, from: undefined, to: v }
    if ('from' in v || 'to' in v) return { field, from: (v as Change).from, to: (v as Change).to }
    // Personal data of an account that was disconnected.
    return { field, from: undefined, to: 'purged' in v ? 'Deleted with the account' : v }
  })
}

/** The reason for the change, where one is required. */
export function reasonOf(changes: unknown): string | null {
  const reason = changesOf(changes).find((c) => c.field === 'reason')?.to
  return typeof reason === 'string' && reason ? reason : null
}

/** Formats a value on one line. */
export function plain(v: unknown): string {
  if (v === undefined || v === null || v === '') return '–'
  return typeof v === 'string' ? v : JSON.stringify(v)
}
