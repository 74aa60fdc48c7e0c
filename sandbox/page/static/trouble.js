// The kinds of faults, and the active faults.
import { control, loginOf } from './api.js';
import * as creators from './creators.js';
import { $, attempt, clock, el, keyed, many, setText } from './dom.js';
import { feed } from './feed.js';

let list;
let kinds = new Map();

const about = (kind) => kinds.get(kind) ?? { kind, label: kind, about: 'This page does not know this kind. See the docs.', value: 'Value' };

function options(names) {
  const select = $('fault-form').elements.kind;
  if (select.options.length) return;
  select.append(...names.map((kind) => el('option', { value: kind }, about(kind).label)));
  pick();
}

// pick describes the selected kind and its value.
function pick() {
  const form = $('fault-form');
  const kind = about(form.elements.kind.value);
  setText($('fault-about'), kind.about);
  $('fault-value').hidden = !kind.value;
  $('fault-choice').hidden = !kind.choices;
  if (kind.value) {
    $('fault-value').firstElementChild.textContent = kind.value;
    form.elements.value.value = kind.usual ?? '';
  }
  form.elements.choice.replaceChildren(...(kind.choices ?? []).map((text, value) => el('option', { value }, text)));
}

function order(form) {
  const { kind, scope, value, choice, count, for: seconds } = form.elements;
  const number = (input, label) => {
    if (input.validity.badInput) throw new Error(`${label} must be a number.`);
    return input.value === '' ? undefined : Number(input.value);
  };
  return attempt(form.querySelector('.main'), async () => {
    const { value: hasValue, choices } = about(kind.value);
    const who = scope.value.trim().toLowerCase() === 'all' ? 'all' : loginOf(scope.value);
    if (!who) throw new Error('Enter the affected login, or all.');
    await control('POST', '/faults', {
      kind: kind.value, scope: who, value: choices ? Number(choice.value) : hasValue ? number(value, hasValue) : undefined,
      count: number(count, 'Count'), for_sec: number(seconds, 'Seconds'),
    });
    await list.now();
  }, `Set: ${about(kind.value).label}`);
}

function item(fault) {
  const kind = about(fault.kind);
  const said = el('span', { class: 'fine' });
  const value = kind.choices ? kind.choices[fault.value] : kind.value && `${kind.value.toLowerCase()} ${fault.value}`;
  const clear = (e) => attempt(e.target, async () => {
    await control('DELETE', `/faults/${fault.id}`);
    await list.now();
  }, 'Cleared');
  const node = el('li', { class: 'thing' },
    el('div', { class: 'head' }, el('span', {}, el('b', {}, kind.label), ' for ', fault.scope === 'all' ? 'all logins' : el('code', {}, fault.scope)),
      el('button', { type: 'button', class: 'small', 'aria-label': `Clear ${kind.label} for ${fault.scope}`, onclick: clear }, 'Clear')), said);
  node.update = (now) => setText(said, [
    value, now.count ? `${many(now.count, 'more time')}` : 'always', now.until ? `until ${clock(new Date(now.until))} UTC` : 'until cleared', many(now.hits, 'hit'),
  ].filter(Boolean).join(' · '));
  return node;
}

function show(place, { faults, kinds: names }) {
  options(names);
  $('faults-clear').disabled = !faults.length;
  if (!faults.length) {
    place.replaceChildren(el('p', { class: 'quiet' }, 'No active faults.'));
    return;
  }
  if (!place.querySelector('ul')) place.replaceChildren(el('ul', { class: 'things' }));
  keyed(place.querySelector('ul'), faults, (fault) => fault.id, item);
}

export function start(words) {
  kinds = new Map(words.faults.map((kind) => [kind.kind, kind]));
  const form = $('fault-form');
  form.elements.kind.addEventListener('change', pick);
  form.addEventListener('submit', (e) => {
    e.preventDefault();
    order(form);
  });
  $('faults-clear').addEventListener('click', (e) => attempt(e.target, async () => {
    const { cleared } = await control('DELETE', '/faults');
    await list.now();
    return cleared;
  }, (cleared) => `Cleared ${many(cleared, 'fault')}`));
  list = feed({ box: $('faults-feed'), load: () => control('GET', '/faults'), show, every: 2000 });
  creators.onChoice((login) => { form.elements.scope.value = login || 'all'; });
}

// offer sets the suggested logins for faults and QR approvals.
export function offer(logins) {
  $('scopes').replaceChildren(...['all', ...logins].map((value) => el('option', { value })));
}

export const refresh = () => list.now();
