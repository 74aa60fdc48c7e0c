// Fake answers for the account pages and the overview, with the figures of the mock-ups: to view pages
// without a running system, and with 0, 1 or 10,000 rows.
const names = [
  'Maya · main',
  'Studio West #3',
  'Ines (backup)',
  'Noor',
  'K. Adler',
  'Luz — UK',
  'Theo',
  'Priya',
  'Agency 12 / a',
  'Agency 12 / b',
  'Sol',
  'Wren',
]
const states = [
  'reconnect_required',
  'degraded',
  'active',
  'active',
  'active',
  'active',
  'connecting',
  'active',
  'active',
  'active',
  'active',
  'active',
]
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const id = (prefix, n) => {
  let tail = ''
  for (let i = 0; i < 8; i++, n = Math.floor(n / 32)) tail = alphabet[(n + i * 5) % 32] + tail
  return prefix + '01k9zk16062m4d8v9q' + tail
}
const ago = (s) => new Date(Date.now() - s * 1000).toISOString()
const wave = (i, n, k = 1) =>
  Math.max(0, Math.round((600 + 300 * Math.sin((i / n) * 6 + k) + ((i * 37 * k) % 90)) * (1 + (k % 5))))

/** The platforms: the sandbox, and one with sites and without a phone. */
export const platforms = [
  {
    id: 'sandbox',
    name: 'Sandbox',
    environment: 'sandbox',
    siteRequired: false,
    siteExample: null,
    homeUrl: null,
    logo: null,
    flows: ['credentials', 'mobile_app', 'cookie', 'curl'],
    regions: ['us', 'uk'],
    resources: 30,
    methods: 250,
    eventSource: 'socket',
    version: '2026.11.1',
  },
  {
    id: 'ghost',
    name: 'Ghost',
    environment: 'sandbox',
    siteRequired: true,
    siteExample: 'https://maya.example.com',
    homeUrl: 'https://ghost.org',
    logo: 'data:image/svg+xml,%3Csvg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"%3E%3Ccircle cx="8" cy="8" r="7"/%3E%3C/svg%3E',
    flows: ['credentials', 'cookie', 'curl'],
    regions: ['us', 'uk'],
    resources: 26,
    methods: 123,
    eventSource: 'poll',
    version: '2026.11.1',
  },
]

/** With `ghost`, every third account is on that platform. */
export function account(i, ghost = false) {
  const state = i < 12 ? states[i] : i % 97 === 0 ? 'degraded' : 'active'
  const there = ghost && i % 3 === 1
  return {
    id: id('acct_', i + 1),
    platform: there ? 'ghost' : 'sandbox',
    site: there ? `https://creator${i}.example.com` : null,
    credentials: 'session',
    label: i < 12 ? names[i] : `Creator ${i}`,
    displayName: names[i % 12],
    username: 'creator' + i,
    ofUserId: String(40211877 + i),
    avatarUrl: null,
    proxyCountry: i % 3 === 1 ? 'uk' : 'us',
    state,
    stateReason:
      state === 'reconnect_required' ? 'session_expired' : state === 'degraded' ? 'upstream_unavailable' : null,
    stateChangedAt: ago(720 + i),
    userAction: state === 'reconnect_required' ? 'reconnect' : state === 'degraded' ? 'wait' : 'none',
    createdAt: ago(86400 * 3),
    lastSeenAt: state === 'connecting' ? null : ago(i * 9),
    lastCheckedAt: ago(60),
    sessionExpiresAt: null,
    pendingAttemptId: null,
    referenceId: null,
    rememberCredentials: i % 2 === 0,
    sandbox: true,
    metadata: {},
    listener: { state: state === 'active' ? 'up' : 'down', since: ago(4000), lastEventAt: ago(4) },
    webhook: i === 2 ? { state: 'failing' } : i % 4 === 3 ? null : { state: 'healthy' },
    calls24h: 90 + i * 211,
    activity: Array.from({ length: 24 }, (_, h) => wave(h, 24, i + 1)),
  }
}

/** The webhook of an account in a list; lagging ones are healthy. */
export function hook(i, state, more = {}) {
  const broken = state === 'failing' || state === 'disabled'
  return {
    accountId: account(i).id,
    label: account(i).label,
    url: 'https://hooks.example.test/in',
    ordering: 'strict',
    maxInFlight: 1,
    enabled: state !== 'paused' && state !== 'disabled',
    disabledReason: state === 'paused' ? 'paused' : state === 'disabled' ? 'failing' : null,
    createdAt: ago(9e5),
    updatedAt: ago(9e4),
    previousSecretUntil: null,
    signingSecretLast4: 'x7q2',
    health: {
      state: state === 'lagging' ? 'healthy' : state,
      laneState: { failing: 'backoff', healthy: 'live' }[state] ?? state,
      lastStatus: broken ? 503 : 200,
      lastError: null,
      lastDeliveryAt: ago(30),
      lastSuccessAt: ago(i * 5 + 9000),
      failingSince: broken ? ago(9000) : null,
      nextAttemptAt: null,
      backlog: state === 'healthy' ? 0 : 840,
      lagSec: state === 'healthy' ? 0 : 9000,
      cursor: '00000000004711',
    },
    ...more,
  }
}

const needAttention = ['reconnect_required', 'restricted', 'degraded']

/** `ghost` adds a second platform; `rows` is the number of accounts, `broken` that of webhooks that need attention, `waiting` that of events they hold up; `whole` returns a list in one page, to test how much a page can show. */
export function answers({
  rows = 412,
  org = { environment: 'sandbox' },
  role = 'owner',
  scopes,
  whole = false,
  broken = 2,
  waiting = rows === 0 ? 0 : 1680,
  ghost = false,
  young = false,
} = {}) {
  let made
  const list = (url) => {
    const q = (url.searchParams.get('q') ?? '').toLowerCase()
    const state = url.searchParams.get('state')
    const limit = whole ? rows : Math.min(16, Number(url.searchParams.get('limit') ?? 16))
    const from = Number(url.searchParams.get('cursor') ?? 0)
    const platform = url.searchParams.get('platform')
    made ??= Array.from({ length: rows }, (_, i) => account(i, ghost))
    const all = made.filter(
      (a) =>
        (!state || a.state === state || (state === 'attention' && needAttention.includes(a.state))) &&
        (!platform || a.platform === platform) &&
        (!q || (a.label + a.id + a.ofUserId).toLowerCase().includes(q)),
    )
    return {
      accounts: all.slice(from, from + limit),
      nextCursor: from + limit < all.length ? String(from + limit) : null,
      counts: counts(),
    }
  }
  let counted
  const counts = () => {
    if (counted) return counted
    const out = { total: rows }
    counted = out
    for (let i = 0; i < rows; i++) {
      const { state } = account(i)
      out[state] = (out[state] ?? 0) + 1
    }
    out.attention = needAttention.reduce((sum, state) => sum + (out[state] ?? 0), 0)
    return out
  }
  const hooks = (url) => {
    const limit = Number(url.searchParams.get('limit') ?? 16)
    const all = Array.from({ length: rows === 0 ? 0 : broken }, (_, i) =>
      hook(i + 4, ['failing', 'disabled', 'lagging'][i % 3]),
    )
    return {
      webhooks: all.slice(0, limit),
      nextCursor: all.length > limit ? 'x' : null,
      counts: {
        failing: Math.ceil(all.length / 3),
        healthy: 40,
        paused: 0,
        disabled: Math.ceil((all.length - 1) / 3),
        none: 3,
        lagging: Math.floor(all.length / 3),
        attention: all.length,
      },
    }
  }
  const none = rows === 0
  const points = (url) => {
    const by = url.searchParams.get('by') ?? 'hour'
    const length = { minute: 60, hour: 3600, day: 86400 }[by]
    const since = Date.parse(url.searchParams.get('since')) || Date.now() - 86_400_000
    const until = Date.parse(url.searchParams.get('until')) || Date.now()
    const n = Math.max(1, Math.round((until - since) / 1000 / length))
    // A filter selects the calls, and there are no figures of events then.
    const filtered = ['accountId', 'keyId', 'method', 'platform'].some((name) => url.searchParams.get(name))
    return Array.from({ length: n }, (_, i) => {
      const calls = none || (young && by !== 'minute' && i < n - 1) ? 0 : wave(i, n, 2)
      return {
        at: new Date(since + i * length * 1000).toISOString(),
        calls,
        succeeded: Math.round(calls * 0.94),
        limited: Math.round(calls * (i > 17 && i < 20 ? 0.3 : 0.03)),
        clientErrors: Math.round(calls * 0.02),
        failed: Math.round(calls * 0.01),
        p50Ms: 41,
        p95Ms: 140 + (i % 7) * 6,
        p99Ms: i % 11 === 3 ? null : 310 + (i % 5) * 40,
        eventsReceived: filtered ? null : calls,
        delivered: filtered ? null : calls,
        deliveryFailed: filtered ? null : i % 9 === 0 ? Math.round(calls / 20) : 0,
        slowestDeliveryMs: filtered ? null : 180 + (i % 6) * 900,
      }
    })
  }
  const sum = (s) =>
    Object.fromEntries(
      Object.keys(s[0])
        .filter((k) => k !== 'at')
        .map((k) => [k, /Ms$/.test(k) ? s[0][k] + 8 : s.reduce((t, p) => t + p[k], 0)]),
    )
  const win = (limit, remaining, reset) => ({ limit, remaining, reset: Math.floor(Date.now() / 1000) + reset })
  const events = ['message', 'tips', 'subscribed', 'account.reconnect_required', 'message']
  const event = (i, acct) => ({
    id: id('evt_', i + 1),
    event: events[i % 5],
    accountId: acct ?? account(i % 12).id,
    ts: ago(i * 3),
    data:
      i % 5 === 1
        ? { amountCents: 2500 }
        : i % 5 === 3
          ? { from: 'active', to: 'reconnect_required', reason: 'session_expired' }
          : { text: 'hey! loved the last post' },
    meta: {
      seq: 4711 - i,
      class: 'durable',
      ofUserId: '1',
      referenceId: null,
      sandbox: true,
      schema: 1,
      upstreamAt: ago(i * 3),
    },
  })
  return {
    '/app/session': () => ({
      signedIn: true,
      person: { id: 'usr_1', email: 'j.s@northlight.test', name: 'Jo Stone' },
      orgs: [
        { id: id('org_', 1), name: 'Northlight Agency', environment: 'sandbox', role, plan: 'growth', ...org },
        { id: id('org_', 2), name: 'Northlight Live', environment: 'live', role, plan: 'growth' },
      ],
      currentOrg: id('org_', 1),
      expiresAt: ago(-28800),
      banner: null,
    }),
    '/app/session/org': () => ({}),
    '/v1/me': () => ({
      kind: 'customer',
      scopes:
        scopes ??
        (role === 'support'
          ? ['accounts:read', 'webhooks:read', 'me:read', 'usage:read']
          : [
              'accounts:read',
              'accounts:write',
              'sdk:call',
              'webhooks:read',
              'webhooks:write',
              'me:read',
              'me:write',
              'usage:read',
            ]),
      org: { id: id('org_', 1), name: 'Northlight Agency', environment: 'sandbox', plan: 'growth', contactEmail: '' },
      key: { id: 'key_1', label: '', createdAt: ago(9) },
      limits: { proxyCountries: ['us', 'uk'] },
    }),
    '/v1/me/usage': (url) => ({
      rateLimits: {
        org: win(1200, 388, 21),
        orgMonth: win(5000000, 1879559, 1296000),
        connectAttempts: win(60, 51, 840),
        accountDefaults: { readPerMinute: 60, writePerMinute: 20, reset: 0 },
        ...(url.searchParams.get('accountId') ? { account: { read: win(60, 22, 30), write: win(20, 2, 40) } } : {}),
      },
      usage: {
        periodStart: ago(86400),
        periodEnd: ago(-86400),
        calls: { total: none ? 0 : 3120441, read: none ? 0 : 9, write: 0, failed: 1, rateLimited: 2 },
        byResource: {},
        accounts: { connected: rows, limit: rows > 500 ? 20000 : 500, byState: counts() },
        connect: { started: 1, succeeded: 1, failed: 0 },
        events: { received: 0, delivered: 0, deliveryFailed: 0, streamed: 0 },
        egressBytes: {},
      },
    }),
    '/v1/me/keys': () => ({
      keys: none ? [] : [{ id: 'key_1', label: 'ci', hint: 'x', current: false, createdAt: ago(9), scopes: [] }],
    }),
    '/v1/usage/series': (url) => {
      const series = points(url)
      return {
        since: series[0].at,
        until: new Date().toISOString(),
        by: url.searchParams.get('by'),
        series,
        totals: sum(series),
        previous: Object.fromEntries(Object.entries(sum(series)).map(([k, v]) => [k, v * 0.89])),
        eventsWaiting: waiting,
        deliveryLagSec: waiting ? 5400 : 0,
      }
    },
    '/v1/status': () => ({
      status: 'normal',
      message: 'All systems normal',
      regions: [
        { region: 'us', ok: true, latencyMs: 41 },
        { region: 'uk', ok: true, latencyMs: 63 },
      ],
    }),
    '/v1/webhook-endpoints': () => ({
      endpoints: waiting
        ? [
            ['CRM', 'failing', null, 502, 0],
            ['', 'healthy', null, 200, 3],
            ['Billing', 'disabled', 'gone', 410, 0],
            ['Not needed now', 'paused', 'paused', 200, 2],
            ['Archive', 'healthy', null, 200, 0],
          ].map(([description, state, disabledReason, lastStatus, accountsBehind], i) => ({
            id: id('whe_', i),
            url: `https://hooks.northlight.test/${i}`,
            description,
            events: null,
            accountIds: null,
            platforms: null,
            ordering: 'account',
            enabled: disabledReason === null,
            disabledReason,
            signingSecretLast4: 'x7Qa',
            previousSecretUntil: null,
            createdAt: ago(86400 * 9),
            updatedAt: ago(86400),
            health: {
              state,
              backlog: accountsBehind * 40 + (state === 'failing' ? 1200 : 0),
              accountsBehind,
              lagSec: accountsBehind * 600,
              lastStatus,
              lastError: null,
              lastDeliveryAt: ago(30),
              lastSuccessAt: ago(4000),
              failingSince: state === 'failing' ? ago(4000) : null,
              nextAttemptAt: null,
              successRate24h: 0.93,
            },
          }))
        : [],
    }),
    '/v1/connect/funnel': () => ({
      since: ago(86400),
      until: ago(0),
      linksMade: 31,
      opened: none ? 0 : 240,
      credentials: 190,
      challenge: 120,
      connected: 151,
      failed: 12,
      byMethod: {},
      failures: [],
    }),
    '/v1/errors': () => ({
      errors: none
        ? []
        : whole
          ? Array.from({ length: Math.min(rows, 100) }, (_, i) => ({
              code: 'upstream/rate-limited',
              method: 'posts.create' + i,
              status: 502,
              count: i + 1,
              accounts: 2,
              firstAt: ago(9000),
              lastAt: ago(i),
              lastRequestId: id('req_', i),
              retryable: true,
            }))
          : [
              ['quota-exceeded', 'messages.send', 429, 214],
              ['upstream/rate-limited', 'posts.create', 502, 61],
              ['account-disconnected', 'me.get', 410, 12],
              ['invalid-request', 'listAccounts', 400, 3],
            ].map(([code, method, status, count], i) => ({
              code,
              method,
              status,
              count,
              accounts: 2,
              firstAt: ago(9000),
              lastAt: ago(120 + 400 * i),
              lastRequestId: id('req_', i),
              retryable: true,
            })),
    }),
    '/v1/logs': () => ({
      logs: none
        ? []
        : Array.from({ length: whole ? rows : 16 }, (_, i) => ({
            requestId: id('req_', i + 1),
            at: ago(i * 20),
            http: i % 4 ? 'GET' : 'POST',
            method: ['me.get', 'messages.send', 'listAccounts', 'chats.list'][i % 4],
            status: [200, 200, 200, 429, 200, 502][i % 6],
            code: i % 6 === 3 ? 'quota-exceeded' : i % 6 === 5 ? 'upstream/rate-limited' : null,
            accountId: account(0).id,
            keyId: id('key_', 1),
            durationMs: 40 + i,
            bytesIn: 10,
            bytesOut: 900,
            dryRun: false,
            replayed: false,
            retryable: null,
            reason: null,
            extensions: {},
            resetAt: null,
            events: [],
            upstreamCode: null,
            upstreamMs: 30,
          })),
      nextCursor: null,
    }),
    '/v1/platforms': () => ({ platforms: ghost ? platforms : platforms.slice(0, 1) }),
    '/v1/events/kinds': () => ({
      kinds: [
        ...['message', 'messageSent', 'subscribed', 'tips'].map((name) => ({ name, platforms: ['sandbox'] })),
        ...(ghost ? ['memberCreated', 'postPublished'] : []).map((name) => ({ name, platforms: ['ghost'] })),
        ...['account.connected', 'webhook.disabled'].map((name) => ({ name, platforms: [] })),
      ].map((k) => ({ ...k, class: 'durable', summary: k.name })),
    }),
    '/v1/accounts': list,
    '/v1/webhooks': hooks,
    '/v1/events': (url) =>
      url.searchParams.get('latest')
        ? {
            events: none
              ? []
              : Array.from({ length: whole ? rows : 12 }, (_, i) =>
                  event(url.searchParams.get('events') ? 3 + i * 5 : i, url.searchParams.get('accountId')),
                ),
            gap: false,
            nextCursor: '',
          }
        : null,
    '/v1/accounts/*': (url) => {
      const parts = url.pathname.split('/')
      const found = Array.from({ length: Math.min(rows, 50) }, (_, i) => account(i, ghost)).find(
        (a) => a.id === parts[3],
      )
      if (!found)
        return {
          status: 404,
          body: {
            code: 'account-not-found',
            title: 'Account not found',
            status: 404,
            detail: 'There is no such account.',
            retryable: false,
          },
        }
      if (parts.length === 4) return { account: found }
      if (parts[4] === 'audit')
        return {
          entries: [
            {
              id: 'aud_1',
              action: 'account.connect',
              actor: { id: 'key_1', kind: 'key', label: 'ci' },
              at: ago(900),
              changes: null,
              ipHash: '',
              outcome: 'success',
              requestId: '',
              target: found.id,
            },
          ],
          nextCursor: null,
        }
      if (parts[4] === 'webhook' && parts[5] === 'deliveries')
        return {
          deliveries: Array.from({ length: whole ? rows : 8 }, (_, i) => ({
            id: 'whd_' + i,
            at: ago(i * 30),
            attempt: 1,
            cause: 'live',
            cursor: null,
            durationMs: 41 + i,
            error: null,
            event: events[i % 5],
            eventId: id('evt_', i),
            responseSnippet: null,
            state: i % 4 === 1 ? 'failed' : 'delivered',
            status: i % 4 === 1 ? 503 : 200,
          })),
          nextCursor: null,
        }
      if (parts[4] === 'webhook')
        return found.webhook
          ? {
              webhook: {
                url: 'https://receiver.test/hooks/stagedoor',
                enabled: true,
                disabledReason: null,
                events: null,
                ordering: 'strict',
                maxInFlight: 1,
                createdAt: ago(9e4),
                updatedAt: ago(9e4),
                previousSecretUntil: null,
                signingSecretLast4: 'x7q2',
                health: {
                  state: found.webhook.state,
                  backlog: 3,
                  cursor: '1',
                  failingSince: ago(900),
                  lagSec: 2,
                  laneState: 'live',
                  lastDeliveryAt: ago(9),
                  lastError: null,
                  lastStatus: 503,
                  lastSuccessAt: ago(1000),
                  nextAttemptAt: null,
                },
              },
            }
          : {
              status: 404,
              body: {
                code: 'webhook-not-found',
                title: 'No webhook',
                status: 404,
                detail: 'This account has no webhook.',
                retryable: false,
              },
            }
      return null
    },
  }
}
