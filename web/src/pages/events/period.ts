/** The ranges of the time filter: their value in the URL, and their label. */
export const ranges: [string, string][] = [
  ['', 'Live'],
  ['1', 'Last hour'],
  ['24', 'Last 24 hours'],
  ['168', 'Last 7 days'],
  ['at', 'Jump to a time…'],
  ['between', 'Between two times…'],
]

/** The period that a filter selects; null for live. `now` is rounded to minutes, so that the period stays the same for a while. */
export function periodOf(
  f: { range: string; from: string; to: string; q: string },
  now: number,
): { from: string; to: string } | null {
  const hours = Number(f.range)
  if (hours > 0) return { from: new Date(Math.floor(now / 60_000) * 60_000 - hours * 3_600_000).toISOString(), to: '' }
  // The events before a time, from the newest, as in the live tail.
  if (f.range === 'at' && f.to) return { from: '', to: f.to }
  if (f.range === 'between' && (f.from || f.to)) return { from: f.from, to: f.to }
  return f.q ? { from: '', to: '' } : null
}
