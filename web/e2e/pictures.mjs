// Makes the pictures of README.md, in docs/pictures: the dashboard with fake answers, a connect page of a running system
// (make up), and the diagram of the data paths, in both themes.
//   make web && node web/e2e/pictures.mjs
import { mkdirSync, statSync, writeFileSync } from 'node:fs'
import { cases } from './cases-accounts.mjs'
import { base, env, launch, root, settled } from './lib.mjs'
import { serve } from './serve.mjs'

const dir = root + 'docs/pictures/'
mkdirSync(dir, { recursive: true })
const most = 200_000

const browser = await launch()
async function take(name, theme, size, load) {
  const context = await browser.newContext({
    viewport: size,
    colorScheme: theme,
    reducedMotion: 'reduce',
    locale: 'en',
  })
  const page = await context.newPage()
  await load(page)
  const path = `${dir}${name}-${theme}.png`
  await page.screenshot({ path })
  await context.close()
  const { size: bytes } = statSync(path)
  if (bytes > most) throw new Error(`${path} has ${bytes} bytes, more than ${most}`)
  console.log(`${path} ${bytes}`)
}

const server = await serve()
server.answers = cases.find(([name]) => name === 'accounts')[2]
const { STAGEDOOR_API_KEY: key } = env()
for (const theme of ['light', 'dark']) {
  await take('dashboard', theme, { width: 1280, height: 720 }, async (page) => {
    await page.goto(server.url + '/app/accounts')
    await settled(page)
  })
  await take('connect', theme, { width: 600, height: 900 }, async (page) => {
    const answer = await fetch(base() + '/v1/connect/sessions', {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ kinds: ['credentials', 'mobile_app'] }),
    })
    const { session } = await answer.json()
    await page.goto(base() + new URL(session.url).pathname)
    await page.click('button.main')
    await page.waitForSelector('#email')
  })
  writeFileSync(`${dir}paths-${theme}.svg`, diagram(theme))
}
await browser.close()
server.close?.()
process.exit(0)

/** Draws the three paths of data: a call, an event, and a creator who connects. */
function diagram(theme) {
  const c =
    theme === 'dark'
      ? { ink: '#f4f4f5', soft: '#b7b7c0', line: '#4b4b55', card: '#1a1a1f', back: '#0d0d10', brand: '#a5b4fc' }
      : { ink: '#18181b', soft: '#52525b', line: '#c9c9d1', card: '#ffffff', back: '#fafafa', brand: '#4f46e5' }
  const box = (x, y, title, text) => `
  <rect x="${x}" y="${y}" width="190" height="64" rx="10" fill="${c.card}" stroke="${c.line}"/>
  <text x="${x + 95}" y="${y + 28}" text-anchor="middle" fill="${c.ink}" font-weight="600">${title}</text>
  <text x="${x + 95}" y="${y + 47}" text-anchor="middle" fill="${c.soft}" font-size="12">${text}</text>`
  const arrow = (x, y, to, label) => `
  <path d="M${x} ${y}H${to}" stroke="${c.brand}" stroke-width="2" marker-end="url(#end)" fill="none"/>
  <text x="${(x + to) / 2}" y="${y - 8}" text-anchor="middle" fill="${c.soft}" font-size="12">${label}</text>`
  const rows = [
    [
      'Calls',
      ['Your server', 'an API key'],
      ['Stagedoor', 'limits, audit, billing'],
      ['The platform', 'via the account’s region'],
      'HTTPS',
      'the creator’s session',
      false,
    ],
    [
      'Events',
      ['Your receiver', 'a signed webhook or a stream'],
      ['Stagedoor', 'one ordered log per account'],
      ['The platform', 'its socket, or polling'],
      'in order, retried',
      'as they happen',
      true,
    ],
    [
      'Connecting',
      ['The creator', 'a link in a browser'],
      ['Connect page', 'sign-in, codes, consent'],
      ['The platform', 'the creator’s account'],
      'password, once',
      'signs in once',
      false,
    ],
  ]
  const body = rows.map(([name, left, middle, right, first, second, back], i) => {
    const y = 30 + i * 104
    const line = y + 32
    return (
      `<text x="20" y="${line + 5}" fill="${c.ink}" font-weight="600">${name}</text>` +
      box(120, y, ...left) +
      box(460, y, ...middle) +
      box(800, y, ...right) +
      (back
        ? arrow(454, line, 320, first) + arrow(794, line, 660, second)
        : arrow(316, line, 450, first) + arrow(656, line, 790, second))
    )
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1010 332" width="1010" height="332" font-family="system-ui, sans-serif" font-size="15" role="img" aria-label="Calls go from your server through Stagedoor to the platform. Events come back from the platform through Stagedoor to your receiver. Creators connect on a page of Stagedoor, which signs in at the platform.">
  <defs><marker id="end" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="${c.brand}"/></marker></defs>
  <rect width="1010" height="332" rx="14" fill="${c.back}"/>${body.join('')}
</svg>
`
}
