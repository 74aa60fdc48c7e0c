// The shell: palette with pasted ids, shortcuts, skip link, menu on a phone, theme, org switch; axe with each open.
// Needs a running system (make up), or with FAKE=1 only the build.
import { account, answers } from './fake.mjs'
import { axe, base, launch, open, settled, shotDir, sideways, signIn } from './lib.mjs'
import { serve } from './serve.mjs'

const dir = shotDir('shell')
const fake = process.env.FAKE === '1' ? await serve() : null
if (fake) {
  fake.answers = answers()
  process.env.BASE = fake.url
}
const browser = await launch()
const failures = []
const check = (what, ok) => {
  console.log(`${ok ? 'ok  ' : 'FAIL'} ${what}`)
  if (!ok) failures.push(what)
}
const clean = async (page, what) => {
  const found = [...(await axe(page)), ...(await sideways(page))]
  for (const f of found) console.log(`     ${what}: ${f}`)
  check(`${what}: nothing for axe, no sideways scroll`, found.length === 0)
}
const gone = (what) =>
  what.waitFor({ state: 'detached' }).then(
    () => true,
    () => false,
  )
const start = async (options) => {
  const got = await open(browser, options)
  if (!fake) await signIn(got.page)
  await got.page.goto(base() + '/app/accounts')
  await settled(got.page)
  return got
}

{
  const { page, wrong, context } = await start({})
  await page.keyboard.press('Tab')
  check(
    'the first Tab stop skips to the content',
    await page.evaluate(() => document.activeElement?.textContent === 'Skip to content'),
  )
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox').waitFor()
  await clean(page, 'palette')
  await page.screenshot({ path: dir + 'palette.png' })
  const id = fake
    ? account(3).id
    : await page.evaluate(
        async () =>
          (await (await fetch('/v1/accounts?limit=1')).json()).accounts?.[0]?.id ?? 'acct_00000000000000000000000000',
      )
  await page.getByRole('combobox').fill(`  see ${id} please`)
  await page.keyboard.press('Enter')
  await page.waitForURL('**/accounts/' + id)
  check('a pasted id opens its page', true)
  await settled(page)
  check('the tab has the title of the page', /· Stagedoor$/.test(await page.title()))
  for (const [prefix, to] of [
    ['evt', '/events/'],
    ['req', '/logs/'],
    ['att', '/connect/attempts/'],
    ['whd', '/webhooks/deliveries/'],
    ['cs', '/connect/links/'],
    ['key', '/keys?key='],
    ['aud', '/audit?entry='],
  ]) {
    await page.keyboard.press('Control+k')
    await page.getByRole('combobox').fill(`${prefix}_01k9zzzzzzzzzzzzzzzzzzx7q2`)
    await page.keyboard.press('Enter')
    const there = await page
      .waitForURL((url) => url.href.includes('/app' + to), { timeout: 120_000 })
      .then(
        () => true,
        () => false,
      )
    check(`${prefix}_ leads to ${to}`, there)
    await page.getByRole('combobox').waitFor({ state: 'detached' })
    // The last two open a dialog; if it opened later, it would close the palette again.
    if (to.includes('=')) await page.getByRole('dialog').waitFor()
  }
  // Shortcuts do not work in a dialog.
  await page.goto(base() + '/app/usage')
  await settled(page)
  await page.keyboard.press('g')
  await page.keyboard.press('a')
  await page.waitForURL('**/app/accounts')
  check('g a goes to the accounts', true)
  await settled(page)
  await page.keyboard.press('?')
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor()
  await clean(page, 'shortcuts')
  await page.screenshot({ path: dir + 'shortcuts.png' })
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Use the dark theme' }).click()
  check(
    'the theme is kept',
    (await page.evaluate(() => [document.documentElement.dataset.theme, localStorage.getItem('sd.theme')])).join() ===
      'dark,dark',
  )
  await page.getByRole('button', { name: /You, / }).click()
  await page.getByRole('menuitem', { name: 'Sign out' }).waitFor()
  await page.screenshot({ path: dir + 'person.png' })
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Live', exact: true }).click()
  check('Live has no sandbox bar', await gone(page.getByText('No real creators are contacted')))
  await page.screenshot({ path: dir + 'live.png' })
  check('nothing went wrong: ' + wrong.join('; '), wrong.length === 0)
  await context.close()
}
{
  const { page, wrong, context } = await start({ width: 360, height: 780 })
  await page.getByRole('button', { name: 'Menu' }).click()
  await page.getByRole('dialog', { name: 'Menu' }).waitFor()
  await clean(page, 'menu on a phone')
  await page.screenshot({ path: dir + 'menu-360.png' })
  await page.getByRole('dialog').getByRole('link', { name: 'Limits & usage' }).click()
  await page.waitForURL('**/usage')
  check('choosing a page closes the menu', await gone(page.getByRole('dialog')))
  check('nothing went wrong on the phone: ' + wrong.join('; '), wrong.length === 0)
  await context.close()
}
await browser.close()
fake?.close()
process.exitCode = failures.length ? 1 : 0
