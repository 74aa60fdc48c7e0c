"""An end-to-end test that every client library passes against a running system.

Connect, call, stream, drop the connection, resume on another node, verify a webhook, page through a list, disconnect.
It requires STAGEDOOR_URLS (or STAGEDOOR_URL) and STAGEDOOR_API_KEY, as in .dev/env.
"""

from __future__ import annotations

import os
import pathlib
import queue
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from relay import Relay  # noqa: E402

from stagedoor import (  # noqa: E402
    Account,
    EventStream,
    Problem,
    Stagedoor,
    StagedoorError,
    WebhookVerificationError,
    is_problem,
    verify_webhook,
)

TIMEOUT = 60.0
MARK = f"py{int(time.time() * 1000):x}"
NODES: list[str] = re.findall(r"[^\s,]+", os.environ.get("STAGEDOOR_URLS", "") or os.environ.get("STAGEDOOR_URL", ""))


def check(truth: bool, what: object) -> None:
    """Fail the current step unless truth holds."""
    if not truth:
        raise AssertionError(what)


@contextmanager
def step(name: str) -> Iterator[Callable[[object], None]]:
    """Run a step and print a line with its name and duration, and what the step reports."""
    began = time.monotonic()
    reported: list[str] = []
    try:
        yield lambda what: reported.append(str(what))
    except BaseException as error:
        print(f"FAIL  {name}: {error}", flush=True)
        raise
    print(f"ok    {name:<34} {(time.monotonic() - began) * 1000:6.0f} ms  {' '.join(reported)}".rstrip(), flush=True)


def node(n: int) -> str:
    """Return node n, starting over after the last."""
    return NODES[n % len(NODES)]


class Reader:
    """Reads a stream in the background and collects its messages."""

    def __init__(self, stream: EventStream) -> None:
        self.stream = stream
        self.ids: list[str] = []
        self.texts: list[str] = []
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for event in self.stream:
                if event["event"] == "message":
                    with self._changed:
                        self.ids.append(event["id"])
                        self.texts.append(event["data"]["message"]["text"])
                        self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        """Wait until count messages have arrived."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.texts) >= count or self._error is not None, TIMEOUT)
            if self._error is not None:
                raise self._error
            check(len(self.texts) >= count, f"got {len(self.texts)} messages, want {count}: {self.texts}")


Delivery = tuple[dict[str, str], bytes]


@contextmanager
def receiver() -> Iterator[tuple[str, queue.Queue[Delivery]]]:
    """Start a local receiver of webhooks. Yields its address and a queue of deliveries."""
    got: queue.Queue[Delivery] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            got.put((dict(self.headers.items()), body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", got
    finally:
        server.shutdown()
        server.server_close()


def connect(client: Stagedoor) -> str:
    started = client.connect.login(email=f"ok+{MARK}@sandbox.test", password="good", label="Scenario (Python)")
    attempt = client.connect.wait_for(started["attempt_id"], until="end", timeout=TIMEOUT)
    account_id = attempt["account_id"]
    check(attempt["state"] == "completed_success", attempt.get("failure"))
    assert account_id is not None
    return account_id


def send(account: Account) -> str:
    chat = account.chats.list(limit=1)["items"][0]
    text = f"{MARK} thank you!"
    key = f"{MARK}-send"
    first = account.messages.send(chat_id=chat["id"], text=text, options={"idempotency_key": key})
    again = account.messages.send(chat_id=chat["id"], text=text, options={"idempotency_key": key})
    check(first["text"] == text and first["id"] == again["id"], (first, again))
    account.messages.send(chat_id=chat["id"], text="never", options={"dry_run": True})
    newest = next(account.messages.list_all(chat_id=chat["id"], limit=1))
    check(newest["id"] == first["id"], f"the newest message is {newest['text']!r}")
    return first["id"]


def missing_chat(account: Account) -> Problem:
    try:
        account.messages.send(chat_id="999999999999", text="nobody")
    except Problem as problem:
        check(is_problem(problem, "upstream/not-found") and not problem.retryable and problem.status == 404, problem)
        check(problem.request_id.startswith("req_"), problem.request_id)
        return problem
    raise AssertionError("a message to an unknown chat was accepted")


def pages(account: Account) -> str:
    by_page: list[str] = []
    count = 0
    page = account.chats.list(limit=3)
    while True:
        count += 1
        by_page += [chat["id"] for chat in page["items"]]
        if not page["nextCursor"] or count == 4:
            break
        page = account.chats.list(limit=3, cursor=page["nextCursor"])
    iterated = []
    for chat in account.chats.list_all(limit=3):
        iterated.append(chat["id"])
        if len(iterated) == len(by_page):
            break
    check(count > 1 and by_page == iterated and len(set(by_page)) == len(by_page), (count, by_page, iterated))
    return f"{len(by_page)} chats on {count} pages"


def fire(client: Stagedoor, account_id: str, *numbers: int) -> list[str]:
    texts = [f"{MARK} {n}" for n in numbers]
    for text in texts:
        client.sandbox.fire_event(account_id, event="message", data={"text": text})
    return texts


def streaming(client: Stagedoor, account_id: str) -> None:
    """Fire events before, during and after a lost connection, and resume on other nodes."""
    relay = Relay(node(0))
    drops: list[StagedoorError | None] = []
    through = Stagedoor(base_url=relay.url)
    events = through.account(account_id).stream(
        since="0", events=["message"], on_drop=lambda error, wait: drops.append(error)
    )
    reader = Reader(events)
    try:
        with step("fire events"):
            want = fire(client, account_id, 1, 2, 3)
        with step("receive them from a stream") as say:
            reader.wait_for(3)
            say(f"cursor {events.cursor}")
        with step("cut the connection"):
            relay.cut()
        with step("fire more while it is down"):
            want += fire(client, account_id, 4, 5, 6)
        with step("resume on another node") as say:
            relay.restore(node(1))
            reader.wait_for(6)
            say(f"{node(1)} after {len(drops)} drops")
        with step("resume on a third node") as say:
            relay.cut()
            relay.restore(node(2))
            want += fire(client, account_id, 7)
            reader.wait_for(7)
            say(node(2))
        with step("every event once, in order") as say:
            check(reader.texts == want and len(set(reader.ids)) == len(want), reader.texts)
            say(f"{len(want)} events")
    finally:
        events.close()
        relay.stop()
    with step("continue from a saved cursor"):
        with Stagedoor(base_url=node(1)).account(account_id).stream(since=events.cursor, events=["message"]) as rest:
            fire(client, account_id, 8)
            following = next(rest)
        check(following["event"] == "message" and following["id"] not in reader.ids, following)


def webhook(client: Stagedoor, account_id: str) -> None:
    """Verify a delivery, and check that a changed body is rejected."""
    with receiver() as (url, got):
        with step("set a webhook"):
            secret = client.webhooks.set(account_id, url=url, events=["message"])["signingSecret"]
        with step("receive a delivery"):
            text = fire(client, account_id, 9)[0]
            headers, body = got.get(timeout=TIMEOUT)
        with step("verify it") as say:
            event = verify_webhook(secret, headers, body)
            check(event["event"] == "message" and event["data"]["message"]["text"] == text, event)
            check(client.events.get(event["id"])["id"] == event["id"], "the event is not in the log")
            say(event["id"])
        with step("reject a changed body") as say:
            try:
                verify_webhook(secret, headers, body.replace(text.encode(), b"another text"))
                raise AssertionError("a changed body was accepted")
            except WebhookVerificationError as error:
                check(error.reason == "no-match", error.reason)
                say(error.reason)
        with step("delete the webhook"):
            client.webhooks.delete(account_id)


def with_account(client: Stagedoor, account_id: str) -> None:
    account = client.account(account_id)
    with step("read the profile") as say:
        say(account.me.get()["username"])
    with step("send a message, once") as say:
        say(send(account))
    with step("get a typed problem") as say:
        say(missing_chat(account).code)
    with step("page through chats") as say:
        say(pages(account))
    streaming(client, account_id)
    webhook(client, account_id)


def main() -> int:
    if not NODES:
        print("STAGEDOOR_URLS is not set: source .dev/env", file=sys.stderr)
        return 2
    client = Stagedoor(base_url=node(0))
    try:
        with step("connect with email and password") as say:
            account_id = connect(client)
            say(account_id)
        try:
            with_account(client, account_id)
        finally:
            with step("disconnect"):
                client.accounts.disconnect(account_id)
    except Exception:
        traceback.print_exc()
        return 1
    print("the scenario passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
