// Fake answers for explorer, keys, usage, audit, sandbox and settings, on top of fake.mjs. The catalogue comes
// from openapi.json.
import { readFileSync } from 'node:fs'
import { account, answers as base } from './fake.mjs'

const ago = (s) => new Date(Date.now() - s * 1000).toISOString()
const tail = (n) =>
  String(n)
    .padStart(5, '0')
    .replace(/[ilou]/g, '0')
const id = (prefix, n) => `${prefix}01k9zk16062m4d8v9qx7q${tail(n)}`

let methods
function catalog() {
  if (methods) return methods
  const doc = JSON.parse(readFileSync(new URL('../../openapi/openapi.json', import.meta.url), 'utf8'))
  methods = []
  for (const [path, item] of Object.entries(doc.paths)) {
    const op = item.post
    if (!op?.operationId?.includes('.')) continue
    const [resource, method] = op.operationId.split('.')
    const media = op.requestBody?.content?.['application/json'] ?? {}
    const args = media.schema?.oneOf?.[0] ?? { type: 'object', properties: {} }
    const access = item.get ? 'read' : 'write'
    methods.push({
      resource,
      method,
      access,
      http: item.get ? ['GET', 'POST'] : ['POST'],
      positional: Object.keys(args.properties ?? {}),
      description: op.summary ?? path,
      args,
      result: { type: 'object', properties: { id: { type: 'string' }, text: { type: 'string' } } },
      example: media.example ?? {},
      idempotent: Boolean(item.get),
      destructive: /delete|clear/.test(method),
      async: false,
      sensitive: /payouts|earnings/.test(resource),
      paginated: method.startsWith('list'),
      emits: method === 'send' ? ['messageSent'] : [],
      cost: 1,
      timeoutMs: 30000,
      since: '1.0',
      deprecated: null,
    })
  }
  return methods
}

// A few methods of the other platform.
const ghostMethods = () => {
  const [some] = catalog()
  return ['members.list', 'members.get', 'posts.publish'].map((name) => {
    const [resource, method] = name.split('.')
    return { ...some, resource, method, access: method === 'publish' ? 'write' : 'read', description: `Does ${name}.` }
  })
}

const all = [
  'accounts:read',
  'accounts:write',
  'sdk:call',
  'webhooks:read',
  'webhooks:write',
  'usage:read',
  'me:read',
  'me:write',
]
export const xss = '<img src=x onerror=alert(1)>"\'&{{7*7}}'

export function key(i) {
  const labels = ['inbox worker', 'ci', 'earnings report for the whole agency, nightly', 'old laptop', xss]
  return {
    id: id('key_', i + 1),
    label: labels[i % 5] + (i > 4 ? ` ${i}` : ''),
    hint: 'sd_sandbox_7Q2x',
    createdAt: ago(86400 * (i + 1)),
    lastUsedAt: i % 5 === 3 ? null : ago(i * 700 + 12),
    current: false,
    scopes: i % 3 === 0 ? all : i % 3 === 1 ? all.slice(0, 6) : ['webhooks:read', 'webhooks:write'],
    ...(i % 4 === 1 ? { expiresAt: ago(-86400 * (i === 1 ? 3 : 20)) } : {}),
    ...(i === 2 ? { allowedIps: ['203.0.113.0/24', '2001:db8::/48'] } : {}),
    ...(i % 4 === 3 ? { revokedAt: ago(3600) } : {}),
    ...(i % 5 === 2
      ? {
          methods: ['earnings.*', '!sensitive'],
          inheritedMethods: [['*', '!payouts.*']],
          accountIds: [account(0).id, account(1).id],
        }
      : {}),
  }
}

const jobStates = ['running', 'paused_by_limit', 'queued', 'completed_with_errors', 'failed', 'completed', 'cancelled']

export function job(i) {
  const state = jobStates[i % 7]
  const active = i % 7 < 3
  const done = state === 'queued' ? 0 : active ? 38 : state === 'failed' ? 12 : 100
  const kind = ['export', 'bulk', 'export', 'bulk', 'export', 'org_export', 'bulk'][i % 7]
  return {
    id: id('job_', i + 1),
    kind,
    method: kind === 'export' ? 'fans.list' : kind === 'bulk' ? 'messages.send' : null,
    state,
    progress: {
      accountsDone: Math.round(done * 0.4),
      accountsTotal: kind === 'org_export' ? 0 : 40,
      items: done * 339,
      failed: state === 'completed_with_errors' ? 214 : 0,
      percent: done,
    },
    estimateSec: state === 'running' ? 5400 : null,
    createdAt: ago(900 + i * 3600),
    finishedAt: active ? null : ago(i * 3600),
    result: active || state === 'failed' ? null : { url: '/v1/jobs/x/result', expiresAt: ago(-86400 * 6) },
    error: state === 'failed' ? { code: 'key-revoked', detail: 'The key that started the job was revoked.' } : null,
  }
}

export function entry(i) {
  const kinds = [
    [
      'key.mint',
      { kind: 'member', id: id('usr_', 1), label: 'jo.stone@northlight.test' },
      id('key_', i),
      { scopes: { from: null, to: all } },
    ],
    ['account.connect', { kind: 'key', id: id('key_', 1), label: 'inbox worker' }, account(i % 12).id, null],
    [
      'operator.access',
      { kind: 'operator', id: 'operator', label: 'k.adler' },
      id('org_', 1),
      { reason: { from: '', to: 'Ticket #1423: webhook delays' } },
    ],
    [
      'webhook.rotate_secret',
      {
        kind: 'member',
        id: id('usr_', 2),
        label: 'a-very-long-address-of-somebody@subdomain.northlight-agency.example',
      },
      account(3).id,
      null,
    ],
    ['account.revoke', { kind: 'creator', id: '', label: '' }, account(4).id, null],
    [
      'org.update',
      { kind: 'member', id: id('usr_', 1), label: xss },
      id('org_', 1),
      { name: { from: 'Northlight', to: xss } },
    ],
  ]
  const [action, actor, target, changes] = kinds[i % kinds.length]
  return {
    id: id('aud_', i),
    at: ago(i * 1900),
    action,
    actor,
    target,
    outcome: 'success',
    requestId: id('req_', i),
    ipHash: i % 5 === 4 ? '' : 'b1946ac92492d2347c6235b4d2611184',
    changes,
  }
}

const agents = [
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36',
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1',
  xss,
]

/** `rows` is the length of each list; if it is 0, there are no accounts either. */
export function answers({ rows = 12, role = 'owner', org, accounts, whole = false, ghost = false } = {}) {
  const scopes = role === 'developer' ? all.filter((s) => s !== 'me:write') : undefined
  const first = base({
    ...(scopes ? { scopes } : {}),
    rows: accounts ?? (rows === 0 ? 0 : 412),
    role,
    whole,
    ghost,
    ...(org ? { org } : {}),
  })
  const page = (list, url, name) => {
    const limit = whole ? list.length : Math.min(16, Number(url.searchParams.get('limit') ?? 16))
    const from = Number(url.searchParams.get('cursor') ?? 0)
    return {
      [name]: list.slice(from, from + limit),
      nextCursor: from + limit < list.length ? String(from + limit) : null,
    }
  }
  const look = {
    brand_light: rows === 0 ? '' : '#f5c518',
    brand_dark: '',
    scheme: 'system',
    allowed_origins: rows === 0 ? [] : ['https://app.northlight.test', 'http://localhost:3000'],
    help_url: rows === 0 ? '' : 'https://northlight.test/help',
  }
  return {
    '/v1/sdk/methods': (url) => {
      const want = url.searchParams.get('resource')
      const all = url.searchParams.get('platform') === 'ghost' ? ghostMethods() : catalog()
      const list = all.filter((m) => !want || m.resource === want)
      return url.searchParams.get('format') === 'compact'
        ? {
            version: '1',
            methods: list.map(({ resource, method, access, description }) => ({
              resource,
              method,
              access,
              description,
            })),
          }
        : { version: '1', methods: list, types: {} }
    },
    '/v1/me/keys': (_url, req) =>
      req.method() === 'POST'
        ? {
            status: 201,
            body: {
              key: 'sd_sandbox_JQc0vJav2FzlJKI9aEXOpTc3DWFc9ahfSeo7luudhSe1lgc6C',
              id: id('key_', 999),
              label: 'new worker',
              scopes: all,
              createdAt: ago(0),
            },
          }
        : { keys: Array.from({ length: rows }, (_, i) => key(i)) },
    '/v1/me/keys/*': (_url, req) =>
      req.method() === 'POST'
        ? {
            status: 201,
            body: {
              key: 'sd_sandbox_JQc0vJav2FzlJKI9aEXOpTc3DWFc9ahfSeo7luudhSe1lgc6C',
              id: id('key_', 999),
              label: 'inbox worker',
              scopes: all,
              createdAt: ago(0),
              replaces: { id: id('key_', 1), endsAt: ago(-3600) },
            },
          }
        : { ...key(0), label: 'changed' },
    '/v1/jobs': (url, req) =>
      req.method() === 'POST'
        ? { status: 202, body: { job: job(2) } }
        : page(
            Array.from({ length: rows }, (_, i) => job(i)).filter(
              (j) => !url.searchParams.get('kind') || j.kind === url.searchParams.get('kind'),
            ),
            url,
            'jobs',
          ),
    '/v1/jobs/*': (url) => {
      const n = Array.from({ length: 7 }, (_, i) => job(i)).find((j) => j.id === url.pathname.split('/')[3])
      return { job: n ?? job(0) }
    },
    '/v1/me/audit': (url) =>
      page(
        Array.from({ length: rows }, (_, i) => entry(i)).filter(
          (e) => !url.searchParams.get('action') || e.action === url.searchParams.get('action'),
        ),
        url,
        'entries',
      ),
    '/v1/org/members': () => ({
      members: Array.from({ length: Math.max(1, rows) }, (_, i) => ({
        id: i === 0 ? 'usr_1' : id('usr_', i),
        email:
          i === 3
            ? 'a-very-long-address-of-somebody@subdomain.northlight-agency.example'
            : `member${i}@northlight.test`,
        name: i === 0 ? 'Jo Stone' : i === 2 ? xss : i % 2 ? '' : `Member ${i}`,
        role: ['owner', 'admin', 'developer', 'support'][i % 4],
        joinedAt: ago(86400 * 9),
        lastSeenAt: i % 3 === 2 ? null : ago(i * 300),
        you: i === 0,
      })),
      invitations:
        rows < 2
          ? []
          : [
              {
                id: id('inv_', 1),
                email: 'ada@example.com',
                role: 'developer',
                createdAt: ago(900),
                expiresAt: ago(-86400 * 6),
                invitedBy: 'j.s@northlight.test',
              },
            ],
    }),
    '/v1/org/invitations': () => ({
      status: 201,
      body: {
        invitation: {
          id: id('inv_', 2),
          email: 'new@example.com',
          role: 'developer',
          createdAt: ago(0),
          expiresAt: ago(-604800),
          invitedBy: 'j.s@northlight.test',
        },
        url: 'https://app.stagedoor.test/app/invitation/inv_tok_3f9a8c7b6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f1a0b9c8d7e',
      },
    }),
    '/v1/me/sessions': () => ({
      sessions: Array.from({ length: rows }, (_, i) => ({
        id: id('bs_', i),
        person:
          i === 4
            ? { id: 'operator', email: 'operator' }
            : {
                id: i < 3 ? 'usr_1' : id('usr_', i),
                email: i < 3 ? 'j.s@northlight.test' : `member${i}@northlight.test`,
              },
        createdAt: ago(7200 + i * 60),
        lastSeenAt: ago(i * 70),
        expiresAt: ago(-28800),
        userAgent: agents[i % 3],
        current: i === 0,
      })),
    }),
    '/v1/org/notices': () => ({
      notices: {
        mail: rows > 0 ? 'enabled' : 'not_configured',
        recipients: Array.from({ length: rows }, (_, i) => ({
          email: `member${i}@northlight.test`,
          subscribed: i % 3 !== 2,
        })),
        slackHost: rows > 0 ? 'hooks.slack.com' : null,
        kinds: ['webhook_failing', 'account_attention', 'usage', 'key_expiring'],
        locale: 'en',
      },
    }),
    '/v1/org/support-access': () => ({
      supportAccess: Array.from({ length: rows }, (_, i) => ({
        id: id('sa_', i),
        state: ['requested', 'granted', 'ended', 'expired'][i % 4],
        operator: `operator${i}@stagedoor.test`,
        reason: 'Ticket 1423: webhooks do not arrive',
        requestedAt: ago(7200 + i * 60),
        grantedAt: i % 4 === 1 ? ago(3600) : null,
        grantedBy: i % 4 === 1 ? 'j.s@northlight.test' : null,
        expiresAt: ago(-80000),
        endedAt: i % 4 === 2 ? ago(60) : null,
        endedBy: i % 4 === 2 ? 'j.s@northlight.test' : null,
      })),
    }),
    '/v1/connect/page': () => ({ page: look, logo_url: null }),
    '/v1/sandbox/personas': () => ({
      domain: 'sandbox.test',
      password: 'good',
      personas: [
        ['ok', 'works', 'Signs in immediately.'],
        ['sms', 'asks', 'Asks for a code by text message.'],
        [
          'sms-email',
          'asks',
          'Asks for a code by text, then for one by email. Any chain of sms, app, email and face works.',
        ],
        ['locked', 'refuses', 'The platform has locked the account.'],
        ['slow', 'breaks', 'Signing in takes 20 seconds.'],
        ['restricted', 'later', 'Every call is refused from 5 seconds after the first sign-in.'],
      ].map(([persona, group, effect]) => ({ persona, group, effect, login: `${persona}@sandbox.test` })),
      codes: [
        { code: '123456', effect: 'Correct.' },
        { code: '000000', effect: 'Wrong, like any other; the fifth wrong code ends the sign-in.' },
      ],
    }),
    '/problems/quota-exceeded': () => ({
      code: 'quota-exceeded',
      status: 429,
      title: 'Rate limit reached',
      retryable: true,
      fix: 'Wait.',
      document: readFileSync(new URL('../../docs/problems/quota-exceeded.md', import.meta.url), 'utf8'),
    }),
    '/v1/errors': (url) => {
      const got = first['/v1/errors'](url)
      return rows === 0
        ? { errors: [] }
        : {
            errors: [
              {
                code: 'quota-exceeded',
                reason: 'org_rpm',
                method: 'massMessages.send',
                status: 429,
                count: 12,
                accounts: 9,
                firstAt: ago(9000),
                lastAt: ago(60),
                lastRequestId: id('req_', 9),
                retryable: true,
              },
              ...got.errors,
            ],
          }
    },
    ...(rows === 0 ? { '/v1/usage/series': () => ({ series: [], totals: {}, previous: {} }) } : {}),
    ...Object.fromEntries(
      Object.entries(first).filter(
        ([p]) => !['/v1/me/keys', '/v1/errors'].includes(p) && !(rows === 0 && p === '/v1/usage/series'),
      ),
    ),
    '/v1/me': () => {
      const me = first['/v1/me']()
      return {
        ...me,
        org: { ...me.org, ...(org ?? {}) },
        limits: {
          callsPerMinute: 1200,
          callsPerMonth: 5000000,
          accountReadPerMinute: 60,
          accountWritePerMinute: 20,
          connectAttemptsPerHour: 60,
          maxAccounts: 500,
          maxKeys: 100,
          maxStreamsPerAccount: 10,
          eventRetentionDays: 14,
          deliveryRetentionDays: 30,
          maxRequestBytes: 1048576,
          maxResponseBytes: 67108864,
          uploadMaxBytes: 5368709120,
          proxyCountries: ['us', 'uk'],
          features: [],
        },
      }
    },
  }
}
export { account }
