// Explorer, keys, usage, audit, sandbox and settings, in all their states.
import { account, answers, job } from './fake-manage.mjs'
import { fail, over, problem, refuse, slow } from './lib.mjs'

const live = { environment: 'live', name: 'Northlight Live' }
const a = account(0).id
const send = `/v1/accounts/${a}/messages/send`
const click = (name) => async (page) => page.getByRole('button', { name }).first().click()
const run = (what) => async (page) => {
  await page.getByRole('combobox', { name: 'Account' }).waitFor()
  await page.keyboard.press('r')
  await page.getByText(what).first().waitFor()
}
const makeKey = async (page) => {
  await click('New key')(page)
  await page.getByLabel('Label', { exact: true }).fill('new worker')
  await click('Create key')(page)
}
const keyAction = (name) => async (page) => {
  await page
    .getByRole('button', { name: /^Actions on/ })
    .first()
    .click()
  await page.getByRole('menuitem', { name }).click()
}
const items = (text) => ({ name: 'items.ndjson', mimeType: 'application/x-ndjson', buffer: Buffer.from(text) })
const newBulk = (text) => async (page) => {
  await click('New bulk job')(page)
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Method').fill('messages.send')
  await dialog.getByLabel('Items').setInputFiles(items(text))
}
const quota = () =>
  problem(
    429,
    'quota-exceeded',
    'The limit account_write_rpm is reached. Wait 21 s and repeat the call; it was not counted.',
    { reason: 'account_write_rpm', limit: 20, current: 20, retryAfterSec: 21, retryable: true },
  )
const many = answers({ rows: 10_000, accounts: 412, whole: true })

export const cases = [
  ['explorer', '/explorer', answers(), { see: 'messages.send' }],
  ['explorer-post', '/explorer/posts.create?account=' + a, answers(), { see: 'posts.create' }],
  ['explorer-none', '/explorer/me.get', answers({ rows: 0 }), { see: 'me.get' }],
  [
    'explorer-answer',
    '/explorer/messages.send?account=' + a,
    over(answers(), {
      [send]: () => ({
        result: {
          id: '9912034',
          chatId: '88123',
          text: 'Thanks for subscribing!',
          createdAt: '2026-11-14T22:04:51Z',
          media: [],
        },
      }),
    }),
    { act: run('"result"'), see: '9912034' },
  ],
  [
    'explorer-problem',
    '/explorer/messages.send?account=' + a,
    over(answers(), { [send]: quota }),
    { act: run(/do not retry|can be retried/), see: 'account_write_rpm' },
  ],
  ['explorer-json', '/explorer/messages.send', answers(), { act: click('JSON') }],
  ['explorer-position', '/explorer/messages.send', answers(), { act: click('By position') }],
  [
    'explorer-invalid',
    '/explorer/messages.send',
    answers(),
    {
      act: async (page) => {
        await page.getByRole('button', { name: 'Clear' }).first().click()
        await page.getByRole('button', { name: /^Run/ }).click()
      },
    },
  ],
  [
    'explorer-live',
    '/explorer/messages.send?account=' + a,
    answers({ org: live }),
    {
      act: async (page) => {
        await page.getByLabel('chatId').fill('1')
        await page.getByRole('button', { name: /^Run/ }).click()
        await page.getByRole('dialog').waitFor()
      },
    },
  ],
  [
    'explorer-methods',
    '/explorer',
    answers(),
    {
      act: async (page) => {
        await page.getByRole('searchbox', { name: 'Search methods' }).fill('chats list')
        await page.getByRole('navigation', { name: 'Methods' }).getByRole('link', { name: /^list/ }).first().waitFor()
      },
    },
  ],
  [
    'explorer-pick',
    '/explorer',
    answers(),
    {
      act: async (page) => {
        await page.getByRole('combobox', { name: 'Account' }).click()
        await page.getByRole('option').first().waitFor()
      },
    },
  ],
  [
    'explorer-ghost',
    '/explorer?platform=ghost',
    answers({ ghost: true }),
    { see: ['members.list', 'creator4.example.com'] },
  ],
  [
    'explorer-switch',
    '/explorer?account=' + a,
    answers({ ghost: true }),
    {
      act: async (page) => {
        await page.getByRole('link', { name: /^send/ }).first().waitFor()
        await page.getByLabel('Platform').selectOption('ghost')
      },
      see: 'members.list',
    },
  ],
  ['explorer-nomethod', '/explorer/nothing.here', answers(), { see: 'nothing.here' }],
  [
    'explorer-failed',
    '/explorer',
    over(answers(), { '/v1/sdk/methods': fail }),
    { see: 'We could not load the catalogue' },
  ],
  ['explorer-refused', '/explorer', over(answers(), { '/v1/sdk/methods': refuse })],
  [
    'explorer-noplatform',
    '/explorer',
    over(answers({ org: live, rows: 0 }), {
      '/v1/sdk/methods': () =>
        problem(503, 'service-unavailable', 'No platform is configured for this environment.', { retryable: true }),
    }),
    { see: 'No platform is configured' },
  ],
  ['explorer-slow', '/explorer', over(answers(), { '/v1/sdk/methods': slow })],
  ['explorer-support', '/explorer', answers({ role: 'support' }), { see: 'Your role cannot' }],
  ['keys', '/keys', answers(), { see: ['inbox worker', 'ci'] }],
  ['keys-many', '/keys?state=all', many, { see: '10,000' }],
  ['keys-one', '/keys', answers({ rows: 1 }), { see: 'inbox worker' }],
  ['keys-none', '/keys', answers({ rows: 0 }), { see: 'No keys yet' }],
  ['keys-nomatch', '/keys?q=zzzz', answers(), { see: 'No key matches' }],
  ['keys-failed', '/keys', over(answers(), { '/v1/me/keys': fail }), { see: 'We could not load the keys' }],
  ['keys-refused', '/keys', over(answers({ role: 'support' }), { '/v1/me/keys': refuse })],
  ['keys-slow', '/keys', over(answers(), { '/v1/me/keys': slow })],
  ['keys-support', '/keys', answers({ role: 'support' }), { see: 'inbox worker' }],
  [
    'keys-new',
    '/keys',
    answers(),
    {
      act: async (page) => {
        await click('New key')(page)
        await page.getByLabel('Only some methods').check()
        await page.getByLabel('Only some accounts').check()
        await page.getByLabel('Only from some networks').check()
      },
      see: 'in CIDR notation',
    },
  ],
  ['keys-soon', '/keys?state=soon', answers(), { see: ['Expiring soon', 'expires in 3 days'] }],
  [
    'keys-edit',
    '/keys',
    answers(),
    {
      act: async (page) => {
        await page.getByRole('button', { name: /^Edit earnings/ }).click()
        await page.getByRole('dialog').waitFor()
      },
      see: ['Never, as now', 'Scopes can only be taken away', 'in CIDR notation'],
    },
  ],
  [
    'keys-edited',
    '/keys',
    answers(),
    {
      act: async (page) => {
        await page.getByRole('button', { name: 'Edit inbox worker' }).first().click()
        const dialog = page.getByRole('dialog')
        await dialog.getByLabel('Label', { exact: true }).fill('nightly')
        await dialog.getByLabel('Manage the organisation').uncheck()
        await dialog.getByRole('button', { name: 'Save' }).click()
      },
      see: 'Key changed',
    },
  ],
  [
    'keys-rotate',
    '/keys',
    answers(),
    { act: keyAction('Rotate'), see: ['The old key still works for', 'replace it in your programs'] },
  ],
  [
    'keys-rotated',
    '/keys',
    answers(),
    {
      act: async (page) => {
        await keyAction('Rotate')(page)
        await page.getByRole('dialog').getByRole('button', { name: 'Rotate' }).click()
      },
      see: ['The old key works until', 'sd_sandbox_JQc0'],
    },
  ],
  [
    'keys-made',
    '/keys',
    over(answers(), { '/v1/logs': () => ({ logs: [], nextCursor: null }) }),
    { act: makeKey, see: ['Waiting for its first call', 'sd_sandbox_JQc0'] },
  ],
  ['keys-used', '/keys', answers(), { act: makeKey, see: 'It works' }],
  ['keys-revoke', '/keys', answers(), { act: keyAction('Revoke'), see: 'in the last 24 hours' }],
  ['keys-sheet', '/keys?key=key_01k9zk16062m4d8v9qx7q00003', answers(), { see: 'Last 24 hours' }],
  ['jobs', '/jobs', answers(), { see: ['Export: fans.list', 'Waiting for a limit', 'about 1 h 30 min left', '38%'] }],
  ['jobs-none', '/jobs', answers({ rows: 0 }), { see: 'No jobs yet' }],
  ['jobs-one', '/jobs', answers({ rows: 1 }), { see: '1 job' }],
  ['jobs-many', '/jobs', many, { see: '10,000 jobs' }],
  ['jobs-nomatch', '/jobs?kind=export', answers({ rows: 0 }), { see: 'No jobs of this kind' }],
  ['jobs-failed', '/jobs', over(answers(), { '/v1/jobs': fail }), { see: 'We could not load the jobs' }],
  ['jobs-refused', '/jobs', over(answers({ role: 'support' }), { '/v1/jobs': refuse })],
  ['jobs-slow', '/jobs', over(answers(), { '/v1/jobs': slow })],
  [
    'jobs-export',
    '/jobs',
    answers({ ghost: true }),
    {
      act: async (page) => {
        await click('New export')(page)
        const dialog = page.getByRole('dialog')
        await dialog.getByLabel('Method').fill('fans.list')
        await dialog.getByLabel('Arguments').fill('[')
        await dialog.getByRole('button', { name: 'Only some' }).click()
      },
      see: ['This is not a JSON object', 'Chosen accounts', 'Platform'],
    },
  ],
  [
    'jobs-exported',
    '/jobs',
    answers(),
    {
      act: async (page) => {
        await click('New export')(page)
        await page.getByRole('dialog').getByLabel('Method').fill('fans.list')
        await click('Start export')(page)
      },
      see: 'Export started',
    },
  ],
  [
    'jobs-bulk',
    '/jobs',
    answers(),
    { act: newBulk('{"accountId":"acct_1"}\n{"accountId":"acct_2"}\n'), see: ['2 items', 'Start 2 calls'] },
  ],
  ['jobs-fault', '/jobs', answers(), { act: newBulk('{"accountId":"acct_1"}\n{"args":'), see: 'Line 2 is not JSON' }],
  [
    'jobs-invalid',
    '/jobs',
    over(answers(), {
      '/v1/jobs/*': () =>
        problem(422, 'validation-failed', 'Two items are invalid.', {
          errors: [{ pointer: '/items/0/args/text', code: 'required', detail: 'is required' }],
        }),
    }),
    {
      act: async (page) => {
        await newBulk('{"accountId":"acct_1"}')(page)
        await click('Start 1 call')(page)
      },
      see: ['Two items are invalid', '/items/0/args/text'],
    },
  ],
  ['job', '/jobs/' + job(0).id, answers(), { see: ['Running', '15 of 40 accounts', 'Cancel', 'Download so far'] }],
  ['job-limit', '/jobs/' + job(1).id, answers(), { see: 'The job waits for a limit per minute' }],
  ['job-errors', '/jobs/' + job(3).id, answers(), { see: ['214 failed', 'available until', 'Download'] }],
  [
    'job-stopped',
    '/jobs/' + job(4).id,
    answers(),
    { see: ['The key that started the job was revoked', 'key-revoked'] },
  ],
  [
    'job-missing',
    '/jobs/' + job(0).id,
    over(answers(), { '/v1/jobs/*': () => problem(404, 'job-not-found', 'x') }),
    { see: 'Job not found' },
  ],
  ['job-failed', '/jobs/' + job(0).id, over(answers(), { '/v1/jobs/*': fail }), { see: 'We could not load the job' }],
  ['job-slow', '/jobs/' + job(0).id, over(answers(), { '/v1/jobs/*': slow })],
  ['job-support', '/jobs/' + job(0).id, answers({ role: 'support' }), { see: 'Your role cannot' }],
  ['usage', '/usage', answers(), { see: '812 / 1,200' }],
  ['usage-account', '/usage?account=' + a, answers(), { see: '38 / 60' }],
  [
    'usage-none',
    '/usage',
    answers({ rows: 0 }),
    { see: ['No calls in the last 30 days', 'No accounts yet', 'No calls were refused'] },
  ],
  ['usage-one', '/usage', answers({ rows: 1, accounts: 1 }), { see: 'Maya · main' }],
  ['usage-many', '/usage', answers({ rows: 12, accounts: 10_000, whole: true }), { see: '10,000' }],
  [
    'usage-failed',
    '/usage',
    over(answers(), { '/v1/me/usage': fail, '/v1/usage/series': fail, '/v1/errors': fail, '/v1/accounts': fail }),
    {
      see: [
        'We could not load the limits',
        'We could not load the busiest accounts',
        'We could not load refused calls',
      ],
    },
  ],
  [
    'usage-refused',
    '/usage',
    over(answers({ role: 'support' }), { '/v1/me/usage': refuse, '/v1/usage/series': refuse }),
    { see: 'Your role cannot see the limits' },
  ],
  ['usage-slow', '/usage', over(answers(), { '/v1/me/usage': slow, '/v1/usage/series': slow })],
  ['audit', '/audit', answers({ rows: 40 }), { see: 'Ticket #1423' }],
  ['audit-many', '/audit', many, { see: '10,000 entries' }],
  ['audit-one', '/audit', answers({ rows: 1 }), { see: 'jo.stone@northlight.test' }],
  ['audit-none', '/audit', answers({ rows: 0 }), { see: 'No changes yet' }],
  ['audit-nomatch', '/audit?action=member.role', answers(), { see: 'No entry matches' }],
  [
    'audit-entry',
    '/audit?entry=aud_01k9zk16062m4d8v9qx7q00005',
    answers(),
    { act: (page) => page.getByRole('dialog').waitFor() },
  ],
  ['audit-failed', '/audit', over(answers(), { '/v1/me/audit': fail }), { see: 'We could not load the audit log' }],
  ['audit-refused', '/audit', over(answers(), { '/v1/me/audit': refuse })],
  ['audit-slow', '/audit', over(answers(), { '/v1/me/audit': slow })],
  ['sandbox', '/sandbox', answers(), { see: ['ok@sandbox.test', 'sms@sandbox.test'] }],
  ['sandbox-none', '/sandbox', answers({ rows: 0 }), { see: 'Connect a sandbox account first' }],
  ['sandbox-one', '/sandbox', answers({ rows: 1, accounts: 1 }), { see: 'Reconnect required' }],
  ['sandbox-live', '/sandbox', answers({ org: live }), { see: 'Northlight Live is live' }],
  ['sandbox-support', '/sandbox', answers({ role: 'support' }), { see: 'Your role cannot' }],
  [
    'sandbox-failed',
    '/sandbox',
    over(answers(), { '/v1/accounts': fail, '/v1/sandbox/personas': fail }),
    { see: ['We could not load the accounts', 'We could not load the personas'] },
  ],
  ['sandbox-slow', '/sandbox', over(answers(), { '/v1/accounts': slow, '/v1/sandbox/personas': slow })],
  ['settings', '/settings', answers(), { see: 'Northlight Agency' }],
  ['settings-delete', '/settings', answers(), { act: click('Delete organisation'), see: 'to confirm' }],
  [
    'settings-deleting',
    '/settings',
    answers({ org: { suspended: true, purgeAt: new Date(Date.now() + 6e8).toISOString() } }),
    { see: ['This organisation is being deleted', 'until then an owner can restore it'] },
  ],
  [
    'settings-destroying',
    '/settings',
    answers({ org: { suspended: true, purgeAt: new Date(Date.now() - 1000).toISOString() } }),
    { see: 'it can no longer be restored' },
  ],
  ['settings-support', '/settings', answers({ role: 'support' }), { see: 'Your role cannot' }],
  ['settings-failed', '/settings', over(answers(), { '/v1/me': fail }), { see: 'We could not load the organisation' }],
  ['settings-refused', '/settings', over(answers(), { '/v1/me': refuse })],
  ['settings-slow', '/settings', over(answers(), { '/v1/me': slow })],
  ['team', '/settings/team', answers(), { see: ['Jo Stone', 'ada@example.com'] }],
  ['team-one', '/settings/team', answers({ rows: 1 }), { see: ['Jo Stone', 'No open invitations'] }],
  ['team-many', '/settings/team', many, { see: '10,000' }],
  ['team-developer', '/settings/team', answers({ role: 'developer' }), { see: 'Your role cannot' }],
  ['team-invite', '/settings/team', answers(), { act: click('Invite'), see: 'Create link' }],
  [
    'team-invited',
    '/settings/team',
    answers(),
    {
      act: async (page) => {
        await click('Invite')(page)
        await page.getByLabel('Email').fill('new@example.com')
        await click('Create link')(page)
      },
      see: 'Copy link',
    },
  ],
  [
    'team-failed',
    '/settings/team',
    over(answers(), { '/v1/org/members': fail }),
    { see: 'We could not load the team' },
  ],
  ['team-refused', '/settings/team', over(answers(), { '/v1/org/members': refuse })],
  ['team-slow', '/settings/team', over(answers(), { '/v1/org/members': slow })],
  ['page', '/settings/page', answers(), { see: 'Connect your account' }],
  [
    'page-code',
    '/settings/page',
    answers(),
    {
      act: async (page) => {
        await page.getByRole('group', { name: 'Preview scheme' }).getByRole('button', { name: 'Dark' }).click()
        await click('Code')(page)
      },
    },
  ],
  [
    'page-failed',
    '/settings/page',
    over(answers(), { '/v1/connect/page': fail }),
    { see: 'We could not load the connect page' },
  ],
  ['page-refused', '/settings/page', over(answers(), { '/v1/connect/page': refuse })],
  ['page-slow', '/settings/page', over(answers(), { '/v1/connect/page': slow })],
  ['origins', '/settings/origins', answers(), { see: 'https://app.northlight.test' }],
  ['origins-none', '/settings/origins', answers({ rows: 0 }), { see: 'No allowed origins' }],
  ['origins-failed', '/settings/origins', over(answers(), { '/v1/connect/page': fail })],
  ['sessions', '/settings/sessions', answers(), { see: 'Chrome' }],
  ['sessions-none', '/settings/sessions', answers({ rows: 0 }), { see: 'No browsers are signed in' }],
  ['sessions-many', '/settings/sessions', many],
  [
    'sessions-failed',
    '/settings/sessions',
    over(answers(), { '/v1/me/sessions': fail }),
    { see: 'We could not load the sessions' },
  ],
  ['sessions-refused', '/settings/sessions', over(answers(), { '/v1/me/sessions': refuse })],
  ['sessions-slow', '/settings/sessions', over(answers(), { '/v1/me/sessions': slow })],
  ['notices', '/settings/notices', answers(), { see: ['hooks.slack.com', 'Failing webhooks'] }],
  ['notices-none', '/settings/notices', answers({ rows: 0 }), { see: ['no mail server', 'No recipients'] }],
  [
    'notices-failed',
    '/settings/notices',
    over(answers(), { '/v1/org/notices': fail }),
    { see: 'We could not load the notices' },
  ],
  ['notices-slow', '/settings/notices', over(answers(), { '/v1/org/notices': slow })],
  ['support', '/settings/support', answers(), { see: ['Support access', 'Ticket 1423'] }],
  ['support-none', '/settings/support', answers({ rows: 0 }), { see: 'No requests' }],
  [
    'support-grant',
    '/settings/support',
    answers(),
    { act: click('Grant access to operator0@stagedoor.test'), see: '7 days' },
  ],
  ['support-admin', '/settings/support', answers({ role: 'admin' }), { see: 'Ticket 1423' }],
  [
    'support-failed',
    '/settings/support',
    over(answers(), { '/v1/org/support-access': fail }),
    { see: 'We could not load the requests' },
  ],
  ['support-slow', '/settings/support', over(answers(), { '/v1/org/support-access': slow })],
]
