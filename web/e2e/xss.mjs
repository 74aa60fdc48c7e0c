// Every text that others can write (labels, messages, names, addresses, URLs, metadata, details of problems) is a
// script here, on every page: none of it may run, become an element, or become a link that runs something.
// Needs only the build.   ONLY=events,keys node e2e/xss.mjs
import { cases as accounts } from './cases-accounts.mjs'
import { cases as manage } from './cases-manage.mjs'
import { cases as observe, streams } from './cases-observe.mjs'
import { cases as ops } from './cases-ops.mjs'
import { forget, launch, open, problem, settled } from './lib.mjs'
import { event, frame } from './observe-fake.mjs'
import { serve } from './serve.mjs'

const mark = 'x55'
const text = `${mark}<img src=x onerror="window.hacked=1"><script>window.hacked=1</script><svg onload=window.hacked=1>"'\`{{7*7}}\${7*7}`
const link = `javascript:window.hacked=1//${mark}`
// What the service itself writes, such as states, which the pages depend on. The attacker writes the rest.
const ours =
  /^(id|.*Id|.*_id|code|type|state|status|kind|kinds|state_?Reason|laneState|role|roles|environment|plan|event|events|method|http|access|cursor|nextCursor|at|ts|.*At|.*_at|since|until|.*Since|.*Until|period.*|http|class|cause|ordering|outcome|scopes|action|proxy_?[cC]ountr(y|ies)|region|brand_.*|accountIds|scheme|otp_channel|otp_channels_available|progress|next_actions|userAction|user_action|source|group|verdict|resource|queue|level|currentOrg|features|polling_url|severity|seq|schema|version|platform|platforms|flows|eventSource)$/
const urls = /^(url|.*Url|.*_url|.*_URL|origin|allowed_origins|userAgent|site|logo|runbook)$/

function poison(value, key = '') {
  if (typeof value === 'string') return ours.test(key) ? value : urls.test(key) ? link : text
  if (Array.isArray(value)) return value.map((v) => poison(v, key))
  if (value === null || typeof value !== 'object') return value
  // In the customer's own maps, the attacker writes the names as well.
  const bag = key === 'metadata' || key === 'changes'
  return Object.fromEntries(
    Object.entries(value)
      .map(([k, v]) => [k, poison(v, k)])
      .concat(bag ? [[text, text]] : []),
  )
}
// The catalogue of methods and the pages of problems are the service's own, and long: they are not changed.
const kept = [
  '/app/session',
  '/v1/sdk/methods',
  '/admin/v1/me',
  '/v1/status',
  '/v1/connect/flows',
  '/v1/sandbox/personas',
]
const answers = (made) =>
  Object.fromEntries(
    Object.entries(made).map(([path, f]) => [
      path,
      async (url, req) => {
        const got = await f(url, req)
        if (!got || got.to || kept.includes(path)) return path === '/app/session' ? session(got) : got
        return 'body' in got && 'status' in got ? { status: got.status, body: poison(got.body) } : poison(got)
      },
    ]),
  )
function session(got) {
  const orgs = got.orgs.map((o) => ({ ...o, name: text }))
  return {
    ...got,
    orgs,
    person: { ...got.person, name: text, email: text },
    banner: { text, level: 'warning', url: link },
  }
}
const evil = () => problem(500, 'internal', text, { title: text, instance: text })
// States without content, and the pages of operators that show only what the service writes (keys, jobs).
const skip =
  /-(slow|one|many|refused|none|nomatch|missing|live|noplatform|quota)$|^overview-retried|^(ops:)?notfound|^ops:(keys|jobs)$|-failed$/
const only = process.env.ONLY?.split(',')
const all = [
  ...[...accounts, ...observe, ...manage].map((c) => ['/app', ...c]),
  ...ops.map(([name, ...rest]) => ['/ops', 'ops:' + name, ...rest]),
]
  .filter(([, name]) => !skip.test(name) && (!only || only.includes(name)))
  .map(([root, name, path, made, more = {}]) => [root, name, path, answers(made), more.act])
// One page on which every call fails with the attacker's text.
all.push([
  '/app',
  'problems',
  '/accounts',
  { ...answers({ '/app/session': accounts[0][2]['/app/session'] }), '/v1/*': evil },
])

const poisoned = (write) => {
  write('event: ready\ndata: {"cursor":"0"}\n\n')
  let n = 0
  const timer = setInterval(() => write(frame(poison(event(n)), n++)), 300)
  return () => clearInterval(timer)
}
const began = Date.now()
const browser = await launch()
const waiting = [...all]
let bad = 0
let shown = 0
await Promise.all(
  [1, 2].map(async () => {
    const server = await serve({ ...streams, streams: { ...streams.streams, '/v1/events': poisoned } })
    const { page, wrong } = await open(browser, { at: server.url })
    page.setDefaultTimeout(3000)
    page.setDefaultNavigationTimeout(60_000)
    page.on('dialog', (d) => {
      wrong.push('a dialog opened: ' + d.message())
      return d.dismiss()
    })
    for (let c = waiting.shift(); c; c = waiting.shift()) {
      const [root, name, path, made, act] = c
      wrong.length = 0
      const found = []
      server.answers = made
      await page.goto(server.url + root + path)
      await settled(page).catch((e) => found.push('not settled: ' + e.message.split('\n')[0]))
      // Try what opens on a click; the text that it looks for may be poisoned.
      if (act) await act(page).catch(() => {})
      await page
        .waitForFunction((mark) => document.body.innerText.includes(mark), mark, { timeout: 120_000 })
        .catch(() => {})
      const got = await page.evaluate((mark) => {
        const out = []
        const run = /^\s*(javascript|vbscript|data):/i
        if (window.hacked !== undefined) out.push('the script ran')
        for (const e of document.querySelectorAll('*')) {
          for (const a of ['href', 'src', 'action', 'formaction', 'xlink:href', 'srcdoc']) {
            const v = e.getAttribute(a)
            if (v && (run.test(v) || v.includes(mark)) && !/^\/app\/|^data:image\/|^blob:/.test(v))
              out.push(`${e.tagName} has ${a}=${v.slice(0, 60)}`)
          }
          for (const a of e.attributes) if (/^on/i.test(a.name)) out.push(`${e.tagName} has ${a.name}`)
        }
        for (const e of document.querySelectorAll('img[src="x"], #root script, svg[onload], [onerror]'))
          out.push('it became an element: ' + e.tagName)
        if (document.body.innerText.includes('{{49}}')) out.push('it was evaluated')
        return { out, said: document.body.innerText.split(mark).length - 1 }
      }, mark)
      found.push(...got.out, ...wrong)
      if (got.said === 0) found.push('none of it is on the page')
      shown += got.said
      for (const f of found) console.log(`${name}: ${f}`)
      bad += found.length
      await forget(page, server.url)
    }
    server.close()
  }),
)
await browser.close()
console.log(
  `${all.length} pages with scripts in ${shown} places, in ${((Date.now() - began) / 1000).toFixed(0)} s: ${bad ? `${bad} findings` : 'nothing ran'}`,
)
process.exitCode = bad ? 1 : 0
