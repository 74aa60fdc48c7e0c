// Small things of the settings that can be told without a page.

/** "Chrome on Linux", from what a browser says of itself. */
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

/** What is wrong with an origin that may frame the pages; null if nothing. The server's rule (connect/session). */
export function originProblem(text: string, sandbox: boolean): string | null {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    return 'Write it as https://app.example.com.'
  }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'Only https is allowed.'
  if (url.protocol === 'http:') {
    const loopback = url.hostname === 'localhost' || /^127\./.test(url.hostname)
    if (!sandbox || !loopback) return sandbox ? 'Only https, or http on this machine (localhost).' : 'Only https is allowed.'
  }
  if (url.origin !== text) return `Only scheme, host and port, without a path: ${url.origin}`
  if (/^\[/.test(url.hostname)) return 'An IPv6 address cannot be used here; use a name.'
  return null
}

export const roles = ['owner', 'admin', 'developer', 'support'] as const
export const roleWords: Record<(typeof roles)[number], { label: string; can: string }> = {
  owner: { label: 'Owner', can: 'Everything, and the only one who makes, changes and removes owners.' },
  admin: { label: 'Admin', can: 'Everything: accounts, calls, webhooks, keys, team and settings.' },
  developer: { label: 'Developer', can: 'Connects accounts, calls methods, changes webhooks. No keys, team or settings.' },
  support: { label: 'Support', can: 'Reads accounts, events, webhooks, logs and usage. Changes nothing, calls nothing.' },
}

/** The roles that somebody may give: nobody gives more than they have, and only owners make owners. */
export function givable(mine: string): (typeof roles)[number][] {
  if (mine === 'owner') return [...roles]
  return mine === 'admin' ? roles.filter((r) => r !== 'owner') : []
}
