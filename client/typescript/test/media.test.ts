import assert from "node:assert/strict";
import { test } from "node:test";
import { answer, problem, withServer } from "./server.js";

test("a file is uploaded as it is", async () => {
  await withServer(
    (_, response) => answer(response, 201, { result: { id: "1", state: "processing", mediaId: "7" } }),
    async (server) => {
      const upload = await server.client().account("acct_1").media.upload("bytes", { fileName: "beach day.jpg", contentType: "image/jpeg" });
      assert.equal(upload.mediaId, "7");
      const [got] = server.got;
      assert.equal(got?.path, "/v1/accounts/acct_1/media");
      assert.equal(got?.query.get("fileName"), "beach day.jpg");
      assert.equal(got?.headers["content-type"], "image/jpeg");
      assert.equal(got?.headers["content-length"], "5");
      assert.equal(got?.body, "bytes");
    },
  );
});

test("an upload that broke goes on with the part that is missing", async () => {
  await withServer(
    (got, response, count) => {
      if (count === 1) problem(response, 503, "upstream/unavailable", { retryable: true, uploadId: "9", nextPart: 2 });
      else if (got.path.endsWith("/uploads/get")) answer(response, 200, { result: { id: "9", partSize: 4 } });
      else if (got.method === "PUT") answer(response, 200, { part: { number: 2, etag: "e" } });
      else answer(response, 200, { result: { id: "9", mediaId: "7" } });
    },
    async (server) => {
      const upload = await server.client().account("acct_1").media.upload(new Blob(["0123456789"]), { fileName: "a.bin" });
      assert.equal(upload.mediaId, "7");
      assert.deepEqual(
        server.got.slice(1).map((got) => [got.path.slice("/v1/accounts/acct_1/".length), got.body]),
        [
          ["uploads/get", '{"uploadId":"9"}'],
          ["media/uploads/9/parts/2", "4567"],
          ["media/uploads/9/parts/3", "89"],
          ["uploads/complete", '{"uploadId":"9"}'],
        ],
      );
    },
  );
});

test("an upload that is refused is not tried again", async () => {
  await withServer(
    (_, response) => problem(response, 413, "payload-too-large"),
    async (server) => {
      await assert.rejects(server.client().account("acct_1").media.upload("x", { fileName: "a" }));
      assert.equal(server.got.length, 1);
    },
  );
});

test("a download is the file, whole or in part", async () => {
  await withServer(
    (got, response) => void response.writeHead(got.headers.range ? 206 : 200, { "content-type": "image/jpeg" }).end("file"),
    async (server) => {
      const { media } = server.client().account("acct_1");
      const whole = await media.download("5", { quality: "full" });
      assert.equal(await whole.text(), "file");
      assert.equal(server.got[0]?.path, "/v1/accounts/acct_1/media/5");
      assert.equal(server.got[0]?.query.get("quality"), "full");
      const part = await media.fetch("https://cdn.sandbox.test/a.jpg", { range: "bytes=0-3" });
      assert.equal(part.status, 206);
      assert.equal(server.got[1]?.query.get("url"), "https://cdn.sandbox.test/a.jpg");
    },
  );
});
