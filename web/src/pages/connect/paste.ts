// Reads pasted cookies in the browser, before anything is sent: which cookies there are, and whether the required ones
// are among them. The caller keeps the values and never shows them.

export interface Pasted {
  /** The format of the text. */
  form: 'header' | 'netscape' | 'json' | 'curl' | 'nothing'
  names: string[]
  /** What is sent as `cookie`: a Cookie header. */
  header: string
}

const nothing: Pasted = { form: 'nothing', names: [], header: '' }

function of(form: Pasted['form'], pairs: [string, string][]): Pasted {
  const all = new Map<string, string>()
  for (const [name, value] of pairs)
    if (name && /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) && !/[;\r\n]/.test(value)) all.set(name, value)
  if (all.size === 0) return nothing
  return { form, names: [...all.keys()], header: [...all].map(([n, v]) => `${n}=${v}`).join('; ') }
}

/** Reads a Cookie header, a Netscape cookies.txt or the JSON of a browser extension. */
export function readCookies(text: string): Pasted {
  const t = text.trim()
  if (t === '') return nothing
  if (/^(curl|Invoke-WebRequest|\$session)\b/i.test(t)) return { form: 'curl', names: [], header: '' }
  if (t.startsWith('[') || t.startsWith('{')) return fromJSON(t)
  const rows = t.split(/\r?\n/).filter((l) => l.trim() !== '' && (!l.startsWith('#') || l.startsWith('#HttpOnly_')))
  const netscape = rows.map((l) => l.split('\t')).filter((c) => c.length >= 7)
  if (netscape.length > 0)
    return of(
      'netscape',
      netscape.map((c) => [(c[5] ?? '').trim(), (c[6] ?? '').trim()]),
    )
  const header = t.replace(/^cookie:\s*/i, '').replace(/\r?\n\s*/g, ' ')
  return of(
    'header',
    header.split(';').flatMap((part): [string, string][] => {
      const at = part.indexOf('=')
      return at > 0 ? [[part.slice(0, at).trim(), part.slice(at + 1).trim()]] : []
    }),
  )
}

function fromJSON(text: string): Pasted {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return nothing
  }
  const pairs: [string, string][] = []
  const list = Array.isArray(value)
    ? value
    : value && typeof value === 'object' && Array.isArray((value as { cookies?: unknown }).cookies)
      ? (value as { cookies: unknown[] }).cookies
      : null
  if (list) {
    for (const one of list) {
      if (!one || typeof one !== 'object') continue
      const { name, value: v } = one as { name?: unknown; value?: unknown }
      if (typeof name === 'string' && (typeof v === 'string' || typeof v === 'number')) pairs.push([name, String(v)])
    }
  } else if (value && typeof value === 'object') {
    for (const [name, v] of Object.entries(value))
      if (typeof v === 'string' || typeof v === 'number') pairs.push([name, String(v)])
  }
  return of('json', pairs)
}

/** "3 of 3 required cookies found; 14 others ignored". */
export function verdict(names: string[], needed: string[]): { text: string; missing: string[] } {
  const missing = needed.filter((n) => !names.includes(n))
  const found = needed.length - missing.length
  const others = names.filter((n) => !needed.includes(n)).length
  if (needed.length === 0)
    return { text: `${names.length} ${names.length === 1 ? 'cookie' : 'cookies'} found`, missing }
  return {
    text: `${found} of ${needed.length} required cookies found${others > 0 ? `; ${others} ${others === 1 ? 'other' : 'others'} ignored` : ''}`,
    missing,
  }
}
