// Overview, start guide and accounts, in all their states.
import { account, answers } from './fake.mjs'
import { fail, over, problem, refuse, slow } from './lib.mjs'

const first = account(0).id
const many = answers({ rows: 10_000, whole: true })
const tab = (name) => `/accounts/${first}?tab=${name}`
// Fails every time with a retryable problem: the page retries twice, and no more.
const flaky = () => {
  let asked = 0
  return {
    made: over(answers(), {
      '/v1/usage/series': () => {
        asked++
        return problem(503, 'service-unavailable', 'Try again in a moment.', { retryable: true })
      },
    }),
    async act(page) {
      await page.getByText('We could not load the calls').waitFor({ timeout: 120_000 })
      if (asked !== 3) throw new Error(`asked ${asked} times instead of 3`)
    },
  }
}
const retried = flaky()

const calm = answers({ broken: 0, waiting: 0 })
const well = over(calm, {
  '/v1/me/usage': (url) => {
    const u = calm['/v1/me/usage'](url)
    return { ...u, usage: { ...u.usage, accounts: { connected: 412, limit: 500, byState: { active: 412 } } } }
  },
})

export const cases = [
  [
    'overview',
    '/',
    answers(),
    {
      see: [
        'API calls by outcome',
        'Reconnect required',
        'quota-exceeded',
        '812 / 1,200',
        '1,680 events waiting for 1 h 30 min',
        '3 endpoints · 2 webhooks',
        'Endpoint hooks.northlight.test',
        'Falling behind for 3 accounts · 120 events waiting',
        'The oldest waiting event is 1 h 30 min old',
        'Connect funnel',
        'Failed for 72 hours',
      ],
    },
  ],
  ['overview-well', '/', well, { see: ['by webhook', 'all working', 'All accounts and webhooks are working'] }],
  ['overview-broken', '/', answers({ broken: 9 }), { see: ['All 9 webhooks', 'Falling behind · 840 events waiting'] }],
  [
    'overview-region',
    '/',
    over(well, {
      '/v1/status': () => ({
        status: 'degraded',
        message: 'Some regions are down',
        regions: [
          { region: 'us', ok: true, latencyMs: 41 },
          { region: 'uk', ok: false, latencyMs: null },
        ],
      }),
    }),
    { see: ['Region uk', '1 region', 'Some regions are down'] },
  ],
  ['overview-young', '/', answers({ young: true }), { see: ['Last hour', 'Per minute, by outcome'] }],
  [
    'overview-compared',
    '/?range=7d&by=method&of=messages.send&compare=1',
    answers(),
    { see: ['Period before', 'p95 before', 'Received before', 'The filter applies to calls'] },
  ],
  [
    'overview-table',
    '/?range=1h',
    answers(),
    {
      async act(page) {
        const buttons = page.getByRole('button', { name: 'View as table' })
        for (let left = 4; left > 0; left--) await buttons.first().click()
        if (await buttons.count()) throw new Error('more than four charts')
      },
      see: ['View as chart', 'p99'],
    },
  ],
  [
    'overview-none',
    '/',
    answers({ rows: 0 }),
    { see: ['Welcome to Northlight Agency', '0 of 4 done', 'Do it for me'] },
  ],
  ['overview-one', '/', answers({ rows: 1 }), { see: 'Connected accounts' }],
  ['overview-many', '/', many, { see: ['Connected accounts', 'need attention', 'All'] }],
  [
    'overview-failed',
    '/',
    over(answers(), { '/v1/usage/series': fail, '/v1/errors': fail, '/v1/me/usage': fail }),
    { see: ['We could not load the calls', 'We could not load the limits', 'We could not load the errors'] },
  ],
  ['overview-retried', '/', retried.made, { act: retried.act }],
  [
    'overview-refused',
    '/',
    over(answers({ role: 'support' }), { '/v1/usage/series': refuse, '/v1/errors': refuse, '/v1/me/usage': refuse }),
    { see: ['Your role cannot see the calls', 'Your role cannot see the limits'] },
  ],
  ['overview-slow', '/', over(answers(), { '/v1/usage/series': slow, '/v1/errors': slow, '/v1/me/usage': slow })],
  ['start', '/start', answers(), { see: ['Create an API key', 'Receive an event', '3 of 4 done'] }],
  ['start-none', '/start', answers({ rows: 0 }), { see: ['0 of 4 done', 'Connect an account first'] }],
  [
    'start-failed',
    '/start',
    over(answers({ rows: 0 }), { '/v1/me/keys': fail, '/v1/me/usage': fail, '/v1/accounts': fail }),
    { see: 'We could not load your progress' },
  ],
  ['start-refused', '/start', answers({ rows: 0, role: 'support' }), { see: 'Your role cannot' }],
  [
    'start-slow',
    '/start',
    over(answers(), { '/v1/me/usage': slow, '/v1/me/keys': slow }),
    { see: 'Create an API key', loads: false },
  ],
  ['accounts', '/accounts', answers(), { see: ['Maya · main', 'Reconnect required', 'Degraded'] }],
  [
    'accounts-none',
    '/accounts',
    answers({ rows: 0 }),
    { see: ['No accounts yet', 'Connect a sandbox account in ten seconds, or send a creator a link.'] },
  ],
  ['accounts-one', '/accounts', answers({ rows: 1 }), { see: ['Maya · main', '1 account'] }],
  [
    'accounts-selected',
    '/accounts',
    answers(),
    {
      // Phones have no room for the boxes.
      act: async (page) => {
        const box = page.getByRole('checkbox', { name: 'Select Noor' })
        if (await box.isVisible()) await box.check()
      },
      see: 'Noor',
    },
  ],
  ['accounts-many', '/accounts', many, { see: '10,000 accounts' }],
  ['accounts-nomatch', '/accounts?q=zzz', answers(), { see: 'No account matches' }],
  ['accounts-failed', '/accounts', over(answers(), { '/v1/accounts': fail })],
  ['accounts-refused', '/accounts', over(answers({ role: 'support' }), { '/v1/accounts': refuse })],
  ['accounts-slow', '/accounts', over(answers(), { '/v1/accounts': slow })],
  ['accounts-support', '/accounts', answers({ role: 'support' }), { see: 'Maya · main' }],
  ['accounts-platforms', '/accounts', answers({ ghost: true }), { see: ['All platforms', 'creator1.example.com'] }],
  [
    'accounts-platform',
    '/accounts?platform=ghost',
    answers({ ghost: true }),
    {
      see: 'creator4.example.com',
      act: async (page) => {
        const others = await page.getByRole('cell', { name: 'Sandbox', exact: true }).count()
        if (others > 0) throw new Error(`${others} accounts of another platform are listed`)
      },
    },
  ],
  ['account-site', '/accounts/' + account(1).id, answers({ ghost: true }), { see: 'creator1.example.com' }],
  [
    'account-site-settings',
    `/accounts/${account(1).id}?tab=settings`,
    answers({ ghost: true }),
    { see: ['Platform', 'Site', 'creator1.example.com'] },
  ],
  ['account', '/accounts/' + first, answers(), { see: ['Maya · main', 'Reconnect required'] }],
  ['account-events', tab('events'), answers(), { see: 'loved the last post' }],
  ['account-events-many', tab('events'), many],
  ['account-calls', tab('calls'), answers(), { see: 'quota-exceeded' }],
  ['account-calls-many', tab('calls'), many],
  ['account-webhook', tab('webhook'), answers(), { see: 'receiver.test' }],
  ['account-webhook-many', tab('webhook'), many],
  ['account-settings', tab('settings'), answers(), { see: 'Disconnect' }],
  ['account-support', tab('settings'), answers({ role: 'support' }), { see: 'Your role cannot' }],
  ['account-missing', '/accounts/acct_00000000000000000000000000', answers(), { see: 'no such account' }],
  ['account-failed', '/accounts/' + first, over(answers(), { '/v1/accounts/*': fail })],
  ['account-slow', '/accounts/' + first, over(answers(), { '/v1/accounts/*': slow })],
  ['notfound', '/nothing/here', answers(), { see: 'There is no page at this address' }],
]
