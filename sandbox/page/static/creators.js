// The list of creators, and the selected one.
import { control, loginOf } from './api.js';
import { $, attempt, copy, copyButton, el, keyed, many, setText, toast } from './dom.js';
import { feed } from './feed.js';

const linked = loginOf(new URLSearchParams(location.search).get('login') ?? '');
let chosen = /^[^@]+@sandbox\.test$/.test(linked) ? linked : '';
let seen = [];
let list;
const followers = [];
let offer = () => {};

// login returns the login of the selected creator, or ''.
export const login = () => chosen;

// onChoice calls follow now and whenever another creator is selected.
export function onChoice(follow) {
  followers.push(follow);
  follow(chosen);
}

// onList calls callback with all logins whenever the list is loaded.
export function onList(callback) {
  offer = callback;
  offer(seen.map((one) => one.login));
}

export const refresh = () => list.now();

export function choose(one) {
  if (one === chosen) return;
  chosen = one;
  history.replaceState(null, '', `?login=${encodeURIComponent(one)}`);
  followers.forEach((follow) => follow(chosen));
  refresh();
}

// add creates a creator if necessary, and selects it.
export async function add(typed) {
  const one = loginOf(typed);
  if (!one) throw new Error('Enter a login, such as ok@sandbox.test.');
  await control('GET', `/creators?login=${encodeURIComponent(one)}`);
  choose(one);
  await refresh();
}

async function load() {
  const answer = await control('GET', '/creators');
  // A link may name a creator that does not exist yet or is not listed, and a reset deletes the selected one.
  if (chosen && !answer.creators.some((one) => one.login === chosen)) {
    const { creators } = await control('GET', `/creators?login=${encodeURIComponent(chosen)}`);
    answer.creators.unshift(...creators);
    answer.total = Math.max(answer.total, answer.creators.length);
  }
  return answer;
}

function show(place, { creators, total }) {
  seen = creators;
  offer(seen.map((one) => one.login));
  setText($('creators-total'), total ? String(total) : '');
  if (!creators.length) {
    place.replaceChildren(el('div', { class: 'empty' }, el('b', {}, 'No creators yet'), el('span', {}, 'A creator, with seed data, is created when its login is first used.'),
      el('button', { type: 'button', class: 'main', onclick: (e) => attempt(e.target, () => add('ok@sandbox.test'), 'Added ok@sandbox.test') }, 'Add ok@sandbox.test')));
  } else {
    if (!place.querySelector('ul')) place.replaceChildren(el('ul', { class: 'pick' }), el('p', { class: 'fine' }));
    keyed(place.querySelector('ul'), creators, (one) => one.login, item);
    setText(place.querySelector('p'), total > creators.length ? `${creators.length} of ${total} listed. Add others by login.` : '');
  }
  const current = creators.find((one) => one.login === chosen);
  if (current) head(current);
  else if (!chosen && creators.length) choose(creators[0].login);
}

function item(one) {
  const name = el('span');
  const chip = el('span', { class: 'chip good', title: 'Open sockets' });
  const button = el('button', { type: 'button', onclick: () => choose(one.login) }, name, el('span', { class: 'fine' }, one.login), chip);
  const node = el('li', {}, button);
  node.update = (now) => {
    setText(name, now.name);
    setText(chip, `${now.sockets} live`);
    chip.hidden = now.sockets === 0;
    if (now.login === chosen) button.setAttribute('aria-current', 'true');
    else button.removeAttribute('aria-current');
  };
  return node;
}

// head shows the selected creator above the cards.
function head(one) {
  const box = $('chosen');
  if (box.dataset.login !== one.login) {
    box.dataset.login = one.login;
    box.replaceChildren(
      el('div', {}, el('h1', {}), el('div', { class: 'row' }, copyButton(one.login), copyButton(String(one.id)), el('span', { class: 'chip', id: 'chosen-sessions' }), el('span', { class: 'chip', id: 'chosen-sockets' }))),
      el('div', { class: 'row' },
        el('button', { type: 'button', onclick: (e) => attempt(e.target, () => cookie(one.login)) }, 'Copy session cookie'),
        el('button', { type: 'button', class: 'risky', onclick: (e) => attempt(e.target, () => end(one.login), ({ ended }) => `Ended ${many(ended, 'session')}`) }, 'End sessions')),
    );
  }
  setText(box.querySelector('h1'), `${one.name} (${one.username})`);
  setText($('chosen-sessions'), many(one.sessions, 'session'));
  setText($('chosen-sockets'), one.sockets ? `${many(one.sockets, 'socket')}, including this page` : 'No sockets');
}

async function cookie(of) {
  const session = await control('POST', '/sessions', { login: of, user_agent: navigator.userAgent });
  await copy(`Cookie: ${session.cookie}\nX-Device: ${session.headers['x-device']}`);
  await refresh();
}

async function end(of) {
  const answer = await control('POST', '/sessions/end', { login: of });
  await refresh();
  return answer;
}

export function start(words) {
  list = feed({ box: $('creators-feed'), load, show, every: 5000 });
  $('persona-logins').append(...words.personas.flatMap((group) => group.logins).map(({ login: one }) => el('option', { value: one })));
  const form = $('creators-add');
  const fault = $('creators-fault');
  form.addEventListener('submit', async (e) => {
    e.preventDefault();
    const field = form.elements.login;
    try {
      await add(field.value);
      field.value = '';
      fault.hidden = true;
      field.removeAttribute('aria-invalid');
    } catch (failure) {
      fault.textContent = failure.message;
      fault.hidden = false;
      field.setAttribute('aria-invalid', 'true');
      field.focus();
    }
  });
  personas(words);
}

// personas fills the dialog that explains the personas.
function personas(words) {
  const dialog = $('personas');
  $('personas-open').addEventListener('click', () => dialog.showModal());
  const row = ({ login: one, does }) => el('tr', {}, el('td', {}, copyButton(one)), el('td', {}, does),
    el('td', {}, el('button', { type: 'button', class: 'small', 'aria-label': `Add ${one}`, onclick: (e) => attempt(e.target, async () => { await add(one); dialog.close(); }, `Added ${one}`) }, 'Add')));
  for (const group of words.personas) {
    $('personas-list').append(el('h3', {}, group.name), el('table', {}, el('tbody', {}, group.logins.map(row))));
  }
  $('personas-list').append(el('h3', {}, 'Codes and passwords'), el('table', {}, el('tbody', {}, words.codes.map(({ code, does }) =>
    el('tr', {}, el('td', {}, copyButton(code)), el('td', {}, does), el('td'))))));
}

// reset asks for confirmation, resets the sandbox, and then calls afterwards.
export function reset(afterwards) {
  const dialog = $('reset');
  $('reset-open').addEventListener('click', () => {
    dialog.returnValue = '';
    dialog.showModal();
  });
  dialog.addEventListener('close', async () => {
    if (dialog.returnValue !== 'reset') return;
    if (await attempt($('reset-open'), () => control('POST', '/seed'))) {
      toast('The sandbox has been reset.');
      afterwards();
    }
  });
}
