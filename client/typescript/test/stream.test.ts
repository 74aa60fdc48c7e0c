import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test } from "node:test";
import { isKnownEvent, isProblem, Problem, type AnyEvent } from "../src/index.js";
import { ServerSentEvents } from "../src/sse.js";
import { problem, withServer } from "./server.js";

function event(n: number, kind = "message"): string {
  const meta = { seq: n, class: "durable", ofUserId: null, referenceId: null, sandbox: true, upstreamAt: null, schema: 1 };
  return JSON.stringify({ id: `evt_${n}`, event: kind, accountId: "acct_1", ts: "2026-11-15T14:02:11.123Z", data: { text: `é ${n}` }, meta });
}

function sse(n: number, kind = "message"): string {
  return `id: ${String(n).padStart(14, "0")}\nevent: ${kind}\ndata: ${event(n, kind)}\n\n`;
}

function open(response: ServerResponse, cursor: number, resumed = false, gap = false): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const ready = { accountId: "acct_1", cursor: String(cursor).padStart(14, "0"), resumed, gap, oldest: "0" };
  response.write(`retry: 20\n\nevent: ready\ndata: ${JSON.stringify(ready)}\n\n`);
}

test("a drop in the middle of a line loses nothing and repeats nothing", async () => {
  let cut = (): unknown => undefined;
  await withServer(
    (_, response, count) => {
      open(response, 0, count > 1);
      if (count === 1) {
        response.write(sse(1) + sse(2).slice(0, 60));
        cut = () => response.destroy();
      } else if (count === 2) {
        response.end(sse(1) + sse(2) + sse(3)); // one that was seen already: a server that is too careful
      } else response.write(sse(4));
    },
    async (server) => {
      const drops: Error[] = [];
      const stream = server.client().account("acct_1").stream({ onDrop: (error) => drops.push(error) });
      const got: string[] = [];
      for await (const one of stream) {
        got.push(one.id);
        assert.equal(stream.cursor, `0000000000000${one.meta.seq}`);
        if (got.length === 1) cut();
        if (got.length === 4) break;
      }
      assert.deepEqual(got, ["evt_1", "evt_2", "evt_3", "evt_4"]);
      const last = server.got.map((request) => request.headers["last-event-id"]);
      assert.deepEqual(last, [undefined, "00000000000001", "00000000000003"]);
      assert.equal(drops.length, 2);
      assert.equal(server.got[0]?.path, "/v1/accounts/acct_1/events");
      assert.equal(server.got[0]?.headers.accept, "text/event-stream");
    },
  );
});

test("a drop before the first event goes on where the stream began", async () => {
  let cut = (): unknown => undefined;
  await withServer(
    (_, response, count) => {
      open(response, 41);
      cut = () => response.destroy();
      if (count > 1) response.write(sse(42));
    },
    async (server) => {
      let connections = 0;
      const onReady = (): void => {
        if (++connections === 1) cut();
      };
      for await (const one of server.client().stream({ onReady })) {
        assert.equal(one.id, "evt_42");
        break;
      }
      assert.equal(server.got[1]?.headers["last-event-id"], "00000000000041");
      assert.equal(server.got[1]?.path, "/v1/events");
    },
  );
});

test("after a gap, the stream continues where the server says", async () => {
  let cut = (): unknown => undefined;
  await withServer(
    (_, response, count) => {
      open(response, 5, true, count === 1);
      cut = () => response.destroy();
      if (count > 1) response.write(sse(6));
    },
    async (server) => {
      let connections = 0;
      const onReady = (): void => {
        if (++connections === 1) cut();
      };
      for await (const one of server.client().account("acct_1").stream({ since: "00000000000009", onReady })) {
        assert.equal(one.id, "evt_6");
        break;
      }
      const last = server.got.map((request) => request.headers["last-event-id"]);
      assert.deepEqual(last, ["00000000000009", "00000000000005"]);
    },
  );
});

test("since, filters and kinds that nobody knew", async () => {
  await withServer(
    (_, response) => {
      open(response, 7, true);
      response.write(`: a comment\n\nevent: heartbeat\ndata: {"ts":"x"}\n\n${sse(8, "somethingNew")}${sse(9, "tips")}`);
    },
    async (server) => {
      const kinds: string[] = [];
      const ready: string[] = [];
      const stream = server.client().stream({ since: "00000000000007", events: ["message*", "!typing"], onReady: (at) => ready.push(at.cursor) });
      for await (const one of stream) {
        const any: AnyEvent = one;
        kinds.push(any.event);
        assert.equal(isKnownEvent(any), any.event === "tips");
        if (kinds.length === 2) break;
      }
      assert.deepEqual(kinds, ["somethingNew", "tips"]);
      assert.deepEqual(ready, ["00000000000007"]);
      assert.equal(server.got[0]?.headers["last-event-id"], "00000000000007");
      assert.deepEqual(server.got[0]?.query.getAll("events"), ["message*", "!typing"]);
    },
  );
});

test("an event has the type of its kind", async () => {
  await withServer(
    (_, response) => {
      open(response, 0);
      response.write(sse(1, "typing"));
    },
    async (server) => {
      for await (const one of server.client().account("acct_1").stream({ events: ["message", "typing"] })) {
        const kind: "message" | "typing" = one.event; // the compiler knows that no other kind can come
        assert.equal(kind, "typing");
        if (one.event === "message") assert.ok(one.data.message.text);
        break;
      }
    },
  );
});

test("a refusal that will not pass ends the stream, one that passes does not", async () => {
  await withServer(
    (_, response, count) => {
      if (count === 1) problem(response, 503, "service-unavailable", { retryable: true, retryAfterSec: 0 });
      else if (count === 2) response.writeHead(500).end("oops");
      else problem(response, 403, "scope-missing");
    },
    async (server) => {
      const loop = (async () => {
        for await (const one of server.client().stream()) assert.fail(`there is no ${one.id}`);
      })();
      await assert.rejects(loop, (error) => isProblem(error, "scope-missing"));
      assert.equal(server.got.length, 3);
    },
  );
});

test("a problem at the end of a stream is thrown, unless it passes", async () => {
  const last = (code: string, retryable: boolean) =>
    `event: problem\ndata: ${JSON.stringify({ type: "x", title: "x", status: retryable ? 503 : 401, code, retryable, retryAfterSec: 0 })}\n\n`;
  await withServer(
    (_, response, count) => {
      open(response, 0);
      response.end(count === 1 ? sse(1) + last("server-draining", true) : sse(2) + last("key-revoked", false));
    },
    async (server) => {
      const got: string[] = [];
      const loop = (async () => {
        for await (const one of server.client().stream()) got.push(one.id);
      })();
      await assert.rejects(loop, (error) => error instanceof Problem && error.code === "key-revoked" && error.status === 401);
      assert.deepEqual(got, ["evt_1", "evt_2"]);
    },
  );
});

test("silence is a dead connection", async () => {
  await withServer(
    (_, response, count) => {
      open(response, 0);
      if (count >= 2) response.write(sse(1));
    },
    async (server) => {
      const drops: string[] = [];
      const stream = server.client().stream({ silence: 500, onDrop: (error) => drops.push(error.message) });
      for await (const one of stream) {
        assert.equal(one.id, "evt_1");
        break;
      }
      assert.equal(drops[0], "The stream was silent for 500 ms.");
    },
  );
});

test("a signal ends the loop, wherever it is", async () => {
  await withServer(
    (_, response, count) => {
      if (count === 1) return open(response, 0);
      problem(response, 429, "quota-exceeded", { retryable: true, retryAfterSec: 30 });
    },
    async (server) => {
      for (let round = 0; round < 2; round++) {
        const stop = new AbortController();
        setTimeout(() => stop.abort(), 60);
        const began = Date.now();
        for await (const one of server.client().stream({ signal: stop.signal })) assert.fail(one.id);
        assert.ok(Date.now() - began < 25_000);
      }
    },
  );
});

test("close ends a loop that waits", async () => {
  await withServer(
    (_, response) => {
      open(response, 0);
      response.write(sse(1));
    },
    async (server) => {
      const stream = server.client().stream();
      const got: string[] = [];
      for await (const one of stream) {
        got.push(one.id);
        setTimeout(() => stream.close(), 20);
      }
      assert.deepEqual(got, ["evt_1"]);
      for await (const one of stream) assert.fail(one.id);
    },
  );
});

test("a second loop goes on where the first ended", async () => {
  await withServer(
    (got, response) => {
      const from = Number(got.headers["last-event-id"] ?? "0");
      open(response, from, from > 0);
      response.write(sse(from + 1) + sse(from + 2));
    },
    async (server) => {
      const stream = server.client().stream();
      const got: string[] = [];
      for (let round = 0; round < 3; round++) {
        for await (const one of stream) {
          got.push(one.id);
          break;
        }
      }
      assert.deepEqual(got, ["evt_1", "evt_2", "evt_3"]);
    },
  );
});

test("a page without a key asks for a token at every connection", async () => {
  await withServer(
    (_, response, count) => {
      open(response, count);
      response.end(sse(count + 1));
    },
    async (server) => {
      let tokens = 0;
      const client = server.client({ apiKey: null });
      const got: string[] = [];
      for await (const one of client.account("acct_1").stream({ token: () => Promise.resolve(`sdt_${++tokens}`) })) {
        got.push(one.id);
        if (got.length === 2) break;
      }
      assert.deepEqual(server.got.map((one) => one.query.get("token")), ["sdt_1", "sdt_2"]);
      assert.equal(server.got[1]?.query.get("last_event_id"), "00000000000002");
      assert.equal(server.got[1]?.headers["last-event-id"], undefined);
      assert.equal(server.got[0]?.headers.authorization, undefined);
    },
  );
});

test("an attempt is watched until it ends, over a lost connection", async () => {
  const message = (state: string) => `event: attempt\ndata: ${JSON.stringify({ state })}\n\n`;
  await withServer(
    (_, response, count) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(count === 1 ? message("pending") : message("pending") + message("completed_success"));
    },
    async (server) => {
      const states: string[] = [];
      for await (const attempt of server.client().connect.watch("att_1")) states.push(attempt.state);
      assert.deepEqual(states, ["pending", "completed_success"]);
      assert.equal(server.got.length, 2);
      assert.equal(server.got[0]?.path, "/v1/connect/login/att_1/events");
    },
  );
});

test("messages are read wherever they are cut, and with every end of line", () => {
  const text = "retry: 5\r\nid: 1\r\nevent: a\r\ndata: x\r\ndata:y\r\n\r\n:ping\n\ndata: z\n\nid: 3\rdata: w\r\rdata: half";
  for (let size = 1; size <= text.length; size++) {
    const events = new ServerSentEvents();
    const got = [];
    for (let at = 0; at < text.length; at += size) got.push(...events.push(text.slice(at, at + size)));
    assert.deepEqual(got, [
      { event: "a", data: "x\ny", id: "1" },
      { event: "message", data: "z", id: undefined },
      { event: "message", data: "w", id: "3" },
    ]);
    assert.equal(events.retry, 5);
  }
});
