// The request log of the platform.
import { control } from './api.js';
import { $, attempt, clock, day, el, keyed } from './dom.js';
import { feed } from './feed.js';

const shown = 200;

let list;

const colour = (status) => (status >= 500 ? 'bad' : status >= 400 ? 'warn' : status === 0 ? '' : 'good');

function row({ at, method, path, status, egress, login }) {
  const date = new Date(at);
  const cell = (props, content) => el('td', { role: 'cell', ...props }, content);
  return el('tr', { role: 'row' },
    cell({ class: 'mono', title: `${day(date)} ${clock(date, true)} UTC` }, clock(date)), cell({ class: 'mono' }, `${method} ${path}`),
    cell({}, el('span', { class: `chip ${colour(status)}` }, String(status || '–'))), cell({}, egress), cell({ title: login }, login ?? el('span', { class: 'quiet' }, 'not signed in')));
}

function show(place, { requests }) {
  if (!requests.length) {
    place.replaceChildren(el('p', { class: 'empty' }, el('b', {}, $('requests-login').value ? 'No requests from this login' : 'No requests yet'), el('span', {}, 'Requests to the platform’s API are listed here. Requests of this page are not.')));
    return;
  }
  if (!place.querySelector('table')) {
    place.replaceChildren(el('div', { class: 'table', tabIndex: 0, role: 'region', 'aria-label': 'Request log' }, el('table', { role: 'table' },
      el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, ['Time', 'Request', 'Status', 'Egress', 'Login'].map((name) => el('th', { role: 'columnheader', scope: 'col' }, name)))), el('tbody', { role: 'rowgroup' }))), el('p', { class: 'fine' }));
  }
  // Entries have no id, so the time and a counter make one.
  const times = new Map();
  const newest = requests.slice(-shown).map((one) => {
    const nth = (times.get(one.at) ?? 0) + 1;
    times.set(one.at, nth);
    return { ...one, n: `${one.at} ${nth} ${one.path}` };
  });
  keyed(place.querySelector('tbody'), newest.reverse(), (one) => one.n, row);
  place.querySelector('.fine').textContent = requests.length > shown ? `The newest ${shown} of ${requests.length.toLocaleString('en')}` : '';
}

// offer sets the logins of the filter and keeps the selection.
export function offer(logins) {
  const select = $('requests-login');
  const have = [...select.options].slice(1).map((option) => option.value);
  if (have.join() === logins.join()) return;
  const kept = select.value;
  const all = kept && !logins.includes(kept) ? [kept, ...logins] : logins;
  select.replaceChildren(select.options[0], ...all.map((value) => el('option', { value }, value)));
  select.value = kept;
}

export function start() {
  list = feed({
    box: $('requests-feed'), show, every: 4000,
    load: () => control('GET', `/requests?login=${encodeURIComponent($('requests-login').value)}`),
  });
  $('requests-login').addEventListener('change', list.now);
  $('requests-refresh').addEventListener('click', list.now);
  $('requests-forget').addEventListener('click', (e) => attempt(e.target, async () => {
    await control('DELETE', '/requests');
    await list.now();
  }, 'Request log cleared'));
}

export const refresh = () => list.now();
