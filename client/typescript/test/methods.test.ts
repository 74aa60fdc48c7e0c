import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { eventKinds, problemCodes } from "../src/index.js";
import { answer, withServer } from "./server.js";

interface Operation {
  operationId: string;
  "x-sdk"?: { resource: string; method: string; access: "read" | "write"; idempotent?: boolean; paginated?: boolean };
}

const document = JSON.parse(readFileSync("../../openapi/openapi.json", "utf8")) as { paths: Record<string, Record<string, Operation>> };
const methods = Object.values(document.paths).flatMap((path) => (path.post?.["x-sdk"] ? [path.post["x-sdk"]] : []));

test("every method of the document is there and calls its own path", async () => {
  assert.equal(methods.length, 250);
  await withServer(
    (_, response) => answer(response, 200, { result: { items: [], nextCursor: null, hasMore: false } }),
    async (server) => {
      const account = server.client().account("acct_1") as unknown as Record<string, Record<string, (params: object) => Promise<unknown>>>;
      for (const { resource, method, access, idempotent, paginated } of methods) {
        const call = account[resource]?.[method];
        assert.ok(call, `${resource}.${method} is missing`);
        await call.call(account[resource], {});
        const got = server.got.at(-1);
        assert.equal(got?.method, "POST");
        assert.equal(got?.path, `/v1/accounts/acct_1/${resource}/${method}`);
        const keyed = access === "write" && !idempotent;
        assert.equal(got?.headers["idempotency-key"] !== undefined, keyed, `the idempotency key of ${resource}.${method}`);
        assert.equal(typeof account[resource]?.[`${method}All`] === "function", paginated === true, `${resource}.${method}All`);
      }
    },
  );
});

test("every kind of event and every code of a problem is known", () => {
  assert.equal(eventKinds.length, 80);
  assert.equal(new Set(eventKinds).size, 80);
  assert.ok(eventKinds.includes("account.connected"));
  assert.ok(problemCodes.length > 50);
  assert.ok(problemCodes.includes("quota-exceeded"));
});
