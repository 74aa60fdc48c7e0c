// Checks that a webhook comes from Stagedoor. Copy this file; it needs only Node's standard library.
import { createHmac, timingSafeEqual } from "node:crypto";

const toleranceSeconds = 300;

/**
 * Reports whether a request is signed with the secret and not older than five minutes. The names in headers must be lower
 * case, and body must be the raw bytes that you received. While a secret is being rotated, X-Webhook-Signature-Previous
 * has the signature of the old one.
 */
export function verifyRequest(secret: string, headers: Record<string, string | undefined>, body: Uint8Array, now: number = Date.now() / 1000): boolean {
  const signed = ["x-webhook-signature", "x-webhook-signature-previous"].some((name) => verifySignature(secret, headers[name] ?? "", body));
  const standard = verifyStandard(secret, headers["webhook-id"] ?? "", headers["webhook-timestamp"] ?? "", headers["webhook-signature"] ?? "", body, now);
  return signed && standard;
}

/** Checks X-Webhook-Signature, which covers only the body. It does not detect replayed requests. */
export function verifySignature(secret: string, signature: string, body: Uint8Array): boolean {
  return same("sha256=" + createHmac("sha256", secret).update(body).digest("hex"), signature);
}

/**
 * Checks webhook-signature (Standard Webhooks), which covers id, time and body. The header has several signatures while a
 * secret is being rotated.
 */
export function verifyStandard(secret: string, id: string, timestamp: string, signatures: string, body: Uint8Array, now: number = Date.now() / 1000): boolean {
  if (!/^[0-9]+$/.test(timestamp) || Math.abs(now - Number(timestamp)) > toleranceSeconds) return false;
  const want = "v1," + createHmac("sha256", standardKey(secret)).update(`${id}.${timestamp}.`).update(body).digest("base64");
  return signatures.split(" ").map((one) => same(want, one)).includes(true);
}

function standardKey(secret: string): Buffer {
  const encoded = secret.startsWith("whsec_") ? secret.slice("whsec_".length) : "";
  const sound = encoded.length > 0 && encoded.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(encoded);
  return sound ? Buffer.from(encoded, "base64") : Buffer.from(secret);
}

function same(a: string, b: string): boolean {
  const [x, y] = [Buffer.from(a), Buffer.from(b)];
  return x.length === y.length && timingSafeEqual(x, y);
}
