// Checks the helper against the vectors.
import { readFileSync } from "node:fs";

// Node runs TypeScript since 22.18. For older versions, strip the helper's few type annotations.
async function load() {
  if (process.features.typescript) return import("./verify.ts");
  const plain = readFileSync(new URL("verify.ts", import.meta.url), "utf8").replace(/: (string|number|boolean|Buffer|Uint8Array|Record<[^>]*>)(?=[,)= {])/g, "");
  return import("data:text/javascript;base64," + Buffer.from(plain).toString("base64"));
}
const { verifyRequest, verifySignature, verifyStandard } = await load();

let bad = 0;
for (const c of JSON.parse(readFileSync(new URL("../vectors.json", import.meta.url), "utf8"))) {
  const body = Buffer.from(c.body), at = String(c.timestamp);
  const headers = { "x-webhook-signature": c.signature, "webhook-id": c.id, "webhook-timestamp": at, "webhook-signature": c.standard };
  // The receiver still uses the old secret, whose signature is sent along with the new one.
  const rotated = { ...headers, "x-webhook-signature": "sha256=00", "x-webhook-signature-previous": c.signature, "webhook-signature": "v1,00 " + c.standard };
  const got = [
    verifySignature(c.secret, c.signature, body),
    verifyStandard(c.secret, c.id, at, c.standard, body, c.timestamp),
    verifyRequest(c.secret, headers, body, c.timestamp),
    verifyRequest(c.secret, rotated, body, c.timestamp),
  ];
  if (got.some((one) => one !== c.valid) || verifyStandard(c.secret, c.id, at, c.standard, body, c.timestamp + 360)) {
    bad++;
    console.log("wrong:", c.name, got);
  }
}
process.exit(bad ? 1 : 0);
