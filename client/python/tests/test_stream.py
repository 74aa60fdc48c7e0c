"""Tests of streams: they resume after a lost connection and yield every event once."""

from __future__ import annotations

import threading
import unittest
from typing import Any

from support import HANG_UP, Answer, Asked, Case, Server, frame, problem, stream

from stagedoor import ConnectionFailed, Problem


def event(n: int, kind: str = "message") -> dict[str, Any]:
    return {"id": f"evt_{n}", "event": kind, "accountId": "acct_1", "ts": "2026-11-15T12:00:00Z", "data": {}, "meta": {}}


def sent(n: int, kind: str = "message") -> bytes:
    return frame(kind, event(n, kind), f"{n:014}")


def ready(cursor: int, gap: bool = False) -> bytes:
    return frame("ready", {"accountId": "acct_1", "cursor": f"{cursor:014}", "resumed": False, "gap": gap})


HEARTBEAT = frame("heartbeat", {"ts": "2026-11-15T12:00:00Z"})
END = problem(401, "key-revoked")


class Streaming(Case):
    def ids(self, server: Server, **options: Any) -> list[str]:
        """Return the ids of all events until the server rejects the stream."""
        seen: list[str] = []
        with self.client(server).account("acct_1").stream(**options) as events:
            with self.assertRaises(Problem) as caught:
                for one in events:
                    seen.append(one["id"])
        self.assertEqual(caught.exception.code, "key-revoked")
        return seen

    def test_stream_resumes_after_the_last_event(self) -> None:
        server = self.serve(
            stream(ready(0), sent(1), HEARTBEAT, sent(2), cut=True),
            HANG_UP,
            problem(503, "server-draining", retryable=True, retryAfterSec=0),
            Answer(502, b"<h1>no</h1>", {"Content-Type": "text/html"}),
            stream(ready(2), sent(3)),
            stream(ready(3)),
            END,
        )
        self.assertEqual(self.ids(server), ["evt_1", "evt_2", "evt_3"])
        last = [asked.headers.get("last-event-id") for asked in server.asked]
        self.assertEqual(last, [None] + ["00000000000002"] * 4 + ["00000000000003"] * 2)
        self.assertEqual(server.asked[0].headers["accept"], "text/event-stream")

    def test_truncated_event_is_received_again(self) -> None:
        whole = sent(2)
        for length in (len(whole) // 4, len(whole) // 2, len(whole) - 1):
            with self.subTest(length=length):
                server = self.serve(stream(ready(0), sent(1), whole[:length], cut=True), stream(ready(1), whole), END)
                self.assertEqual(self.ids(server), ["evt_1", "evt_2"])
                self.assertEqual(server.asked[1].headers["last-event-id"], "00000000000001")

    def test_duplicates_are_dropped(self) -> None:
        server = self.serve(stream(ready(0), sent(1), sent(2), cut=True), stream(ready(0), sent(1), sent(2), sent(3)), END)
        self.assertEqual(self.ids(server), ["evt_1", "evt_2", "evt_3"])

    def test_drop_before_the_first_event_misses_nothing(self) -> None:
        server = self.serve(stream(ready(7), cut=True), stream(ready(7), sent(8)), END)
        self.assertEqual(self.ids(server), ["evt_8"])
        self.assertEqual(server.asked[1].headers["last-event-id"], "00000000000007")

    def test_since_filter_and_cursor(self) -> None:
        server = self.serve(stream(ready(5), sent(6)), END)
        drops: list[Any] = []
        client = self.client(server)
        stream_of_all = client.stream(
            since="5", events=["message*", "!typing"], account_id="acct_1", on_drop=lambda error, wait: drops.append(error)
        )
        self.assertEqual(stream_of_all.cursor, "5")
        with stream_of_all as events, self.assertRaises(Problem):
            for _ in events:
                self.assertEqual(events.cursor, "00000000000006")
        self.assertEqual(server.asked[0].headers["last-event-id"], "5")
        self.assertEqual(server.asked[0].query, {"events": ["message*", "!typing"], "accountId": ["acct_1"]})
        self.assertEqual((drops, events.gap), ([None], False))

    def test_gap_is_reported(self) -> None:
        server = self.serve(stream(ready(5, gap=True)), END)
        with self.client(server).account("acct_1").stream(since="1") as events, self.assertRaises(Problem):
            next(events)
        self.assertTrue(events.gap)

    def test_stream_continues_where_the_server_says_after_a_gap(self) -> None:
        server = self.serve(stream(ready(5, gap=True), cut=True), stream(ready(5), sent(6)), END)
        self.assertEqual(self.ids(server, since="00000000000009"), ["evt_6"])
        last = [asked.headers.get("last-event-id") for asked in server.asked]
        self.assertEqual(last, ["00000000000009", "00000000000005", "00000000000006"])

    def test_unknown_kinds_are_yielded(self) -> None:
        server = self.serve(stream(ready(0), sent(1, "something.new")), END)
        self.assertEqual(self.ids(server), ["evt_1"])

    def test_ephemeral_events_have_no_cursor(self) -> None:
        server = self.serve(stream(ready(0), sent(1), frame("typing", event(2, "typing")), cut=True), END)
        self.assertEqual(self.ids(server), ["evt_1", "evt_2"])
        self.assertEqual(server.asked[1].headers["last-event-id"], "00000000000001")

    def test_only_permanent_problem_in_stream_ends_it(self) -> None:
        draining = {"code": "server-draining", "status": 503, "retryable": True, "retryAfterSec": 0}
        revoked = {"code": "key-revoked", "status": 401, "retryable": False}
        server = self.serve(
            stream(ready(0), sent(1), frame("problem", draining)), stream(ready(1), sent(2), frame("problem", revoked))
        )
        self.assertEqual(self.ids(server), ["evt_1", "evt_2"])
        self.assertEqual(len(server.asked), 2)

    def test_first_connection_fails_like_any_call(self) -> None:
        server = self.serve(HANG_UP, HANG_UP, HANG_UP)
        with self.client(server).account("acct_1").stream() as events, self.assertRaises(ConnectionFailed):
            next(events)
        self.assertEqual((len(server.asked), len(self.slept)), (3, 2))

    def test_non_ascii_text(self) -> None:
        one = event(1)
        one["data"] = {"text": "café 🌙"}
        server = self.serve(stream(ready(0), frame("message", one, "1")), END)
        with self.client(server).account("acct_1").stream() as events:
            self.assertEqual(next(events)["data"], {"text": "café 🌙"})

    def test_close_from_another_thread_ends_the_stream(self) -> None:
        waits = threading.Event()
        release = threading.Event()
        self.addCleanup(release.set)

        def answer(asked: Asked) -> Answer:
            if len(server.asked) == 1:
                return stream(ready(0), sent(1), cut=True)
            waits.set()
            release.wait(10)
            return END

        server = self.serve(by=answer)
        events = self.client(server).account("acct_1").stream()
        seen = [next(events)["id"]]
        # The reader now opens the second connection, which gets no response.
        reader = threading.Thread(target=lambda: seen.extend(one["id"] for one in events), daemon=True)
        reader.start()
        self.assertTrue(waits.wait(10))
        events.close()
        release.set()
        reader.join(10)
        self.assertFalse(reader.is_alive())
        self.assertEqual(seen, ["evt_1"])


class Watching(Case):
    def test_watch_yields_an_attempt_until_its_end(self) -> None:
        def attempt(state: str) -> bytes:
            return frame("attempt", {"attempt_id": "att_1", "state": state})

        server = self.serve(
            stream(attempt("pending"), attempt("needs_otp"), cut=True),
            stream(attempt("needs_otp"), HEARTBEAT, attempt("completed_success")),
        )
        states = [one["state"] for one in self.client(server).connect.watch("att_1")]
        self.assertEqual(states, ["pending", "needs_otp", "completed_success"])


if __name__ == "__main__":
    unittest.main()
