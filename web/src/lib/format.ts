const whole = new Intl.NumberFormat('en-US')
const compactUnits: [number, string][] = [
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
]

/** 184203 → "184,203". */
export function number(n: number | null | undefined): string {
  return n === null || n === undefined || Number.isNaN(n) ? '–' : whole.format(Math.round(n))
}

/** 2000 → "2k", for axes. */
export function compact(n: number): string {
  for (const [size, unit] of compactUnits) {
    if (Math.abs(n) >= size) return String(Math.round((n / size) * 10) / 10) + unit
  }
  return String(Math.round(n * 100) / 100)
}

/** 0.99982 → "99.982%". A part below 1 never rounds up to 100%. */
export function percent(part: number | null | undefined, digits = 1): string {
  if (part === null || part === undefined || !Number.isFinite(part)) return '–'
  const scale = 10 ** digits
  let value = Math.round(part * 100 * scale) / scale
  if (part < 1 && value >= 100) value = Math.floor(part * 100 * scale) / scale
  return `${Number(value.toFixed(digits))}%`
}

/** 41.3 → "41 ms", 1800 → "1.8 s". */
export function millis(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return '–'
  if (ms < 10) return `${Math.round(ms * 10) / 10} ms`
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${Math.round(ms / 100) / 10} s`
  return duration(ms / 1000)
}

/** Seconds → "21 s", "14 min", "3 h 5 min", "12 days". */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds))
  if (s < 60) return `${s} s`
  if (s < 3600) return `${Math.round(s / 60)} min`
  if (s < 86_400) {
    const all = Math.round(s / 60)
    const h = Math.floor(all / 60)
    const m = all % 60
    return m ? `${h} h ${m} min` : `${h} h`
  }
  const d = Math.round(s / 86_400)
  return d === 1 ? '1 day' : `${d} days`
}

/** 1536 → "1.5 KB". */
export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined) return '–'
  if (n < 1024) return `${n} B`
  for (const [size, unit] of [
    [1024 ** 3, 'GB'],
    [1024 ** 2, 'MB'],
    [1024, 'KB'],
  ] as const) {
    if (n >= size) return `${Math.round((n / size) * 10) / 10} ${unit}`
  }
  return `${n} B`
}

/** "12 min ago", "in 2 min", "just now". */
export function relative(at: Date, now: number): string {
  const s = (now - at.getTime()) / 1000
  if (Math.abs(s) < 3) return 'just now'
  const text = duration(Math.abs(s))
  return s > 0 ? `${text} ago` : `in ${text}`
}

const two = (n: number) => String(n).padStart(2, '0')
const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

interface Parts {
  year: number
  month: number
  day: number
  hour: number
  minute: number
  second: number
  ms: number
}

function parts(d: Date, utc: boolean): Parts {
  return utc
    ? {
        year: d.getUTCFullYear(),
        month: d.getUTCMonth(),
        day: d.getUTCDate(),
        hour: d.getUTCHours(),
        minute: d.getUTCMinutes(),
        second: d.getUTCSeconds(),
        ms: d.getUTCMilliseconds(),
      }
    : {
        year: d.getFullYear(),
        month: d.getMonth(),
        day: d.getDate(),
        hour: d.getHours(),
        minute: d.getMinutes(),
        second: d.getSeconds(),
        ms: d.getMilliseconds(),
      }
}

/** "3 Nov 2026, 22:04:11 UTC". */
export function exact(d: Date, utc: boolean): string {
  const p = parts(d, utc)
  return `${p.day} ${months[p.month]} ${p.year}, ${two(p.hour)}:${two(p.minute)}:${two(p.second)}${utc ? ' UTC' : ''}`
}

/** "22:04:11", or "22:04:11.123". */
export function clock(d: Date, utc: boolean, withMillis = false): string {
  const p = parts(d, utc)
  return `${two(p.hour)}:${two(p.minute)}:${two(p.second)}${withMillis ? '.' + String(p.ms).padStart(3, '0') : ''}`
}

/** "22:00" for spans up to two days, "3 Nov" above, for axes. */
export function tick(d: Date, utc: boolean, span: number): string {
  const p = parts(d, utc)
  return span <= 2 * 86_400_000 ? `${two(p.hour)}:${two(p.minute)}` : `${p.day} ${months[p.month]}`
}

/** "3 Nov 2026". */
export function day(d: Date, utc: boolean): string {
  const p = parts(d, utc)
  return `${p.day} ${months[p.month]} ${p.year}`
}

/** Reports whether text may become a link: only http and https, never javascript:. */
export function isWebLink(text: string): boolean {
  try {
    const url = new URL(text)
    return url.protocol === 'https:' || url.protocol === 'http:'
  } catch {
    return false
  }
}

/** "account.session_expired" → "Account session expired". */
export function words(code: string): string {
  const text = code.replace(/[._-]+/g, ' ').trim()
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** "1 account", "2 accounts". */
export function plural(n: number, one: string, many = one + 's'): string {
  return `${number(n)} ${n === 1 ? one : many}`
}

/** acct_01k9zz…x7q2: an id short enough for a narrow column. */
export function shortId(id: string): string {
  return id.length > 18 ? `${id.slice(0, 11)}…${id.slice(-4)}` : id
}
