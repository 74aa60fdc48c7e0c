// The script of a page: it follows the attempt, counts down, and sends messages to the site that embeds the page.
(() => {
  'use strict';
  const data = document.body.dataset;
  const find = (selector) => document.querySelector(selector);
  const time = (seconds) => `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;

  // In a frame, the page of a link opens it. Elsewhere only a person does, because previews of links may run scripts.
  const auto = find('[data-auto]');
  if (auto && parent !== window) return auto.submit();

  // Follow the attempt with a stream, or poll every three seconds where streams do not work.
  let left = false;
  const reload = () => {
    if (left) return;
    left = true;
    location.replace(location.pathname + location.search);
  };
  const change = (now) => {
    const link = find('[data-link]');
    if (now.key !== data.key || (link && now.link && link.dataset.link !== now.link)) return reload();
    document.querySelectorAll('.steps li').forEach((item, at) => {
      item.dataset.is = at + 1 < now.step ? 'done' : at + 1 === now.step ? 'now' : 'todo';
    });
    const seen = find('#seen');
    if (seen && now.seen && seen.dataset.seen !== 'true') {
      seen.dataset.seen = 'true';
      seen.textContent = seen.dataset.text;
    }
    const picture = find('#qr');
    if (picture && now.qr && picture.getAttribute('src') !== now.qr) picture.src = now.qr;
  };
  const poll = () => {
    fetch(`${data.live}/state`, { cache: 'no-store' })
      .then((answer) => (answer.ok ? answer.json().then(change) : answer.status < 500 && answer.status !== 429 && reload()))
      .catch(() => {})
      .finally(() => !left && setTimeout(poll, 3000));
  };
  const follow = () => {
    if (!window.EventSource) return poll();
    let failures = 0;
    const stream = new EventSource(`${data.live}/events`);
    stream.addEventListener('change', (event) => {
      failures = 0;
      change(JSON.parse(event.data));
    });
    stream.onerror = () => {
      if (++failures < 3 && stream.readyState !== EventSource.CLOSED) return;
      stream.close();
      poll();
    };
    addEventListener('pagehide', () => stream.close());
  };
  if (data.live) follow();

  // The email stays in this tab, so that a creator who mistyped the password need not enter both again.
  const email = find('#email');
  const tab = (use) => { try { return use(sessionStorage); } catch { return null; } }; // Frames may have no storage.
  if (email && find('#password[aria-invalid]') && !email.value) email.value = tab((s) => s.getItem('email')) || '';
  if (email) email.form.addEventListener('submit', () => tab((s) => s.setItem('email', email.value)));
  if (data.end === 'success' || find('.account')) tab((s) => s.removeItem('email'));

  // A submitted form shows that it is busy, and cannot be submitted twice.
  document.querySelectorAll('form').forEach((form) => form.addEventListener('submit', (event) => {
    if (form.dataset.sent) return event.preventDefault();
    form.dataset.sent = 'yes';
    left = true; // the response will replace the page
    const button = event.submitter;
    if (button && form.dataset.busy) setTimeout(() => {
      button.disabled = true;
      button.textContent = form.dataset.busy;
    });
  }));
  addEventListener('pageshow', (event) => event.persisted && location.reload());

  // Countdowns.
  const resend = find('#resend');
  if (resend && resend.dataset.wait > 0) {
    const ready = resend.textContent;
    const until = Date.now() + resend.dataset.wait * 1000;
    const tick = () => {
      const rest = Math.ceil((until - Date.now()) / 1000);
      resend.disabled = rest > 0;
      resend.textContent = rest > 0 ? resend.dataset.soon.replace('{time}', time(rest)) : ready;
      if (rest > 0) setTimeout(tick, 500);
    };
    tick();
  }
  const slow = find('#slow');
  if (slow) for (const [after, text] of [[8, slow.dataset.slow], [60, slow.dataset.tooslow]]) {
    setTimeout(() => { slow.textContent = text; }, Math.max(0, after - slow.dataset.waited) * 1000);
  }

  const share = find('#share');
  if (share) {
    const { href } = new URL(share.dataset.url, location);
    share.hidden = false;
    share.addEventListener('click', () => (navigator.share ? navigator.share({ url: href }) : navigator.clipboard.writeText(href)
      .then(() => { share.textContent = share.dataset.copied; })).catch(() => {}));
  }
  if (data.return) setTimeout(() => location.assign(data.return), 4000);

  // Messages to the embedding site. They go to one origin from the list, never to any other.
  if (data.origins === undefined || parent === window) return;
  const origins = data.origins.split(' ').filter(Boolean);
  const around = location.ancestorOrigins && location.ancestorOrigins[0];
  let pinned = origins.length === 1 ? origins[0] : origins.find((origin) => origin === around);
  const waiting = [];
  const tell = (type, more) => {
    const message = { source: 'connect', v: 1, type: `connect.${type}`, ...more };
    for (const name of ['attempt', 'session']) if (data[name]) message[`${name}Id`] = data[name];
    if (pinned) parent.postMessage(message, pinned);
    else waiting.push(message);
  };
  addEventListener('message', (event) => {
    if (pinned || event.source !== parent || !origins.includes(event.origin) || event.data?.type !== 'connect.hello') return;
    pinned = event.origin;
    waiting.splice(0).forEach((message) => parent.postMessage(message, pinned));
  });
  addEventListener('keydown', (event) => event.key === 'Escape' && tell('escape'));
  tell('ready');
  new ResizeObserver(() => tell('resize', { height: find('main').offsetHeight })).observe(find('main'));
  if (data.state) tell('state', { state: data.state });
  if (data.end === 'success') tell('success', { accountId: data.account });
  if (data.end === 'exit') tell('exit', { reason: 'cancelled' });
  if (data.end === 'error') tell('error', { code: data.failure || 'link_expired' });
})();
