// Checks every page with fake answers, in its states (0, 1 and 10,000 rows, failing, slow, refused by role, the stream
// dropped): its text, axe in both themes, the console, other hosts, and sideways scroll at every width.
// Needs only the build. A page is loaded once, then made narrower and darker. For states that look like the page's first
// state only the text is checked; FULL=1 (make proof) runs axe and all widths for every state.
//   node e2e/pages.mjs        ONLY=keys,ops:orgs-*,audit-none SHOTS=1 node e2e/pages.mjs      pictures: .dev/shots/pages/*.png
import { cases as accounts } from './cases-accounts.mjs'
import { cases as manage } from './cases-manage.mjs'
import { cases as observe, streams } from './cases-observe.mjs'
import { cases as ops } from './cases-ops.mjs'
import { axe, forget, launch, open, settled, shotDir, sideways, widths } from './lib.mjs'
import { serve } from './serve.mjs'

const dir = shotDir('pages')
const only = process.env.ONLY?.split(',')
const shots = process.env.SHOTS === '1'
const full = process.env.FULL === '1' || shots
const wanted = (name) => !only || only.some((o) => (o.endsWith('*') ? name.startsWith(o.slice(0, -1)) : name === o))
const all = [
  ...[...accounts, ...observe, ...manage].map((c) => ['/app', ...c]),
  ...ops.map(([name, ...rest]) => ['/ops', 'ops:' + name, ...rest]),
].filter((c) => wanted(c[1]))

// The pages that CI checks at phone width: they have everything that narrow pages share (menu, cards, forms, dialogs).
const narrow = ['overview', 'accounts', 'account', 'webhooks', 'keys', 'logs', 'ops:orgs']

// The text that a page must show, by the last part of the case's name.
const promised = {
  failed: ['We could not load', 'Retry', 'req_'],
  refused: ['Your role cannot'],
  nomatch: ['Clear filters'],
}

async function check({ page, wrong, server }, [root, name, path, made, { see = [], act, loads } = {}]) {
  const found = []
  wrong.length = 0
  const state = name.split('-').at(-1)
  // The shell is the same in every state of a page: it is checked with the first one.
  const inner = name.includes('-')
  // States without colours of their own are checked in the dark theme on two pages only.
  const shown = !inner || /^(accounts|connect)-/.test(name)
  const plain =
    ['failed', 'refused', 'slow', 'one', 'many', 'support', 'nomatch', 'none'].includes(state) &&
    !/^(accounts|connect)-/.test(name)
  const soon = (f) => f.catch((e) => found.push(e.message.split('\n').slice(0, 2).join(' ')))
  try {
    await page.setViewportSize({ width: 1360, height: 900 })
    server.answers = made
    await page.goto(server.url + root + path)
    if (state === 'slow') {
      if (loads !== false) await soon(page.waitForSelector('main .shimmer'))
    } else await soon(settled(page))
    if (act) await soon(act(page))
    for (const text of [promised[state] ?? [], see].flat()) {
      await page
        .waitForFunction((t) => document.body.innerText.toLowerCase().includes(t.toLowerCase()), text, {
          timeout: 120_000,
        })
        .catch(() => found.push(`does not say “${text}”`))
    }
    if (await page.getByText('We could not refresh this').count()) found.push('says that it could not be refreshed')
    if (state === 'many') {
      const rows = await page.locator('tbody tr, [role=option], main li').count()
      if (rows > 250) found.push(`${rows} rows are rendered`)
    }
    await page.evaluate(() => window.scrollTo(0, 0))
    const file = dir + name.replace(':', '-')
    const picture = async (theme, width) =>
      shots &&
      page.screenshot({
        path: `${file}-${theme}-${width}.png`,
        fullPage: process.env.WHOLE === '1' && state !== 'many',
      })
    for (const width of full || shown ? [...widths].reverse() : plain ? [390] : [1360, 360]) {
      await page.setViewportSize({ width, height: width < 600 ? 844 : 900 })
      // Two frames: the first lays out, the second applies what the resize observers changed.
      await page.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r()))))
      for (const s of await sideways(page)) found.push(`at ${width} sideways: ${s}`)
      const looked = width === 1360 || width === 768 || width === 390
      if (looked) await picture('light', width)
      if ((width === 1360 && (full || !plain)) || (width === 390 && (full ? !inner : narrow.includes(name))))
        for (const s of await axe(page, { inner })) found.push(`at ${width} axe: ${s}`)
      const dark = width === 1360 && !plain && (full || shown)
      if (dark || (looked && shots)) {
        await page.emulateMedia({ colorScheme: 'dark' })
        await page.waitForFunction(() => document.documentElement.dataset.theme === 'dark')
        await picture('dark', width)
        if (dark) for (const s of await axe(page, { themed: true, inner })) found.push(`dark axe: ${s}`)
        await page.emulateMedia({ colorScheme: 'light' })
      }
    }
    found.push(...wrong)
    if (found.length) await page.screenshot({ path: `${file}-FAILED.png` })
    await forget(page, server.url)
  } catch (e) {
    found.push(e.message.split('\n')[0])
  }
  return found
}

const began = Date.now()
const browser = await launch()
const waiting = [...all]
let bad = 0
// Two at a time: while one waits for its page, the other renders.
await Promise.all(
  [1, 2].map(async () => {
    const server = await serve(streams)
    const fresh = async () => {
      const tab = { ...(await open(browser, { at: server.url })), server }
      tab.page.setDefaultTimeout(120_000)
      return tab
    }
    let tab = await fresh()
    for (let c = waiting.shift(); c && browser.isConnected(); c = waiting.shift()) {
      const from = Date.now()
      const found = await Promise.race([
        check(tab, c),
        new Promise((r) => setTimeout(r, 300_000, ['is not finished after five minutes']).unref()),
      ])
      if (found.length) {
        await tab.context.close()
        tab = await fresh()
      }
      for (const f of found) console.log(`${c[1]}: ${f}`)
      if (process.env.TIMES) console.log(`${c[1]} ${Date.now() - from} ms`)
      bad += found.length
    }
    server.close()
  }),
)
await browser.close()
console.log(
  `${all.length} pages and states, at ${widths.length} widths and in two themes, in ${((Date.now() - began) / 1000).toFixed(0)} s: ${bad ? `${bad} findings` : 'no findings'}`,
)
process.exitCode = bad ? 1 : 0
