// Small helpers for elements, times and messages.

export const $ = (id) => document.getElementById(id);

const attributes = new Set(['class', 'role', 'list', 'spellcheck', 'autocapitalize']);

// el creates an element. Props that start with "on" are listeners; those in attributes or with a dash are attributes; all
// others are properties.
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (attributes.has(name) || name.includes('-')) node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

// keyed updates a parent's children to match a list. It keeps existing children in place, so that input and focus are not
// lost.
export function keyed(parent, items, key, make) {
  const old = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let at = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let node = old.get(name);
    if (node) {
      old.delete(name);
      node.update?.(item);
    } else {
      node = make(item);
      node.dataset.key = name;
      node.update?.(item);
    }
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
  }
  for (const node of old.values()) node.remove();
}

// setText sets a text only if it differs, so that the user's selection is kept.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function toast(text, bad = false) {
  const box = $('toasts');
  if (box.lastElementChild?.textContent === text) box.lastElementChild.remove();
  const node = el('p', { class: bad ? 'toast bad' : 'toast' }, text);
  box.append(node);
  while (box.children.length > 3) box.firstElementChild.remove();
  setTimeout(() => node.remove(), bad ? 9000 : 4000);
}

// attempt runs an action, disables its button meanwhile, and shows the result as a toast.
export async function attempt(button, order, done) {
  if (button) button.disabled = true;
  try {
    const answer = await order();
    const said = typeof done === 'function' ? done(answer) : done;
    if (said) toast(said);
    return true;
  } catch (failure) {
    toast(failure.message, true);
    return false;
  } finally {
    if (button) button.disabled = false;
  }
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast(text.length > 60 ? 'Copied' : `Copied ${text}`);
  } catch {
    toast(`The browser does not allow copying. Select the text: ${text}`, true);
  }
}

export const copyButton = (text) => el('button', { type: 'button', class: 'plain copy', 'aria-label': `Copy ${text}`, onclick: () => copy(text) }, text);

const two = (n) => String(n).padStart(2, '0');

// clock formats the time of day in UTC. If fine is set, it includes milliseconds.
export function clock(date, fine = false) {
  const text = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}`;
  return fine ? `${text}.${String(date.getUTCMilliseconds()).padStart(3, '0')}` : text;
}

export const day = (date) => `${date.getUTCFullYear()}-${two(date.getUTCMonth() + 1)}-${two(date.getUTCDate())}`;

// lasting formats a number of seconds: 90 is 1 min 30 s.
export function lasting(seconds) {
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const parts = [];
  let left = Math.round(seconds);
  for (const [size, name] of units) {
    const n = Math.floor(left / size);
    left -= n * size;
    if (n > 0 && parts.length < 2) parts.push(`${n} ${name}`);
  }
  return parts.join(' ') || '0 s';
}

export const many = (n, one, more = `${one}s`) => `${n.toLocaleString('en')} ${n === 1 ? one : more}`;
