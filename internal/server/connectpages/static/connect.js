// Embeds a connect page in your own page: Connect.open({ embedUrl, container, onEvent }). See docs/connect-pages.md.
(() => {
  'use strict';
  const here = new URL(document.currentScript.src).origin;
  const inApp = /FBA[NV]|Instagram|Line\/|; wv\)/.test(navigator.userAgent);
  const style = (node, rules) => Object.assign(node.style, rules);

  window.Connect = {
    open({ embedUrl, clientToken, container, onEvent = () => {} }) {
      const url = new URL(embedUrl || `${here}/s/${clientToken}/embed`);
      if (inApp) {
        // In-app browsers lose frames and their state.
        location.assign(url.href.replace(/\/embed(?=\?|$)/, ''));
        return { close() {} };
      }
      const frame = document.createElement('iframe');
      frame.src = url.href;
      frame.title = 'Connect your account';
      frame.referrerPolicy = 'no-referrer';
      frame.allow = 'clipboard-write; web-share';
      style(frame, { display: 'block', width: '100%', height: '580px', border: '0' });

      let dialog;
      let over = false;
      const close = () => {
        removeEventListener('message', hear);
        (dialog || frame).remove();
        dialog = undefined;
      };
      const leave = () => {
        if (!dialog) return;
        close();
        if (!over) onEvent({ source: 'connect', v: 1, type: 'connect.exit', reason: 'closed' });
        over = true;
      };
      const hear = (event) => {
        const message = event.data;
        if (event.source !== frame.contentWindow || event.origin !== url.origin || message?.source !== 'connect') return;
        if (message.type === 'connect.escape') return leave();
        if (message.type === 'connect.resize') frame.style.height = `${message.height}px`;
        const ended = message.type === 'connect.exit';
        if (over && ended) return;
        over ||= ended || message.type === 'connect.success';
        onEvent(message);
        if (ended && dialog) close();
      };
      addEventListener('message', hear);
      frame.addEventListener('load', () => frame.contentWindow?.postMessage({ source: 'connect', type: 'connect.hello' }, url.origin));

      if (container) {
        (typeof container === 'string' ? document.querySelector(container) : container).append(frame);
        return { close };
      }
      dialog = document.createElement('dialog');
      dialog.setAttribute('aria-label', frame.title);
      style(dialog, { width: 'min(420px, 100vw)', maxWidth: '100vw', maxHeight: '100vh', padding: '0', border: '0', borderRadius: '14px', overflow: 'auto' });
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = '×';
      button.setAttribute('aria-label', 'Close');
      style(button, { position: 'absolute', top: '8px', right: '8px', width: '32px', height: '32px', border: '0', background: 'none', color: '#71717a', font: '24px/1 system-ui', cursor: 'pointer' });
      button.addEventListener('click', leave);
      dialog.addEventListener('close', leave);
      dialog.append(frame, button);
      document.body.append(dialog);
      dialog.showModal();
      return { close };
    },
  };
})();
