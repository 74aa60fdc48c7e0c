// Helpers of the settings pages that can be tested without a page.

/** "Chrome on Linux", from a User-Agent header. */
export function browserName(agent: string): string {
  if (!agent) return 'Unknown browser'
  const browsers: [RegExp, string][] = [
    [/Edg(?:e|A|iOS)?\//, 'Edge'],
    [/OPR\/|Opera/, 'Opera'],
    [/SamsungBrowser\//, 'Samsung Internet'],
    [/Firefox\/|FxiOS\//, 'Firefox'],
    [/HeadlessChrome\/|Chrome\/|CriOS\//, 'Chrome'],
    [/Version\/[\d.]+ .*Safari\//, 'Safari'],
    [/curl\//, 'curl'],
  ]
  const systems: [RegExp, string][] = [
    [/iPhone|iPad|iPod/, 'iOS'],
    [/Android/, 'Android'],
    [/Windows/, 'Windows'],
    [/Mac OS X|Macintosh/, 'macOS'],
    [/CrOS/, 'ChromeOS'],
    [/Linux|X11/, 'Linux'],
  ]
  const browser = browsers.find(([p]) => p.test(agent))?.[1]
  const system = systems.find(([p]) => p.test(agent))?.[1]
  if (!browser && !system) return agent.slice(0, 60)
  return `${browser ?? 'A browser'}${system ? ` on ${system}` : ''}`
}

/** Says what is wrong with an origin that may embed the pages; null if nothing is. The server's rule is in connect/link. */
export function originProblem(text: string, sandbox: boolean): string | null {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    return 'Use the format https://app.example.com.'
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'Only https is allowed.'
  if (url.protocol === 'http:') {
    const loopback = url.hostname === 'localhost' || /^127\./.test(url.hostname)
    if (!sandbox || !loopback)
      return sandbox ? 'Only https, or http on this machine (localhost).' : 'Only https is allowed.'
  }
  if (url.origin !== text) return `Use only scheme, host and port, without a path: ${url.origin}`
  if (/^\[/.test(url.hostname)) return 'IPv6 addresses are not supported; use a host name.'
  return null
}

export const roles = ['owner', 'admin', 'developer', 'support'] as const
export const roleWords: Record<(typeof roles)[number], { label: string; can: string }> = {
  owner: { label: 'Owner', can: 'Can do everything. Only owners can add, change and remove owners.' },
  admin: { label: 'Admin', can: 'Can do everything else: accounts, calls, webhooks, keys, team and settings.' },
  developer: {
    label: 'Developer',
    can: 'Connects accounts, calls methods, changes webhooks. Cannot manage keys, team or settings.',
  },
  support: {
    label: 'Support',
    can: 'Views accounts, events, webhooks, logs and usage. Cannot change or call anything.',
  },
}

/** The roles that a member may grant: none above their own, and only owners may grant the owner role. */
export function givable(mine: string): (typeof roles)[number][] {
  if (mine === 'owner') return [...roles]
  return mine === 'admin' ? roles.filter((r) => r !== 'owner') : []
}
