"""Tests of calls: requests, retries, errors."""

from __future__ import annotations

import io
import os
import pathlib
import re
import tempfile
import unittest
from collections.abc import Iterator
from unittest import mock

from support import HANG_UP, Answer, Asked, Case, problem

from stagedoor import ConnectionFailed, Problem, Stagedoor, StagedoorError, is_problem

UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")


class Calling(Case):
    def test_write_is_post_with_wire_names_and_key(self) -> None:
        server = self.serve(Answer(200, {"result": {"id": "1", "text": "hi"}}))
        message = self.client(server).account("acct_1").messages.send(chat_id="7", text="hi", media_ids=["8"])
        self.assertEqual(message["text"], "hi")
        asked = server.asked[0]
        self.assertEqual((asked.method, asked.path), ("POST", "/v1/accounts/acct_1/messages/send"))
        self.assertEqual(asked.json(), {"chatId": "7", "text": "hi", "mediaIds": ["8"]})
        self.assertEqual(asked.headers["authorization"], "Bearer sk_test_1")
        self.assertRegex(asked.headers["user-agent"], r"^stagedoor-python/\d")
        self.assertRegex(asked.headers["idempotency-key"], UUID)

    def test_read_is_get_without_key(self) -> None:
        server = self.serve(Answer(200, {"result": {"items": [], "nextCursor": None, "hasMore": False}}))
        self.client(server).account("acct_1").users.list(user_ids=["1", "2"])
        asked = server.asked[0]
        self.assertEqual((asked.method, asked.path), ("GET", "/v1/accounts/acct_1/users/list"))
        self.assertEqual(asked.query, {"userIds": ["1", "2"]})
        self.assertNotIn("idempotency-key", asked.headers)

    def test_read_with_long_query_is_post(self) -> None:
        server = self.serve(Answer(200, {"result": {"items": [], "nextCursor": None, "hasMore": False}}))
        ids = [str(10**18 + n) for n in range(300)]
        self.client(server).account("acct_1").users.list(user_ids=ids)
        self.assertEqual(server.asked[0].method, "POST")
        self.assertEqual(server.asked[0].json(), {"userIds": ids})

    def test_python_keywords_have_an_underscore(self) -> None:
        server = self.serve(Answer(200, {"result": {}}))
        self.client(server).account("acct_1").earnings.chart(from_="2026-01-01", to="2026-02-01")
        self.assertEqual(server.asked[0].query, {"from": ["2026-01-01"], "to": ["2026-02-01"]})

    def test_options(self) -> None:
        server = self.serve(Answer(200, {"result": None, "dryRun": True}))
        result = self.client(server).account("acct_1").messages.send(
            chat_id="7", options={"dry_run": True, "idempotency_key": "mine", "headers": {"X-Trace": "t"}}
        )
        self.assertIsNone(result)
        headers = server.asked[0].headers
        self.assertEqual((headers["x-dry-run"], headers["idempotency-key"], headers["x-trace"]), ("true", "mine", "t"))

    def test_operations_take_ids_first_and_keep_snake_case(self) -> None:
        server = self.serve(
            Answer(202, {"attempt_id": "att_1", "state": "pending"}), Answer(200, {"webhook": {"url": "https://a.example"}})
        )
        client = self.client(server)
        client.connect.login(email="a@b.c", password="x", reference_id="r", options={"wait": 5})
        client.webhooks.set("acct/1", url="https://a.example", events=["message"])
        login, webhook = server.asked
        self.assertEqual(login.json(), {"email": "a@b.c", "password": "x", "reference_id": "r"})
        self.assertEqual(login.headers["prefer"], "wait=5")
        self.assertRegex(login.headers["idempotency-key"], UUID)
        self.assertEqual((webhook.method, webhook.path), ("PUT", "/v1/accounts/acct%2F1/webhook"))

    def test_call_by_name_and_raw_request(self) -> None:
        server = self.serve(Answer(200, {"result": 1}), Answer(200, {"ok": True}))
        client = self.client(server)
        self.assertEqual(client.account("acct_1").call("chats.list", {"limit": 1}), 1)
        answer = client.request("GET", "/v1/new", query={"a": True, "b": None, "c": [1, 2]})
        self.assertEqual((answer.status, answer.json()), (200, {"ok": True}))
        self.assertEqual(server.asked[0].path, "/v1/accounts/acct_1/chats/list")
        self.assertEqual(server.asked[1].query, {"a": ["true"], "c": ["1", "2"]})

    def test_connections_are_reused(self) -> None:
        server = self.serve(by=lambda asked: Answer(200, {"status": "ok"}))
        client = self.client(server)
        for _ in range(3):
            client.status.get()
        self.assertEqual(len({asked.peer for asked in server.asked}), 1)

    def test_settings_come_from_the_environment(self) -> None:
        with mock.patch.dict(os.environ, {"STAGEDOOR_API_KEY": "sk_env", "STAGEDOOR_URL": "http://localhost:1/"}):
            self.assertEqual(repr(Stagedoor()), "Stagedoor(base_url='http://localhost:1')")
        with mock.patch.dict(os.environ, clear=True):
            with self.assertRaisesRegex(StagedoorError, "STAGEDOOR_API_KEY"):
                Stagedoor()
            with self.assertRaisesRegex(StagedoorError, "STAGEDOOR_URL"):
                Stagedoor("sk_1")


class Retrying(Case):
    def test_retry_waits_as_requested_and_keeps_the_key(self) -> None:
        server = self.serve(
            problem(429, "quota-exceeded", retryable=True, retryAfterSec=3),
            problem(503, "service-unavailable", retryable=True),
            Answer(200, {"result": {"id": "1"}}),
        )
        self.client(server).account("acct_1").messages.send(chat_id="7", text="hi")
        self.assertEqual(len({asked.headers["idempotency-key"] for asked in server.asked}), 1)
        self.assertEqual(self.slept[0], 3)
        self.assertTrue(0.5 <= self.slept[1] <= 1, self.slept)

    def test_each_call_has_its_own_key(self) -> None:
        server = self.serve(by=lambda asked: Answer(200, {"result": {"id": "1"}}))
        client = self.client(server)
        client.account("acct_1").messages.send(chat_id="7", text="hi")
        client.account("acct_1").messages.send(chat_id="7", text="hi")
        self.assertEqual(len({asked.headers["idempotency-key"] for asked in server.asked}), 2)

    def test_retry_after_header_applies_without_retry_after_sec(self) -> None:
        refusal = problem(503, "server-draining", retryable=True)
        refusal.headers["Retry-After"] = "2"
        server = self.serve(refusal, Answer(200, {"status": "ok"}))
        self.client(server).status.get()
        self.assertEqual(self.slept, [2])

    def test_permanent_problem_is_raised_immediately(self) -> None:
        for answer in (
            problem(422, "validation-failed"),
            problem(410, "account-disconnected", retryable=True),
            problem(504, "upstream/timeout", retryable=True, outcome="unknown"),
            problem(429, "quota-exceeded", retryable=True, retryAfterSec=61),
            Answer(502, b"<html>bad gateway</html>", {"Content-Type": "text/html"}),
        ):
            with self.subTest(status=answer.status):
                server = self.serve(answer)
                with self.assertRaises(Problem):
                    self.client(server).me.get()
                self.assertEqual((len(server.asked), self.slept), (1, []))

    def test_retries_are_limited(self) -> None:
        server = self.serve(by=lambda asked: problem(503, "service-unavailable", retryable=True, retryAfterSec=0))
        with self.assertRaises(Problem):
            self.client(server, max_retries=3).me.get()
        self.assertEqual(len(server.asked), 4)
        with self.assertRaises(Problem):
            self.client(server).me.get(options={"max_retries": 0})
        self.assertEqual(len(server.asked), 5)

    def test_broken_connection_is_retried_only_if_safe(self) -> None:
        server = self.serve(HANG_UP, Answer(200, {"result": {"id": "1"}}))
        self.client(server).account("acct_1").messages.send(chat_id="7", text="hi")
        self.assertEqual(len({asked.headers["idempotency-key"] for asked in server.asked}), 1)
        self.assertEqual(len(server.asked), 2)
        server = self.serve(HANG_UP, Answer(200, {}))
        with self.assertRaises(ConnectionFailed):
            self.client(server).webhooks.set("acct_1", url="https://a.example")
        self.assertEqual(len(server.asked), 1)

    def test_connection_closed_by_server_is_not_reused(self) -> None:
        server = self.serve(
            Answer(200, {"status": "ok"}, closes=True), Answer(200, {"webhook": {"url": "https://a.example"}})
        )
        client = self.client(server)
        client.status.get()
        server.wait_for_hang_up()
        # This call is not safe to repeat, so it would fail on the closed connection.
        client.webhooks.set("acct_1", url="https://a.example")
        self.assertEqual(len(server.asked), 2)

    def test_truncated_response_is_a_connection_failure(self) -> None:
        server = self.serve(Answer(200, {"org": {}}, cut=True))
        with self.assertRaises(ConnectionFailed):
            self.client(server, max_retries=0).me.get()

    def test_refused_connection(self) -> None:
        server = self.serve()
        client = self.client(server)
        server._http.server_close()
        with self.assertRaisesRegex(ConnectionFailed, "refused"):
            client.me.get()
        self.assertEqual(len(self.slept), 2)

    def test_timeout(self) -> None:
        import socket

        with socket.create_server(("127.0.0.1", 0)) as silent:
            client = Stagedoor("sk", base_url=f"http://127.0.0.1:{silent.getsockname()[1]}", max_retries=0)
            with self.assertRaises(ConnectionFailed) as caught:
                client.me.get(options={"timeout": 0.05})
            self.assertTrue(caught.exception.timed_out)


class Problems(Case):
    def test_problem_is_decoded(self) -> None:
        server = self.serve(
            problem(
                422,
                "validation-failed",
                detail="One thing is wrong.",
                errors=[{"pointer": "/chatId", "code": "required", "detail": "is missing"}],
                outcome="unknown",
            )
        )
        with self.assertRaises(Problem) as caught:
            self.client(server).me.get()
        error = caught.exception
        self.assertEqual((error.status, error.code, error.retryable), (422, "validation-failed", False))
        self.assertEqual((error.title, error.detail, error.request_id), ("No", "One thing is wrong.", "req_1"))
        self.assertEqual(error.errors[0]["pointer"], "/chatId")
        self.assertEqual(error.raw["outcome"], "unknown")
        self.assertTrue(error.doc_url.endswith("/problems/validation-failed"))
        self.assertIn("/chatId: is missing", str(error))
        self.assertTrue(is_problem(error) and is_problem(error, "quota-exceeded", "validation-failed"))
        self.assertFalse(is_problem(error, "quota-exceeded") or is_problem(ValueError()))

    def test_error_page_of_a_proxy(self) -> None:
        server = self.serve(Answer(502, b"<h1>no</h1>", {"Content-Type": "text/html"}))
        with self.assertRaises(Problem) as caught:
            self.client(server).me.get()
        self.assertEqual((caught.exception.code, caught.exception.detail), ("unexpected-answer", "<h1>no</h1>"))


class Paging(Case):
    @staticmethod
    def page(asked: Asked) -> Answer:
        start = int(asked.query.get("cursor", ["0"])[0])
        more = start + 2 < 5
        items = [{"id": str(n)} for n in range(start, min(start + 2, 5))]
        return Answer(200, {"result": {"items": items, "nextCursor": str(start + 2) if more else None, "hasMore": more}})

    def test_pages_are_fetched_on_demand(self) -> None:
        server = self.serve(by=self.page)
        messages = self.client(server).account("acct_1").messages.list_all(chat_id="7", limit=2)
        self.assertEqual(len(server.asked), 0)
        self.assertEqual(next(messages)["id"], "0")
        self.assertEqual(len(server.asked), 1)
        self.assertEqual([m["id"] for m in messages], ["1", "2", "3", "4"])
        self.assertEqual([asked.query.get("cursor") for asked in server.asked], [None, ["2"], ["4"]])
        self.assertTrue(all(asked.query["chatId"] == ["7"] for asked in server.asked))

    def test_lists_of_the_api(self) -> None:
        server = self.serve(
            Answer(200, {"accounts": [{"id": "a"}], "nextCursor": "c"}),
            Answer(200, {"accounts": [{"id": "b"}], "nextCursor": None}),
        )
        self.assertEqual([a["id"] for a in self.client(server).accounts.list_all(limit=1)], ["a", "b"])

    def test_list_ends_when_cursor_stops_changing(self) -> None:
        server = self.serve(
            Answer(200, {"events": [{"id": "e"}], "nextCursor": "5", "gap": False}),
            Answer(200, {"events": [], "nextCursor": "5", "gap": False}),
        )
        self.assertEqual(len(list(self.client(server).events.list_of_account_all("acct_1", after="4"))), 1)


class Connecting(Case):
    def test_wait_for_action_uses_long_polling(self) -> None:
        server = self.serve(
            Answer(200, {"attempt_id": "att_1", "state": "pending", "poll_after_sec": 2}, {"ETag": '"1"'}),
            Answer(304, b"", {"ETag": '"1"'}),
            Answer(200, {"attempt_id": "att_1", "state": "needs_otp", "poll_after_sec": 2}, {"ETag": '"2"'}),
        )
        attempt = self.client(server).connect.wait_for("att_1")
        self.assertEqual(attempt["state"], "needs_otp")
        self.assertEqual([a.headers.get("if-none-match") for a in server.asked], [None, '"1"', '"1"'])
        self.assertEqual([a.headers.get("prefer") for a in server.asked], [None, "wait=25", "wait=25"])

    def test_wait_for_end_or_condition(self) -> None:
        states = ["pending", "needs_otp", "completed_success"]
        for until, want in (("end", "completed_success"), (lambda a: a["state"] == "needs_otp", "needs_otp")):
            server = self.serve(*(Answer(200, {"state": s, "poll_after_sec": 1}) for s in states))
            attempt = self.client(server).connect.wait_for("att_1", until=until)  # type: ignore[arg-type]
            self.assertEqual(attempt["state"], want)
            self.assertTrue(all(0.5 < slept <= 1 for slept in self.slept))

    def test_wait_for_times_out(self) -> None:
        server = self.serve(by=lambda asked: Answer(200, {"state": "pending", "poll_after_sec": 1}))
        with self.assertRaises(TimeoutError):
            self.client(server).connect.wait_for("att_1", timeout=0.05)

    def test_qr_code(self) -> None:
        server = self.serve(Answer(200, b"\x89PNG", {"Content-Type": "image/png"}))
        self.assertEqual(self.client(server).connect.get_qr("att_1", "png"), b"\x89PNG")
        self.assertEqual(server.asked[0].headers["accept"], "image/png")


class Files(Case):
    def test_upload(self) -> None:
        server = self.serve(by=lambda asked: Answer(201, {"result": {"id": "u", "mediaId": "m", "state": "processing"}}))
        media = self.client(server).account("acct_1").media
        contents: list[tuple[bytes | io.BytesIO | Iterator[bytes], int | None]]
        contents = [(b"12345", None), (io.BytesIO(b"12345"), None), (iter([b"123", b"45"]), 5)]
        for content, size in contents:
            upload = media.upload(content, filename="a b.jpg", content_type="image/jpeg", size=size)
            self.assertEqual(upload["mediaId"], "m")
            asked = server.asked[-1]
            self.assertEqual((asked.body, asked.headers["content-type"]), (b"12345", "image/jpeg"))
            self.assertEqual(asked.query, {"fileName": ["a b.jpg"]})
            self.assertNotIn("idempotency-key", asked.headers)
        with self.assertRaisesRegex(StagedoorError, "size"):
            media.upload(iter([b"1"]), filename="a", content_type="image/jpeg")

    def test_upload_of_a_file_is_not_retried(self) -> None:
        server = self.serve(problem(503, "service-unavailable", retryable=True, uploadId="u", nextPart=2))
        media = self.client(server).account("acct_1").media
        with self.assertRaises(Problem) as caught:
            media.upload(io.BytesIO(b"12345"), filename="a", content_type="image/jpeg")
        self.assertEqual((caught.exception.raw["nextPart"], len(server.asked)), (2, 1))

    def test_download(self) -> None:
        server = self.serve(by=lambda asked: Answer(200, b"x" * 200_000, {"Content-Type": "image/jpeg", "ETag": '"e"'}))
        media = self.client(server).account("acct_1").media
        with tempfile.TemporaryDirectory() as folder, media.download("m1", quality="full") as download:
            self.assertEqual((download.length, download.content_type), (200_000, "image/jpeg"))
            self.assertEqual(download.save(pathlib.Path(folder) / "x.jpg"), 200_000)
        self.assertEqual(media.fetch("https://cdn.example/a?b=c", start=10, etag='"e"').read()[:1], b"x")
        self.assertEqual(server.asked[0].query, {"quality": ["full"]})
        fetched = server.asked[1]
        self.assertEqual(fetched.query, {"url": ["https://cdn.example/a?b=c"]})
        self.assertEqual((fetched.headers["range"], fetched.headers["if-range"]), ("bytes=10-", '"e"'))

    def test_result_of_a_job(self) -> None:
        server = self.serve(by=lambda asked: Answer(206, b"rest", {"Content-Type": "application/gzip"}))
        with self.client(server).jobs.get_result("job_1", start=5, etag='"e"') as download:
            self.assertEqual(download.read(), b"rest")
        asked = server.asked[0]
        self.assertEqual((asked.path, asked.headers["range"], asked.headers["if-range"]), ("/v1/jobs/job_1/result", "bytes=5-", '"e"'))

    def test_truncated_download_fails(self) -> None:
        server = self.serve(Answer(200, b"x" * 10, {"Content-Type": "image/jpeg"}, cut=True))
        with self.assertRaises(ConnectionFailed):
            list(self.client(server).account("acct_1").media.download("m1"))


if __name__ == "__main__":
    unittest.main()
