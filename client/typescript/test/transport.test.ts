import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectionError, isProblem, Problem, Stagedoor, StagedoorError, version } from "../src/index.js";
import { answer, problem, withServer } from "./server.js";

const sent = { chatId: "1", text: "hi" };

test("a call sends the key, its name and JSON, and gives the result", async () => {
  await withServer(
    (_, response) => answer(response, 200, { result: { id: "7", text: "hi" } }),
    async (server) => {
      const message = await server.client().account("acct_1").messages.send(sent);
      assert.equal(message.text, "hi");
      const [got] = server.got;
      assert.equal(got?.method, "POST");
      assert.equal(got?.path, "/v1/accounts/acct_1/messages/send");
      assert.deepEqual(JSON.parse(got?.body ?? ""), sent);
      assert.equal(got?.headers.authorization, "Bearer sd_sandbox_test");
      assert.equal(got?.headers["user-agent"], `stagedoor-typescript/${version}`);
      assert.match(String(got?.headers["idempotency-key"]), /^[0-9a-f-]{36}$/);
    },
  );
});

test("a problem that may pass is waited for as it says, under the same idempotency key", async () => {
  await withServer(
    (_, response, count) => {
      if (count === 1) problem(response, 429, "quota-exceeded", { retryable: true, retryAfterSec: 1 });
      else answer(response, 200, { result: { id: "7" } });
    },
    async (server) => {
      const began = Date.now();
      await server.client().account("acct_1").messages.send(sent);
      assert.ok(Date.now() - began >= 990, "it did not wait");
      assert.equal(server.got.length, 2);
      assert.ok(server.got[0]?.headers["idempotency-key"]);
      assert.equal(server.got[0]?.headers["idempotency-key"], server.got[1]?.headers["idempotency-key"]);
      assert.equal(server.got[0]?.body, server.got[1]?.body);
    },
  );
});

test("Retry-After holds where the problem says nothing", async () => {
  await withServer(
    (_, response, count) => {
      if (count > 1) answer(response, 200, { id: "x" });
      else answer(response, 503, { code: "service-unavailable", status: 503, title: "Away", retryable: true }, { "retry-after": "1" });
    },
    async (server) => {
      const began = Date.now();
      await server.client().me.get();
      assert.ok(Date.now() - began >= 990);
    },
  );
});

test("no more is tried than maxRetries says, and nothing that is not retryable", async () => {
  await withServer(
    (_, response) => problem(response, 503, "service-unavailable", { retryable: true, retryAfterSec: 0 }),
    async (server) => {
      await assert.rejects(server.client({ maxRetries: 3 }).me.get(), (error) => isProblem(error, "service-unavailable"));
      assert.equal(server.got.length, 4);
      await assert.rejects(server.client().me.get({ maxRetries: 0 }));
      assert.equal(server.got.length, 5);
    },
  );
  await withServer(
    (_, response) => problem(response, 422, "validation-failed"),
    async (server) => {
      await assert.rejects(server.client().me.get());
      assert.equal(server.got.length, 1);
    },
  );
});

test("an account that must be connected again is not tried again, nor what may have been carried out, nor what takes longer than a minute", async () => {
  for (const [status, more] of [[410, { retryable: true }], [504, { retryable: true, outcome: "unknown" }], [429, { retryable: true, retryAfterSec: 61 }]] as const) {
    await withServer(
      (_, response) => problem(response, status, "account-disconnected", more),
      async (server) => {
        const began = Date.now();
        await assert.rejects(server.client().account("acct_1").me.get(), Problem);
        assert.equal(server.got.length, 1);
        assert.ok(Date.now() - began < 30_000);
      },
    );
  }
});

test("a lost connection is tried again if the call is safe to repeat", async () => {
  await withServer(
    (_, response, count) => {
      if (count === 1) response.destroy();
      else answer(response, 200, { result: { items: [], nextCursor: null, hasMore: false } });
    },
    async (server) => {
      await server.client().account("acct_1").chats.list();
      assert.equal(server.got.length, 2);
    },
  );
  await withServer(
    (_, response, count) => {
      if (count === 1) response.destroy();
      else answer(response, 200, { result: { id: "1" } });
    },
    async (server) => {
      await server.client().account("acct_1").messages.send(sent);
      assert.equal(server.got[0]?.headers["idempotency-key"], server.got[1]?.headers["idempotency-key"]);
    },
  );
  await withServer(
    (_, response) => void response.destroy(),
    async (server) => {
      const lost = server.client().request({ method: "POST", path: "/v1/me/keys", json: { label: "ci" } });
      await assert.rejects(lost, (error) => error instanceof ConnectionError && error.reason === "network");
      assert.equal(server.got.length, 1, "a write without a key was sent twice");
    },
  );
});

test("half an answer is no answer", async () => {
  await withServer(
    (_, response, count) => {
      if (count > 1) return answer(response, 200, { kind: "customer" });
      response.writeHead(200, { "content-length": "1000" });
      response.write('{"kind":');
      setTimeout(() => response.destroy(), 20);
    },
    async (server) => {
      assert.equal((await server.client().me.get()).kind, "customer");
      assert.equal(server.got.length, 2);
    },
  );
});

test("a gateway's own page is a problem too, and tried again if that is safe", async () => {
  await withServer(
    (_, response) => void response.writeHead(502, { "content-type": "text/html" }).end("<h1>Bad gateway</h1>"),
    async (server) => {
      const refused = server.client({ maxRetries: 1 }).me.get();
      await assert.rejects(refused, (error) => isProblem(error) && error.status === 502 && error.code === "unexpected-answer");
      assert.equal(server.got.length, 2);
      await assert.rejects(server.client().request({ method: "POST", path: "/v1/me/keys", json: {} }));
      assert.equal(server.got.length, 3);
    },
  );
});

test("a problem has everything that the API said", async () => {
  const errors = [{ pointer: "/text", code: "too-long", detail: "At most 1000 characters." }];
  await withServer(
    (_, response) => problem(response, 422, "validation-failed", { detail: "The text is too long.", errors, hint: "Shorten it." }),
    async (server) => {
      const error: unknown = await server.client().account("acct_1").messages.send(sent).catch((thrown: unknown) => thrown);
      assert.ok(isProblem(error, "validation-failed", "quota-exceeded"));
      assert.ok(error instanceof StagedoorError);
      assert.equal(error.message, "validation-failed: The text is too long.");
      assert.equal(error.status, 422);
      assert.equal(error.title, "It did not work");
      assert.equal(error.retryable, false);
      assert.equal(error.requestId, "req_1");
      assert.equal(error.docUrl, "https://stagedoor.example/problems/validation-failed");
      assert.deepEqual(error.errors, errors);
      assert.equal(error.body.hint, "Shorten it.");
      assert.equal(isProblem(error, "quota-exceeded"), false);
      assert.equal(isProblem(new Error("another")), false);
    },
  );
});

test("a dry run says so, and has no result", async () => {
  await withServer(
    (_, response) => answer(response, 200, { result: null, dryRun: true }),
    async (server) => {
      const nothing: null = await server.client().account("acct_1").messages.send(sent, { dryRun: true });
      assert.equal(nothing, null);
      assert.equal(server.got[0]?.headers["x-dry-run"], "true");
    },
  );
});

test("a method can be called by its name", async () => {
  await withServer(
    (_, response) => answer(response, 200, { result: { id: "7" } }),
    async (server) => {
      const account = server.client().account("acct_1");
      assert.deepEqual(await account.call<{ id: string }>("messages.send", sent), { id: "7" });
      assert.equal(server.got[0]?.path, "/v1/accounts/acct_1/messages/send");
      assert.ok(server.got[0]?.headers["idempotency-key"]);
      await assert.rejects(account.call("messages"), StagedoorError);
    },
  );
});

test("an answer that does not come in time is a lost connection; a signal ends a call at once", async () => {
  await withServer(
    () => undefined,
    async (server) => {
      const late = server.client({ maxRetries: 0 }).me.get({ timeout: 50 });
      await assert.rejects(late, (error) => error instanceof ConnectionError && error.reason === "timeout");
      const why = new Error("enough");
      const stop = new AbortController();
      setTimeout(() => stop.abort(why), 20);
      await assert.rejects(server.client().me.get({ signal: stop.signal }), (error) => error === why);
    },
  );
});

test("queries repeat lists and leave out what is not given; parts of a path are encoded", async () => {
  await withServer(
    (_, response) => answer(response, 200, { events: [], nextCursor: null, gap: false }),
    async (server) => {
      await server.client().events.listOfAccount("acct/1", { events: ["message", "tips"], limit: 5, after: undefined });
      assert.equal(server.got[0]?.path, "/v1/accounts/acct%2F1/events");
      assert.equal(server.got[0]?.query.toString(), "events=message&events=tips&limit=5");
      assert.equal(server.got[0]?.headers.accept, "application/json");
      assert.throws(() => server.client().accounts.get(""), StagedoorError);
    },
  );
});

test("a request of your own goes the same way", async () => {
  await withServer(
    (_, response) => answer(response, 202, { ok: true }, { "x-account-state": "active" }),
    async (server) => {
      const raw = await server.client().request({ method: "post", path: "/v1/x?a=1", query: { b: 2 }, json: { c: 3 }, idempotencyKey: "mine" });
      assert.equal(raw.status, 202);
      assert.deepEqual(raw.json(), { ok: true });
      assert.equal(raw.headers.get("x-account-state"), "active");
      assert.equal(server.got[0]?.query.toString(), "a=1&b=2");
      assert.equal(server.got[0]?.headers["idempotency-key"], "mine");
    },
  );
});

test("key and address come from the environment, and are missed early", () => {
  const before = { key: process.env.STAGEDOOR_API_KEY, url: process.env.STAGEDOOR_URL };
  try {
    delete process.env.STAGEDOOR_API_KEY;
    process.env.STAGEDOOR_URL = "http://127.0.0.1:1/";
    assert.throws(() => new Stagedoor(), /STAGEDOOR_API_KEY/);
    process.env.STAGEDOOR_API_KEY = "sd_sandbox_env";
    assert.ok(new Stagedoor());
    delete process.env.STAGEDOOR_URL;
    assert.throws(() => new Stagedoor(), /STAGEDOOR_URL/);
  } finally {
    for (const [name, value] of [["STAGEDOOR_API_KEY", before.key], ["STAGEDOOR_URL", before.url]] as const) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
});

test("waiting for an attempt takes what the API offers: held answers and ETags", async () => {
  const attempt = (state: string) => ({ attempt_id: "att_1", state, poll_after_sec: 2, next_actions: [] });
  await withServer(
    (_, response, count) => {
      if (count === 1) answer(response, 200, attempt("pending"), { etag: '"1"' });
      else if (count === 2) response.writeHead(304, { etag: '"1"' }).end();
      else answer(response, 200, attempt("needs_otp"), { etag: '"2"' });
    },
    async (server) => {
      const seen: string[] = [];
      const got = await server.client().connect.waitFor("att_1", { onChange: (one) => seen.push(one.state) });
      assert.equal(got.state, "needs_otp");
      assert.deepEqual(seen, ["pending", "needs_otp"]);
      assert.equal(server.got[1]?.headers["if-none-match"], '"1"');
      assert.equal(server.got[1]?.query.get("wait"), "25");
    },
  );
});

test("an attempt that does not get there in time is given up", async () => {
  await withServer(
    (_, response, count) => {
      if (count === 1) answer(response, 200, { state: "pending" }, { etag: '"1"' });
    },
    async (server) => {
      const waiting = server.client().connect.waitFor("att_1", { until: "end", timeout: 80 });
      await assert.rejects(waiting, (error) => error instanceof ConnectionError && error.reason === "timeout");
    },
  );
});
