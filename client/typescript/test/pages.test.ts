import assert from "node:assert/strict";
import { test } from "node:test";
import { answer, withServer } from "./server.js";

test("all items come, page by page, and no page before it is needed", async () => {
  await withServer(
    (got, response) => {
      const at = Number((JSON.parse(got.body) as { cursor?: string }).cursor ?? "0");
      const items = [{ id: String(at) }, { id: String(at + 1) }];
      answer(response, 200, { result: { items, nextCursor: at < 4 ? String(at + 2) : null, hasMore: at < 4 } });
    },
    async (server) => {
      const account = server.client().account("acct_1");
      const ids: string[] = [];
      for await (const message of account.messages.listAll({ chatId: "9", limit: 2 })) ids.push(message.id);
      assert.deepEqual(ids, ["0", "1", "2", "3", "4", "5"]);
      assert.deepEqual(JSON.parse(server.got[1]?.body ?? ""), { chatId: "9", limit: 2, cursor: "2" });
      assert.equal(server.got.length, 3);

      for await (const message of account.messages.listAll({ chatId: "9", cursor: "2" })) {
        assert.equal(message.id, "2");
        break;
      }
      assert.equal(server.got.length, 4);
    },
  );
});

test("pages of the API go on with its own cursor, and end when that stands still", async () => {
  await withServer(
    (got, response) => {
      const cursor = got.query.get("cursor");
      if (got.path === "/v1/accounts") answer(response, 200, { accounts: [{ id: cursor ?? "first" }], nextCursor: cursor ? null : "second" });
      else answer(response, 200, { events: got.query.get("after") ? [] : [{ id: "evt_1", event: "message" }], nextCursor: "0007", gap: false });
    },
    async (server) => {
      const accounts: string[] = [];
      for await (const account of server.client().accounts.listAll({ limit: 1 })) accounts.push(account.id);
      assert.deepEqual(accounts, ["first", "second"]);

      const events: string[] = [];
      for await (const event of server.client().events.listOfAccountAll("acct_1")) events.push(event.id);
      assert.deepEqual(events, ["evt_1"]);
    },
  );
});
