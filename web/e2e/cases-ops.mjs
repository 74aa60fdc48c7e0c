// The operator console, in all its states.
import { fail, slow } from './lib.mjs'
import { answers, deletingOrg, firstOrg, suspendedOrg } from './ops-fake.mjs'

const pages = {
  home: '/',
  fleet: '/fleet',
  orgs: '/orgs',
  org: '/orgs/' + firstOrg,
  accounts: '/accounts',
  leases: '/leases',
  egress: '/egress',
  webhooks: '/webhooks',
  jobs: '/jobs',
  keys: '/keys',
  control: '/control',
  audit: '/audit',
  operators: '/operators',
}
// Every call fails except the one for the signed-in operator.
const down = (f) => ({ '/admin/v1/me': answers()['/admin/v1/me'], '/admin/v1/*': f })
const none = {
  home: 'Nothing is wrong',
  fleet: 'No nodes are alive',
  orgs: 'No organisations yet',
  accounts: 'No accounts yet',
  leases: 'No leases yet',
  egress: 'No regions configured',
  webhooks: 'All webhooks are up to date',
  jobs: 'No jobs yet',
  keys: 'No keys yet',
  control: 'Signups',
  audit: 'No changes yet',
  operators: 'No browsers are signed in',
}
const said = {
  home: 'Requests fail',
  fleet: 'node-1',
  orgs: 'Northlight Agency',
  org: 'Northlight Agency',
  accounts: 'Northlight Agency',
  leases: 'listen',
  egress: 'Ana',
  webhooks: 'customer.example',
  jobs: 'connect_step',
  keys: 'aws:arn',
  control: 'Signups',
  audit: 'key.mint',
  operators: 'operator1@example.test',
}
const dialog = (name) => async (page) => {
  await page.getByRole('button', name).first().click()
  await page.getByRole('dialog').waitFor()
}
const many = answers({ rows: 10_000, whole: true })
const zzz = { orgs: '?q=zzz', accounts: '?q=zzz', jobs: '?kind=zzz', audit: '?action=zzz', webhooks: '?state=zzz' }

export const cases = [
  ...Object.entries(pages).map(([name, path]) => [name, path, answers(), { see: said[name] }]),
  ...Object.entries(none).map(([name, see]) => [name + '-none', pages[name], answers({ rows: 0 }), { see }]),
  ...Object.entries(pages).map(([name, path]) => [name + '-failed', path, down(fail)]),
  ...['orgs', 'org', 'jobs'].map((name) => [name + '-slow', pages[name], down(slow)]),
  ...Object.entries(zzz).map(([name, query]) => [name + '-nomatch', pages[name] + query, answers()]),
  ...Object.keys(zzz).map((name) => [name + '-many', pages[name], many, { see: '10,000' }]),
  ['home-engines', '/', answers({ trouble: 'engines' }), { see: 'NATS is not responding' }],
  ['home-regions', '/', answers({ trouble: 'regions' }), { see: 'A region is down' }],
  ['control-off', '/control', answers({ off: true }), { see: 'The platform has changed its sign-in' }],
  ['keys-off', '/keys', answers({ off: true })],
  ['egress-off', '/egress', answers({ off: true })],
  ['org-suspended', '/orgs/' + suspendedOrg, answers(), { see: 'unpaid' }],
  ['org-deleting', '/orgs/' + deletingOrg, answers(), { see: ['Being deleted', 'Restore'] }],
  ['org-delete', '/orgs/' + firstOrg, answers(), { act: dialog({ name: 'Delete', exact: true }) }],
  ['org-missing', '/orgs/org_00000000000000000000000000', answers(), { see: 'We could not find this organisation' }],
  ['notfound', '/nothing/here', answers()],
  ['control-dialog', '/control', answers(), { act: dialog({ name: 'Switch off Connects' }) }],
  ['egress-dialog', '/egress', answers(), { act: dialog({ name: 'Drain' }) }],
  ['org-access', '/orgs/' + firstOrg, answers(), { act: dialog({ name: 'Request access' }) }],
  ['org-granted', '/orgs/' + firstOrg, answers({ granted: true }), { see: ['Granted', 'Open dashboard'] }],
  ['org-viewer', '/orgs/' + firstOrg, answers({ role: 'viewer' }), { see: 'Northlight Agency' }],
  ['org-edit', '/orgs/' + firstOrg, answers(), { act: dialog({ name: 'Change', exact: true }) }],
  ['org-limit', '/orgs/' + firstOrg, answers(), { act: dialog({ name: 'Change callsPerMinute' }) }],
  ['webhooks-bulk', '/webhooks', answers(), { act: dialog({ name: 'Retry all…' }) }],
  [
    'audit-entry',
    '/audit',
    answers(),
    {
      act: async (p) => {
        await p.getByRole('row').nth(2).click()
        await p.getByRole('dialog').waitFor()
      },
    },
  ],
]
