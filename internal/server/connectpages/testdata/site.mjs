// Connects a Ghost account as a creator does, in headless Chromium, with the fake backend of the Go tests.
// TestInABrowserWithASite (browser_test.go) starts it. PAGES are the paths of open sessions, one for each look; CONTROL
// plays the platform's next response. AXE and CHROMIUM are as in browse.mjs.
import { mkdirSync, readFileSync } from 'node:fs';
import { Browser } from './browser.mjs';

const { BASE_URL: base, CONTROL: control, PAGES: paths, AXE, CHROMIUM = '/usr/bin/chromium' } = process.env;
const [shots] = process.argv.slice(2);
mkdirSync(shots, { recursive: true });
const axe = AXE && readFileSync(AXE, 'utf8');
const browser = new Browser(CHROMIUM);

async function judge(tab, name) {
  await tab.shot(`ghost-${name}`);
  const over = await tab.eval(() => document.documentElement.scrollWidth - window.innerWidth);
  if (over > 0) throw new Error(`${name} scrolls sideways by ${over} px`);
  const mark = await tab.eval(() => document.querySelector('.org img.mark')?.naturalWidth > 0);
  if (!mark) throw new Error(`${name} does not show the platform's mark`);
  if (!axe) return;
  await tab.eval(`() => { ${axe} }`);
  const found = await tab.eval(async () => (await window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })).violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(' ')}`));
  if (found.length) throw new Error(`${name}: ${found.join('; ')}`);
}

async function connect(path, look) {
  const next = () => fetch(`${control}/?token=${path.split('/')[2]}`, { method: 'POST' });
  const tab = await browser.open(base + path, look);
  await tab.see('.lead', 'asks you to connect your account on Ghost');
  await judge(tab, '0-open');
  await tab.click('button.main', 'Continue');
  await tab.see('h1', 'Where is your Ghost site?');
  await judge(tab, '1-site');
  for (const [name, site, text] of [
    ['not-an-address', 'my blog', 'This is not the address of a site'],
    ['other-software', 'software.example.com', 'We did not find Ghost'],
    ['no-response', 'down.example.com', 'not responding'],
    ['not-public', 'address.example.com', 'no public site'],
  ]) {
    await tab.type('#site', site);
    await tab.click('button.main');
    await tab.see('#wrong', text);
    await judge(tab, `1-site-${name}`);
  }
  await tab.type('#site', 'maya.example.com');
  await tab.press('Enter');
  await tab.see('h1', 'Sign in to Ghost at maya.example.com');
  await judge(tab, '2-sign-in');
  await tab.click('button.main');
  await tab.see('#wrong', 'Enter your email address');
  await judge(tab, '2-sign-in-error');
  await tab.type('#email', 'email@maya.example.com');
  await tab.type('#password', 'good');
  await tab.click('button.main');
  await tab.see('.steps', 'Contacting maya.example.com');
  await judge(tab, '3-pending');
  await next();
  await tab.click('button.main', 'Send the email');
  await tab.see('.lead', 'Ghost sent a message');
  await judge(tab, '3-code');
  await tab.type('#code', '999999');
  await tab.click('button.main');
  await tab.see('.lead', 'Ghost is not accepting more codes');
  await judge(tab, '3-failed');
  await tab.click('a.main', 'Try again');
  await tab.see('h1', 'Sign in to Ghost at maya.example.com');
  await judge(tab, '2-again');
  await tab.type('#email', 'ok@maya.example.com');
  await tab.type('#password', 'good');
  await tab.click('button.main');
  await tab.see('.steps', 'Contacting maya.example.com');
  await next();
  await tab.see('h1', 'You are connected');
  await judge(tab, '4-connected');
  await tab.go(base + await tab.eval(() => document.querySelector('a[href^="/manage/"]').getAttribute('href')));
  await tab.see('h1', 'Your connection');
  await judge(tab, '5-manage');
  await tab.close();
}

const looks = ['390-light', '320-dark', '1360-light'];
for (const [at, path] of paths.split(' ').entries()) {
  const [width, scheme] = looks[at].split('-');
  await connect(path, { name: looks[at], width: Number(width), scheme, shots, allowed: [base] });
}
await browser.close();
