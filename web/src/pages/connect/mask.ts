import type { Attempt } from '@/api/types'

// Links to the creator's pages give access: they are offered where they are used, but not in a dump.
const secret = new Set(['verification_page_url', 'phone_url', 'embed_url'])

const hide = (url: string) =>
  url
    .split('/')
    .map((part, i) => (i > 2 && part.length >= 12 ? '••••' : part))
    .join('/')

/** Returns an attempt for display, with the tokens of its links masked. */
export function masked(a: Attempt): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(a).map(([k, v]) => [k, secret.has(k) && typeof v === 'string' ? hide(v) : v]),
  )
}
