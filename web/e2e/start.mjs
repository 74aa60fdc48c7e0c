// The start guide, from the printed URL to an event arriving live, as a person would do it.
// Needs a running system with the development sign-in (make up). Pictures: .dev/shots/start/*.png
import { axe, base, launch, open, settled, shotDir, signIn } from './lib.mjs'

const dir = shotDir('start')
const browser = await launch()
const { page, wrong } = await open(browser)
const shot = (name) => page.screenshot({ path: `${dir}${name}.png`, fullPage: true })
const step = async (name, f) => {
  const began = Date.now()
  await f()
  console.log(`${name}: ${Date.now() - began} ms`)
}
try {
  await step('sign in', () => signIn(page))
  await page.goto(base() + '/app/start')
  await settled(page)
  await shot('1-start')
  const card = (title) => page.locator('li', { has: page.getByRole('heading', { name: title }) })
  await step('key', async () => {
    await card('Create an API key')
      .getByRole('button', { name: /Create/ })
      .click()
    await card('Create an API key').getByText('it is not shown again').waitFor()
  })
  await step('account', async () => {
    await card('Connect a sandbox account').getByRole('button', { name: 'Do it for me' }).click()
    await card('Connect a sandbox account').getByLabel('Done').waitFor({ timeout: 120_000 })
  })
  await shot('2-connected')
  await step('call', async () => {
    await card('Make your first call').getByRole('button', { name: 'Run it here' }).click()
    await card('Make your first call').getByText('"result"').waitFor({ timeout: 120_000 })
  })
  await step('event', async () => {
    const last = card('Receive an event')
    await last.getByText('Live', { exact: true }).waitFor({ timeout: 120_000 })
    // The listener of a new account needs a moment; a user would press again too.
    for (let i = 0; ; i++) {
      await last.getByRole('button', { name: 'Send a test message' }).click()
      const came = await last
        .getByText('Hello from the start guide')
        .first()
        .waitFor({ timeout: 10_000 })
        .then(
          () => true,
          () => false,
        )
      if (came) break
      if (i === 3) throw new Error('no event arrived')
    }
  })
  await shot('3-event')
  await step('ticks', () => page.getByText('All four done').waitFor({ timeout: 120_000 }))
  await shot('4-done')
  const found = [...wrong, ...(await axe(page))]
  if (found.length) throw new Error(found.join('\n'))
  console.log('the start guide works')
} catch (e) {
  await shot('failed')
  console.error(e.message, wrong)
  process.exitCode = 1
} finally {
  await browser.close()
}
