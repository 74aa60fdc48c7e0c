// A development aid, never a part of the product: serves src with Vite (reloads at once), sends
// /v1 and the other server pages to a running system with the demo key, and makes up /app/session.
//
//   npm run dev                     http://127.0.0.1:5173/app/ as the owner of the demo org
//   ROLE=support npm run dev        as another role (the interface only: the key keeps its scopes)
//   PORT=5174 npm run dev
//   REAL=1 npm run dev              sends /app/session, sign-in and the cookie to the system as well
//   FAIL=/v1/errors,/v1/logs        answers these paths with a problem; SLOW=3000 delays every answer
import http from 'node:http'
import { readFileSync } from 'node:fs'
import { createServer } from 'vite'

const env = {}
try {
  for (const line of readFileSync(new URL('../../.dev/env', import.meta.url), 'utf8').split('\n')) {
    const found = /^export (\w+)='?([^']*)'?$/.exec(line)
    if (found) env[found[1]] = found[2]
  }
} catch {
  console.error('no .dev/env: run make up first; pages will show that they could not load')
}
const target = new URL(process.env.STAGEDOOR_URL ?? env.STAGEDOOR_URL ?? 'http://127.0.0.1:18080')
const key = process.env.STAGEDOOR_API_KEY ?? env.STAGEDOOR_API_KEY ?? ''
const port = Number(process.env.PORT ?? 5173)
const role = process.env.ROLE ?? 'owner'
const real = process.env.REAL === '1'
const failing = (process.env.FAIL ?? '').split(',').filter(Boolean)
const slow = Number(process.env.SLOW ?? 0)

const vite = await createServer({
  root: new URL('..', import.meta.url).pathname,
  server: { middlewareMode: true, hmr: { port: port + 1000 } },
  appType: 'custom',
  logLevel: 'warn',
})

function json(res, status, body) {
  res.writeHead(status, {
    'Content-Type': status < 400 ? 'application/json' : 'application/problem+json',
    'X-Request-Id': 'req_00000000000000000000000000',
  })
  res.end(JSON.stringify(body))
}

function proxy(req, res) {
  const headers = { ...req.headers, host: target.host }
  if (!real) {
    headers.authorization = 'Bearer ' + key
    delete headers['stagedoor-org']
    delete headers.cookie
    delete headers.origin
  }
  const out = http.request(
    { host: target.hostname, port: target.port, method: req.method, path: req.url, headers },
    (answer) => {
      res.writeHead(answer.statusCode, answer.headers)
      answer.pipe(res)
    },
  )
  out.on('error', () =>
    json(res, 503, {
      code: 'service-unavailable',
      title: 'Service unavailable',
      status: 503,
      detail: 'The system does not run (make up).',
      retryable: true,
    }),
  )
  res.on('close', () => out.destroy())
  req.pipe(out)
}

async function session(res) {
  let org = { id: 'org_00000000000000000000000000', name: 'Demo', environment: 'sandbox', plan: 'growth' }
  try {
    org =
      (await (await fetch(new URL('/v1/me', target), { headers: { Authorization: 'Bearer ' + key } })).json()).org ??
      org
  } catch {
    // the system is down: the made-up org will do
  }
  json(res, 200, {
    signedIn: true,
    person: { id: 'usr_00000000000000000000000000', email: 'dev@stagedoor.test', name: 'Dev Person' },
    orgs: [
      { id: org.id, name: org.name, environment: org.environment, role, plan: org.plan },
      {
        id: 'org_00000000000000000000000001',
        name: org.name + ' live',
        environment: 'live',
        role: 'developer',
        plan: org.plan,
      },
    ],
    currentOrg: org.id,
    expiresAt: new Date(Date.now() + 8 * 3600_000).toISOString(),
    banner: null,
  })
}

http
  .createServer(async (req, res) => {
    const path = req.url.split('?')[0]
    if (slow && path.startsWith('/v1')) await new Promise((r) => setTimeout(r, slow))
    if (failing.some((f) => path.startsWith(f)))
      return json(res, 500, {
        code: 'internal',
        title: 'Internal error',
        status: 500,
        detail: 'Made to fail by the development server.',
        retryable: false,
      })
    if (!real && path === '/app/session') return session(res)
    if (!real && path === '/app/session/org') return json(res, 200, {})
    if (
      /^\/app\/(session|sign-in|sign-out|callback|invitation)/.test(path) ||
      /^\/(v1|problems|docs|c|s|connect\.js)(\/|$)/.test(path)
    )
      return proxy(req, res)
    vite.middlewares(req, res, async () => {
      try {
        const name = path.startsWith('/ops') ? 'ops.html' : 'index.html'
        const html = await vite.transformIndexHtml(
          '/app/' + name,
          readFileSync(new URL('../' + name, import.meta.url), 'utf8'),
        )
        res.writeHead(200, { 'Content-Type': 'text/html' })
        res.end(html)
      } catch (e) {
        res.writeHead(500)
        res.end(String(e))
      }
    })
  })
  .listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port}/app/`))
