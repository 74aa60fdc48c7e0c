// The platform's clock and the event generator.
import { control } from './api.js';
import * as creators from './creators.js';
import { $, attempt, clock, day, lasting, setText } from './dom.js';

let ahead = null; // milliseconds by which the platform's clock is ahead of this browser

async function read() {
  try {
    set(await control('GET', '/clock'));
  } catch {
    ahead = null;
    setText($('clock-now'), 'unknown: the sandbox is not responding');
    setText($('clock-ahead'), '');
  }
}

function set({ now }) {
  ahead = new Date(now) - Date.now();
  tick();
}

function tick() {
  if (ahead === null) return;
  const now = new Date(Date.now() + ahead);
  setText($('clock-now'), `${day(now)} ${clock(now)} UTC`);
  setText($('clock-ahead'), ahead > 2000 ? `${lasting(ahead / 1000)} ahead` : '');
}

const advance = (button, seconds) => attempt(button, async () => set(await control('POST', '/clock', { advance_sec: seconds })), `Advanced the clock by ${lasting(seconds)}`);

let generating = 0;

function generate(form) {
  const { rate, for: seconds } = form.elements;
  return attempt(form.querySelector('.main'), async () => {
    if (!creators.login()) throw new Error('Select a creator first.');
    const order = await control('POST', '/generate', { login: creators.login(), events_per_sec: Number(rate.value), for_sec: Number(seconds.value) });
    clearTimeout(generating);
    setText($('generate-state'), `Running for ${order.login} until ${clock(new Date(Date.now() + order.for_sec * 1000))} UTC (this machine’s clock).`);
    generating = setTimeout(() => setText($('generate-state'), `Finished for ${order.login}.`), order.for_sec * 1000);
  }, 'Generator started');
}

export function start() {
  read();
  setInterval(tick, 500);
  setInterval(() => document.hidden || read(), 10000);
  for (const button of $('clock-steps').children) button.addEventListener('click', () => advance(button, Number(button.dataset.seconds)));
  $('clock-form').addEventListener('submit', (e) => {
    e.preventDefault();
    const { amount, unit } = e.target.elements;
    advance(e.submitter, Number(amount.value) * Number(unit.value));
  });
  $('generate-form').addEventListener('submit', (e) => {
    e.preventDefault();
    generate(e.target);
  });
  $('generate-stop').addEventListener('click', (e) => attempt(e.target, async () => {
    await control('DELETE', '/generate');
    clearTimeout(generating);
    setText($('generate-state'), 'Stopped.');
  }, 'All generators stopped'));
}

export const refresh = read;
