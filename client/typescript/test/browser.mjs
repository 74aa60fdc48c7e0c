// Runs the built library in a browser: a page of another origin than the API imports dist/index.js, calls, streams with
// a token, and verifies a webhook. Chromium is Debian's, or $CHROMIUM; playwright-core is the dashboard's.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const root = new URL("../", import.meta.url);
const require = createRequire(new URL("../../web/package.json", root));
const { chromium } = require("playwright-core");
const [vector] = JSON.parse(readFileSync(new URL("../../docs/verify/vectors.json", root), "utf8"));

/** Answers as the API does, to pages of other origins too. */
const api = createServer((request, response) => {
  const url = new URL(request.url, "http://api");
  response.setHeader("access-control-allow-origin", "*");
  response.setHeader("access-control-allow-headers", "authorization, content-type, idempotency-key");
  if (request.method === "OPTIONS") return response.writeHead(204).end();
  if (url.pathname === "/v1/me") {
    const known = request.headers.authorization === "Bearer sd_sandbox_page";
    response.writeHead(known ? 200 : 401, { "content-type": "application/json" });
    return response.end(JSON.stringify(known ? { kind: "customer" } : { code: "key-invalid", status: 401, title: "No key", retryable: false, type: "x" }));
  }
  if (url.pathname === "/v1/accounts/acct_1/events" && url.searchParams.get("token") && !request.headers.authorization) {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const last = Number(url.searchParams.get("last_event_id") ?? 0);
    response.write(`retry: 20\n\nevent: ready\ndata: {"cursor":"${last}","resumed":${last > 0},"gap":false}\n\n`);
    // One event a connection: the page must come back for the next.
    return response.end(`id: ${last + 1}\nevent: message\ndata: {"id":"evt_${last + 1}","event":"message","data":{}}\n\n`);
  }
  response.writeHead(404).end();
});

const page = `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><title>client</title>`;

/** Serves the page and the library. */
const files = createServer((request, response) => {
  const { pathname } = new URL(request.url, "http://files");
  if (pathname === "/") return response.writeHead(200, { "content-type": "text/html" }).end(page);
  try {
    const text = readFileSync(new URL(`.${pathname}`, root));
    response.writeHead(200, { "content-type": pathname.endsWith(".js") ? "text/javascript" : "application/json" }).end(text);
  } catch {
    response.writeHead(404).end();
  }
});

const listen = (server) => new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(`http://127.0.0.1:${server.address().port}`)));
const [apiUrl, pageUrl] = await Promise.all([listen(api), listen(files)]);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });
try {
  const tab = await browser.newPage();
  const wrong = [];
  tab.on("pageerror", (error) => wrong.push(error.message));
  await tab.goto(pageUrl);
  const got = await tab.evaluate(inPage, { apiUrl, vector });
  assert.deepEqual(got, {
    kind: "customer",
    refused: ["key-invalid", 401],
    events: ["evt_1", "evt_2", "evt_3"],
    tokens: 3,
    verified: ["message", vector.id],
    forged: "no-match",
    missingKey: "StagedoorError",
  });
  assert.deepEqual(wrong, []);
  console.log(`ok    the library works in ${browser.version()}`);
} finally {
  await browser.close();
  for (const server of [api, files]) {
    server.closeAllConnections();
    server.close();
  }
}

/** Runs within the page. */
async function inPage({ apiUrl, vector }) {
  const { Stagedoor, isProblem, verifyWebhook } = await import("/dist/index.js");
  const caught = (work) => Promise.resolve().then(work).then(() => undefined, (error) => error);
  const client = new Stagedoor({ apiKey: "sd_sandbox_page", baseUrl: apiUrl });
  const { kind } = await client.me.get();

  const stranger = await caught(() => new Stagedoor({ apiKey: "another", baseUrl: apiUrl }).me.get());
  const refused = isProblem(stranger) ? [stranger.code, stranger.status] : String(stranger);

  const events = [];
  let tokens = 0;
  const anonymous = new Stagedoor({ apiKey: null, baseUrl: apiUrl });
  for await (const event of anonymous.account("acct_1").stream({ since: "0", token: async () => `sdt_${++tokens}` })) {
    events.push(event.id);
    if (events.length === 3) break;
  }

  const headers = new Headers({ "webhook-id": vector.id, "webhook-timestamp": String(vector.timestamp), "webhook-signature": vector.standard });
  const event = await verifyWebhook(vector.secret, headers, vector.body, { now: vector.timestamp });
  const forged = await caught(() => verifyWebhook(vector.secret, headers, vector.body + " ", { now: vector.timestamp }));
  const missingKey = await caught(() => new Stagedoor({ baseUrl: apiUrl }));
  return { kind, refused, events, tokens, verified: [event.event, event.id], forged: forged?.reason, missingKey: missingKey?.name };
}
