// Uses the connect pages as creators do, in headless Chromium at 390 and 1360 px, light and dark, with and without scripts.
//
//   BASE_URL=http://127.0.0.1:18080 API_KEY=sd_sandbox_… node internal/server/connectpages/testdata/browse.mjs [folder for pictures]
//
// It creates sessions with the API at that address, in a sandbox org with generous limits; TestInABrowser (browser_test.go) starts
// its own system for it. AXE is the path of axe-core's axe.min.js (npm pack axe-core@4.10.3); with it every visited page is checked.
// CHROMIUM names the browser, LOOKS the variants (390-light,390-dark,1360-light,1360-dark). Prints "N passed, N failed" at the end.
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { Browser } from './browser.mjs';

const { BASE_URL: base, API_KEY: key = '', AXE, CHROMIUM = '/usr/bin/chromium', LOOKS = '390-light,1360-dark,390-dark,1360-light' } = process.env;
const [shots = ''] = process.argv.slice(2);
if (!base || !existsSync(CHROMIUM)) {
  console.error(base ? `There is no ${CHROMIUM}: apt-get install chromium, or set CHROMIUM.` : 'Set BASE_URL to the address of the system: BASE_URL=http://127.0.0.1:18080');
  process.exit(2);
}
if (shots) mkdirSync(shots, { recursive: true });
const axe = AXE && readFileSync(AXE, 'utf8');

// The API, as an org uses it.
async function api(method, path, body) {
  const answer = await fetch(base + path, {
    method, body: body && JSON.stringify(body),
    headers: { ...(body && { 'Content-Type': 'application/json' }), ...(key && { Authorization: `Bearer ${key}` }) },
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text.slice(0, 300)}`);
  return JSON.parse(text);
}
const openSession = async (body = {}) => (await api('POST', '/v1/connect/sessions', body)).session;
const lastAttempt = async ({ id }) => (await api('GET', `/v1/connect/sessions/${id}`)).session.attempts.at(-1);
const advance = (attempt, to) => api('POST', `/v1/sandbox/attempts/${attempt}/advance`, { to });
const local = (url) => base + new URL(url).pathname;
let people = 0;
// Each run uses its own creator, so that runs do not affect each other.
const login = (persona) => `${persona}+b${process.pid}x${++people}@sandbox.test`;

// The site of an org, on two origins; only the first one may frame.
const pages = createServer((request, response) => {
  const url = new URL(request.url, 'http://host');
  response.setHeader('Content-Type', 'text/html; charset=utf-8');
  if (url.pathname === '/cb') return response.end('<!doctype html><html lang="en"><title>Back</title><h1>Back at the org</h1>');
  response.end(`<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><title>Org</title><h1>The org’s own site</h1><div id="box"></div>
<script src="${base}/connect.js"></script>
<script>window.heard = []; window.open_ = Connect.open({ ${url.searchParams.has('token') ? `clientToken: ${JSON.stringify(url.searchParams.get('token'))}` : `embedUrl: ${JSON.stringify(url.searchParams.get('embed'))}`}, container: ${url.searchParams.has('modal') ? 'undefined' : '"#box"'}, onEvent: (event) => heard.push(event) });</script>`);
});
await new Promise((resolve) => pages.listen(0, '127.0.0.1', resolve));
const friend = `http://127.0.0.1:${pages.address().port}`;
const stranger = `http://localhost:${pages.address().port}`;

const browser = new Browser(CHROMIUM);
let passed = 0;
let failed = 0;
let judged = 0;
async function run(label, what) {
  try {
    await what();
    passed++;
    console.log(`ok    ${label}`);
  } catch (failure) {
    failed++;
    console.log(`FAIL  ${label}: ${failure.message}`);
  }
}
function equal(got, want, what) {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

// judge takes a screenshot, runs axe for accessibility, and checks for horizontal scrolling.
async function judge(tab, name) {
  await tab.shot(name);
  const over = await tab.eval(() => document.documentElement.scrollWidth - innerWidth);
  if (over > 0) throw new Error(`${name} scrolls sideways by ${over} px`);
  if (!axe || !tab.scripts) return;
  await tab.eval(`() => { ${axe} }`);
  const found = await tab.eval(async () => (await window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })).violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(' ')}`));
  judged++;
  if (found.length) throw new Error(`${name}: ${found.join('; ')}`);
}

// enter opens a link: the page before the form has one button.
async function enter(session, look) {
  const tab = await browser.open(local(session.url), look);
  await tab.see('.lead', 'asks you to connect your account');
  await judge(tab, 'open');
  await tab.click('button.main', 'Continue');
  await tab.until('the address has no token', () => !location.pathname.includes('cst_'));
  return tab;
}

async function signIn(tab, email, password = 'good') {
  await tab.see('h1', 'Connect your account');
  await tab.type('#email', email);
  await tab.type('#password', password);
  await tab.click('button.main');
}
async function code(tab, text) {
  await tab.type('#code', text);
  await tab.click('button.main');
}

const flows = {
  'a code, wrong and right': async (tab) => {
    await judge(tab, 'start');
    await tab.click('button.main');
    await tab.see('#wrong', 'Enter your email address');
    await judge(tab, 'start-error');
    await signIn(tab, login('bad'), 'bad');
    await tab.see('#wrong', 'did not accept this email and password');
    equal(await tab.eval(() => document.querySelector('#email').value), login('bad'), 'the email of the form that was sent');
    await judge(tab, 'start-wrong');
    await signIn(tab, login('sms'));
    await tab.see('h1', 'Check your phone');
    await tab.until('the field has the focus', () => document.activeElement?.id === 'code');
    await tab.see('#resend:disabled', 'Send a new code in 0:');
    await judge(tab, 'code');
    await code(tab, '000 000');
    await tab.see('#wrong', 'did not match');
    await judge(tab, 'code-wrong');
    await code(tab, '123-456');
    await tab.see('h1', 'You are connected');
    await judge(tab, 'success');
    await tab.go(local(await tab.eval(() => document.querySelector('a[href^="/manage/"]').href)));
    await tab.see('h1', 'Your connection');
    await judge(tab, 'manage');
    await tab.click('button.danger');
    await tab.see('h1', 'Not connected');
    await judge(tab, 'revoked');
  },
  'text message, email and selfie, one after the other': async (tab) => {
    await signIn(tab, login('sms-email-face'));
    await tab.see('h1', 'Check your phone');
    await code(tab, '123456');
    await tab.see('h1', 'Check your email');
    if (await tab.eval(() => !document.querySelector('#code'))) {
      await judge(tab, 'email-send');
      await tab.click('button.main', 'Send the email');
    }
    await tab.see('label', 'Security code');
    await judge(tab, 'email');
    await code(tab, '123456');
    await tab.see('h1', 'Take a quick selfie');
    await tab.until('the picture is there', () => document.querySelector('#qr').naturalWidth > 0);
    await judge(tab, 'selfie');
    await tab.click('button.main', 'I have finished');
    await tab.see('#wrong', 'has not confirmed it yet');
    await judge(tab, 'selfie-notyet');
    const hand = await browser.open(await tab.eval(() => document.querySelector('.mid a').href), { ...tab.look, width: 390 });
    await hand.see('a.main', 'Open the check');
    await judge(hand, 'selfie-phone');
    await advance(await lastAttempt(tab.session_), 'pass_selfie');
    await hand.see('h1', 'You are connected');
    await tab.see('h1', 'You are connected');
    await hand.close();
  },
  'a QR that is approved': async (tab) => {
    await tab.click('button.link', 'Use the app on my phone');
    await tab.see('h1', 'Scan to approve');
    await tab.until('the picture is there', () => document.querySelector('#qr').naturalWidth > 0);
    await judge(tab, 'scan');
    const hand = await browser.open(await tab.eval(() => [...document.querySelectorAll('.mid a')].at(-1).href), { ...tab.look, width: 390 });
    await hand.see('h1', 'Approve on this phone');
    await judge(hand, 'approve');
    const attempt = await lastAttempt(tab.session_);
    await advance(attempt, 'scan');
    await tab.see('#seen', 'Code scanned');
    await hand.see('#seen', 'Code scanned');
    await judge(tab, 'scan-seen');
    await advance(attempt, 'approve');
    await tab.see('h1', 'You are connected');
    await hand.see('h1', 'You are connected');
    await judge(hand, 'success-phone');
    await hand.close();
  },
  'a QR that is denied': async (tab) => {
    await tab.click('button.link', 'Use the app on my phone');
    await tab.see('h1', 'Scan to approve');
    await advance(await lastAttempt(tab.session_), 'deny');
    await tab.see('.lead', 'declined on your phone');
    await judge(tab, 'denied');
    await tab.see('a.main', 'Try again');
  },
  'a slow platform': async (tab) => {
    await signIn(tab, login('slow'));
    await tab.see('h1', 'Signing you in');
    await tab.see('.steps li[data-is=now]', 'Checking your details');
    await judge(tab, 'pending');
    await tab.see('#slow', 'Still working');
    await judge(tab, 'pending-slow');
    await tab.click('button.quiet', 'Cancel');
    await tab.see('.lead', 'You cancelled this attempt');
    await judge(tab, 'cancelled');
  },
  'another way, and a change of mind': async (tab) => {
    await signIn(tab, login('sms'));
    await tab.see('h1', 'Check your phone');
    if (await tab.eval(() => Boolean(document.querySelector('[name=channel]')))) {
      await tab.click('button.link', 'authenticator');
      await tab.see('h1', 'Open your authenticator app');
      await judge(tab, 'code-app');
    }
    await tab.click('button.quiet', 'Cancel');
    await tab.see('.lead', 'You cancelled this attempt');
  },
  'the keyboard alone': async (tab) => {
    await tab.eval(() => document.querySelector('#email').focus());
    await tab.do('Input.insertText', { text: login('app') });
    await tab.press('Tab');
    await tab.do('Input.insertText', { text: 'good' });
    const shows = await tab.eval(() => getComputedStyle(document.activeElement).outlineStyle);
    equal(shows, 'solid', 'the ring around what has the focus');
    await tab.press('Enter');
    await tab.until('the field has the focus', () => document.activeElement?.id === 'code');
    await tab.do('Input.insertText', { text: '123456' });
    await tab.press('Enter');
    await tab.see('h1', 'You are connected');
  },
  'in Spanish': async (tab) => {
    await tab.click('footer a', 'Español');
    await tab.see('h1', 'Conecta tu cuenta');
    await judge(tab, 'start-es');
    await tab.type('#email', login('sms'));
    await tab.type('#password', 'good');
    await tab.click('button.main');
    await tab.see('h1', 'Mira tu teléfono');
    await judge(tab, 'code-es');
    equal(await tab.eval(() => document.documentElement.lang), 'es', 'the language');
  },
};

async function flow(label, look, do_) {
  await run(`${look.name}: ${label}`, async () => {
    const session = await openSession();
    const tab = await enter(session, look);
    tab.look = look;
    tab.session_ = session;
    try {
      await do_(tab);
    } catch (failure) {
      await tab.shot('FAILED');
      throw failure;
    }
    await tab.close();
  });
}

async function withoutScripts(look) {
  const session = await openSession();
  const tab = await enter(session, { ...look, scripts: false, name: `${look.name}-plain` });
  await signIn(tab, login('sms'));
  await tab.see('h1', 'Check your phone'); // it refreshes automatically
  await code(tab, '000000');
  await tab.see('#wrong', 'did not match');
  await tab.shot('code');
  await code(tab, '123456');
  await tab.see('h1', 'You are connected');
  await tab.shot('success');
  await tab.close();
  const other = await openSession();
  const phone = await enter(other, { ...look, scripts: false, name: `${look.name}-plain` });
  await phone.click('button.link', 'Use the app on my phone');
  await phone.see('h1', 'Scan to approve');
  const attempt = await lastAttempt(other);
  await advance(attempt, 'approve');
  await phone.see('h1', 'You are connected');
  await phone.close();
}

// The frame has another origin but the same site, so it is in the same process and can be inspected.
async function embedded(look) {
  const session = await openSession({ allowed_origins: [friend], return_url: `${friend}/cb`, kinds: ['mobile_app'] });
  const tab = await browser.open(`${friend}/?token=${encodeURIComponent(session.client_token)}`, { ...look, allowed: [base, friend], name: `${look.name}-embed` });
  const heard = () => tab.eval(() => window.heard.map(({ type }) => type));
  await tab.until('the frame is ready', () => window.heard.some(({ type }) => type === 'connect.ready') && window.heard.some(({ type, height }) => type === 'connect.resize' && height > 100));
  await tab.shot('start');
  await tab.until('the frame has its height', () => Math.abs(document.querySelector('iframe').offsetHeight - window.heard.filter(({ type }) => type === 'connect.resize').at(-1).height) < 2);
  const box = await tab.eval(() => { const { x, y, width } = document.querySelector('iframe').getBoundingClientRect(); return { x, y, width }; });
  const { frameTree } = await tab.do('Page.getFrameTree');
  const { executionContextId } = await tab.do('Page.createIsolatedWorld', { frameId: frameTree.childFrames[0].frame.id });
  const { result } = await tab.do('Runtime.evaluate', {
    contextId: executionContextId, returnByValue: true,
    expression: '(() => { const { x, y, width, height } = document.querySelector("button.main").getBoundingClientRect(); return { x: x + width / 2, y: y + height / 2 }; })()',
  });
  for (const type of ['mousePressed', 'mouseReleased']) await tab.do('Input.dispatchMouseEvent', { type, x: box.x + result.value.x, y: box.y + result.value.y, button: 'left', clickCount: 1 });
  await tab.until('it waits for the phone', () => window.heard.some(({ state }) => state === 'awaiting_mobile_session'));
  await pause(300);
  await tab.shot('scan');
  await advance(await lastAttempt(session), 'approve');
  await tab.until('it has succeeded', () => window.heard.some(({ type }) => type === 'connect.success'));
  const success = await tab.eval(() => window.heard.find(({ type }) => type === 'connect.success'));
  if (!/^acct_/.test(success.accountId) || success.sessionId !== session.id || success.source !== 'connect' || success.v !== 1) throw new Error(JSON.stringify(success));
  await tab.shot('success');
  equal((await heard()).includes('connect.exit'), false, 'an exit after success');
  await tab.close();
}

async function modal(look) {
  const session = await openSession({ allowed_origins: [friend, 'https://second.example'] });
  const tab = await browser.open(`${friend}/?modal&token=${encodeURIComponent(session.client_token)}`, { ...look, allowed: [base, friend], name: `${look.name}-modal` });
  await tab.until('the frame is ready', () => window.heard.some(({ type }) => type === 'connect.ready'));
  await pause(300);
  await tab.shot('start');
  if (look.width < 500) await tab.click('dialog button');
  else await tab.press('Escape'); // the frame has the focus and forwards the key
  await tab.until('it is closed', () => !document.querySelector('dialog'));
  equal(await tab.eval(() => window.heard.at(-1)), { source: 'connect', v: 1, type: 'connect.exit', reason: 'closed' }, 'the last event');
  await tab.close();
}

async function foreign(look) {
  const session = await openSession({ allowed_origins: [friend] });
  const tab = await browser.open(`${stranger}/?token=${encodeURIComponent(session.client_token)}`, { ...look, allowed: [base, stranger] });
  await tab.until('the browser has refused', () => document.readyState === 'complete');
  await pause(800);
  equal(await tab.eval(() => window.heard), [], 'what a stranger hears');
  if (!tab.faults.some((fault) => /frame-ancestors|ERR_BLOCKED_BY_RESPONSE/.test(fault))) throw new Error(`the frame was not refused: ${tab.faults}`);
  tab.faults = [];
  await tab.close();
  // No site may frame the full page, not even an allowed one.
  const full = await browser.open(`${friend}/?embed=${encodeURIComponent(local(session.url))}`, { ...look, allowed: [base, friend] });
  await pause(800);
  if (!full.faults.some((fault) => /frame-ancestors|ERR_BLOCKED_BY_RESPONSE|X-Frame/.test(fault))) throw new Error(`the full page was framed: ${full.faults}`);
  full.faults = [];
  await full.close();
}

async function back(look) {
  const session = await openSession({ return_url: `${friend}/cb?mine=1`, reference_id: 'user_456' });
  const tab = await enter(session, { ...look, allowed: [base, friend] });
  await signIn(tab, login('ok'));
  await tab.see('h1', 'You are connected');
  await tab.see('a.main', 'Continue to');
  await judge(tab, 'success-return');
  await tab.see('h1', 'Back at the org');
  const query = await tab.eval(() => Object.fromEntries(new URL(location.href).searchParams));
  if (query.status !== 'success' || query.mine !== '1' || query.session_id !== session.id || query.reference_id !== 'user_456' || !/^acct_/.test(query.account_id)) throw new Error(JSON.stringify(query));
  await tab.close();
}

// Each tab has cookies of its own, as another device has.
async function copied(look) {
  const session = await openSession();
  const first = await enter(session, look);
  await signIn(first, login('sms'));
  await first.see('h1', 'Check your phone');
  const second = await browser.open(local(session.url), look);
  await second.see('h1', 'This link was opened in another browser');
  await second.see('.lead', 'in Chrome on Linux');
  await judge(second, 'opened');
  await second.click('button.main', 'Start again here');
  await second.see('h1', 'Connect your account');
  await first.see('.lead', 'no longer works in this browser'); // it follows its attempt, which has ended
  await judge(first, 'opened-lost');
  await signIn(second, login('ok'));
  await second.see('h1', 'You are connected');
  await first.go(local(session.url));
  await first.see('.lead', 'cannot be used again');
  await judge(first, 'opened-over');
  await first.close();
  await second.close();
}

async function polling(look) {
  const session = await openSession();
  const tab = await enter(session, look);
  await tab.do('Network.setBlockedURLs', { urls: ['*/events'] });
  await tab.click('button.link', 'Use the app on my phone');
  await tab.see('h1', 'Scan to approve');
  await advance(await lastAttempt(session), 'scan');
  await tab.see('#seen', 'Code scanned');
  await advance(await lastAttempt(session), 'approve');
  await tab.see('h1', 'You are connected');
  tab.faults = tab.faults.filter((fault) => !/ERR_BLOCKED_BY_CLIENT/.test(fault));
  await tab.close();
}

const dying = await openSession({ expires_in_sec: 60 });
const born = Date.now();
const looks = LOOKS.split(',').map((name) => {
  const [width, scheme] = name.split('-');
  return { name, width: Number(width), scheme, shots, allowed: [base] };
});
for (const look of looks) {
  for (const [label, do_] of Object.entries(flows)) await flow(label, look, do_);
  await run(`${look.name}: works without scripts`, () => withoutScripts(look));
  await run(`${look.name}: works without streams`, () => polling(look));
  await run(`${look.name}: in a frame of the org's site`, () => embedded(look));
  await run(`${look.name}: in a dialog of the org's site`, () => modal(look));
  await run(`${look.name}: in nobody else's frame`, () => foreign(look));
  await run(`${look.name}: leads back to the org`, () => back(look));
  await run(`${look.name}: a copied link`, () => copied(look));
}
await pause(Math.max(0, born + 61_000 - Date.now()));
for (const look of looks) {
  await run(`${look.name}: a link that has expired`, async () => {
    const tab = await browser.open(local(dying.url), look);
    await tab.see('h1', 'This link has expired');
    await judge(tab, 'expired');
    await tab.close();
    const wrong = await browser.open(`${base}/s/cst_nothing`, look);
    await wrong.see('h1', 'This link has expired');
    await judge(wrong, 'unknown');
    await wrong.go(`${base}/connect/privacy`);
    await judge(wrong, 'privacy');
    for (const width of [320, 768]) {
      await wrong.resize(width);
      await judge(wrong, `privacy-${width}`);
    }
    await wrong.close();
  });
}
await browser.close();
pages.close();
console.log(`${judged} pages judged by axe`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
