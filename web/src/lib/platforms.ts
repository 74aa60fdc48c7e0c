// Platforms and the sites of creators, without the screen.
import type { EventKind, Platform } from '@/api/types'

/** A platform by its id. If the list does not have it, only its id is known. */
export function named(list: readonly Platform[], id: string): Pick<Platform, 'id' | 'name' | 'logo'> {
  return list.find((p) => p.id === id) ?? { id, name: id, logo: null }
}

/** The address of a site without the scheme: maya.example.com/blog. Empty without a site. */
export function siteName(site: string | null | undefined): string {
  return (site ?? '').replace(/^https?:\/\//i, '').replace(/\/+$/, '')
}

/** What a person typed as a site, as the API expects it: with a scheme, without white space. */
export function typedSite(text: string): string {
  const t = text.trim()
  return t === '' || /^[a-z][a-z0-9+.-]*:\/\//i.test(t) ? t : 'https://' + t
}

/** Says what is wrong with a typed site before it is sent; null if nothing is. The server checks the rest. */
export function siteProblem(text: string, example: string | null): string | null {
  const wanted = `Enter the address of the creator’s site${example ? `, such as ${example}` : ''}.`
  if (text.trim() === '') return wanted
  try {
    const url = new URL(typedSite(text))
    if (!/^https?:$/.test(url.protocol) || !/[.:]|^localhost$/.test(url.host)) return wanted
    if (url.username || url.password || url.search || url.hash)
      return 'Enter only the address of the site, without a user name, a query or a fragment.'
  } catch {
    return wanted
  }
  return null
}

/** The kinds of events that accounts of a platform have; those of all platforms without one. */
export function kindsOf(kinds: readonly Pick<EventKind, 'name' | 'platforms'>[], platform: string | null): string[] {
  return kinds.filter((k) => !platform || k.platforms.length === 0 || k.platforms.includes(platform)).map((k) => k.name)
}

/** The kinds that filters offer first: well-known ones, or else the first of the platform. */
export function commonKinds(kinds: readonly string[]): string[] {
  const known = ['message', 'subscribed', 'tips'].filter((k) => kinds.includes(k))
  return [...(known.length > 0 ? known : kinds.filter((k) => !k.includes('.')).slice(0, 3)), 'account.*']
}
