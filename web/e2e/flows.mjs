// Connect, events, webhooks, signature, logs and errors against a running system, as a person would use them.
// Needs the development sign-in (make up) and a sandbox org. Pictures: .dev/shots/flows/*.png
import http from 'node:http'
import { axe, base, launch, open, settled, shotDir, signIn } from './lib.mjs'

const dir = shotDir('flows')
const browser = await launch()
const { page, wrong } = await open(browser)
page.setDefaultTimeout(120_000)
const shot = (name) => page.screenshot({ path: `${dir}${name}.png` })
const go = async (path) => {
  await page.goto(base() + '/app' + path)
  await settled(page)
}
const step = async (name, f) => {
  const began = Date.now()
  await f()
  console.log(`${name}: ${Date.now() - began} ms`)
}
// A webhook receiver: refuses once, then accepts; keeps what it received.
const got = []
let refuse = 1
const receiver = http.createServer((req, res) => {
  const chunks = []
  req.on('data', (c) => chunks.push(c))
  req.on('end', () => {
    got.push({ headers: req.headers, body: Buffer.concat(chunks).toString() })
    if (refuse-- > 0) return res.writeHead(503).end('not yet')
    res.writeHead(200).end('ok')
  })
})
await new Promise((r) => receiver.listen(0, '127.0.0.1', r))
const hookURL = `http://127.0.0.1:${receiver.address().port}/hooks`
const run = Math.floor(Math.random() * 1e6)
const dialog = page.getByRole('dialog')
const wizard = async (way) => {
  await go('/connect')
  await page.getByRole('button', { name: 'Connect account' }).first().click()
  await dialog.getByRole('button', { name: way }).click()
}
try {
  await step('sign in', async () => {
    await signIn(page)
    // The session may be in the live org, where there is no account to connect.
    await page.getByRole('group', { name: 'Environment' }).getByRole('button', { name: 'Sandbox' }).click()
    await page.getByText('No real creators are contacted').waitFor()
  })
  await step('connect by password and a texted code', async () => {
    await wizard(/Email & password/)
    await dialog.getByLabel('Email').fill(`sms+${run}@sandbox.test`)
    await dialog.getByLabel('Password').fill('good')
    await dialog.getByLabel('Label').fill('Flows ' + run)
    await dialog.getByRole('button', { name: 'Sign in', exact: true }).click()
    await dialog.getByRole('heading', { name: 'Check your phone' }).waitFor()
    await dialog.getByLabel('Security code').fill('00 00 00')
    await dialog.getByRole('button', { name: 'Continue' }).click()
    await dialog.getByText('That code did not match').waitFor()
    await shot('1-wrong-code')
    await dialog.getByLabel('Security code').fill('123-456')
    await dialog.getByRole('button', { name: 'Continue' }).click()
    await dialog.getByRole('heading', { name: 'Connected' }).waitFor()
    await shot('2-connected')
    await dialog.getByRole('link', { name: 'Open the account' }).click()
    await page.waitForURL(/accounts\/acct_/)
    if (await dialog.count()) throw new Error('the dialog still covers the page')
  })
  const account = /acct_\w+/.exec(page.url())[0]
  await step('connect by phone', async () => {
    await wizard(/Mobile QR/)
    await dialog.getByRole('button', { name: 'Show the QR code' }).click()
    await dialog.getByAltText(/QR code/).waitFor()
    await shot('3-qr')
    await dialog.getByRole('button', { name: 'Scan', exact: true }).click()
    await dialog.getByRole('heading', { name: 'Code scanned' }).waitFor()
    await dialog.getByRole('button', { name: 'Approve', exact: true }).click()
    await dialog.getByRole('heading', { name: 'Connected' }).waitFor()
    await page.keyboard.press('Escape')
  })
  await step('a refused sign-in', async () => {
    await wizard(/Email & password/)
    await dialog.getByRole('button', { name: 'locked@' }).click()
    await dialog.getByRole('button', { name: 'Sign in', exact: true }).click()
    await dialog.getByText('account_locked').waitFor()
    await shot('4-locked')
    await page.keyboard.press('Escape')
  })
  await step('a link, and its page', async () => {
    await go('/connect')
    await page.getByRole('button', { name: 'Create connect link' }).first().click()
    await dialog.getByLabel('Your reference').fill('user_' + run)
    await dialog.getByRole('button', { name: 'Create link' }).click()
    await dialog.getByText('The link is ready').waitFor()
    await dialog.getByRole('button', { name: 'Done' }).click()
    await go('/connect?tab=links')
    await page
      .getByText('user_' + run)
      .first()
      .waitFor()
    await shot('5-links')
    await go('/connect?tab=page')
    await page.getByRole('button', { name: 'Show the page' }).click()
    await page.frameLocator('iframe').getByRole('heading', { name: 'Connect your account' }).waitFor()
    await shot('6-page')
    await go('/connect')
    await shot('7-connect')
  })
  await step('a webhook, tested and failing once', async () => {
    await go('/webhooks/' + account)
    await page.getByRole('button', { name: 'Add webhook' }).click()
    await dialog.getByLabel('URL', { exact: true }).fill(hookURL)
    await dialog.getByRole('button', { name: 'Add webhook' }).click()
    await dialog.getByLabel('Signing secret').waitFor()
    await shot('8-secret')
    await dialog.getByLabel('I stored it').check()
    await dialog.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('button', { name: 'Send test' }).click()
    await page.getByText('The test was refused').waitFor()
    await page.getByRole('button', { name: 'Send test' }).click()
    await page.getByText('The test was delivered').waitFor()
    await shot('9-webhook')
  })
  await step('an event, live and delivered', async () => {
    await go('/events?account=' + account)
    await page.locator('#main span.truncate').getByText('Live', { exact: true }).waitFor()
    for (let i = 0; ; i++) {
      await page.evaluate(async (id) => {
        const session = await (await fetch('/app/session')).json()
        await fetch(`/v1/sandbox/accounts/${id}/fire_event`, {
          method: 'POST',
          headers: {
            'Content-Type': 'application/json',
            'Stagedoor-Org': localStorage.getItem('sd.org') ?? session.currentOrg,
          },
          body: JSON.stringify({ event: 'message', data: { text: 'Hello from the flows' } }),
        })
      }, account)
      const came = await page
        .getByRole('option')
        .filter({ hasText: 'Hello from the flows' })
        .first()
        .waitFor({ timeout: 10_000 })
        .then(
          () => true,
          () => false,
        )
      if (came) break
      if (i === 4) throw new Error('no event arrived')
    }
    await page.getByRole('option').filter({ hasText: 'Hello from the flows' }).first().click()
    await page.getByRole('option').filter({ hasText: '200 ·' }).first().waitFor()
    await shot('10-event')
    const before = got.length
    await page.keyboard.press('r')
    await page.getByText('Sending the event again').waitFor()
    for (let i = 0; got.length === before; i++) {
      if (i === 50) throw new Error('it was not sent again')
      await page.waitForTimeout(200)
    }
  })
  await step('a signature that was broken by parsing', async () => {
    const last = got.findLast((g) => g.headers['x-webhook-event'] === 'message')
    await go('/webhooks/signature')
    await page.getByLabel('Headers').fill(
      Object.entries(last.headers)
        .map(([k, v]) => `${k}: ${v}`)
        .join('\n'),
    )
    await page.getByLabel('Body', { exact: true }).fill(JSON.stringify(JSON.parse(last.body), null, 1))
    await page.getByRole('button', { name: 'Check', exact: true }).click()
    await page.getByText('The body was changed').waitFor()
    await shot('11-signature')
    await page.getByLabel('Body', { exact: true }).fill(last.body)
    await page.getByRole('button', { name: 'Check', exact: true }).click()
    await page.getByText(/signature matches/).waitFor()
  })
  await step('the delivery, inspected', async () => {
    await go('/webhooks/' + account)
    await page
      .getByRole('button', { name: /Inspect the delivery of message/ })
      .first()
      .click()
    await dialog.getByText('Repeat this delivery by hand').waitFor()
    await shot('12-inspector')
    await dialog.getByRole('link', { name: 'Open delivery page' }).click()
    await page.getByRole('heading', { name: /Delivery of message/ }).waitFor()
  })
  await step('logs and errors', async () => {
    await go('/logs?source=all')
    await page.getByRole('row').nth(1).waitFor()
    await shot('13-logs')
    await page.getByRole('row').nth(1).click()
    await page.getByRole('heading', { name: 'Request details' }).waitFor()
    await go('/logs?source=all&status=4xx')
    await shot('14-refused')
    await go('/errors')
    await shot('15-errors')
  })
  await step('the webhook is deleted', async () => {
    await go('/webhooks/' + account)
    await page.getByRole('button', { name: 'More' }).click()
    await page.getByRole('menuitem', { name: 'Delete' }).click()
    await dialog.getByRole('button', { name: 'Delete' }).click()
    await page.waitForURL(/\/webhooks\?tab=accounts$/)
    // The URL changes before the page does, and the dialog hides the page until it closes.
    await page.getByRole('heading', { level: 1, name: 'Webhooks', exact: true }).waitFor()
    await dialog.waitFor({ state: 'hidden' })
    await settled(page)
  })
  const found = [...wrong, ...(await axe(page))]
  if (found.length) throw new Error(found.join('\n'))
  console.log('connect, events, webhooks, signature, logs and errors work')
} catch (e) {
  await shot('failed')
  console.error(e.message, wrong)
  process.exitCode = 1
} finally {
  await browser.close()
  receiver.close()
  receiver.closeAllConnections()
}
