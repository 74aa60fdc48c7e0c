// A feed is a part of the page that follows something of the sandbox: loading, failed, shown, or shown but stale.
import { clock, el } from './dom.js';

// feed asks again every so often while the page is seen; what takes long is asked for less often. now() asks at once.
export function feed({ box, load, show, every }) {
  let timer;
  let running = false;
  let again = false;
  let shownAt;
  const place = el('div', { class: 'stack' });
  const stale = el('p', { class: 'failed', role: 'status', hidden: true });

  function failed(failure) {
    if (shownAt) {
      stale.textContent = `${failure.message} What you see is from ${clock(shownAt)} UTC; trying again.`;
      stale.hidden = false;
      return;
    }
    box.replaceChildren(el('p', { class: 'failed', role: 'alert' }, failure.message, el('button', { type: 'button', class: 'small', onclick: now }, 'Try again')));
  }

  async function once() {
    try {
      const answer = await load();
      if (!place.isConnected) box.replaceChildren(stale, place);
      stale.hidden = true;
      shownAt = new Date();
      show(place, answer);
    } catch (failure) {
      failed(failure);
    }
  }

  async function now() {
    if (running) {
      again = true;
      return;
    }
    running = true;
    clearTimeout(timer);
    const began = performance.now();
    do {
      again = false;
      await once();
    } while (again);
    running = false;
    if (every) timer = setTimeout(() => (document.hidden || now()), Math.max(every, 20 * (performance.now() - began)));
  }

  document.addEventListener('visibilitychange', () => document.hidden || now());
  now();
  return { now };
}
