const tints = [
  'bg-accent-soft text-accent-text',
  'bg-ok-soft text-ok-text',
  'bg-warn-soft text-warn-text',
  'bg-info-soft text-info-text',
  'bg-subtle text-soft',
]

/** Initials in place of a picture: pictures are at the platforms, and the dashboard loads nothing from other hosts. */
export function Avatar({ name, seed }: { name: string; seed: string }) {
  let sum = 0
  for (const c of seed) sum = (sum * 31 + c.charCodeAt(0)) % 9973
  return (
    <span
      className={`grid size-8 shrink-0 place-items-center rounded-full text-xs font-semibold ${tints[sum % tints.length]}`}
      aria-hidden
    >
      {initials(name)}
    </span>
  )
}

/** Returns the first letters of the first two words: LV for Luna Vega, L for @luna. */
export function initials(name: string): string {
  const words = name.split(/[^\p{L}\p{N}]+/u).filter(Boolean)
  return (
    words
      .slice(0, 2)
      .map((w) => [...w][0]?.toUpperCase() ?? '')
      .join('') || '?'
  )
}
