// A small driver of headless Chromium over the DevTools protocol: nothing from the network but Node 20 and Chromium itself.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

export class Browser {
  #waiting = new Map();
  #sent = 0;
  #rest = '';
  listeners = [];

  constructor(chromium) {
    this.profile = mkdtempSync(join(tmpdir(), 'browse-'));
    this.child = spawn(chromium, [
      '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync', '--remote-debugging-pipe', `--user-data-dir=${this.profile}`, 'about:blank',
    ], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    this.child.stdio[4].setEncoding('utf8').on('data', (text) => {
      const parts = (this.#rest + text).split('\0');
      this.#rest = parts.pop();
      for (const part of parts) this.#hear(JSON.parse(part));
    });
  }

  #hear(message) {
    const asked = this.#waiting.get(message.id);
    if (!asked) this.listeners.forEach((listen) => listen(message));
    else if (message.error) asked.reject(new Error(message.error.message));
    else asked.resolve(message.result);
    this.#waiting.delete(message.id);
  }

  send(method, params = {}, sessionId) {
    return new Promise((resolve, reject) => {
      this.#waiting.set(++this.#sent, { resolve, reject });
      this.child.stdio[3].write(`${JSON.stringify({ id: this.#sent, method, params, sessionId })}\0`);
    });
  }

  async open(url, look) {
    const tab = new Tab(this, look);
    await tab.start(url);
    return tab;
  }

  async close() {
    const gone = new Promise((resolve) => this.child.once('exit', resolve));
    await this.send('Browser.close');
    await gone;
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

// Tab is one page in a browser of its own: no history, no cache, no cookies of others.
class Tab {
  faults = [];

  constructor(browser, look) {
    Object.assign(this, { browser, scripts: true, allowed: [], shots: '', name: '', ...look });
  }

  async start(url) {
    const { browser } = this;
    ({ browserContextId: this.context } = await browser.send('Target.createBrowserContext'));
    ({ targetId: this.target } = await browser.send('Target.createTarget', { url: 'about:blank', browserContextId: this.context }));
    ({ sessionId: this.session } = await browser.send('Target.attachToTarget', { targetId: this.target, flatten: true }));
    this.listen = (message) => message.sessionId === this.session && this.#hear(message);
    browser.listeners.push(this.listen);
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await this.do(`${domain}.enable`);
    await this.resize(this.width);
    await this.do('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: this.scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }] });
    if (!this.scripts) await this.do('Emulation.setScriptExecutionDisabled', { value: true });
    await this.go(url);
  }

  async go(url) {
    await this.do('Page.navigate', { url });
    await this.until(`${url.replace(/_[\w-]{20,}/, '…')} has loaded`, () => document.readyState === 'complete' && location.href !== 'about:blank');
  }

  do(method, params) { return this.browser.send(method, params, this.session); }

  resize(width) { return this.do('Emulation.setDeviceMetricsOverride', { width, height: width < 500 ? 844 : 900, deviceScaleFactor: 1, mobile: width < 500 }); }

  #hear({ method, params }) {
    if (method === 'Runtime.exceptionThrown') this.faults.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    // A page that says what was wrong with a form has such a status; that is no fault.
    if (method === 'Log.entryAdded' && params.entry.level === 'error' && !/status of (404|409|410|422)/.test(params.entry.text)) this.faults.push(`${params.entry.text} ${params.entry.url ?? ''}`);
    if (method === 'Network.requestWillBeSent' && !this.allowed.some((origin) => params.request.url.startsWith(origin))) this.faults.push(`it asked ${params.request.url}`);
  }

  async eval(what, ...args) {
    const { result, exceptionDetails } = await this.do('Runtime.evaluate', { expression: `(${what})(...${JSON.stringify(args)})`, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  async until(label, what, ...args) {
    for (let n = 0; n < 600; n++) {
      const value = await this.eval(what, ...args).catch(() => undefined);
      if (value) return value;
      await pause(50);
    }
    const seen = await this.eval(() => document.body.innerText.slice(0, 300)).catch((failure) => failure.message);
    throw new Error(`waited in vain until ${label}; the page says: ${seen}`);
  }

  // see waits for words in a part of the page.
  see(selector, text) {
    return this.until(`${selector} says “${text}”`, (s, t) => [...document.querySelectorAll(s)].some((node) => node.checkVisibility() && node.textContent.includes(t)), selector, text);
  }

  async click(selector, text = '') {
    const where = (s, t) => {
      const node = [...document.querySelectorAll(s)].find((one) => one.checkVisibility() && !one.disabled && one.textContent.includes(t));
      node?.scrollIntoView({ block: 'center', behavior: 'instant' });
      const box = node?.getBoundingClientRect();
      const [x, y] = box ? [box.x + box.width / 2, box.y + box.height / 2] : [];
      const top = box && document.elementFromPoint(x, y);
      return top && (node.contains(top) || top.contains(node)) && { x, y };
    };
    const at = await this.until(`${selector} “${text}” can be pressed`, where, selector, text);
    for (const type of ['mousePressed', 'mouseReleased']) await this.do('Input.dispatchMouseEvent', { type, ...at, button: 'left', clickCount: 1 });
  }

  async type(selector, text) {
    await this.click(selector);
    await this.eval((s) => document.querySelector(s).select(), selector);
    await this.press('Backspace');
    await this.do('Input.insertText', { text });
  }

  async press(key) {
    const code = { Enter: 13, Tab: 9, Escape: 27, Backspace: 8 }[key];
    await this.do('Input.dispatchKeyEvent', { type: 'keyDown', key, code: key, windowsVirtualKeyCode: code, text: key === 'Enter' ? '\r' : undefined });
    await this.do('Input.dispatchKeyEvent', { type: 'keyUp', key, code: key, windowsVirtualKeyCode: code });
  }

  // shot takes a picture of what is on the screen.
  async shot(name) {
    if (!this.shots) return;
    const { data } = await this.do('Page.captureScreenshot', { format: 'png' });
    writeFileSync(join(this.shots, `${this.name}-${name}.png`), Buffer.from(data, 'base64'));
  }

  async close() {
    await this.browser.send('Target.disposeBrowserContext', { browserContextId: this.context });
    this.browser.listeners = this.browser.listeners.filter((listen) => listen !== this.listen);
    if (this.faults.length) throw new Error(this.faults.join('\n      '));
  }
}
