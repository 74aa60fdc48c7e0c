import { useQuery, useQueryClient } from '@tanstack/react-query'
import { api, call, isProblem } from '@/api/client'
import type { ListedAccount, Webhook } from '@/api/types'
import { keys } from '@/api/hooks'

/** An account's webhook; null if it has none. */
export function useHook(account: string) {
  const client = useQueryClient()
  return useQuery({
    queryKey: keys.webhook(account),
    queryFn: async ({ signal }): Promise<Webhook | null> => {
      // Check the list first: a 404 for a missing webhook would appear in the org's errors.
      if (!client.getQueryData(keys.webhook(account))) {
        const found = await call<{ accounts: ListedAccount[] | null }>('GET', '/v1/accounts', {
          query: { q: account, limit: 1 },
          signal,
        }).catch(() => null)
        const one = found?.accounts?.find((a) => a.id === account)
        if (one?.webhook === null) return null
      }
      try {
        return (await api.get('/v1/accounts/{id}/webhook', { path: { id: account }, signal })).webhook
      } catch (e) {
        if (isProblem(e) && e.code === 'webhook-not-found') return null
        throw e
      }
    },
    enabled: account !== '',
    refetchInterval: 30_000,
  })
}

const reasons: Record<string, string> = {
  paused: 'Paused by your organisation. Events wait in the log.',
  operator: 'Paused by an operator of this service. Events wait in the log.',
  gone: 'The receiver returned 410 (Gone). Resume the webhook when the URL works again.',
  failing: 'Deliveries failed for 72 hours. Events wait in the log; resume the webhook when the URL works again.',
}
export function whyOff(w: Pick<Webhook, 'disabledReason'>): string | null {
  return w.disabledReason ? (reasons[w.disabledReason] ?? null) : null
}

/** Splits the event names that a user types, separated by spaces, commas or line breaks. */
export function eventList(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))]
}

/** Parses pasted headers: "Name: value" lines, a JSON object, or only the value of the signature. */
export function readHeaders(text: string): Record<string, string> {
  const t = text.trim()
  if (t === '') return {}
  if (t.startsWith('{')) {
    try {
      const out: Record<string, string> = {}
      for (const [k, v] of Object.entries(JSON.parse(t) as Record<string, unknown>))
        out[k] = Array.isArray(v) ? String(v[0] ?? '') : String(v)
      return out
    } catch {
      // not JSON after all
    }
  }
  if (!t.includes('\n') && (/^["']?(sha256=|v1,)/.test(t) || /^[0-9a-f]{64}$/i.test(t)))
    return { [t.replace(/^["']/, '').startsWith('v1,') ? 'webhook-signature' : 'X-Webhook-Signature']: t }
  const out: Record<string, string> = {}
  for (const line of t.split(/\r?\n/)) {
    const found = /^\s*(?:-H\s+)?["']?([A-Za-z0-9_-]+)\s*[:=]\s?(.*?)["']?\s*\\?\s*$/.exec(line)
    if (found) out[found[1]!] = found[2]!.trim()
  }
  return out
}
