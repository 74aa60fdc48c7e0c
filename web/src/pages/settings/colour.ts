// The colours of the creators' pages, computed as on the server (internal/server/connectpages/theme.go), so that the
// preview matches the page.

type RGB = readonly [number, number, number]

export const brandDefault = '#4f46e5'
const enough = 4.5

export function parseColour(text: string): RGB | null {
  const m = /^#([0-9a-f]{6})$/i.exec(text)
  if (!m?.[1]) return null
  const n = parseInt(m[1], 16)
  return [(n >> 16) / 255, ((n >> 8) & 255) / 255, (n & 255) / 255]
}

export function hex(c: RGB): string {
  return (
    '#' +
    c
      .map((x) =>
        Math.round(x * 255)
          .toString(16)
          .padStart(2, '0'),
      )
      .join('')
  )
}

function mix(c: RGB, to: RGB, share: number): RGB {
  return [c[0] + (to[0] - c[0]) * share, c[1] + (to[1] - c[1]) * share, c[2] + (to[2] - c[2]) * share]
}

function luminance(c: RGB): number {
  const [r, g, b] = c.map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)) as [number, number, number]
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}

/** The WCAG contrast ratio of two colours, from 1 to 21. */
export function contrast(a: RGB, b: RGB): number {
  const [x, y] = [luminance(a), luminance(b)]
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05)
}

/** Moves a colour towards another, as little as needed, until it is legible on all backgrounds. */
function legible(c: RGB, towards: RGB, grounds: readonly RGB[]): RGB {
  for (let step = 0; step <= 100; step++) {
    // Check the colour that the browser gets: 8 bits per channel.
    const moved = parseColour(hex(mix(c, towards, step / 100))) ?? towards
    if (Math.min(...grounds.map((g) => contrast(moved, g))) >= enough) return moved
  }
  return towards
}

export type Scheme = 'light' | 'dark'

interface Look {
  card: RGB
  on: RGB
  towards: RGB
  tint: number
  rest: Record<string, string>
}

const c = (text: string): RGB => parseColour(text) ?? [0, 0, 0]
const looks: Record<Scheme, Look> = {
  light: {
    card: c('#ffffff'),
    on: c('#ffffff'),
    towards: c('#000000'),
    tint: 0.09,
    rest: {
      page: '#f3f3f6',
      ink: '#18181b',
      soft: '#52525b',
      line: '#dedee4',
      edge: '#71717a',
      good: '#15803d',
      bad: '#b42318',
      wash: '#fef1ef',
    },
  },
  dark: {
    card: c('#1a1a1f'),
    on: c('#101014'),
    towards: c('#ffffff'),
    tint: 0.16,
    rest: {
      page: '#0d0d10',
      ink: '#f4f4f5',
      soft: '#b7b7c0',
      line: '#33333b',
      edge: '#8b8b96',
      good: '#5bd68a',
      bad: '#ffa198',
      wash: '#33191a',
    },
  },
}

/** All colours of a scheme with a brand colour; an empty one means our default. */
export function palette(brand: string, scheme: Scheme): Record<string, string> {
  const l = looks[scheme]
  const seen = legible(parseColour(brand) ?? c(brandDefault), l.towards, [l.card, l.on])
  return { ...l.rest, card: hex(l.card), brand: hex(seen), on: hex(l.on), tint: hex(mix(l.card, seen, l.tint)) }
}

export interface Verdict {
  /** The lowest contrast of the unchanged colour. */
  ratio: number
  enough: boolean
  /** The colour that is used: adjusted if the contrast is too low. */
  used: string
}

/** Checks whether a brand colour is kept or adjusted to be legible. Null if it is not a colour. */
export function judge(brand: string, scheme: Scheme): Verdict | null {
  const colour = parseColour(brand)
  if (!colour) return null
  const l = looks[scheme]
  const ratio = Math.min(contrast(colour, l.card), contrast(colour, l.on))
  return { ratio, enough: ratio >= enough, used: palette(brand, scheme)['brand'] ?? brand }
}
