// The scenario that every client library passes, against the nodes of a running system:
// connect, call, stream, drop the connection, resume on another node, verify a webhook, page through a list, disconnect.
import assert from "node:assert/strict";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { isProblem, Stagedoor, verifyWebhook, WebhookVerificationError } from "../src/index.js";
import { Reader } from "./reader.js";
import { Relay } from "./relay.js";

const nodes = (process.env.STAGEDOOR_URLS ?? process.env.STAGEDOOR_URL ?? "").split(/[\s,]+/).filter((url) => url !== "");
assert.ok(nodes.length > 0, "STAGEDOOR_URLS is not set: source .dev/env");

const node = (n: number): string => nodes[n % nodes.length] as string;
const client = new Stagedoor({ baseUrl: node(0) });
const mark = Date.now().toString(36);
const deadline = AbortSignal.timeout(120_000);

async function step<T>(name: string, work: () => Promise<T>, tell: (result: T) => string = () => ""): Promise<T> {
  const began = Date.now();
  try {
    const result = await work();
    console.log(`ok    ${name.padEnd(34)} ${String(Date.now() - began).padStart(6)} ms  ${tell(result)}`.trimEnd());
    return result;
  } catch (error) {
    console.log(`FAIL  ${name}: ${String(error)}`);
    throw error;
  }
}

const accountId = await step("connect by email and password", async () => {
  const started = await client.connect.login({ email: `ok+ts${mark}@sandbox.test`, password: "good", label: "Scenario (TypeScript)" });
  const attempt = await client.connect.waitFor(started.attempt_id, { signal: deadline });
  assert.equal(attempt.state, "completed_success", JSON.stringify(attempt.failure));
  assert.ok(attempt.account_id);
  return attempt.account_id;
}, (id) => id);

try {
  await withAccount(accountId);
} finally {
  await step("disconnect", async () => {
    assert.equal((await client.accounts.disconnect(accountId)).deleted, true);
  });
}
console.log("the scenario passed");

async function withAccount(id: string): Promise<void> {
  const account = client.account(id);
  await step("read the profile", () => account.me.get(), (me) => me.username);
  const chatId = await step("page through all chats", async () => {
    const ids = new Set<string>();
    for await (const chat of account.chats.listAll({ limit: 100 })) ids.add(chat.id);
    assert.ok(ids.size > 100, `only ${ids.size} chats: there is no second page`);
    return [...ids];
  }, (ids) => `${ids.length} chats`).then((ids) => ids[0] as string);
  await step("send a message", async () => {
    const sent = await account.messages.send({ chatId, text: `Hello ${mark}` });
    assert.equal(sent.text, `Hello ${mark}`);
  });
  await step("send it as a dry run", async () => assert.equal(await account.messages.send({ chatId, text: "no" }, { dryRun: true }), null));
  await step("a problem has its code", async () => {
    const thrown: unknown = await account.messages.send({ chatId: "1", text: "hi" }).catch((error: unknown) => error);
    assert.ok(isProblem(thrown, "upstream/not-found"), String(thrown));
    assert.equal(thrown.status, 404);
    assert.equal(thrown.retryable, false);
    assert.ok(thrown.requestId);
  });
  await follow(id);
  await receive(id);
}

/** Follows the account through a relay that is cut while things happen. */
async function follow(id: string): Promise<void> {
  const relay = await Relay.start(node(0));
  const through = new Stagedoor({ baseUrl: relay.url });
  let drops = 0;
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  const stream = through.account(id).stream({ events: ["message"], signal: deadline, onReady: () => open(), onDrop: () => drops++ });
  const reader = new Reader(stream, mark, deadline);
  try {
    await step("open a stream", () => opened);
    await step("receive what happens", async () => {
      await fire(id, 0, 3);
      await reader.until(3);
    });
    await step("go on after a drop, on another node", async () => {
      relay.cut();
      await fire(id, 3, 8);
      relay.mend(node(1));
      await reader.until(8);
    }, () => `${drops} tries failed, cursor ${stream.cursor}`);
    await step("and once more, in the middle of it", async () => {
      const firing = fire(id, 8, 16);
      await reader.until(10);
      relay.cut();
      relay.mend(node(2));
      await firing;
      await reader.until(16);
    });
    await step("each event came once, in order", async () => {
      const texts = reader.texts.filter((text) => text.startsWith(mark));
      assert.deepEqual(texts, Array.from({ length: 16 }, (_, n) => `${mark} ${n}`));
      assert.equal(new Set(reader.ids).size, reader.ids.length);
    }, () => `${reader.texts.length} events`);
  } finally {
    reader.stop();
    relay.stop();
  }
}

/** Makes a fan write messages with the numbers from..to. */
async function fire(id: string, from: number, to: number): Promise<void> {
  for (let n = from; n < to; n++) {
    await client.sandbox.fireEvent(id, { event: "message", data: { text: `${mark} ${n}` } });
  }
}

/** Sets a webhook to a receiver here, and verifies what comes. */
async function receive(id: string): Promise<void> {
  let got: (delivery: { headers: IncomingHttpHeaders; body: Buffer }) => void = () => undefined;
  const delivered = new Promise<{ headers: IncomingHttpHeaders; body: Buffer }>((resolve) => (got = resolve));
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on("data", (piece: Buffer) => pieces.push(piece));
    request.on("end", () => {
      response.writeHead(204).end();
      got({ headers: request.headers, body: Buffer.concat(pieces) });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks`;
    const secret = await step("set a webhook", async () => {
      const hook = await client.webhooks.set(id, { url, events: ["message"] });
      assert.ok(hook.signingSecret);
      return hook.signingSecret;
    });
    await fire(id, 100, 101);
    const delivery = await step("receive a delivery", () => delivered);
    await step("verify it", async () => {
      const event = await verifyWebhook(secret, delivery.headers, delivery.body);
      assert.equal(event.event, "message");
      if (event.event === "message") assert.equal(event.data.message.text, `${mark} 100`);
      assert.equal(event.accountId, id);
    });
    await step("refuse it with another body", async () => {
      const tampered = Buffer.from(delivery.body.toString().replace(mark, "forged"));
      const refused: unknown = await verifyWebhook(secret, delivery.headers, tampered).catch((error: unknown) => error);
      assert.ok(refused instanceof WebhookVerificationError);
      assert.equal(refused.reason, "no-match");
    });
    await step("refuse it when it is old", async () => {
      const later = { now: Date.now() / 1000 + 600 };
      await assert.rejects(verifyWebhook(secret, delivery.headers, delivery.body, later), /seconds ago/);
    });
    await step("delete the webhook", () => client.webhooks.delete(id));
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
