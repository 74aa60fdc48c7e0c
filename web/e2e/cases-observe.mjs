// Connect, events, webhooks, logs and errors, in all their states.
import { account } from './fake.mjs'
import { fail, over, problem, refuse, slow } from './lib.mjs'
import { attempt, event, id, observed, phone, stream } from './observe-fake.mjs'

const isStream = (req) => (req.headers().accept ?? '').includes('event-stream')
const att = id('att_', 7)
const first = account(0).id
const endpoint = id('whe_', 1)
const deliveries = `/v1/accounts/${first}/webhook/deliveries`
const qr = () => [
  'image/svg+xml',
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><path d="M0 0h3v3h-3zM7 0h3v3h-3zM0 7h3v3h-3zM4 4h2v2h-2z"/></svg>',
]
/** What the server streams in addition to the fake answers. */
export const streams = {
  streams: {
    '/v1/events': stream(2),
    '/quiet': stream(0),
    [`/v1/connect/login/${att}/events`]: (write) => write(': hi\n\n'),
  },
  bodies: { [`/v1/connect/login/${att}/qr`]: qr },
}

// The wizard opens on every page; on an almost empty one it is checked faster.
const nowhere = '/nothing/here'
const wizard = (method, fill) => async (page) => {
  await page.keyboard.press('c')
  await page.getByRole('button', { name: new RegExp(method) }).click()
  await fill?.(page)
}
const signIn = async (page) => {
  await page.getByRole('button', { name: 'ok@', exact: true }).click()
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
}
const wizardOnGhost = (site) => async (page) => {
  await page.keyboard.press('c')
  await page.getByRole('button', { name: 'Ghost', exact: true }).click()
  await page.getByLabel('Site').fill(site)
  await page.getByLabel('Email', { exact: true }).fill('maya@example.com')
  await page.getByLabel('Password', { exact: true }).fill('secret')
  await page.getByRole('button', { name: 'Sign in', exact: true }).click()
}
const byPassword = wizard('Email & password', signIn)
const byPhone = wizard('Mobile QR', (p) => p.getByRole('button', { name: 'Show the QR code' }).click())
const at = (state, more) => observed({ one: attempt(state, more) })
const many = observed({ rows: 10_000, whole: true })
const none = over(observed({ rows: 0 }), {
  '/v1/events': (_url, req) => (isStream(req) ? { to: '/quiet' } : { events: [], nextCursor: null, gap: false }),
})
const one = observed({ rows: 1 })
const support = observed({ role: 'support' })
// The list and the stream each work or fail.
const events = ({ list = observed()['/v1/events'], dropped = false, quiet = false }) =>
  over(observed(), {
    '/v1/events': (url, req) =>
      !isStream(req)
        ? list(url, req)
        : quiet
          ? { to: '/quiet' }
          : dropped
            ? problem(503, 'service-unavailable', 'The stream is not there.', { retryable: true })
            : null,
  })

export const cases = [
  ['connect', '/connect', observed(), { see: ['141', 'invalid_credentials'] }],
  ['connect-links', '/connect?tab=links', observed(), { see: 'user_1' }],
  ['connect-links-many', '/connect?tab=links', many, { see: '10,000 links' }],
  ['connect-page', '/connect?tab=page', observed(), { see: 'Show the page' }],
  ['connect-none', '/connect', none, { see: 'No visits in this period' }],
  ['connect-one', '/connect', one, { see: '1 attempt' }],
  ['connect-many', '/connect', many, { see: '10,000 attempts' }],
  [
    'connect-failed',
    '/connect',
    over(observed(), { '/v1/connect/funnel': fail, '/v1/connect/attempts': fail }),
    { see: ['We could not load the funnel', 'We could not load the attempts'] },
  ],
  [
    'connect-refused',
    '/connect',
    over(support, { '/v1/connect/funnel': refuse, '/v1/connect/attempts': refuse }),
    { see: 'Your role cannot see the attempts' },
  ],
  ['connect-slow', '/connect', over(observed(), { '/v1/connect/funnel': slow, '/v1/connect/attempts': slow })],
  ['connect-support', '/connect', support, { see: 'invalid_credentials' }],
  ['wizard-mobile', nowhere, observed(), { act: wizard('Mobile QR'), see: 'Show the QR code' }],
  ['wizard-qr', nowhere, observed({ one: phone() }), { act: byPhone, see: 'Scan with the creator’s phone' }],
  ['wizard-login', nowhere, observed(), { act: wizard('Email & password'), see: 'Sign in' }],
  ['wizard-code', nowhere, at('needs_otp'), { act: byPassword, see: 'Check your phone' }],
  [
    'wizard-wrong',
    nowhere,
    at('wrong_2fa_code_retry', { submissions_remaining: 2 }),
    { act: byPassword, see: 'That code did not match' },
  ],
  ['wizard-app', nowhere, at('needs_app_otp'), { act: byPassword, see: 'Open your authenticator app' }],
  [
    'wizard-email',
    nowhere,
    at('needs_email', { next_actions: ['send_email', 'cancel'] }),
    { act: byPassword, see: 'Check your email' },
  ],
  [
    'wizard-selfie',
    nowhere,
    at('needs_face_otp', { next_actions: ['open_verification_page', 'confirm_selfie', 'switch_channel', 'cancel'] }),
    { act: byPassword, see: 'Take a quick selfie' },
  ],
  ['wizard-pending', nowhere, at('pending'), { act: byPassword, see: 'Signing' }],
  ['wizard-notdone', nowhere, at('completed_failed'), { act: byPassword, see: 'invalid_credentials' }],
  ['wizard-done', nowhere, at('completed_success'), { act: byPassword, see: 'Connected' }],
  [
    'wizard-cookies',
    nowhere,
    observed(),
    {
      act: wizard('Cookies', async (p) => {
        await p.getByLabel('Cookies', { exact: true }).fill('auth_id=1; sess=abc; other=x; more=y')
        await p.getByLabel('User agent').focus()
      }),
      see: 'found',
    },
  ],
  [
    'wizard-curl',
    nowhere,
    observed(),
    {
      act: wizard('cURL', async (p) => {
        await p.getByLabel('Command').fill("curl 'https://x' -H 'cookie: a=b'")
        await p.getByLabel('Label').focus()
      }),
    },
  ],
  [
    'wizard-quota',
    nowhere,
    over(observed(), { '/v1/connect/mobile': () => problem(429, 'quota-exceeded', 'x', { retryAfterSec: 840 }) }),
    { act: byPhone, see: 'Too many attempts' },
  ],
  [
    'wizard-ghost',
    nowhere,
    observed({ ghost: true }),
    {
      act: async (p) => {
        await p.keyboard.press('c')
        await p.getByRole('button', { name: 'Ghost', exact: true }).click()
        await p.getByLabel('Site').waitFor()
        if ((await p.getByRole('button', { name: /Mobile QR/ }).count()) > 0)
          throw new Error('a method is offered that the platform does not have')
        if ((await p.getByRole('group', { name: 'Sandbox logins' }).count()) > 0)
          throw new Error('logins of the sandbox are offered on another platform')
      },
      see: ['Email & password', 'Where the creator signs in to Ghost'],
    },
  ],
  [
    'wizard-nosite',
    nowhere,
    observed({ ghost: true }),
    {
      act: wizardOnGhost(''),
      see: 'Enter the address of the creator’s site, such as https://maya.example.com.',
    },
  ],
  [
    'wizard-badsite',
    nowhere,
    over(observed({ ghost: true }), {
      '/v1/connect/login': () =>
        problem(422, 'validation-failed', 'The site is not valid.', {
          errors: [{ pointer: '/site', code: 'platform', detail: 'must be a site that runs Ghost' }],
        }),
    }),
    { act: wizardOnGhost('maya.example.com'), see: 'must be a site that runs Ghost' },
  ],
  [
    'link-ghost',
    '/connect',
    observed({ ghost: true }),
    {
      act: async (p) => {
        await p.getByRole('button', { name: 'Create connect link' }).first().click()
        await p.getByRole('button', { name: 'Ghost', exact: true }).click()
        await p.getByLabel('Site').fill('maya.example.com')
        if ((await p.getByLabel('The app on their phone').count()) > 0)
          throw new Error('a method is offered that the platform does not have')
      },
      see: '"platform":"ghost","site":"https://maya.example.com"',
    },
  ],
  [
    'link-dialog',
    '/connect',
    observed(),
    { act: (p) => p.getByRole('button', { name: 'Create connect link' }).first().click(), see: 'Your reference' },
  ],
  [
    'link-made',
    '/connect',
    observed(),
    {
      act: async (p) => {
        await p.getByRole('button', { name: 'Create connect link' }).first().click()
        await p.getByRole('button', { name: 'Create link' }).click()
      },
      see: 'The link is ready',
    },
  ],
  ['attempt', '/connect/attempts/' + att, observed(), { see: 'Maya · main' }],
  ['attempt-notdone', '/connect/attempts/' + att, at('completed_failed'), { see: 'invalid_credentials' }],
  [
    'attempt-missing',
    '/connect/attempts/' + att,
    over(observed(), { [`/v1/connect/login/${att}`]: () => problem(404, 'attempt-not-found', 'x') }),
    { see: 'Attempt not found' },
  ],
  [
    'attempt-failed',
    '/connect/attempts/' + att,
    over(observed(), { [`/v1/connect/login/${att}`]: fail }),
    { see: 'We could not load the attempt' },
  ],
  ['link', '/connect/links/' + id('cs_', 2), observed(), { see: 'user_1' }],
  [
    'link-missing',
    '/connect/links/' + id('cs_', 2),
    over(observed(), { '/v1/connect/sessions/*': () => problem(404, 'session-not-found', 'x') }),
    { see: 'We could not find the link' },
  ],
  [
    'link-failed',
    '/connect/links/' + id('cs_', 2),
    over(observed(), { '/v1/connect/sessions/*': fail }),
    { see: 'We could not load the link' },
  ],
  [
    'events',
    '/events',
    observed(),
    {
      act: async (p) => {
        await p.locator('[role=option]').nth(3).waitFor()
        await p.keyboard.press('j')
        await p.keyboard.press('j')
      },
      see: 'Live',
    },
  ],
  ['events-none', '/events', none, { see: ['Listening…', 'Events appear here as they happen'] }],
  ['events-one', '/events', one, { see: 'subscribed' }],
  ['events-many', '/events', many, { see: 'message' }],
  ['events-nomatch', '/events?kind=payout*', none, { see: 'No events of this kind' }],
  [
    'events-paused',
    '/events',
    observed(),
    {
      act: async (p) => {
        await p.getByRole('button', { name: 'Pause' }).click()
        await p
          .getByText(/\d+ held/)
          .first()
          .waitFor()
      },
      see: 'Paused',
    },
  ],
  ['events-failed', '/events', events({ list: fail, quiet: true }), { see: 'We could not load the events' }],
  ['events-holes', '/events', events({ list: fail }), { see: ['We could not load earlier events', 'Live'] }],
  ['events-refused', '/events', events({ list: refuse, dropped: true })],
  [
    'events-search',
    '/events?q=loved',
    observed(),
    { see: ['of 10,000 searched', 'Back to live', 'Search older events'] },
  ],
  [
    'events-jump',
    '/events?range=between&from=2026-11-13T10:00:00.000Z&to=2026-11-14T10:00:00.000Z',
    observed(),
    { see: ['of 10,000 searched', 'Copy as fixture'], act: (p) => p.locator('[role=option]').first().click() },
  ],
  [
    'events-further',
    '/events?q=nowhere',
    events({ list: () => ({ events: [], nextCursor: 'x', gap: false, scanned: 10_000 }) }),
    { see: ['No match so far', 'None of the newest 10,000 events', 'Search older events'] },
  ],
  [
    'events-unmatched',
    '/events?q=nowhere&range=24',
    events({ list: () => ({ events: [], nextCursor: null, gap: false, scanned: 12 }) }),
    { see: ['No events match', 'Clear filters'] },
  ],
  [
    'events-folded',
    '/events',
    events({
      quiet: true,
      list: () => ({
        events: Array.from({ length: 5 }, (_, i) => ({
          ...event(i),
          id: id('evt_', i + 1),
          event: 'connect.attempt_updated',
          accountId: null,
          data: { attempt_id: att, state: 'awaiting_mobile_session', label: 'Maya' },
        })),
        nextCursor: null,
        gap: false,
      }),
    }),
    { see: ['QR code renewed 4×', '4 renewals of QR codes folded'] },
  ],
  [
    'events-save',
    '/events?kind=tips',
    observed(),
    {
      act: async (p) => {
        await p.getByRole('button', { name: 'Views' }).click()
        await p.getByRole('menuitem', { name: 'Save this view' }).click()
        await p.getByLabel('Name').fill('Only tips')
        await p.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click()
        await p.getByRole('button', { name: 'Only tips' }).click()
      },
      see: 'Saved in this browser',
    },
  ],
  ['events-ghost', '/events', observed({ ghost: true }), { see: ['memberCreated', 'loved the last post'] }],
  ['events-dropped', '/events', events({ dropped: true }), { see: ['Reconnecting', 'loved the last post'] }],
  ['event', '/events/' + id('evt_', 4), observed(), { see: ['session_expired', 'Caused by the request'] }],
  [
    'event-missing',
    '/events/' + id('evt_', 4),
    over(observed(), { '/v1/events/*': () => problem(404, 'event-not-found', 'x') }),
    { see: 'Event not found' },
  ],
  [
    'event-failed',
    '/events/' + id('evt_', 4),
    over(observed(), { '/v1/events/*': fail }),
    { see: 'We could not load the event' },
  ],
  [
    'webhooks',
    '/webhooks',
    observed(),
    { see: ['hooks.example.test', 'CRM', 'oldest', '99.98%', 'Connection refused'] },
  ],
  ['webhooks-none', '/webhooks', none, { see: ['No endpoints yet', 'stagedoor listen --forward-to localhost:3000'] }],
  ['webhooks-nomatch', '/webhooks?q=zzzz', observed(), { see: 'No endpoint matches' }],
  [
    'webhooks-failed',
    '/webhooks',
    over(observed(), { '/v1/webhook-endpoints': fail }),
    { see: 'We could not load the endpoints' },
  ],
  ['webhooks-refused', '/webhooks', over(support, { '/v1/webhook-endpoints': refuse })],
  ['webhooks-slow', '/webhooks', over(observed(), { '/v1/webhook-endpoints': slow })],
  [
    'webhooks-add',
    '/webhooks',
    observed({ ghost: true }),
    {
      act: async (p) => {
        await p.getByRole('button', { name: 'Add endpoint' }).click()
        await p.getByRole('button', { name: 'Only some' }).click()
        await p.getByLabel('Only some accounts').check()
      },
      see: 'all if none is ticked',
    },
  ],
  [
    'webhooks-added',
    '/webhooks',
    observed(),
    {
      act: async (p) => {
        await p.getByRole('button', { name: 'Add endpoint' }).click()
        const dialog = p.getByRole('dialog')
        await dialog.getByLabel('URL', { exact: true }).fill('https://hooks.example.test/events')
        await dialog.getByRole('button', { name: 'Add endpoint' }).click()
        await p.getByText('I stored it').waitFor()
      },
      see: 'only time that the signing secret is shown',
    },
  ],
  ['endpoint', '/webhooks/endpoints/' + endpoint, observed(), { see: ['CRM', 'Connection refused', '41.2%', 'x7q2'] }],
  ['endpoint-many', '/webhooks/endpoints/' + endpoint, many, { see: '10,000 deliveries' }],
  [
    'endpoint-test',
    '/webhooks/endpoints/' + endpoint,
    observed(),
    { act: (p) => p.getByRole('button', { name: 'Send test' }).click(), see: 'The test got no response' },
  ],
  [
    'endpoint-inspect',
    '/webhooks/endpoints/' + endpoint,
    observed(),
    {
      act: async (p) => {
        await p.getByRole('row').nth(2).click()
        await p.getByRole('dialog').waitFor()
      },
      see: ['Repeat this delivery by hand', 'X-Webhook-Id'],
    },
  ],
  [
    'endpoint-replay',
    '/webhooks/endpoints/' + endpoint,
    observed(),
    { act: (p) => p.getByRole('button', { name: 'Replay…' }).click(), see: 'This sends 1,204 events' },
  ],
  [
    'endpoint-edit',
    '/webhooks/endpoints/' + endpoint,
    observed(),
    { act: (p) => p.getByRole('button', { name: 'Edit' }).click(), see: 'The same with the API' },
  ],
  [
    'endpoint-delete',
    '/webhooks/endpoints/' + endpoint,
    observed(),
    {
      act: async (p) => {
        await p.getByRole('button', { name: 'More', exact: true }).first().click()
        await p.getByRole('menuitem', { name: 'Delete' }).click()
      },
      see: 'Waiting deliveries are dropped',
    },
  ],
  [
    'endpoint-missing',
    '/webhooks/endpoints/' + endpoint,
    over(observed(), { '/v1/webhook-endpoints/*': () => problem(404, 'endpoint-not-found', 'x') }),
    { see: 'Endpoint not found' },
  ],
  [
    'endpoint-failed',
    '/webhooks/endpoints/' + endpoint,
    over(observed(), { '/v1/webhook-endpoints/*': fail }),
    { see: 'We could not load the endpoint' },
  ],
  ['endpoint-slow', '/webhooks/endpoints/' + endpoint, over(observed(), { '/v1/webhook-endpoints/*': slow })],
  ['endpoint-support', '/webhooks/endpoints/' + endpoint, support, { see: 'Your role cannot' }],
  ['hooks', '/webhooks?tab=accounts', observed(), { see: ['hooks.example.test', '3 accounts without'] }],
  ['hooks-none', '/webhooks?tab=accounts', none, { see: 'No webhooks of accounts' }],
  ['hooks-one', '/webhooks?tab=accounts', one, { see: '1 webhook' }],
  ['hooks-many', '/webhooks?tab=accounts', many, { see: '10,000 webhooks' }],
  ['hooks-nomatch', '/webhooks?state=paused', none, { see: 'No webhook is paused' }],
  [
    'hooks-failed',
    '/webhooks?tab=accounts',
    over(observed(), { '/v1/webhooks': fail }),
    { see: 'We could not load the webhooks' },
  ],
  ['hooks-refused', '/webhooks?tab=accounts', over(support, { '/v1/webhooks': refuse })],
  ['hooks-slow', '/webhooks?tab=accounts', over(observed(), { '/v1/webhooks': slow })],
  ['hooks-urls', '/webhooks?tab=accounts&by=url', observed(), { see: ['4 URLs', 'Move to one endpoint', '300'] }],
  [
    'hooks-move',
    '/webhooks?tab=accounts&by=url',
    observed(),
    {
      act: async (p) => {
        await p.getByRole('button', { name: /^Move/ }).first().click()
        await p.getByRole('dialog').getByRole('button', { name: 'Move' }).click()
        await p.getByText('I stored it').waitFor()
      },
      see: 'It took over 50 webhooks',
    },
  ],
  [
    'hooks-add',
    '/webhooks?tab=accounts',
    observed(),
    {
      act: async (p) => {
        await p.getByRole('button', { name: 'Add webhook' }).click()
        await p.getByRole('button', { name: 'Only some' }).click()
      },
    },
  ],
  ['webhook', '/webhooks/' + first, observed(), { see: 'receiver.test' }],
  [
    'webhook-none',
    '/webhooks/' + first,
    over(observed(), { [deliveries]: () => ({ deliveries: [], nextCursor: null }) }),
    { see: 'No deliveries yet' },
  ],
  ['webhook-many', '/webhooks/' + first, many, { see: '10,000 deliveries' }],
  [
    'webhook-test',
    '/webhooks/' + first,
    observed(),
    { act: (p) => p.getByRole('button', { name: 'Send test' }).click(), see: 'The test was refused' },
  ],
  [
    'webhook-inspect',
    '/webhooks/' + first,
    observed(),
    {
      act: async (p) => {
        await p.getByRole('row').nth(2).click()
        await p.getByRole('dialog').waitFor()
      },
    },
  ],
  [
    'webhook-replay',
    '/webhooks/' + first,
    observed(),
    {
      act: async (p) => {
        await p.getByRole('button', { name: 'Replay…' }).click()
        await p.getByRole('dialog').waitFor()
      },
      see: 'up to 41 events',
    },
  ],
  ['webhook-missing', '/webhooks/' + account(3).id, observed(), { see: 'No webhook yet' }],
  [
    'webhook-failed',
    '/webhooks/' + first,
    over(observed(), { [deliveries]: fail }),
    { see: 'We could not load the deliveries' },
  ],
  ['webhook-slow', '/webhooks/' + first, over(observed(), { [deliveries]: slow })],
  ['webhook-support', '/webhooks/' + first, support, { see: 'Your role cannot' }],
  ['delivery', '/webhooks/deliveries/' + id('whd_', 2), observed(), { see: 'Delivery of tips' }],
  [
    'delivery-missing',
    '/webhooks/deliveries/' + id('whd_', 2),
    over(observed(), { '/v1/deliveries/*': () => problem(404, 'delivery-not-found', 'x') }),
    { see: 'Delivery not found' },
  ],
  [
    'delivery-endpoint',
    '/webhooks/deliveries/' + id('whd_', 2),
    over(observed(), {
      '/v1/deliveries/*': async (...args) => ({
        delivery: { ...observed()['/v1/deliveries/*'](...args).delivery, endpointId: endpoint },
      }),
    }),
    { see: 'Repeat this delivery by hand' },
  ],
  [
    'signature',
    `/webhooks/signature?event=${id('evt_', 1)}`,
    observed(),
    {
      act: async (p) => {
        await p.getByLabel('Headers').fill('X-Webhook-Signature: sha256=ab\nwebhook-id: evt_1')
        await p.getByLabel('Body', { exact: true }).fill('{}')
        await p.getByRole('button', { name: 'Check', exact: true }).click()
      },
      see: 'The body was changed',
    },
  ],
  ['signature-none', '/webhooks/signature', observed(), { see: 'Nothing checked yet' }],
  ['logs-ghost', '/logs', observed({ ghost: true }), { see: 'Studio West #3' }],
  ['logs', '/logs', observed(), { see: 'messages.send' }],
  [
    'logs-filtered',
    '/logs?reason=account_write_rpm&slow=120&counted=1&since=2026-11-16T18:00:00.000Z&until=2026-11-16T19:00:00.000Z',
    observed(),
    { see: ['Refused by Account writes per minute', 'At least 120 ms', 'Counts as usage', 'to (UTC)'] },
  ],
  [
    'logs-views',
    '/logs?q=messages',
    observed(),
    {
      async act(page) {
        await page.getByRole('button', { name: 'Views' }).click()
        await page.getByRole('menuitem', { name: 'Save this view' }).click()
        await page.getByLabel('Name').fill('Messages only')
        await page.getByRole('button', { name: 'Save', exact: true }).click()
        await page.getByRole('button', { name: 'Messages only' }).click()
        await page.getByRole('menuitem', { name: 'Remove' }).waitFor()
      },
      see: ['Saved in this browser', 'Messages only'],
    },
  ],
  ['logs-none', '/logs', none, { see: ['No calls yet', 'curl'] }],
  ['logs-one', '/logs', one, { see: '1 call' }],
  ['logs-many', '/logs', many, { see: '10,000 calls' }],
  ['logs-nomatch', '/logs?status=5xx', none, { see: 'No call matches' }],
  ['logs-failed', '/logs', over(observed(), { '/v1/logs': fail }), { see: 'We could not load the logs' }],
  ['logs-refused', '/logs', over(support, { '/v1/logs': refuse })],
  ['logs-slow', '/logs', over(observed(), { '/v1/logs': slow })],
  [
    'log',
    '/logs/' + id('req_', 4),
    observed(),
    {
      see: [
        'quota-exceeded',
        'Rate limit reached',
        'Account writes per minute',
        '31 of 30',
        'Limit reset',
        'growth',
        'What this service sent because of the request',
        'account.paused',
      ],
    },
  ],
  [
    'log-fields',
    '/logs/' + id('req_', 4),
    over(observed(), {
      '/v1/logs/*': () => ({
        log: {
          requestId: id('req_', 4),
          at: new Date().toISOString(),
          http: 'POST',
          method: 'mintKey',
          status: 422,
          code: 'validation-failed',
          reason: null,
          extensions: {},
          resetAt: null,
          events: [],
          errors: [
            { pointer: '/scopes/0', code: 'enum' },
            { pointer: '/expiresAt', code: 'format' },
          ],
          retryable: false,
          accountId: null,
          keyId: id('key_', 1),
          source: 'api',
          durationMs: 4,
          upstreamMs: null,
          upstreamCode: null,
          bytesIn: 51,
          bytesOut: 412,
          replayed: false,
          dryRun: false,
        },
      }),
    }),
    { see: ['Invalid fields', '/scopes/0: enum', '/expiresAt: format'] },
  ],
  [
    'log-missing',
    '/logs/' + id('req_', 4),
    over(observed(), { '/v1/logs/*': () => problem(404, 'log-not-found', 'x') }),
    { see: 'Request not found' },
  ],
  [
    'log-failed',
    '/logs/' + id('req_', 4),
    over(observed(), { '/v1/logs/*': fail }),
    { see: 'We could not load the request' },
  ],
  ['errors', '/errors', observed(), { see: ['quota-exceeded', '214'] }],
  ['errors-none', '/errors', none, { see: 'No errors in this period' }],
  ['errors-many', '/errors', many],
  ['errors-failed', '/errors', over(observed(), { '/v1/errors': fail }), { see: 'We could not load the errors' }],
  ['errors-refused', '/errors', over(support, { '/v1/errors': refuse })],
  ['errors-slow', '/errors', over(observed(), { '/v1/errors': slow })],
  [
    'errors-doc',
    '/errors',
    observed(),
    {
      act: (p) => p.getByRole('button', { name: /^What it means: quota/ }).click(),
      see: 'A limit of this service was reached',
    },
  ],
]
