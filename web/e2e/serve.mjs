// Serves the built pages as the server does (strict policy, nonce), with fake answers and streams, for the browser
// scripts that need no running system. DIST names a folder other than ../dist.
import http from 'node:http'
import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { extname } from 'node:path'

const types = { '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.woff2': 'font/woff2' }
const dist = process.env.DIST ? new URL(`file://${process.env.DIST}/`) : new URL('../dist/', import.meta.url)

/**
 * streams: { '/v1/events': (write, req) => stop }; bodies: { path: () => [type, body] }.
 * `answers` of the returned object may be changed at any time: { '/v1/accounts': (url, request) => body | { status, body } }.
 * The first match wins; "/v1/x/*" matches everything below. null falls through to the streams, { to } goes to another path.
 */
export async function serve({ streams = {}, bodies = {} } = {}) {
  const out = { answers: {} }
  const server = http.createServer(async (req, res) => {
    const url = new URL(req.url, 'http://x')
    let path = url.pathname
    const asked = { method: () => req.method, headers: () => req.headers }
    for (const [name, answer] of Object.entries(out.answers)) {
      if (name.endsWith('*') ? !path.startsWith(name.slice(0, -1)) : path !== name) continue
      const got = await answer(url, asked)
      if (got === null || got === undefined) break
      if (got.to) {
        path = got.to
        break
      }
      const { status = 200, body = got } = typeof got === 'object' && 'body' in got ? got : {}
      res.writeHead(status, {
        'Content-Type': status < 400 ? 'application/json' : 'application/problem+json',
        'X-Request-Id': 'req_01k9zzzzzzzzzzzzzzzzzzx7q2',
        'Cache-Control': 'no-store',
      })
      return res.end(JSON.stringify(body))
    }
    const stream = streams[path]
    if (stream && (req.headers.accept ?? '').includes('text/event-stream')) {
      res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
      const stop = stream((text) => res.write(text), req, res)
      res.on('close', () => typeof stop === 'function' && stop())
      return
    }
    if (bodies[path]) {
      const [type, body] = bodies[path](req)
      res.writeHead(200, { 'Content-Type': type })
      return res.end(body)
    }
    if (path.startsWith('/app/assets/')) {
      const file = new URL('.' + path.slice(4), dist)
      if (!existsSync(file)) return res.writeHead(404).end()
      res.writeHead(200, {
        'Content-Type': types[extname(path)] ?? 'application/octet-stream',
        'Cache-Control': 'public, max-age=31536000, immutable',
      })
      return res.end(readFileSync(file))
    }
    if (!/^\/(app|ops)/.test(path))
      return res
        .writeHead(404, {
          'Content-Type': 'application/problem+json',
          'X-Request-Id': 'req_01k9zzzzzzzzzzzzzzzzzzx7q2',
        })
        .end('{"code":"route-not-found","title":"Not found","status":404}')
    const nonce = randomBytes(16).toString('base64url')
    res.writeHead(200, {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': `default-src 'none'; script-src 'nonce-${nonce}' 'strict-dynamic'; style-src 'self' 'nonce-${nonce}'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'`,
    })
    res.end(
      readFileSync(new URL(path.startsWith('/ops') ? 'ops.html' : 'index.html', dist), 'utf8').replaceAll(
        '__CSP_NONCE__',
        nonce,
      ),
    )
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  return Object.assign(out, {
    url: `http://127.0.0.1:${server.address().port}`,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  })
}
