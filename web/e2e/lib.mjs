// Shared by the browser scripts: Chromium, a watcher for errors, axe, widths and fake answers.
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { chromium } from 'playwright-core'

const require = createRequire(import.meta.url)
const axeSource = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8')
export const root = new URL('../..', import.meta.url).pathname
export const widths = [360, 390, 768, 1024, 1360]

/** The variables in .dev/env, which `make up` writes. */
export function env() {
  const out = {}
  const file = root + '.dev/env'
  if (!existsSync(file)) return out
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const found = /^export (\w+)='?([^']*)'?$/.exec(line)
    if (found) out[found[1]] = found[2]
  }
  return out
}

export function base() {
  return process.env.BASE ?? env().STAGEDOOR_URL ?? 'http://127.0.0.1:18080'
}

export async function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
  })
}

/** Opens a page, and collects what goes wrong on it: console errors, exceptions, requests to other hosts. */
export async function open(browser, { width = 1360, height = 900, theme = 'light', at = base() } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion: 'reduce' })
  const page = await context.newPage()
  const wrong = []
  const host = new URL(at).host
  page.on('console', (m) => {
    // The browser itself logs a refused call; only the page's handling is tested.
    if (m.type() === 'error' && !/Failed to load resource/.test(m.text())) wrong.push('console: ' + m.text())
  })
  page.on('pageerror', (e) => wrong.push('exception: ' + e.message))
  page.on('request', (r) => {
    const url = new URL(r.url())
    if (/^https?:$/.test(url.protocol) && url.host !== host) wrong.push('external request: ' + r.url())
  })
  return { context, page, wrong }
}

/** Signs in with the development form (STAGEDOOR_DEV) to an org of the environment, and waits for the shell. */
export async function signIn(page, { email, name, environment = 'sandbox' } = {}) {
  await page.goto(base() + '/app/sign-in')
  if (email) await page.fill('input[name=email]', email)
  if (name) await page.fill('input[name=name]', name)
  await page.click('form button')
  await page.waitForSelector('nav[aria-label=Main]', { state: 'attached' })
  const moved = await page.evaluate(async (environment) => {
    const { orgs, currentOrg } = await (await fetch('/app/session')).json()
    const kept = localStorage.getItem('sd.org') ?? currentOrg
    const org =
      orgs.find((o) => o.id === kept && o.environment === environment) ??
      orgs.find((o) => o.environment === environment)
    if (!org || org.id === kept) return false
    localStorage.setItem('sd.org', org.id)
    return true
  }, environment)
  if (moved) {
    await page.reload()
    await page.waitForSelector('nav[aria-label=Main]', { state: 'attached' })
  }
}

/**
 * Clears what the page stored, so that the next one starts fresh. Leaves the page first, because it may store something
 * again while it is open. Goes through about:blank, because unanswered requests can hold all six connections that the
 * browser opens to a host.
 */
export async function forget(page, at) {
  await page.goto('about:blank')
  await page.goto(at + '/blank')
  await page.evaluate(() => {
    localStorage.clear()
    sessionStorage.clear()
  })
}

/** Waits until nothing appears to be loading any more. */
export async function settled(page) {
  await page.waitForSelector('main h1', { timeout: 120_000 })
  await page
    .waitForFunction(() => document.querySelectorAll('.shimmer').length === 0, null, { timeout: 120_000 })
    .catch(() => {})
  await page.waitForTimeout(150)
}

/** Returns the axe rules (WCAG 2.2 AA and below) that the page violates, as text. `themed`: only rules about colours; `inner`: only the page inside the shell. */
export async function axe(page, { themed = false, inner = false } = {}) {
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axeSource)
  const violations = await page.evaluate(
    async ([themed, inner]) => {
      const run = themed
        ? { type: 'rule', values: ['color-contrast', 'link-in-text-block'] }
        : { type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }
      const within = inner
        ? [...document.querySelectorAll('main, [role=dialog], [aria-label=Notifications]')].filter(
            (e) => !e.closest('[aria-hidden=true]'),
          )
        : []
      const { violations } = await window.axe.run(within.length ? { include: within } : document, {
        runOnly: run,
        resultTypes: ['violations'],
      })
      return violations.map((v) => ({
        id: v.id,
        impact: v.impact,
        nodes: v.nodes.map(
          (n) => n.target.join(' ') + ' — ' + (n.failureSummary ?? '').split('\n').slice(1, 3).join('; '),
        ),
      }))
    },
    [themed, inner],
  )
  // The first two places of a rule are enough to find the rest.
  return violations.flatMap((v) => v.nodes.slice(0, 2).map((n) => `${v.id} (${v.impact}, ${v.nodes.length}×): ${n}`))
}

/** Returns the elements that overflow to the right, if the page scrolls sideways. */
export async function sideways(page) {
  return page.evaluate(() => {
    const over = document.documentElement.scrollWidth - document.documentElement.clientWidth
    if (over <= 0) return []
    const out = []
    for (const el of document.querySelectorAll('body *')) {
      const r = el.getBoundingClientRect()
      if (r.right > document.documentElement.clientWidth + 1 && r.width > 0)
        out.push(`${el.tagName.toLowerCase()}.${String(el.className).slice(0, 60)} reaches ${Math.round(r.right)}`)
    }
    return [`${over} px too wide`, ...out.slice(0, 5)]
  })
}

export const problem = (status, code, detail, more = {}) => ({
  status,
  body: { type: '/problems/' + code, code, status, title: code, detail, retryable: false, ...more },
})
/** Answers of a server that fails, that never responds, and that refuses the caller's role. */
export const fail = () => problem(500, 'internal', 'Something went wrong on our side.')
export const slow = () => new Promise(() => {})
export const refuse = () => problem(403, 'scope-missing', 'Your role does not have the scope that this needs.')
/** Overrides answers: patched paths come before wildcards, and win. */
export const over = (made, patch) => ({ ...patch, ...made, ...patch })

export function shotDir(name) {
  const dir = `${root}.dev/shots/${name}/`
  mkdirSync(dir, { recursive: true })
  return dir
}
