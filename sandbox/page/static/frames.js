// The live frames of the selected creator.
import * as creators from './creators.js';
import { $, clock, copy, el, many, setText } from './dom.js';
import { meet } from './fan.js';

const keptRows = 300;
const keptHeld = 500;

let source;
let paused = false;
let held = [];
let skipped = 0;
let state = '';

function follow(login) {
  source?.close();
  clear();
  setText($('frames-empty').firstElementChild, login ? 'Listening…' : 'No creator selected');
  setText($('frames-empty').lastElementChild, login ? 'Frames appear here as they are sent. Send a message as a fan.' : 'Select a creator first.');
  if (!login) return;
  say('Connecting');
  source = new EventSource(`/page/frames?login=${encodeURIComponent(login)}`);
  const mine = source;
  source.addEventListener('open', () => {
    say('Live');
    creators.refresh();
  });
  source.addEventListener('frames', (e) => take(JSON.parse(e.data)));
  source.addEventListener('dropped', (e) => note(reasons[JSON.parse(e.data)] ?? 'The platform closed the stream. Reconnecting.'));
  source.addEventListener('error', () => {
    if (mine !== source) return;
    if (mine.readyState !== EventSource.CLOSED) {
      say('Reconnecting');
      return;
    }
    // The sandbox refused the request, or was down at the first attempt.
    say('Not connected');
    note('Frames are not available. Is sandboxd running on this machine? Retrying.');
    setTimeout(() => mine === source && follow(login), 3000);
  });
}

const reasons = {
  slow: 'This page was too slow. Some frames are missing.',
  reset: 'The sandbox was reset.',
  fault: 'A fault closed the sockets, including this stream. Reconnecting.',
};

function say(text) {
  state = text;
  paint();
}

function paint() {
  const chip = $('frames-state');
  setText(chip, paused ? `Paused · ${held.length} held` : state || 'No creator selected');
  chip.className = `chip dot ${paused ? 'warn' : { Live: 'good', 'Not connected': 'bad' }[state] ?? 'info'}`;
}

function note(text) {
  $('frames-note').hidden = !text;
  setText($('frames-note'), text);
}

function take(batch) {
  skipped += batch.skipped;
  if (skipped) note(`High volume: ${many(skipped, 'frame is', 'frames are')} not shown here. The sockets receive all of them.`);
  else note('');
  if (paused) {
    held = held.concat(batch.frames).slice(-keptHeld);
    paint();
    return;
  }
  add(batch.frames);
}

function add(frames) {
  const list = $('frames-list');
  const rows = frames.map(row).reverse();
  list.prepend(...rows);
  while (list.children.length > keptRows) list.lastElementChild.remove();
}

const told = new Set(['display_name', 'name', 'text', 'amount', 'price', 'title', 'status', 'state', 'error']);

// gist returns a one-line summary of a frame.
function gist(text) {
  const body = JSON.parse(text).body ?? {};
  const found = {};
  const look = (thing, depth) => {
    for (const [name, value] of Object.entries(thing ?? {})) {
      if (typeof value === 'object') {
        if (depth < 3) look(value, depth + 1);
      } else if (told.has(name) && value !== '' && value !== 0) found[name] ??= value;
    }
  };
  look(body, 0);
  const money = found.amount ?? found.price;
  const words = found.text ? `“${found.text}”` : found.title ?? found.error ?? found.status ?? found.state;
  const plain = Object.entries(body).filter(([, value]) => typeof value === 'string' || typeof value === 'boolean' || (Number.isSafeInteger(value) && value));
  if (!Object.keys(found).length) return plain.slice(0, 2).map(([name, value]) => `${name.replaceAll('_', ' ')}: ${value}`).join(' · ');
  return [found.display_name ?? found.name, money && `$${Number(money).toFixed(2)}`, words].filter(Boolean).join(' · ');
}

// fanOf finds a person in a frame's text, because parsing would round the id.
function fanOf(text) {
  const found = /"id": (\d+),\s*"handle": "(?:[^"\\]|\\.)*",\s*"display_name": ("(?:[^"\\]|\\.)*")/.exec(text);
  return found && { id: found[1], name: JSON.parse(found[2]) };
}

const colours = [[/fail|charged|left|deleted|removed|expired/, 'bad'], [/tip|money|purchased|bought|payout|fundraising/, 'good'], [/^fan\.|trial/, 'info']];

function row(frame) {
  const fan = fanOf(frame.text);
  if (fan) meet(fan.id, fan.name);
  const colour = colours.find(([match]) => match.test(frame.type))?.[1] ?? '';
  const node = el('li', {});
  const button = el('button', { type: 'button', 'aria-expanded': 'false', onclick: () => open(node, button, frame) },
    el('time', {}, clock(new Date(frame.at * 1000), true)), el('span', { class: `chip ${colour}` }, frame.type), el('span', { class: 'gist' }, gist(frame.text)));
  node.append(button);
  return node;
}

function open(node, button, frame) {
  const closed = button.getAttribute('aria-expanded') === 'false';
  button.setAttribute('aria-expanded', String(closed));
  if (!closed) {
    button.nextElementSibling.remove();
    return;
  }
  node.append(el('div', {}, el('div', { class: 'tools' }, el('button', { type: 'button', class: 'small', onclick: () => copy(frame.text) }, 'Copy JSON')), el('pre', { tabIndex: 0 }, frame.text)));
}

function clear() {
  $('frames-list').replaceChildren();
  held = [];
  skipped = 0;
  note('');
  paint();
}

export function start() {
  $('frames-clear').addEventListener('click', clear);
  $('frames-pause').addEventListener('click', () => {
    paused = !paused;
    $('frames-pause').setAttribute('aria-pressed', String(paused));
    setText($('frames-pause'), paused ? 'Resume' : 'Pause');
    if (!paused) {
      add(held);
      held = [];
    }
    paint();
  });
  creators.onChoice(follow);
}
