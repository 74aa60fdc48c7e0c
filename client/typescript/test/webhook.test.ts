import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { verifySignature, verifyWebhook, WebhookVerificationError, type VerifyOptions } from "../src/index.js";

interface Vector {
  name: string;
  secret: string;
  id: string;
  timestamp: number;
  body: string;
  signature: string;
  standard: string;
  valid: boolean;
}

// Tests run from the package's folder; the vectors are those of all languages.
const vectors = JSON.parse(readFileSync("../../docs/verify/vectors.json", "utf8")) as Vector[];

function headers(vector: Vector): Record<string, string> {
  return { "webhook-id": vector.id, "webhook-timestamp": String(vector.timestamp), "webhook-signature": vector.standard };
}

async function reason(check: Promise<unknown>): Promise<string> {
  try {
    await check;
    return "fine";
  } catch (error) {
    assert.ok(error instanceof WebhookVerificationError, String(error));
    return error.reason;
  }
}

test("there are vectors", () => assert.ok(vectors.length >= 12));

for (const vector of vectors) {
  test(`vector: ${vector.name}`, async () => {
    const now = vector.timestamp;
    const timed = await reason(verifySignature(vector.secret, headers(vector), vector.body, { now }));
    assert.equal(timed === "fine", vector.valid, timed);
    const untimed = await reason(verifySignature(vector.secret, { "X-Webhook-Signature": vector.signature }, vector.body, { allowUntimed: true }));
    assert.equal(untimed === "fine", vector.valid, untimed);
  });
}

test("every refusal has its reason", async () => {
  const vector = vectors[0] as Vector;
  const at = vector.timestamp;
  const check = (change: Record<string, string | undefined>, options: VerifyOptions = { now: at }, secret = vector.secret) =>
    reason(verifyWebhook(secret, { ...headers(vector), ...change }, vector.body, options));
  assert.equal(await check({}), "fine");
  assert.equal(await check({ "webhook-id": undefined }), "missing-header");
  assert.equal(await check({ "webhook-signature": "" }), "missing-header");
  assert.equal(await check({ "webhook-timestamp": "yesterday" }), "malformed-header");
  assert.equal(await check({ "webhook-signature": "abc" }), "malformed-header");
  assert.equal(await check({}, { now: at + 301 }), "timestamp-too-old");
  assert.equal(await check({}, { now: at + 300 }), "fine");
  assert.equal(await check({}, { now: at - 301 }), "timestamp-too-new");
  assert.equal(await check({}, { now: at + 301, toleranceSec: 400 }), "fine");
  assert.equal(await check({}, { now: at }, "whsec_other-secret"), "no-match");
  assert.equal(await check({ "webhook-id": "evt_other" }), "no-match");
  assert.equal(await check({}), "fine");
  await assert.rejects(verifyWebhook("", headers(vector), vector.body), /secret/);
});

test("an event comes back, whatever form headers and body have", async () => {
  const vector = vectors[0] as Vector;
  const options = { now: vector.timestamp };
  const capitals = { "Webhook-Id": vector.id, "Webhook-Timestamp": [String(vector.timestamp)], "Webhook-Signature": vector.standard };
  for (const given of [new Headers(headers(vector)), capitals]) {
    for (const body of [vector.body, Buffer.from(vector.body), new TextEncoder().encode(vector.body).buffer as ArrayBuffer]) {
      const event = await verifyWebhook(vector.secret, given, body, options);
      assert.equal(event.event, "message");
      assert.equal(event.id, vector.id);
    }
  }
});

test("while a secret is rotated, either will do", async () => {
  const vector = vectors[0] as Vector;
  assert.equal(await reason(verifyWebhook(["whsec_new-one", vector.secret], headers(vector), vector.body, { now: vector.timestamp })), "fine");
  const previous = {
    "x-webhook-signature": "sha256=" + createHmac("sha256", "the-new-secret").update(vector.body).digest("hex"),
    "x-webhook-signature-previous": vector.signature,
  };
  assert.equal(await reason(verifyWebhook(vector.secret, previous, vector.body, { allowUntimed: true })), "fine");
  assert.equal(await reason(verifyWebhook(vector.secret, previous, vector.body)), "missing-header");
});

test("with a time in it, the untimed signature does not help", async () => {
  const vector = vectors[0] as Vector;
  const all = { ...headers(vector), "x-webhook-signature": vector.signature };
  assert.equal(await reason(verifyWebhook(vector.secret, all, vector.body, { now: vector.timestamp + 3600, allowUntimed: true })), "timestamp-too-old");
});
