import type { StagedoorEvent } from "./gen/events.js";
import { StagedoorError } from "./problem.js";

/** Why a delivery is refused. */
export type WebhookRefusal = "missing-header" | "malformed-header" | "timestamp-too-old" | "timestamp-too-new" | "no-match";

/** The delivery was not sent by Stagedoor, has another secret, was changed on its way, or is too old. Respond with 401. */
export class WebhookVerificationError extends StagedoorError {
  override name = "WebhookVerificationError";

  constructor(
    readonly reason: WebhookRefusal,
    message: string,
  ) {
    super(message);
  }
}

/** The headers of a request, as Headers or as Node's plain object. */
export type WebhookHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

export interface VerifyOptions {
  /** How many seconds the timestamp may differ from now. Default 300. */
  toleranceSec?: number | undefined;
  /** The current time in seconds since 1970. Default: the clock. */
  now?: number | undefined;
  /** Also accept deliveries that have only X-Webhook-Signature. It does not cover the time, so a replayed delivery passes. */
  allowUntimed?: boolean | undefined;
}

/**
 * Checks that a delivery comes from Stagedoor and returns its event.
 * Pass the body as received: a body that was parsed and serialised again does not match.
 * While a secret is being rotated, pass both.
 */
export async function verifyWebhook(
  secret: string | readonly string[],
  headers: WebhookHeaders,
  rawBody: string | Uint8Array | ArrayBuffer,
  options: VerifyOptions = {},
): Promise<StagedoorEvent> {
  await verifySignature(secret, headers, rawBody, options);
  const text = typeof rawBody === "string" ? rawBody : new TextDecoder().decode(rawBody);
  try {
    return JSON.parse(text) as StagedoorEvent;
  } catch (error) {
    throw new StagedoorError("The delivery is signed, but its body is not an event.", { cause: error });
  }
}

/** Checks the signature without parsing the body. */
export async function verifySignature(
  secret: string | readonly string[],
  headers: WebhookHeaders,
  rawBody: string | Uint8Array | ArrayBuffer,
  options: VerifyOptions = {},
): Promise<void> {
  const secrets = (typeof secret === "string" ? [secret] : secret).filter((one) => one !== "");
  if (secrets.length === 0) throw new StagedoorError("verifyWebhook needs the webhook's signing secret.");
  const body = bytes(rawBody);
  const id = header(headers, "webhook-id");
  const timestamp = header(headers, "webhook-timestamp");
  const signatures = header(headers, "webhook-signature");
  if (id && timestamp && signatures) {
    await verifyTimed(secrets, { id, timestamp, signatures }, body, options);
    return;
  }
  if (options.allowUntimed) {
    await verifyUntimed(secrets, headers, body);
    return;
  }
  const missing = !id ? "webhook-id" : !timestamp ? "webhook-timestamp" : "webhook-signature";
  throw new WebhookVerificationError("missing-header", `The header ${missing} is missing.`);
}

/** Standard Webhooks: the signature covers the id, the time and the body. */
async function verifyTimed(
  secrets: readonly string[],
  from: { id: string; timestamp: string; signatures: string },
  body: Uint8Array<ArrayBuffer>,
  options: VerifyOptions,
): Promise<void> {
  if (!/^[0-9]{1,15}$/.test(from.timestamp)) {
    throw new WebhookVerificationError("malformed-header", "webhook-timestamp is not a number of seconds.");
  }
  const age = (options.now ?? Date.now() / 1000) - Number(from.timestamp);
  const tolerance = options.toleranceSec ?? 300;
  if (age > tolerance) throw new WebhookVerificationError("timestamp-too-old", `It was signed ${Math.round(age)} seconds ago.`);
  if (age < -tolerance) throw new WebhookVerificationError("timestamp-too-new", `It was signed ${Math.round(-age)} seconds in the future.`);
  const given = from.signatures.split(" ").filter((one) => one.startsWith("v1,"));
  if (given.length === 0) throw new WebhookVerificationError("malformed-header", "webhook-signature has no signature of the form v1,…");
  const signed = join(new TextEncoder().encode(`${from.id}.${from.timestamp}.`), body);
  for (const secret of secrets) {
    const want = "v1," + base64(await hmac(standardKey(secret), signed));
    if (given.filter((one) => same(one, want)).length > 0) return;
  }
  throw new WebhookVerificationError("no-match", "webhook-signature does not match: the secret is another one, or the body is not exactly what was sent.");
}

/** X-Webhook-Signature covers only the body. X-Webhook-Signature-Previous is made with the previous secret. */
async function verifyUntimed(secrets: readonly string[], headers: WebhookHeaders, body: Uint8Array<ArrayBuffer>): Promise<void> {
  const given = [header(headers, "x-webhook-signature"), header(headers, "x-webhook-signature-previous")].filter((one) => one !== undefined && one !== "");
  if (given.length === 0) throw new WebhookVerificationError("missing-header", "The header X-Webhook-Signature is missing.");
  if (!given.some((one) => one?.startsWith("sha256="))) {
    throw new WebhookVerificationError("malformed-header", "X-Webhook-Signature is not of the form sha256=…");
  }
  for (const secret of secrets) {
    const want = "sha256=" + hex(await hmac(new TextEncoder().encode(secret), body));
    if (given.filter((one) => one !== undefined && same(one, want)).length > 0) return;
  }
  throw new WebhookVerificationError("no-match", "X-Webhook-Signature does not match: the secret is another one, or the body is not exactly what was sent.");
}

/** The Standard Webhooks key follows whsec_ in base64. A secret of another form is the key itself. */
function standardKey(secret: string): Uint8Array<ArrayBuffer> {
  const encoded = secret.startsWith("whsec_") ? secret.slice("whsec_".length) : "";
  if (encoded.length === 0 || encoded.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/.test(encoded)) return new TextEncoder().encode(secret);
  return Uint8Array.from(atob(encoded), (char) => char.charCodeAt(0));
}

async function hmac(key: Uint8Array<ArrayBuffer>, data: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const imported = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, data));
}

/** Compares in constant time. */
function same(a: string, b: string): boolean {
  if (a.length !== b.length) return false;
  let differs = 0;
  for (let i = 0; i < a.length; i++) differs |= a.charCodeAt(i) ^ b.charCodeAt(i);
  return differs === 0;
}

function header(headers: WebhookHeaders, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  for (const [key, value] of Object.entries(headers)) {
    if (key.toLowerCase() === name) return typeof value === "string" ? value : value?.join(" ");
  }
  return undefined;
}

function bytes(body: string | Uint8Array | ArrayBuffer): Uint8Array<ArrayBuffer> {
  if (typeof body === "string") return new TextEncoder().encode(body);
  return body instanceof ArrayBuffer ? new Uint8Array(body) : new Uint8Array(body);
}

function join(a: Uint8Array, b: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(a.length + b.length);
  whole.set(a);
  whole.set(b, a.length);
  return whole;
}

function base64(data: Uint8Array): string {
  return btoa(String.fromCharCode(...data));
}

function hex(data: Uint8Array): string {
  return Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
