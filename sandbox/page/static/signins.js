// Pending sign-ins, which wait for the creator's phone, a selfie or a code.
import { control, loginOf } from './api.js';
import * as creators from './creators.js';
import { $, attempt, clock, el, keyed, setText } from './dom.js';
import { feed } from './feed.js';

let qrs;
let checks;

function list(place, items, key, make, nothing) {
  if (!items.length) {
    place.replaceChildren(el('p', { class: 'quiet' }, nothing));
    return;
  }
  if (!place.querySelector('ul')) place.replaceChildren(el('ul', { class: 'things' }));
  keyed(place.querySelector('ul'), items, key, make);
}

const until = (stamp) => `until ${clock(new Date(stamp))}`;

function qr(one) {
  const id = `qr-${one.id}`;
  const chip = el('span', { class: 'chip' });
  const link = el('a', { target: '_blank', rel: 'noopener' }, 'Open the phone’s page');
  const login = el('input', { id, type: 'text', value: creators.login(), placeholder: 'a new creator', autocomplete: 'off', autocapitalize: 'none', spellcheck: 'false', list: 'scopes' });
  const answer = (action, said) => (e) => attempt(e.target, async () => {
    await control('POST', `/qr/${one.id}/${action}`, { login: action === 'approve' ? loginOf(login.value) : '' });
    await Promise.all([qrs.now(), creators.refresh()]);
  }, said);
  const node = el('li', { class: 'thing' },
    el('div', { class: 'head' }, el('span', {}, el('code', {}, `${one.id.slice(0, 4)} ${one.id.slice(4, 8)}`), ' ', el('span', { class: 'fine' }, until(one.ends_at))), chip, link),
    el('form', { class: 'inline', onsubmit: (e) => { e.preventDefault(); answer('approve', 'Approved')({ target: e.submitter }); } },
      el('label', { htmlFor: id }, 'Approve as', login), el('button', { class: 'main' }, 'Approve'), el('button', { type: 'button', onclick: answer('deny', 'Denied') }, 'Deny')));
  node.update = (now) => {
    setText(chip, { pending: 'Not scanned', scanned: 'Scanned' }[now.status] ?? now.status);
    chip.className = `chip dot ${now.status === 'scanned' ? 'good' : 'info'}`;
    link.href = new URL(now.url).pathname;
  };
  return node;
}

const methods = { sms: 'SMS code', totp: 'authenticator code', mail: 'email code', selfie: 'selfie' };

function check(one) {
  const take = (passed, said) => (e) => attempt(e.target, async () => {
    await control('POST', `/selfies/${one.token}`, { passed });
    await checks.now();
  }, said);
  const node = el('li', { class: 'thing' },
    el('div', { class: 'head' }, el('span', {}, el('b', {}, one.login), ' ', el('span', { class: 'fine' }, until(one.ends_at))), el('span', { class: 'chip' }, methods[one.method] ?? one.method)));
  if (one.method !== 'selfie') {
    node.append(el('p', { class: 'fine' }, 'Enter the code where you sign in: 123456 is correct.'));
    return node;
  }
  const buttons = el('div', { class: 'row' },
    el('button', { type: 'button', class: 'main', onclick: take(true, 'The selfie passed') }, 'Pass'), el('button', { type: 'button', onclick: take(false, 'The selfie failed') }, 'Fail'),
    el('a', { href: `/verify/${one.token}`, target: '_blank', rel: 'noopener' }, 'Open the selfie page'));
  const said = el('p', { class: 'fine' });
  node.append(buttons, said);
  node.update = (now) => {
    buttons.hidden = now.selfie !== 'open';
    setText(said, { passed: 'Passed. The sign-in continues at its next poll.', rejected: 'Failed. The sign-in fails at its next poll.' }[now.selfie] ?? '');
    said.hidden = !said.textContent;
  };
  return node;
}

export function start() {
  qrs = feed({
    box: $('qr-feed'), every: 2000, load: async () => (await control('GET', '/qr')).qr,
    show: (place, all) => list(place, all, (one) => one.id, qr, 'No pending QR codes. A sign-in with the creator’s phone creates one.'),
  });
  checks = feed({
    box: $('selfie-feed'), every: 2000, load: async () => (await control('GET', '/challenges')).challenges,
    show: (place, all) => list(place, all, (one) => one.token, check, 'No pending checks. Sign in as face@sandbox.test to see one.'),
  });
}

export const refresh = () => Promise.all([qrs.now(), checks.now()]);
