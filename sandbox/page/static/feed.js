// A feed is a part of the page that shows data of the sandbox: loading, failed, current or stale.
import { clock, el } from './dom.js';

// feed loads the data periodically while the page is visible, and less often if loading is slow. now() loads immediately.
export function feed({ box, load, show, every }) {
  let timer;
  let running = false;
  let again = false;
  let shownAt;
  const place = el('div', { class: 'stack' });
  const stale = el('p', { class: 'failed', role: 'status', hidden: true });

  function failed(failure) {
    if (shownAt) {
      stale.textContent = `${failure.message} Showing data from ${clock(shownAt)} UTC. Retrying.`;
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
