// Fake answers for connect, events, webhooks, logs and errors, in addition to those of fake.mjs.
import { account, answers, hook as made } from './fake.mjs'
import { over, problem } from './lib.mjs'

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
export const id = (prefix, n) => {
  let tail = ''
  for (let i = 0; i < 8; i++, n = Math.floor(n / 32)) tail = alphabet[(n + i * 3) % 32] + tail
  return prefix + '01k9zk16062m4d8v9q' + tail
}
const ago = (s) => new Date(Date.now() - s * 1000).toISOString()
const kinds = [
  'message',
  'tips',
  'subscribed',
  'account.reconnect_required',
  'messagePurchased',
  'connect.attempt_completed',
  'message',
]
export const nasty = '<img src=x onerror=alert(1)>"\'`${7*7}'

export function event(n, at = Date.now()) {
  const kind = kinds[n % 7]
  const data =
    kind === 'tips'
      ? { amountCents: 2500, message: '' }
      : kind === 'subscribed'
        ? { user: { name: 'Sam' }, priceCents: 999 }
        : kind.startsWith('account')
          ? { from: 'active', to: 'reconnect_required', reason: 'session_expired' }
          : kind.startsWith('connect')
            ? { state: 'completed_success' }
            : {
                message: { text: n % 14 === 6 ? nasty : 'hey! loved the last post, when is the next one coming out?' },
                fromUser: { id: '50123', name: 'Sam' },
                priceCents: 0,
              }
  return {
    id: id('evt_', n + 1),
    event: kind,
    accountId: kind.startsWith('connect') ? null : account(n % 12).id,
    ts: new Date(at).toISOString(),
    data,
    meta: {
      seq: 4711 + n,
      class: 'durable',
      ofUserId: '1',
      referenceId: null,
      sandbox: true,
      schema: 1,
      upstreamAt: new Date(at - 200).toISOString(),
    },
  }
}

export const frame = (e, n) => `id: ${n}\nevent: ${e.event}\ndata: ${JSON.stringify(e)}\n\n`
/** A stream of `perSecond` events a second. */
export function stream(perSecond) {
  return (write) => {
    write('retry: 1000\n\nevent: ready\ndata: {"cursor":"0","resumed":false,"gap":false}\n\n')
    let n = 100_000
    let sent = 0
    const began = Date.now()
    const timer = setInterval(() => {
      const due = Math.floor(((Date.now() - began) / 1000) * perSecond)
      let text = ''
      for (; sent < due; sent++, n++) text += frame(event(n), n)
      if (text) write(text)
    }, 10)
    const beat = setInterval(() => write('event: heartbeat\ndata: {"ts":"x"}\n\n'), 15_000)
    return () => {
      clearInterval(timer)
      clearInterval(beat)
    }
  }
}

export function attempt(state, more = {}) {
  const failed = state === 'completed_failed'
  return {
    attempt_id: id('att_', 7),
    kind: 'credentials',
    state,
    progress: state === 'pending' ? 'signing_in' : 'awaiting_code',
    account_id: state === 'completed_success' ? account(2).id : null,
    polling_url: null,
    verification_page_url: 'https://connect.example.test/a/at_0123456789abcdefghij',
    phone_url: null,
    embed_url: null,
    otp_channel:
      state === 'needs_app_otp'
        ? 'app'
        : state === 'needs_email'
          ? 'email'
          : state === 'needs_face_otp'
            ? 'face'
            : 'sms',
    otp_channels_available: ['sms', 'app', 'email'],
    email_mask: 'm•••@g•••.com',
    phone_mask: '··42',
    next_actions: failed
      ? ['fix_input', 'use_mobile_app']
      : state === 'completed_success'
        ? ['use_account']
        : state === 'pending'
          ? ['poll', 'cancel']
          : ['submit_code', 'resend_code', 'switch_channel', 'cancel'],
    submissions_remaining: 5,
    resends_remaining: 3,
    resend_after_sec: 38,
    poll_after_sec: 2,
    phone_url_expires_at: null,
    platform: 'sandbox',
    site: null,
    label: 'Maya · main',
    proxy_country: 'us',
    reference_id: 'user_456',
    reconnect: false,
    session_id: '',
    failure: failed
      ? {
          code: 'invalid_credentials',
          message: 'The platform did not accept this email and password.',
          retryable: false,
          retry_after_sec: null,
          upstream_code: 1001,
          upstream_message: 'wrong address or password',
        }
      : null,
    created_at: ago(40),
    updated_at: ago(2),
    challenge_expires_at: ago(-500),
    expires_at: ago(-1700),
    metadata: {},
    ...more,
  }
}
export const phone = (more = {}) =>
  attempt('awaiting_mobile_session', {
    kind: 'mobile_app',
    progress: 'awaiting_scan',
    phone_url: 'https://connect.example.test/a/at_0123456789abcdefghij/phone',
    phone_url_expires_at: ago(-48),
    next_actions: ['open_phone_url', 'cancel'],
    otp_channel: 'mobile',
    verification_page_url: null,
    ...more,
  })

const states = [
  'completed_success',
  'completed_failed',
  'needs_otp',
  'completed_success',
  'pending',
  'awaiting_mobile_session',
]
export function observed({ rows = 412, role = 'owner', one = attempt('needs_otp'), whole = false, ...rest } = {}) {
  const none = rows === 0
  const hook = (i) =>
    made(i, ['failing', 'healthy', 'healthy', 'paused', 'healthy', 'disabled'][i % 6], {
      ...(i === 3 ? { label: nasty } : {}),
      url: `https://hooks.example.test/${'very-long-path/'.repeat(i % 3)}stagedoor`,
      ...(i % 3 ? {} : { events: ['message*', 'tips', '!messageRead'] }),
    })
  const delivery = (i, e) => ({
    id: id('whd_', i + 1),
    accountId: account(0).id,
    eventId: e ?? id('evt_', i + 1),
    event: kinds[i % 7],
    cursor: '4711',
    at: ago(i * 31 + 3),
    attempt: 1 + (i % 3),
    cause: i % 5 === 4 ? 'replay' : 'live',
    state: i % 3 === 1 ? 'failed' : 'delivered',
    status: i % 3 === 1 ? (i % 2 ? 503 : 0) : 200,
    error: i % 6 === 4 ? 'timeout' : null,
    durationMs: 41.3 + i,
    responseSnippet: i % 3 === 1 && i % 2 ? '<html>upstream connect error</html>' : null,
  })
  const endpoint = (i) => {
    const state = ['failing', 'healthy', 'healthy', 'paused', 'disabled'][i % 5]
    const works = state === 'healthy'
    return {
      id: id('whe_', i + 1),
      url: `https://hooks.example.test/${'very-long-path/'.repeat(i % 3)}events`,
      description: ['CRM', '', nasty, 'Data warehouse'][i % 4],
      events: i % 2 ? null : ['message*', 'account.*', 'connect.*'],
      accountIds: i % 3 === 2 ? [account(0).id, account(1).id] : null,
      platforms: null,
      ordering: i % 4 === 3 ? 'none' : 'account',
      enabled: state !== 'paused' && state !== 'disabled',
      disabledReason: state === 'paused' ? 'paused' : state === 'disabled' ? 'failing' : null,
      signingSecretLast4: 'x7q2',
      previousSecretUntil: i ? null : ago(-3600),
      createdAt: ago(9e5),
      updatedAt: ago(9e4),
      health: {
        state,
        backlog: state === 'healthy' ? (i === 2 ? 12 : 0) : 1840,
        accountsBehind: i === 2 ? 3 : 0,
        lagSec: state === 'healthy' ? (i === 2 ? 40 : 0) : 9000,
        lastStatus: works ? 200 : 0,
        lastError: works ? null : 'connect',
        lastDeliveryAt: ago(30),
        lastSuccessAt: ago(i * 5 + 9000),
        failingSince: state === 'failing' ? ago(9000) : null,
        nextAttemptAt: state === 'failing' ? ago(-30) : null,
        successRate24h: [0.412, 0.9998, 0.957, null][i % 4],
      },
    }
  }
  const sent = (i) => ({
    ...delivery(i),
    endpointId: id('whe_', 1),
    request: {
      method: 'POST',
      url: 'https://hooks.example.test/events',
      headers: { 'Content-Type': 'application/json', 'X-Webhook-Id': id('evt_', i + 1) },
      body: JSON.stringify({ id: id('evt_', i + 1), event: 'message', data: { text: 'Hello' } }),
    },
    curl: "curl -X POST 'https://hooks.example.test/events' --data-binary '{}'",
  })
  const list = (url, all, name, cursor = 'cursor') => {
    const limit = whole ? all.length : Math.min(16, Number(url.searchParams.get('limit') ?? 16))
    const from = Number(url.searchParams.get(cursor) ?? 0)
    return {
      [name]: all.slice(from, from + limit),
      nextCursor: from + limit < all.length ? String(from + limit) : null,
    }
  }
  const log = (i) => ({
    requestId: id('req_', i + 1),
    at: ago(i * 20),
    http: i % 4 ? 'GET' : 'POST',
    method: ['messages.send', 'me.get', 'listAccounts', 'chats.list'][i % 4],
    status: [200, 200, 200, 429, 200, 502][i % 6],
    code: i % 6 === 3 ? 'quota-exceeded' : i % 6 === 5 ? 'upstream/rate-limited' : null,
    accountId: account(i % 3).id,
    keyId: id('key_', 1),
    source: ['api', 'api', 'cli', 'dashboard'][i % 4],
    durationMs: 40 + i,
    bytesIn: 10,
    bytesOut: 900,
    dryRun: false,
    replayed: false,
    retryable: i % 6 === 3,
    reason: i % 6 === 3 ? 'account_write_rpm' : null,
    extensions: i % 6 === 3 ? { limit: 30, current: 31, retryAfterSec: 21, plan: 'growth' } : {},
    events: i !== 3 ? [] : [{ id: id('evt_', 1), event: 'account.paused', accountId: account(0).id }],
    resetAt: i % 6 === 3 ? ago(i * 20 - 21) : null,
    errors: [],
    upstreamCode: i % 6 === 5 ? 3001 : null,
    upstreamMs: 30,
  })
  const links = Array.from({ length: rows }, (_, i) => ({
    id: id('cs_', i + 1),
    url: null,
    client_token: null,
    status: ['open', 'success', 'expired', 'in_progress', 'exited'][i % 5],
    kinds: ['credentials', 'mobile_app'],
    platform: 'sandbox',
    site: null,
    attempts: i % 2 ? [id('att_', i)] : [],
    account_id: i % 5 === 1 ? account(1).id : null,
    reference_id: i % 3 ? 'user_' + i : null,
    label: i % 4 ? '' : 'Maya · main',
    reconnect_account_id: null,
    opened_at: i % 2 ? ago(900) : null,
    finished_at: null,
    expires_at: ago(-600 * i),
    created_at: ago(i * 700),
  }))
  const doc =
    '# Rate limit reached\n\nA limit of this service was reached. `reason` names the limit.\n\n## Cause\n\n- `org_rpm`, `org_monthly`: calls of the whole organisation.\n- `account_write_rpm`: write calls to one account per minute.\n\n## Example\n\n```json\n{\n  "type": "https://api.stagedoor.example/problems/quota-exceeded",\n  "status": 429\n}\n```\n\n## Fix\n\nWait `retryAfterSec`, then repeat the request. See [the page](/problems/upstream/rate-limited).\n\n| a | b |\n|---|---|\n| 1 | 2 |\n'
  const problems = [
    ['quota-exceeded', 429, 'Rate limit reached', 'Wait retryAfterSec, then repeat; spread sends or raise the plan.'],
    ['upstream/rate-limited', 502, 'Rate limited by the platform', 'Slow down this account.'],
    ['account-disconnected', 410, 'Disconnected', 'Connect it again.'],
    ['invalid-request', 400, 'Invalid request', 'Correct the parameter that errors names.'],
  ].map(([code, status, title, fix]) => ({ code, status, title, fix, retryable: status !== 400 }))
  const base = answers({ rows, role, whole, ...rest })
  const mine = {
    '/v1/connect/funnel': () =>
      none
        ? {
            since: ago(9),
            until: ago(0),
            linksMade: 0,
            opened: 0,
            credentials: 0,
            challenge: 0,
            connected: 0,
            failed: 0,
            byMethod: {},
            failures: [],
          }
        : {
            since: ago(604800),
            until: ago(0),
            linksMade: 164,
            opened: 141,
            credentials: 118,
            challenge: 77,
            connected: 96,
            failed: 14,
            byMethod: {
              credentials: { credentials: 80, challenge: 60, connected: 62, failed: 12 },
              mobile_app: { credentials: 38, challenge: 17, connected: 34, failed: 2 },
            },
            failures: [
              ['invalid_credentials', 19],
              ['code_expired', 7],
              ['mobile_session_expired', 5],
              ['captcha_required', 2],
              ['upstream_unavailable', 1],
              ['cancelled', 1],
            ].map(([reason, count]) => ({ reason, count })),
          },
    '/v1/connect/attempts': (url) =>
      list(
        url,
        Array.from({ length: rows }, (_, i) =>
          attempt(states[i % 6], {
            attempt_id: id('att_', i),
            label: i === 1 ? nasty : i % 3 ? account(i % 12).label : '',
            created_at: ago(i * 600),
            session_id: i % 2 ? id('cs_', i) : '',
          }),
        ).filter((a) => !url.searchParams.get('state') || a.state === url.searchParams.get('state')),
        'attempts',
      ),
    '/v1/connect/sessions': (url, req) =>
      req.method() === 'POST'
        ? {
            status: 201,
            body: {
              session: {
                ...links[0],
                id: id('cs_', 1),
                url: 'https://connect.example.test/s/cst_0123456789abcdefghijklmnop',
                status: 'open',
                expires_at: ago(-1800),
              },
            },
          }
        : list(url, links, 'sessions'),
    '/v1/connect/sessions/*': () => ({ session: links[1] ?? problem(404, 'session-not-found', 'no') }),
    '/v1/connect/flows': () => ({
      flows: [
        {
          kind: 'cookie',
          name: 'Cookie',
          enabled: true,
          proxy_countries: ['us'],
          fields: [
            { id: 'auth_id', type: 'cookie', required: true },
            { id: 'sess', type: 'cookie', required: true },
            { id: 'x-device', type: 'header', required: true },
          ],
        },
      ],
    }),
    '/v1/connect/mobile': () => ({ status: 202, body: phone() }),
    '/v1/connect/login': () => ({ status: 202, body: one }),
    '/v1/connect/curl': () => ({ extracted: { cookies: ['auth_id', 'sess'], headers: ['x-device'], missing: [] } }),
    '/v1/connect/login/*': (url) => (url.pathname.endsWith('/events') || url.pathname.endsWith('/qr') ? null : one),
    '/v1/webhooks': (url) => ({
      ...list(
        url,
        Array.from({ length: rows }, (_, i) => hook(i)).filter(
          (h) =>
            !url.searchParams.get('state') ||
            h.health.state === url.searchParams.get('state') ||
            (url.searchParams.get('state') === 'attention' && ['failing', 'disabled'].includes(h.health.state)),
        ),
        'webhooks',
      ),
      ...(url.searchParams.get('urls')
        ? {
            urls: Array.from({ length: none ? 0 : 4 }, (_, i) => ({
              url: `https://hooks.example.test/${'very-long-path/'.repeat(i)}stagedoor`,
              webhooks: 300 - i * 70,
              attention: i * 3,
            })),
          }
        : {}),
      counts: none
        ? { failing: 0, healthy: 0, paused: 0, disabled: 0, none: 3, lagging: 0, attention: 0 }
        : { failing: 50, healthy: 150, paused: 50, disabled: 50, none: 3, lagging: 4, attention: 104 },
    }),
    '/v1/webhook-endpoints': (_url, req) =>
      req.method() === 'POST'
        ? {
            status: 201,
            body: { endpoint: { ...endpoint(1), signingSecret: 'whsec_4f3a2b1c0d9e8f7a6b5c', replacedWebhooks: 50 } },
          }
        : { endpoints: Array.from({ length: Math.min(rows, whole ? 20 : 6) }, (_, i) => endpoint(i)) },
    '/v1/webhook-endpoints/*': (url) => {
      const [, , , , action, one] = url.pathname.split('/')
      if (one) return { delivery: sent(1) }
      if (action === 'deliveries')
        return list(
          url,
          Array.from({ length: rows }, (_, i) => ({ ...delivery(i), endpointId: id('whe_', 1) })),
          'deliveries',
          'after',
        )
      if (action === 'test')
        return { delivered: false, status: 0, durationMs: 3, responseSnippet: '', error: 'connection refused' }
      if (action === 'replay') return { status: 202, body: { replay: { id: '', events: 1204 } } }
      return { endpoint: { ...endpoint(0), ...(action ? { signingSecret: 'whsec_4f3a2b1c0d9e8f7a6b5c' } : {}) } }
    },
    '/v1/webhooks/check-signature': () => ({
      verdict: 'body_changed',
      message:
        'The secret is right, and the body is not what we sent. Verify the bytes as they came, before anything parses them.',
      details: [
        {
          code: 'reserialized',
          message: 'It was parsed and written again: the order of keys differs from what we sent.',
        },
        { code: 'trailing_newline', message: 'A line break was added at the end.' },
      ],
      endpointId: null,
      accountId: account(0).id,
      eventId: id('evt_', 1),
      secretOfAccountId: null,
      secretOfEndpointId: null,
    }),
    '/v1/deliveries': (url) => ({
      deliveries: (url.searchParams.get('event') ?? '').split(',').map((e, i) => delivery(i, e)),
      nextCursor: null,
    }),
    '/v1/deliveries/*': () => ({ delivery: delivery(1) }),
    '/v1/logs': (url) =>
      list(
        url,
        Array.from({ length: rows }, (_, i) => log(i)),
        'logs',
      ),
    '/v1/logs/*': () => ({ log: log(3) }),
    '/v1/me/keys': () => ({
      keys: [
        {
          id: id('key_', 1),
          label: 'ci',
          prefix: 'sd_test_7Q2',
          scopes: [],
          createdAt: ago(9e5),
          revokedAt: null,
          expiresAt: null,
        },
      ],
    }),
    '/v1/events': (url, req) =>
      (req.headers().accept ?? '').includes('event-stream')
        ? null
        : none
          ? { events: [], nextCursor: null, gap: false }
          : {
              events: Array.from({ length: whole ? rows : Math.min(rows, 24) }, (_, i) =>
                event(20_001 - i, Date.now() - i * 700),
              ),
              nextCursor: rows > 50 ? 'x' : null,
              gap: false,
              ...(['q', 'fromTime', 'toTime'].some((p) => url.searchParams.get(p)) ? { scanned: 10_000 } : {}),
            },
    '/v1/events/kinds': base['/v1/events/kinds'],
    '/v1/events/*': () => ({ event: event(3) }),
    '/problems': () => ({ problems }),
    '/problems/*': () => ({ ...problems[0], document: doc }),
    ...Object.fromEntries([
      [
        `/v1/accounts/${account(0).id}/webhook/deliveries`,
        (url) =>
          list(
            url,
            Array.from({ length: rows }, (_, i) => delivery(i)),
            'deliveries',
            'after',
          ),
      ],
      [
        `/v1/accounts/${account(0).id}/webhook/replay`,
        () => ({ status: 202, body: { replay: { id: '', from: '00000000000011', to: '00000000000051' } } }),
      ],
      [
        `/v1/accounts/${account(0).id}/webhook/test`,
        () => ({
          delivered: false,
          status: 503,
          durationMs: 41,
          responseSnippet: 'upstream connect error',
          error: null,
        }),
      ],
    ]),
  }
  return over(base, mine)
}
