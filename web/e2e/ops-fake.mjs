// Fake answers of the admin API, to view the operator console without a running system, with 0, 1 or many rows.
const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const id = (prefix, n) => {
  let tail = ''
  for (let i = 0; i < 8; i++, n = Math.floor(n / 32)) tail = alphabet[(n + i * 5) % 32] + tail
  return prefix + '01k9zk16062m4d8v9q' + tail
}
const ago = (s) => new Date(Date.now() - s * 1000).toISOString()
const names = [
  'Northlight Agency',
  'Studio West',
  'Harbour & Co <b>',
  'Atlas Talent',
  'K. Adler',
  'Very long organisation name that somebody typed without thinking of tables',
]
const org = (i) => ({
  id: id('org_', i + 1),
  name: names[i % 6] + (i > 5 ? ` ${i}` : ''),
  plan: ['growth', 'starter', 'scale', 'sandbox'][i % 4],
  environment: i % 3 ? 'live' : 'sandbox',
  contactEmail: `ops${i}@example.test`,
  limits: i % 5 === 1 ? { callsPerMinute: 5000 } : {},
  suspended: i % 7 === 3,
  ...(i % 7 === 3 ? { suspendedAt: ago(9000), suspendedReason: 'unpaid' } : {}),
  ...(i === 5
    ? {
        suspended: true,
        suspendedAt: ago(9000),
        deletion: {
          requestedAt: ago(9000),
          purgeAt: ago(-600000),
          receiptUrl: 'https://api.example/v1/org-receipts/x',
        },
      }
    : {}),
  createdAt: ago(86400 * (i + 2)),
  updatedAt: ago(3000),
})
const states = ['active', 'reconnect_required', 'degraded', 'active', 'connecting']
const account = (i) => ({
  id: id('acct_', i + 1),
  org: { id: org(i % 6).id, name: org(i % 6).name },
  ofUserId: null,
  username: null,
  label: null,
  state: states[i % 5],
  stateReason: i % 5 === 1 ? 'session_expired' : null,
  stateChangedAt: ago(700),
  region: i % 3 ? 'us' : 'uk',
  createdAt: ago(9e5),
  lastSeenAt: ago(i * 7),
  lastCheckedAt: ago(60),
  listener: { state: ['up', 'down', 'connecting'][i % 3], since: ago(800), shard: i % 64 },
})
const access = (i) => ({
  id: id('sa_', i + 1),
  state: ['granted', 'requested', 'ended', 'expired'][i % 4],
  operator: i ? 'noor@example.test' : 'ana@example.test',
  mine: i === 0,
  reason: 'Ticket 1423: webhooks do not arrive',
  requestedAt: ago(7200),
  grantedAt: i === 0 ? ago(3600) : null,
  expiresAt: ago(-80000),
  endedAt: i === 2 ? ago(60) : null,
})
const operatorSession = (i) => ({
  id: id('bs_', i + 1),
  operator: i % 3 ? `operator${i}@example.test` : 'Ana',
  person: i % 3 !== 0,
  role: i % 4 === 3 ? null : ['owner', 'operator', 'support', 'viewer'][i % 4],
  createdAt: ago(7200 + i * 60),
  lastSeenAt: ago(i * 70),
  expiresAt: ago(-3600),
  userAgent: 'Mozilla/5.0 (X11; Linux x86_64) Chrome/141.0',
})
const lane = (i) => {
  const state = ['backoff', 'disabled', 'lagging', 'paused', 'draining'][i % 5]
  return {
    org: { id: org(i % 6).id, name: org(i % 6).name },
    accountId: id('acct_', i + 1),
    host: `hooks${i % 9}.customer.example`,
    state,
    reason: state === 'disabled' ? 'failing' : state === 'paused' && i % 2 ? 'operator' : null,
    failingSince: state === 'backoff' ? ago(4000) : null,
    failCount: 4,
    nextAttemptAt: state === 'backoff' ? ago(-90) : null,
    lastStatus: i % 3 ? 503 : 0,
    lastError: i % 3 ? null : 'timeout',
    backlog: i * 31,
  }
}
const job = (i) => ({
  id: 90210 - i,
  kind: i % 3 ? 'connect_step' : 'org_announce_epoch',
  queue: i % 3 ? 'connect' : 'default',
  state: ['running', 'completed', 'retryable', 'discarded', 'available', 'scheduled', 'cancelled'][i % 7],
  attempt: (i % 4) + 1,
  maxAttempts: 25,
  createdAt: ago(i * 9),
  scheduledAt: ago(i * 9),
  attemptedAt: ago(i * 8),
  finalizedAt: i % 7 === 1 ? ago(i * 7) : null,
  failedAt: i % 7 === 2 || i % 7 === 3 ? ago(i * 8) : null,
})
const entry = (i) => ({
  id: id('aud_', i + 1),
  org: i % 4 ? { id: org(i % 6).id, name: org(i % 6).name } : null,
  at: ago(i * 130),
  actor:
    i % 4
      ? { kind: 'member', id: 'usr_1', label: 'jo@northlight.test' }
      : { kind: 'operator', id: '00u1', label: 'ana@example.test' },
  action: i % 4 ? 'key.mint' : 'switches.set',
  target: i % 4 ? id('key_', i) : 'switches',
  requestId: id('req_', i),
  ipHash: '7c80d12897d4dbce4cc6709a',
  changes:
    i % 4
      ? { label: { to: '<img src=x onerror=alert(1)>' } }
      : { connects: { from: 'on', to: 'off' }, reason: { to: 'The platform has changed its sign-in.' } },
})
const proxy = (n, more = {}) => ({
  proxy: String(n),
  healthy: true,
  since: null,
  lastFailure: null,
  draining: false,
  drainedAt: null,
  drainedBy: null,
  reason: null,
  openConnections: 412,
  ...more,
})
const slots = (n, kind) =>
  Array.from({ length: n }, (_, i) => ({
    slot: i,
    node: i === 3 ? null : ['n1', 'n2', 'n3'][i % 3],
    epoch: 4 + (i % 5),
    ...(kind === 'listen' ? { listeners: { up: 40 + i, down: i % 4 } } : {}),
  }))

const runbook = (page) => 'https://api.example/docs/runbooks/' + page
const troubles = {
  requests: [
    {
      name: 'availability',
      harm: 'critical',
      title: 'Requests fail',
      detail:
        "Customers get errors that are this service's own. 4.1 percent in the last five minutes; the objective allows 0.1.",
      where: '',
      since: ago(1500),
      runbook: runbook('error-budget#availability'),
    },
    {
      name: 'node_died',
      harm: 'warning',
      title: 'A node is gone',
      detail: 'It ended without leaving, and has not come back. Other nodes have its work.',
      where: 'node-2',
      since: ago(1560),
      runbook: runbook('node-down'),
    },
  ],
  engines: [
    {
      name: 'nats',
      harm: 'critical',
      title: 'NATS is not responding',
      detail: 'Events wait at the platforms, and changes reach other nodes later.',
      where: 'node-1, node-2, node-3',
      since: ago(420),
      runbook: runbook('nats-down'),
    },
    {
      name: 'redis',
      harm: 'warning',
      title: 'Redis is not responding',
      detail: 'Nodes enforce their share of the limits on their own. Calls work.',
      where: 'node-2',
      since: ago(400),
      runbook: runbook('redis-down'),
    },
  ],
  regions: [
    {
      name: 'region',
      harm: 'critical',
      title: 'A region is down',
      detail: 'Calls of its accounts get 503 egress-unavailable, and their events wait.',
      where: 'uk',
      since: ago(7200),
      runbook: runbook('platform-fails'),
    },
    {
      name: 'paused',
      harm: 'notice',
      title: 'Writes are paused',
      detail: 'By Ana: The platform has changed its sign-in.',
      where: 'writes',
      since: ago(7000),
      runbook: null,
    },
  ],
}
function home(none, trouble) {
  const bad = (name) => !none && trouble === name
  return {
    at: ago(0),
    counted: ago(20),
    troubles: none ? [] : troubles[trouble],
    objectives: [
      ['availability', 0.999, bad('requests') ? 0.9984 : 0.99996],
      ['overhead', 0.99, 0.9991],
      ['arrival', 0.99, bad('engines') ? 0.9912 : 0.9998],
      ['delivery', 0.99, null],
    ].map(([name, target, month]) => ({
      name,
      title: name,
      target,
      month,
      left: month === null ? null : 1 - (1 - month) / (1 - target),
      burn: 0.2,
    })),
    chart: Array.from({ length: 60 }, (_, i) => ({
      at: ago(180 * (60 - i)),
      requests: 900 + ((i * 37) % 240),
      failed: bad('requests') && i > 51 ? 38 : 0,
      p95Ms: 25 + (i % 3) * 25,
      lagSeconds: bad('engines') && i > 57 ? 40 : (i % 4) / 10,
      backlog: (i * 7) % 12,
    })),
    engines: ['postgres', 'redis', 'nats', 'kms', 'objects'].map((name) => ({
      name,
      nodes: 3,
      down: !bad('engines')
        ? []
        : name === 'nats'
          ? ['node-1', 'node-2', 'node-3']
          : name === 'redis'
            ? ['node-2']
            : [],
    })),
    regions: [
      { name: 'uk', healthy: bad('regions') ? 0 : 2, all: 2 },
      { name: 'us', healthy: 3, all: 3 },
    ],
    nodes: 3,
  }
}

/** rows: the length of each list; trouble: what the home page shows; off: whether something is switched off. */
export function answers({
  rows = 60,
  off = false,
  whole = false,
  role = 'owner',
  granted = false,
  trouble = 'requests',
} = {}) {
  const list =
    (name, make, keep = () => true) =>
    (url) => {
      const all = Array.from({ length: rows }, (_, i) => make(i)).filter((r) => keep(r, url.searchParams))
      const limit = whole ? all.length : Math.min(16, Number(url.searchParams.get('limit') ?? 16))
      const from = Number(url.searchParams.get('cursor') ?? 0)
      return {
        [name]: all.slice(from, from + limit),
        nextCursor: from + limit < all.length ? String(from + limit) : null,
      }
    }
  const matches = (text, p) => !p.get('q') || text.toLowerCase().includes(p.get('q').toLowerCase())
  const state = (r, p) => !p.get('state') || r.state === p.get('state')
  const none = rows === 0
  const sw = (name, about, on = true) => ({
    name,
    on,
    about,
    reason: on ? '' : 'The platform has changed its sign-in.',
    by: on ? '' : 'Ana',
    since: on ? null : ago(300),
  })
  const lanes = list('lanes', lane, state)
  return {
    '/admin/v1/me': () => ({ name: 'ana@example.test', role, person: true, node: 'node-1', version: '1.7.0' }),
    '/admin/v1/home': () => home(none, trouble),
    '/admin/v1/nodes': () => ({
      nodes: none
        ? []
        : ['node-1', 'node-2', 'node-3'].map((name, i) => ({
            id: '01k9zk16062m4d8v9q000000' + i,
            name,
            roles: ['api', 'worker', 'listener'].slice(0, i + 1),
            version: i === 2 ? '1.8.0' : '1.7.0',
            startedAt: ago(90000),
            seenAt: ago(i),
          })),
    }),
    '/admin/v1/leases': () => ({
      work: none
        ? []
        : ['ingest', 'listen'].map((kind) => ({
            kind,
            free: 1,
            slots: slots(kind === 'listen' ? 64 : 256, kind),
            nodes: ['n1', 'n2', 'n3'].map((n, i) => ({
              id: n,
              name: 'node-' + (i + 1),
              slots: 85,
              until: ago(-5),
              live: i < 2,
              leaving: i === 1,
            })),
          })),
    }),
    '/admin/v1/egress': () => ({
      node: 'node-1',
      regions: none
        ? []
        : [
            { region: 'uk', on: !off, available: !off, proxies: [proxy(0)] },
            {
              region: 'us',
              on: true,
              available: true,
              proxies: [
                proxy(0),
                proxy(1, {
                  draining: true,
                  drainedAt: ago(600),
                  drainedBy: 'Ana',
                  reason: 'The provider does maintenance.',
                  openConnections: 3,
                }),
                proxy(2, { healthy: false, since: ago(900), lastFailure: 'no_answer', openConnections: 0 }),
              ],
            },
          ],
    }),
    '/admin/v1/plans': () => ({
      plans: ['sandbox', 'starter', 'growth', 'scale'].map((name) => ({ name, limits: { callsPerMinute: 600 } })),
    }),
    '/admin/v1/orgs': list(
      'orgs',
      org,
      (o, p) =>
        matches(o.name + o.id + o.contactEmail, p) &&
        (!p.get('plan') || o.plan === p.get('plan')) &&
        (!p.get('environment') || o.environment === p.get('environment')) &&
        (!p.get('suspended') || String(o.suspended) === p.get('suspended')),
    ),
    '/admin/v1/orgs/*': (url) => {
      if (url.pathname.endsWith('/access')) return { access: granted ? [access(0), access(1)] : [access(1)] }
      const found = Array.from({ length: 60 }, (_, i) => org(i)).find((o) => o.id === url.pathname.split('/')[4])
      if (!found)
        return {
          status: 404,
          body: {
            code: 'org-not-found',
            title: 'No such organisation',
            status: 404,
            detail: 'There is no organisation with this id.',
            retryable: false,
          },
        }
      return {
        org: found,
        effectiveLimits: [
          'callsPerMinute',
          'callsPerMonth',
          'accountReadPerMinute',
          'accountWritePerMinute',
          'connectAttemptsPerHour',
          'maxAccounts',
          'maxKeys',
          'eventRetentionDays',
        ].map((name, i) => ({ name, value: i === 6 ? -1 : 600 * (i + 1), overridden: name in found.limits })),
        month: { used: 3120441, limit: 5000000 },
        accounts: { active: 380, degraded: 12, reconnect_required: 20 },
        webhooks: { live: 300, backoff: 3, disabled: 1, paused: 0, lagging: 0, draining: 0 },
      }
    },
    '/admin/v1/accounts': list(
      'accounts',
      account,
      (a, p) => matches(a.id, p) && state(a, p) && (!p.get('region') || a.region === p.get('region')),
    ),
    '/admin/v1/sessions': () => ({ sessions: Array.from({ length: rows }, (_, i) => operatorSession(i)) }),
    '/admin/v1/webhooks/lanes': (url) => ({
      ...lanes(url),
      counts: none
        ? { live: 0, lagging: 0, backoff: 0, draining: 0, paused: 0, disabled: 0 }
        : { live: 1204, lagging: 12, backoff: 12, draining: 12, paused: 12, disabled: 12 },
    }),
    '/admin/v1/jobs': list('jobs', job, (j, p) => state(j, p) && (!p.get('kind') || j.kind === p.get('kind'))),
    '/admin/v1/keyring': () => ({
      kms: off ? 'down' : 'up',
      wrapsNow: off ? null : { id: 'local', version: 2 },
      root: { id: 'local', version: 2 },
      orgKeys: none
        ? []
        : [
            { by: { id: 'local', version: 2 }, keys: 812, current: true },
            {
              by: { id: 'aws:arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab', version: 1 },
              keys: 31,
              current: false,
            },
          ],
      orgs: 843,
      dataKeys: 41230,
      renewed: 12,
      waiting: 1231,
      percentDone: off ? null : 97,
      holders: 41230,
      shredded: 87,
    }),
    '/admin/v1/switches': () => ({
      switches: [
        sw('signups', 'No new organisations can be created. Members sign in as usual.'),
        sw('connects', 'New connect attempts are refused; those in progress continue.', !off),
        sw('writes', 'SDK methods that change something, and uploads, are refused; reads work.'),
        sw('webhooks', 'Nothing is delivered; events wait in the store, in order.'),
        sw(
          'region/uk',
          'No traffic leaves through the region: calls on its accounts are refused, and its listeners disconnect.',
          !off,
        ),
        sw(
          'region/us',
          'No traffic leaves through the region: calls on its accounts are refused, and its listeners disconnect.',
        ),
      ],
    }),
    '/admin/v1/banner': () => ({
      banner: none
        ? null
        : {
            text: 'Connecting accounts is slow right now. We are on it.',
            level: 'warning',
            url: 'https://status.example',
            until: ago(-7200),
            by: 'Ana',
            since: ago(900),
          },
    }),
    '/admin/v1/audit': list(
      'entries',
      entry,
      (e, p) => (!p.get('action') || e.action === p.get('action')) && (!p.get('own') || !e.org),
    ),
  }
}
export const firstOrg = org(0).id
export const suspendedOrg = org(3).id
export const deletingOrg = org(5).id
