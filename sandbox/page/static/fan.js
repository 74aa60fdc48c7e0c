// Happenings: what fans and others can do to the selected creator.
import { control, Digits } from './api.js';
import * as creators from './creators.js';
import { $, attempt, el } from './dom.js';
import { feed } from './feed.js';

const fields = {
  user_id: { label: 'Fan', hint: 'any fan', digits: true, list: 'fans' },
  text: { label: 'Text', hint: 'default text' },
  amount: { label: 'Dollars', hint: 'default', number: true },
  ref_id: { label: 'About', hint: 'the newest', digits: true },
  count: { label: 'Count', hint: '1', number: true },
  reason: { label: 'Reason', hint: 'default reason' },
};

const fans = new Map();

// meet remembers a fan from a frame, to be suggested in the form.
export function meet(id, name) {
  fans.delete(id);
  fans.set(id, name);
  if (fans.size > 30) fans.delete(fans.keys().next().value);
  $('fans')?.replaceChildren(...[...fans].reverse().map(([value, label]) => el('option', { value, label })));
}

export function start(words) {
  const known = new Map(words.happenings.flatMap((group) => group.acts).map((act) => [act.what, act]));
  const load = async () => (await control('GET', '/happenings')).happenings;
  feed({ box: $('fan-feed'), load, show: (place, names) => show(place, names, words.happenings, known) });
  creators.onChoice(() => { fans.clear(); $('fans')?.replaceChildren(); });
}

// show builds the list once, because the happenings do not change while the sandbox runs.
function show(place, names, groups, known) {
  if (!names.length) {
    place.replaceChildren(el('div', { class: 'empty' }, el('b', {}, 'No happenings'), el('span', {}, 'This sandbox was built without happenings.')));
    return;
  }
  const act = el('form', { class: 'act fields', noValidate: true });
  const option = (one) => el('label', { class: 'option', title: one.what },
    el('input', { type: 'radio', name: 'what', value: one.what, onchange: () => form(act, one) }), el('span', {}, one.label));
  const offered = groups
    .map((group) => ({ ...group, acts: group.acts.filter((one) => names.includes(one.what)) }))
    .filter((group) => group.acts.length);
  const rest = names.filter((name) => !known.has(name)).map((what) => ({ what, label: what, fields: Object.keys(fields) }));
  place.replaceChildren(
    el('div', { class: 'acts', role: 'radiogroup', 'aria-label': 'Happening' },
      offered.filter((group) => !group.folded).map((group) => el('div', {}, el('h3', {}, group.name), el('div', { class: 'options' }, group.acts.map(option)))),
      [...offered.filter((group) => group.folded), ...(rest.length ? [{ name: 'More', acts: rest }] : [])].map((group) =>
        el('details', { class: 'more' }, el('summary', {}, `${group.name} (${group.acts.length})`), el('div', { class: 'options' }, group.acts.map(option))))),
    act, el('datalist', { id: 'fans' }));
  const first = place.querySelector('input[name=what]');
  first.checked = true;
  form(act, known.get(first.value) ?? rest[0]);
  act.addEventListener('submit', (e) => {
    e.preventDefault();
    order(act);
  });
}

// form shows the fields of one happening. It keeps the fan that was entered before.
function form(act, one) {
  const fan = act.elements.user_id?.value ?? '';
  act.dataset.what = one.what;
  act.dataset.label = one.label;
  act.replaceChildren(
    el('p', { class: 'wide quiet' }, one.about ? `${one.about} ` : '', el('code', {}, one.what)),
    ...one.fields.map((name) => {
      const field = fields[name];
      return el('label', { class: name === 'text' ? 'wide' : undefined }, one.labels?.[name] ?? field.label, el('input', {
        name, type: 'text', autocomplete: 'off', spellcheck: 'false', list: field.list,
        inputMode: field.number ? 'decimal' : field.digits ? 'numeric' : 'text', placeholder: one.hints?.[name] ?? field.hint,
        value: name === 'user_id' ? fan : '',
      }));
    }),
    el('div', { class: 'wide' }, el('button', { class: 'main' }, one.button ?? one.label)),
  );
}

function order(act) {
  attempt(act.querySelector('button.main'), async () => {
    if (!creators.login()) throw new Error('Select a creator first.');
    const body = { login: creators.login(), what: act.dataset.what };
    for (const input of act.querySelectorAll('input')) {
      const typed = input.value.trim();
      if (typed) body[input.name] = read(input, typed);
    }
    await control('POST', '/happen', body);
  }, `Done: ${act.dataset.label}`);
}

function read(input, typed) {
  const field = fields[input.name];
  const label = input.closest('label').firstChild.textContent;
  if (field.digits) {
    if (!/^[1-9]\d{0,18}$/.test(typed)) throw new Error(`${label} must be an id, with digits only. Frames show ids.`);
    return new Digits(typed);
  }
  if (!field.number) return typed;
  const value = Number(typed.replace(/^\$/, ''));
  if (!Number.isFinite(value)) throw new Error(`${label} must be a number, not “${typed}”.`);
  return value;
}
