// The prefix of an id names its type, so the palette can open any id.

export interface Target {
  kind: string
  /** A path below /app. */
  to: string
}

const body = '[0-9a-hjkmnp-tv-z]{26}'
const places: [RegExp, string, (id: string) => string][] = [
  [new RegExp(`\\bacct_${body}\\b`), 'Account', (id) => `/accounts/${id}`],
  [new RegExp(`\\batt_${body}\\b`), 'Connect attempt', (id) => `/connect/attempts/${id}`],
  [new RegExp(`\\bcs_${body}\\b`), 'Connect link', (id) => `/connect/links/${id}`],
  [new RegExp(`\\bevt_${body}\\b`), 'Event', (id) => `/events/${id}`],
  [new RegExp(`\\breq_${body}\\b`), 'API request', (id) => `/logs/${id}`],
  [new RegExp(`\\bwhd_${body}\\b`), 'Webhook delivery', (id) => `/webhooks/deliveries/${id}`],
  [new RegExp(`\\bwhe_${body}\\b`), 'Webhook endpoint', (id) => `/webhooks/endpoints/${id}`],
  [new RegExp(`\\bjob_${body}\\b`), 'Job', (id) => `/jobs/${id}`],
  [new RegExp(`\\bkey_${body}\\b`), 'API key', (id) => `/keys?key=${id}`],
  [new RegExp(`\\baud_${body}\\b`), 'Audit entry', (id) => `/audit?entry=${id}`],
  [new RegExp(`\\borg_${body}\\b`), 'Organisation', () => `/settings`],
]

/** Returns the page of the first id in a pasted text; null if there is none. */
export function targetOf(text: string): (Target & { id: string }) | null {
  const lower = text.trim().toLowerCase()
  for (const [pattern, kind, to] of places) {
    const found = pattern.exec(lower)
    if (found) return { id: found[0], kind, to: to(found[0]) }
  }
  return null
}
