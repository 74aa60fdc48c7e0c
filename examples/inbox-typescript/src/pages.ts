import type { Message } from "@stagedoor/client";
import type { Entry } from "./inbox.js";

/** HTML that can be inserted into a page without escaping. */
class Html {
  constructor(readonly text: string) {}
}

/** A template that escapes all values except Html, because messages are user input. */
export function html(strings: TemplateStringsArray, ...values: (string | Html | Html[])[]): Html {
  const parts = values.map((value) => {
    if (value instanceof Html) return value.text;
    if (Array.isArray(value)) return value.map((one) => one.text).join("");
    return value.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
  });
  return new Html(strings.map((text, i) => text + (parts[i] ?? "")).join(""));
}

const style = new Html(`
  :root { color-scheme: light dark; --line: #8884; --accent: #b45309; }
  @media (prefers-color-scheme: dark) { :root { --accent: #fbbf24; } }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 0 auto; padding: 1rem; }
  ul { list-style: none; padding: 0; } li { border-bottom: 1px solid var(--line); padding: .6rem 0; overflow-wrap: anywhere; }
  a { color: var(--accent); } .unread a { font-weight: 700; } small { opacity: .8; }
  .mine { text-align: right; } form { display: flex; gap: .5rem; } input { flex: 1; font: inherit; padding: .5rem; } button { font: inherit; padding: .5rem 1rem; }
`);

// The page works without this script. With it, the browser fetches changes when the server announces them.
export const script = `
  const path = document.body.dataset.watch;
  new EventSource("/live").addEventListener("message", async (event) => {
    if (path !== "/" && path !== event.data) return;
    const page = new DOMParser().parseFromString(await (await fetch(path)).text(), "text/html");
    document.querySelector("#list").replaceWith(page.querySelector("#list"));
  });
`;

export function page(title: string, watch: string, body: Html): string {
  return html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title><style>${style}</style></head>
<body data-watch="${watch}"><main>${body}</main><script src="/live.js" defer></script></body></html>`.text;
}

export function inboxPage(entries: Entry[]): string {
  const rows = entries.map(
    (entry) => html`<li class="${entry.unread ? "unread" : ""}"><a href="${pathOf(entry)}">${entry.user.name}</a> <small>to ${entry.accountLabel}${entry.unread ? ", new" : ""}</small><br>${entry.last?.text ?? ""}</li>
`,
  );
  return page("Inbox", "/", html`<h1>Inbox</h1><ul id="list">${rows.length > 0 ? rows : html`<li>No chats yet.</li>`}</ul>`);
}

export function chatPage(entry: Entry, messages: Message[], token: string, problem = ""): string {
  const rows = messages.map((one) => html`<li class="${one.fromUserId === entry.user.id ? "" : "mine"}">${one.text}<br><small>${one.createdAt.slice(0, 16).replace("T", " ")}</small></li>
`);
  return page(
    entry.user.name,
    pathOf(entry),
    html`<p><a href="/">Inbox</a></p><h1>${entry.user.name}</h1><p>to ${entry.accountLabel}</p>
<ul id="list">${rows}</ul>${problem ? html`<p role="alert">${problem}</p>` : html``}
<form method="post" action="${pathOf(entry)}"><input type="hidden" name="token" value="${token}"><input name="text" aria-label="Your reply" maxlength="5000" required autocomplete="off"><button>Send</button></form>`,
  );
}

export function pathOf(entry: { accountId: string; chatId: string }): string {
  return `/chats/${entry.accountId}/${entry.chatId}`;
}
