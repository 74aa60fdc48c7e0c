// Tests the sandbox's pages with mouse and keyboard in headless Chromium, at 1360 and 390 px, light and dark.
// It needs Node 20 and Chromium, but no network. It uses the DevTools protocol over a pipe.
//
//   node sandbox/page/testdata/browse.mjs http://127.0.0.1:18299 [folder for screenshots]
//
// It resets the sandbox at that address, so run a separate one. It ends with the line "N passed, N failed".
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const [base, shots] = process.argv.slice(2);
const chromium = process.env.CHROMIUM ?? '/usr/bin/chromium';
if (!base || !existsSync(chromium)) {
  console.error(base ? `${chromium} does not exist: apt-get install chromium, or set CHROMIUM.` : 'usage: browse.mjs http://127.0.0.1:18299 [folder for screenshots]');
  process.exit(2);
}
if (shots) mkdirSync(shots, { recursive: true });

// The browser and its protocol.
const profile = mkdtempSync(join(tmpdir(), 'browse-'));
const child = spawn(chromium, [
  '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update',
  '--disable-sync', '--remote-debugging-pipe', `--user-data-dir=${profile}`, 'about:blank',
], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
const waiting = new Map();
let listeners = [];
let sent = 0;
let rest = '';
child.stdio[4].setEncoding('utf8').on('data', (text) => {
  const parts = (rest + text).split('\0');
  rest = parts.pop();
  for (const part of parts) {
    const message = JSON.parse(part);
    const asked = waiting.get(message.id);
    if (!asked) listeners.forEach((listen) => listen(message));
    else if (message.error) asked.reject(new Error(message.error.message));
    else asked.resolve(message.result);
    waiting.delete(message.id);
  }
});
const send = (method, params = {}, sessionId) => new Promise((resolve, reject) => {
  waiting.set(++sent, { resolve, reject });
  child.stdio[3].write(`${JSON.stringify({ id: sent, method, params, sessionId })}\0`);
});

// Tab is a page in a separate browser context.
class Tab {
  faults = [];

  static async open(path, { width, scheme, scripts = true }) {
    const tab = new Tab();
    tab.width = width;
    ({ browserContextId: tab.context } = await send('Target.createBrowserContext'));
    ({ targetId: tab.target } = await send('Target.createTarget', { url: 'about:blank', browserContextId: tab.context }));
    ({ sessionId: tab.session } = await send('Target.attachToTarget', { targetId: tab.target, flatten: true }));
    listeners.push((message) => message.sessionId === tab.session && tab.hear(message));
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await tab.do(`${domain}.enable`);
    await send('Browser.grantPermissions', { permissions: ['clipboardReadWrite', 'clipboardSanitizedWrite'], browserContextId: tab.context });
    await tab.resize(width);
    await tab.do('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }] });
    if (!scripts) await tab.do('Emulation.setScriptExecutionDisabled', { value: true });
    await tab.do('Page.navigate', { url: base + path });
    await tab.until('the page has loaded', () => document.readyState === 'complete' && location.href !== 'about:blank');
    return tab;
  }

  do(method, params) { return send(method, params, this.session); }

  resize(width) { return this.do('Emulation.setDeviceMetricsOverride', { width, height: width < 500 ? 844 : 900, deviceScaleFactor: 1, mobile: width < 500 }); }

  hear({ method, params }) {
    if (method === 'Runtime.exceptionThrown') this.faults.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === 'Log.entryAdded' && params.entry.level === 'error') this.faults.push(`${params.entry.text} ${params.entry.url ?? ''}`);
    if (method === 'Network.requestWillBeSent' && !params.request.url.startsWith(base)) this.faults.push(`the page requested ${params.request.url}`);
  }

  async eval(what, ...args) {
    const { result, exceptionDetails } = await this.do('Runtime.evaluate', { expression: `(${what})(...${JSON.stringify(args)})`, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  async until(label, what, ...args) {
    for (let n = 0; n < 200; n++) {
      const value = await this.eval(what, ...args).catch(() => undefined);
      if (value) return value;
      await pause(50);
    }
    const seen = await this.eval(() => [document.title, ...[...document.querySelectorAll('.toast, .failed')].map((node) => node.textContent)].join(' | '));
    throw new Error(`timed out waiting until ${label}; the page shows: ${seen}`);
  }

  // see waits for a text in a part of the page.
  see(selector, text) {
    return this.until(`${selector} says “${text}”`, (s, t) => [...document.querySelectorAll(s)].some((node) => node.checkVisibility() && node.textContent.includes(t)), selector, text);
  }

  // click clicks the element with a selector, and a text if given, once it no longer moves and nothing covers it.
  async click(selector, text = '') {
    const where = (s, t) => {
      const node = [...document.querySelectorAll(s)].find((one) => one.checkVisibility() && !one.disabled && one.textContent.includes(t));
      node?.scrollIntoView({ block: 'center', behavior: 'instant' });
      const box = node?.getBoundingClientRect();
      const [x, y] = box ? [box.x + box.width / 2, box.y + box.height / 2] : [];
      const top = box && document.elementFromPoint(x, y);
      return top && (node.contains(top) || top.contains(node) || top.closest('label')?.contains(node)) && { x, y };
    };
    let at = {};
    for (let still = false; !still;) {
      const now = await this.until(`${selector} ${text} can be clicked`, where, selector, text);
      still = now.x === at.x && now.y === at.y;
      at = now;
      if (!still) await pause(60);
    }
    for (const type of ['mousePressed', 'mouseReleased']) await this.do('Input.dispatchMouseEvent', { type, ...at, button: 'left', clickCount: 1 });
  }

  async press(key, code = key) {
    const text = { Enter: '\r', ' ': ' ' }[key];
    const number = { Tab: 9, Enter: 13, ' ': 32, Escape: 27, ArrowRight: 39 }[key];
    await this.do('Input.dispatchKeyEvent', { type: text ? 'keyDown' : 'rawKeyDown', key, code, text, windowsVirtualKeyCode: number });
    await this.do('Input.dispatchKeyEvent', { type: 'keyUp', key, code, windowsVirtualKeyCode: number });
  }

  async type(selector, text) {
    await this.click(selector);
    await this.eval((s) => document.querySelector(s).select?.(), selector);
    await this.do('Input.insertText', { text });
    if (!text) await this.eval((s) => { document.querySelector(s).value = ''; }, selector);
  }

  // choose selects an option.
  choose(selector, value) {
    return this.until(`${selector} offers ${value}`, (s, v) => {
      const node = document.querySelector(s);
      if (![...node.options].some((option) => option.value === v)) return false;
      node.value = v;
      return node.dispatchEvent(new Event('change', { bubbles: true }));
    }, selector, value);
  }

  async shot(name) {
    const sideways = await this.eval(() => document.documentElement.scrollWidth - innerWidth);
    if (sideways > 0) throw new Error(`${name} scrolls sideways by ${sideways} px`);
    if (!shots) return;
    await this.eval(() => scrollTo(0, 0));
    const { cssContentSize: { height } } = await this.do('Page.getLayoutMetrics');
    await this.do('Emulation.setDeviceMetricsOverride', { width: this.width, height: Math.ceil(height), deviceScaleFactor: 1, mobile: this.width < 500 });
    const { data } = await this.do('Page.captureScreenshot', { format: 'png' });
    writeFileSync(join(shots, `${name}.png`), Buffer.from(data, 'base64'));
    await this.resize(this.width);
  }

  async close() {
    await send('Target.closeTarget', { targetId: this.target });
    if (this.faults.length) throw new Error(`the browser reports errors: ${this.faults.join('; ')}`);
  }
}

// The product's side: requests of a tool that signs in.
const device = 'browse-device';
async function api(method, path, body, headers = {}) {
  const agent = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36';
  const response = await fetch(`${base}${path}`, { method, body: body && JSON.stringify(body), headers: { 'X-Device': device, 'User-Agent': agent, ...headers } });
  return { status: response.status, ...(await response.json()) };
}
const openQR = async () => (await api('POST', '/api/v2/auth/qr')).qr;
const pollQR = async ({ id, poll_secret }) => api('GET', `/api/v2/auth/qr/${id}`, undefined, { 'X-Qr-Secret': poll_secret });
const openSelfie = async () => (await api('POST', '/api/v2/auth/login', { email: 'face@sandbox.test', password: 'good' })).error.challenge;
const pathOf = (url) => new URL(url).pathname;
const login = () => api('POST', '/api/v2/auth/login', { email: 'ok@sandbox.test', password: 'good' });

function equal(got, want, what) {
  if (got !== want) throw new Error(`${what} is ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

// The steps of a user. Each gets a page with a selected creator, at a given width and colour scheme.
const steps = {
  'resets the sandbox after a confirmation': async (tab) => {
    await tab.see('#chosen', 'ok@sandbox.test');
    await tab.click('#reset-open');
    await tab.see('#reset', 'Reset to seed?');
    await tab.click('#reset button', 'Keep everything');
    await tab.until('the dialog is closed', () => !document.querySelector('#reset').open);
    await tab.click('#reset-open');
    await tab.click('#reset button.danger');
    await tab.see('.toast', 'The sandbox has been reset');
    await tab.see('#creators-feed', 'ok@sandbox.test');
  },
  'adds another creator, and sees an error for an invalid login': async (tab) => {
    await tab.type('#creators-add input', 'me@example.com');
    await tab.press('Enter');
    await tab.see('#creators-fault', 'must end in @sandbox.test');
    await tab.type('#creators-add input', 'ok+2');
    await tab.press('Enter');
    await tab.see('#chosen', 'ok+2@sandbox.test');
    equal(await tab.eval(() => location.search), '?login=ok%2B2%40sandbox.test', 'the address');
    await tab.click('.pick button', 'ok@sandbox.test');
    await tab.see('#chosen', 'ok@sandbox.test');
  },
  'reads about personas, copies one and adds one': async (tab, name) => {
    await tab.click('#personas-open');
    await tab.see('#personas', 'The session ends after the first write');
    await tab.click('#personas .copy', 'logout@sandbox.test');
    equal(await tab.eval(() => navigator.clipboard.readText()), 'logout@sandbox.test', 'the clipboard');
    await tab.shot(`${name}-personas`);
    await tab.click('#personas [aria-label="Add sms@sandbox.test"]');
    await tab.see('#chosen', 'sms@sandbox.test');
    await tab.click('.pick button', 'ok@sandbox.test');
  },
  'writes as a fan, and sees the frame': async (tab) => {
    await tab.see('#frames-state', 'Live');
    await tab.type('#fan input[name=text]', 'Is this <b>bold</b>?');
    await tab.click('#fan .act button.main');
    await tab.see('#frames-list .gist', 'Is this <b>bold</b>?');
    await tab.click('#frames-list li > button', 'chat.message');
    await tab.see('#frames-list pre', String.raw`"text": "Is this \u003cb\u003ebold\u003c/b\u003e?"`);
    const id = await tab.eval(() => /"author_id": (\d+)/.exec(document.querySelector('#frames-list pre').textContent)[1]);
    if (id.length !== 19 || /0000$/.test(id)) throw new Error(`the id ${id} was rounded`);
    await tab.type('#fan input[name=user_id]', id);
    await tab.click('#fan .option', 'Tip');
    await tab.type('#fan input[name=amount]', '12.34');
    await tab.click('#fan .act button.main');
    await tab.see('#frames-list .gist', '$12.34');
    equal(await tab.eval(() => document.querySelector('#fan input[name=user_id]').value), id, 'the fan who was kept');
  },
  'sees errors for invalid input of a fan': async (tab) => {
    await tab.click('#fan .option', 'Tip');
    await tab.type('#fan input[name=amount]', 'much');
    await tab.click('#fan .act button.main');
    await tab.see('.toast.bad', 'Dollars must be a number');
    await tab.type('#fan input[name=amount]', '');
    await tab.type('#fan input[name=user_id]', '42');
    await tab.click('#fan .act button.main');
    await tab.see('.toast.bad', 'User 42 does not exist.');
    await tab.type('#fan input[name=user_id]', '');
  },
  'runs every happening': async (tab) => {
    const acts = await tab.eval(() => [...document.querySelectorAll('#fan input[name=what]')].map((input) => input.value));
    if (acts.length < 20) throw new Error(`only ${acts.length} happenings`);
    await tab.eval(() => document.querySelectorAll('#fan details').forEach((details) => { details.open = true; }));
    for (const act of acts) {
      await tab.eval(() => document.querySelectorAll('.toast').forEach((toast) => toast.remove()));
      await tab.click(`#fan .option:has([value="${act}"])`);
      await tab.see('#fan .act code', act);
      await tab.click('#fan .act button.main');
      await tab.until(`${act} is answered`, () => document.querySelector('.toast'));
      const said = await tab.eval(() => document.querySelector('.toast').textContent);
      if (!said.startsWith('Done: ')) throw new Error(`${act}: ${said}`);
    }
    await tab.eval(() => document.querySelectorAll('#fan details').forEach((details) => { details.open = false; }));
    await tab.click('#fan .option', 'Message');
  },
  'holds frames while paused': async (tab) => {
    await tab.click('#frames-clear');
    await tab.see('#frames-empty', 'Listening');
    await tab.click('#frames-pause');
    await tab.type('#fan input[name=text]', 'held back');
    await tab.click('#fan .act button.main');
    await tab.until('one is held', () => /Paused · [1-9]/.test(document.querySelector('#frames-state').textContent));
    equal(await tab.eval(() => document.querySelectorAll('#frames-list li').length), 0, 'the number of frames shown');
    await tab.click('#frames-pause');
    await tab.see('#frames-list .gist', 'held back');
  },
  'answers QR codes': async (tab) => {
    const [yes, no] = [await openQR(), await openQR()];
    const thing = ({ id }) => `#qr-feed li[data-key="${id}"]`;
    await tab.see(thing(yes), 'Not scanned');
    await tab.type(`${thing(yes)} input`, 'ok+3');
    await pause(2500); // the list reloads in this time and must keep the input
    await tab.click(`${thing(yes)} button`, 'Approve');
    await tab.see('.toast', 'Approved');
    const answer = await pollQR(yes);
    equal(answer.qr?.status, 'accepted', 'the sign-in');
    await tab.see('#creators-feed', 'ok+3@sandbox.test');
    await tab.click(`${thing(no)} button`, 'Deny');
    await tab.see('.toast', 'Denied');
    equal((await pollQR(no)).error?.name, 'qr_denied', 'the other sign-in');
    await tab.see('#qr-feed', 'No pending QR codes');
  },
  'passes and fails selfies': async (tab) => {
    for (const [button, said, status] of [['Pass', 'The selfie passed', 200], ['Fail', 'The selfie failed', 403]]) {
      const { token } = await openSelfie();
      await tab.click(`#selfie-feed li[data-key="${token}"] button`, button);
      await tab.see('.toast', said);
      equal((await api('GET', `/api/v2/auth/challenges/${token}`)).status, status, 'the check');
    }
  },
  'sets and clears faults': async (tab, name) => {
    await tab.choose('#fault-form [name=kind]', 'rate_limit');
    await tab.type('#fault-form [name=value]', '7');
    await tab.type('#fault-form [name=count]', '1');
    await tab.click('#fault-form button');
    await tab.see('#faults-feed', 'Rate limit for ok@sandbox.test');
    const refused = await login();
    equal(refused.error?.retry_after, 7, 'Retry-After');
    equal((await login()).status, 200, 'the call after it');
    await tab.see('#faults-feed', 'No active faults');
    await tab.type('#fault-form [name=count]', '');
    await tab.choose('#fault-form [name=kind]', 'garbage');
    await tab.choose('#fault-form [name=choice]', '1');
    await tab.click('#fault-form button');
    await tab.see('#faults-feed', 'An HTML page · always');
    await tab.choose('#fault-form [name=kind]', 'error');
    await tab.type('#fault-form [name=value]', '99');
    await tab.click('#fault-form button');
    await tab.see('.toast.bad', 'from 400 to 599');
    await tab.choose('#fault-form [name=kind]', 'hang');
    await tab.type('#fault-form [name=scope]', 'all');
    await tab.type('#fault-form [name=for]', '600');
    await tab.click('#fault-form button');
    await tab.see('#faults-feed', 'Hang for all logins');
    await tab.shot(`${name}-trouble`);
    await tab.click('#faults-feed [aria-label^="Clear Hang"]');
    await tab.until('one is left', () => document.querySelectorAll('#faults-feed li').length === 1);
    await tab.click('#faults-clear');
    await tab.see('#faults-feed', 'No active faults');
  },
  'moves the clock': async (tab) => {
    await tab.click('#clock-steps button', '1 day');
    await tab.see('#clock-ahead', '1 d');
    await tab.type('#clock-form [name=amount]', '2');
    await tab.choose('#clock-form [name=unit]', '3600');
    await tab.click('#clock-form button');
    await tab.see('#clock-ahead', '1 d 2 h');
    await tab.type('#clock-form [name=amount]', '-5');
    await tab.click('#clock-form button');
    await tab.see('.toast.bad', 'The clock only goes forward.');
  },
  'starts and stops the generator': async (tab) => {
    await tab.click('#frames-clear');
    await tab.type('#generate-form [name=rate]', '200');
    await tab.type('#generate-form [name=for]', '30');
    await tab.click('#generate-form button.main');
    await tab.see('#generate-state', 'Running for ok@sandbox.test');
    await tab.see('#frames-note', 'not shown here');
    await tab.click('#generate-stop');
    await tab.see('#generate-state', 'Stopped');
    await tab.type('#generate-form [name=rate]', '0');
    await tab.click('#generate-form button.main');
    await tab.see('.toast.bad', 'more than 0 and at most 10000');
    await tab.click('#frames-clear');
    await tab.type('#fan input[name=text]', 'after the flood');
    await tab.click('#fan .act button.main');
    await tab.see('#frames-list .gist', 'after the flood');
  },
  'reads the request log': async (tab) => {
    await login();
    await tab.click('#requests-refresh');
    await tab.see('#requests td', 'POST /api/v2/auth/login');
    await tab.choose('#requests-login', 'ok@sandbox.test');
    await tab.until('requests of other logins are hidden', () => [...document.querySelectorAll('#requests tbody tr')].every((row) => row.lastElementChild.textContent === 'ok@sandbox.test'));
    await tab.choose('#requests-login', 'ok+2@sandbox.test');
    await tab.see('#requests', 'No requests from this login');
    await tab.choose('#requests-login', '');
    await tab.click('#requests-forget');
    await tab.see('#requests', 'No requests yet');
    await login();
  },
  'ends sessions': async (tab) => {
    await tab.click('#chosen button', 'Copy session cookie');
    await tab.until('it is copied', async () => /^Cookie: .*sess=.*\nX-Device: /.test(await navigator.clipboard.readText()));
    await tab.click('#chosen button', 'End sessions');
    await tab.see('.toast', 'Ended');
    await tab.see('#chosen-sessions', '0 sessions');
  },
  'works with the keyboard alone': async (tab) => {
    await tab.eval(() => { scrollTo(0, 0); document.activeElement.blur(); document.body.focus(); });
    await tab.press('Tab');
    const seen = [];
    for (let n = 0; n < 12; n++) {
      seen.push(await tab.eval(() => {
        const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
        const label = document.activeElement.nextElementSibling; // of a chip's radio button
        const shows = outlineStyle !== 'none' || (label && getComputedStyle(label).outlineStyle !== 'none');
        return { name: document.activeElement.id || document.activeElement.textContent, shows: shows && outlineWidth !== '0px' };
      }));
      await tab.press('Tab');
    }
    const dark = seen.find((one) => !one.shows);
    if (dark) throw new Error(`the focus is not visible on ${dark.name}`);
    await tab.eval(() => document.querySelector('#fan input[name=what]:checked').focus());
    await tab.press('ArrowRight');
    equal(await tab.eval(() => document.querySelector('#fan .act').dataset.what), 'chat.typing', 'what the arrow chose');
    await tab.eval(() => document.querySelector('#personas-open').focus());
    await tab.press('Enter');
    await tab.see('#personas', 'Personas');
    await tab.press('Escape');
    await tab.until('it is closed', () => !document.querySelector('#personas').open);
  },
  'shows when the sandbox stops responding, and when it is back': async (tab, name) => {
    await tab.do('Network.setBlockedURLs', { urls: ['*/control/*'] });
    await tab.see('#qr-feed .failed', 'The sandbox is not responding.');
    await tab.click('#fan .act button.main');
    await tab.see('.toast.bad', 'The sandbox is not responding.');
    await tab.shot(`${name}-gone`);
    await tab.do('Network.setBlockedURLs', { urls: [] });
    await tab.until('it is back', () => ![...document.querySelectorAll('#qr-feed .failed')].some((node) => node.checkVisibility()));
    tab.faults = tab.faults.filter((fault) => !/ERR_BLOCKED_BY_CLIENT|\/control\//.test(fault));
  },
};

// The phone's pages have no scripts, so they are tested with scripts disabled.
async function phone(name, look) {
  const open = (path) => Tab.open(path, { ...look, scripts: false });
  const qr = await openQR();
  let tab = await open(pathOf(qr.url));
  await tab.shot(`${name}-qr`);
  equal((await pollQR(qr)).qr.status, 'scanned', 'the sign-in');
  await tab.click('.choice', 'Another login');
  await tab.type('#login', 'nobody');
  await tab.click('button.main');
  await tab.see('#fault', 'looks like ok@sandbox.test');
  await tab.shot(`${name}-qr-fault`);
  tab.faults = tab.faults.filter((fault) => !fault.includes('422'));
  await tab.type('#login', 'ok+phone@sandbox.test');
  await tab.click('button.main');
  await tab.see('h1', 'Approved');
  await tab.shot(`${name}-qr-approved`);
  equal((await pollQR(qr)).qr?.status, 'accepted', 'the sign-in');
  await tab.close();

  const other = await openQR();
  tab = await open(pathOf(other.url));
  await tab.click('button', 'Deny');
  await tab.see('h1', 'Denied');
  equal((await pollQR(other)).error?.name, 'qr_denied', 'the sign-in');
  await tab.close();

  const late = await openQR();
  await fetch(`${base}/control/clock`, { method: 'POST', body: '{"advance_sec":180}' });
  tab = await open(pathOf(late.url));
  await tab.see('h1', 'This code has expired');
  await tab.shot(`${name}-qr-expired`);
  tab.faults = tab.faults.filter((fault) => !fault.includes('410'));
  await tab.close();

  for (const [button, title, picture] of [['Take the selfie', 'Selfie matched', 'passed'], ['Look away', 'Selfie did not match', 'failed']]) {
    const check = await openSelfie();
    tab = await open(pathOf(check.page_url));
    if (picture === 'passed') await tab.shot(`${name}-selfie`);
    await tab.click('button', button);
    await tab.see('h1', title);
    await tab.shot(`${name}-selfie-${picture}`);
    await tab.close();
  }
}

let passed = 0;
let failed = 0;
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

for (const [width, scheme] of [[1360, 'light'], [390, 'dark'], [390, 'light'], [1360, 'dark']]) {
  const name = `${width}-${scheme}`;
  await fetch(`${base}/control/seed`, { method: 'POST' });
  await run(`${name}: shows an empty sandbox`, async () => {
    const tab = await Tab.open('/', { width, scheme });
    await tab.see('#creators-feed', 'No creators yet');
    await tab.shot(`${name}-empty`);
    await tab.click('#creators-feed button', 'Add ok@sandbox.test');
    await tab.see('#chosen', 'ok@sandbox.test');
    await tab.close();
  });
  const tab = await Tab.open('/?login=ok@sandbox.test', { width, scheme });
  for (const [label, step] of Object.entries(steps)) await run(`${name}: ${label}`, () => step(tab, name));
  await run(`${name}: does not scroll sideways at any width`, async () => {
    await Promise.all([openQR(), openSelfie()]);
    await tab.see('#qr-feed', 'Not scanned');
    for (const w of [360, 390, 768, 1024, 1360]) {
      await tab.resize(w);
      const over = await tab.eval(() => document.documentElement.scrollWidth - innerWidth);
      if (over > 0) throw new Error(`${over} px at ${w}`);
    }
    await tab.resize(width);
    await tab.eval(() => document.querySelectorAll('.toast').forEach((toast) => toast.remove()));
    await tab.click('#frames-list li > button');
    await tab.shot(name);
  });
  await run(`${name}: the browser reports no errors`, () => tab.close());
  await run(`${name}: the page of mails`, async () => {
    const mails = await Tab.open('/mails', { width, scheme });
    await mails.see('h1', 'Mails');
    await mails.shot(`${name}-mails`);
    await mails.close();
  });
  await run(`${name}: the phone's pages`, () => phone(name, { width, scheme }));
}
const gone = new Promise((resolve) => child.once('exit', resolve));
await send('Browser.close');
await gone;
rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
