// An agency's inbox: the chats of all connected accounts on one page, with replies and live messages.
//
//     STAGEDOOR_URL=… STAGEDOOR_API_KEY=… npm start
//
// It has no sign-in, so it listens on this machine only.
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { isProblem, Stagedoor } from "@stagedoor/client";
import { Inbox } from "./inbox.js";
import { chatPage, inboxPage, pathOf, script } from "./pages.js";

const client = new Stagedoor();
const inbox = new Inbox(client);
const port = Number(process.env.PORT ?? 3000);

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? "/", `http://${request.headers.host}`);
  const chat = /^\/chats\/([^/]+)\/([^/]+)$/.exec(url.pathname);
  const entry = chat ? inbox.get(chat[1]!, chat[2]!) : undefined;
  if (request.method === "GET" && url.pathname === "/") return show(response, 200, inboxPage(inbox.list()));
  if (request.method === "GET" && url.pathname === "/live") return live(request, response);
  if (request.method === "GET" && url.pathname === "/live.js") return send(response, 200, "text/javascript", script);
  if (!entry) return send(response, 404, "text/plain", "This page does not exist.");
  if (request.method === "GET") return show(response, 200, await chatOf(entry.accountId, entry.chatId));
  if (request.method !== "POST") return send(response, 405, "text/plain", "Only GET and POST are allowed.");
  // A page of another site must not send messages.
  if (!["same-origin", undefined].includes(request.headers["sec-fetch-site"] as string | undefined)) return send(response, 403, "text/plain", "Requests from other sites are not allowed.");

  const form = new URLSearchParams(await bodyOf(request));
  try {
    // The form's token is the idempotency key, so a double click or a reload sends one message.
    await client.account(entry.accountId).messages.send({ chatId: entry.chatId, text: form.get("text") ?? "" }, { idempotencyKey: form.get("token") ?? randomUUID() });
  } catch (error) {
    if (!isProblem(error)) throw error;
    return show(response, error.status, await chatOf(entry.accountId, entry.chatId, `Not sent: ${error.title}. ${error.detail}`));
  }
  response.writeHead(303, { Location: pathOf(entry) }).end();
}

async function chatOf(accountId: string, chatId: string, problem?: string): Promise<string> {
  const entry = inbox.get(accountId, chatId)!;
  const page = await client.account(accountId).messages.list({ chatId, limit: 30 });
  inbox.read(accountId, chatId);
  return chatPage(entry, page.items.toReversed(), randomUUID(), problem);
}

/** Notifies the browser which chat has changed. The page then fetches it. */
function live(request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
  response.write(": hello\n\n");
  const stop = inbox.watch((accountId, chatId) => response.write(`data: ${pathOf({ accountId, chatId })}\n\n`));
  const beat = setInterval(() => response.write(": still here\n\n"), 15_000);
  request.on("close", () => {
    stop();
    clearInterval(beat);
  });
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) {
    text += chunk;
    if (text.length > 65_536) throw new Error("the form is too large");
  }
  return text;
}

function show(response: ServerResponse, status: number, page: string): void {
  response.setHeader("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
  send(response, status, "text/html", page);
}

function send(response: ServerResponse, status: number, type: string, text: string): void {
  response.writeHead(status, { "Content-Type": `${type}; charset=utf-8`, "X-Content-Type-Options": "nosniff" }).end(text);
}

const stop = new AbortController();
await inbox.start(stop.signal);
const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => {
    console.error(error);
    if (!response.headersSent) send(response, 500, "text/plain", "Something went wrong. See the terminal for details.");
  });
});
server.listen(port, "127.0.0.1", () => console.log(`http://127.0.0.1:${port}`));
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    stop.abort();
    server.close();
    server.closeAllConnections();
  });
}
