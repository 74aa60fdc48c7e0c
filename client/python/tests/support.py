"""A fake server for tests. It sends the responses that a test provides and records the requests."""

from __future__ import annotations

import json
import pathlib
import sys
import threading
import unittest
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
sys.path.insert(0, str(HERE.parent))

from stagedoor import Stagedoor  # noqa: E402


class Asked:
    """A request that the server received."""

    def __init__(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        url = urlsplit(handler.path)
        self.method = handler.command
        self.path = url.path
        self.query = parse_qs(url.query, keep_blank_values=True)
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.body = body
        self.peer: tuple[str, int] = handler.client_address

    def json(self) -> Any:
        return json.loads(self.body)


class Answer:
    """A response of the server.

    cut closes the connection after the body without ending the response. closes closes it after a complete response,
    without announcing it.
    """

    def __init__(
        self,
        status: int = 200,
        body: Any = None,
        headers: dict[str, str] | None = None,
        *,
        cut: bool = False,
        closes: bool = False,
    ) -> None:
        self.status = status
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.headers = headers or {}
        self.cut = cut
        self.closes = closes


#: No response: the connection is closed.
HANG_UP = Answer(0)


def problem(status: int, code: str, **more: Any) -> Answer:
    """Return a problem response as Stagedoor sends it."""
    body = {
        "type": f"https://stagedoor.example/problems/{code}",
        "title": "No",
        "status": status,
        "code": code,
        "retryable": False,
        **more,
    }
    headers = {"Content-Type": "application/problem+json", "X-Request-Id": "req_1"}
    return Answer(status, body, headers)


def frame(event: str, data: Any, identity: str | None = None) -> bytes:
    """Return one server-sent event."""
    start = f"id: {identity}\n" if identity is not None else ""
    return f"{start}event: {event}\ndata: {json.dumps(data)}\n\n".encode()


def stream(*parts: bytes, cut: bool = False) -> Answer:
    """Return a stream of server-sent events, with a short retry to keep tests fast."""
    return Answer(200, b"retry: 10\n\n" + b"".join(parts), {"Content-Type": "text/event-stream"}, cut=cut)


class Server:
    """Sends the given responses in turn, or those that a function returns."""

    def __init__(self, *answers: Answer, by: Callable[[Asked], Answer] | None = None) -> None:
        self.asked: list[Asked] = []
        self._answers = list(answers)
        self._by = by
        self._hung_up = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # Buffer a response into one packet: two small ones would wait for each other.

            def answer(self) -> None:
                asked = Asked(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                server.asked.append(asked)
                server.write(self, server.next(asked))

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def shutdown_request(self, request: Any) -> None:
                super().shutdown_request(request)
                server._hung_up.set()

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # Many tests drop connections on purpose.

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def next(self, asked: Asked) -> Answer:
        if self._by is not None:
            return self._by(asked)
        return self._answers.pop(0) if self._answers else problem(500, "internal", detail="the test has no more responses")

    @staticmethod
    def write(handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        if answer is HANG_UP:
            handler.close_connection = True
            return
        handler.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            handler.send_header(name, value)
        streamed = answer.headers.get("Content-Type") == "text/event-stream"
        if streamed:
            handler.send_header("Transfer-Encoding", "chunked")
        else:
            handler.send_header("Content-Length", str(len(answer.body) + (10 if answer.cut else 0)))
        handler.end_headers()
        if streamed:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(answer.body), answer.body))
            if not answer.cut:
                handler.wfile.write(b"0\r\n\r\n")
        elif answer.status != 304:
            handler.wfile.write(answer.body)
        handler.wfile.flush()
        if answer.cut or answer.closes:
            handler.close_connection = True

    def wait_for_hang_up(self) -> None:
        """Wait until the server has closed a connection."""
        if not self._hung_up.wait(5):
            raise AssertionError("the server did not close a connection")

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class Case(unittest.TestCase):
    """A test with a server, and a client that records its waits in slept instead of sleeping."""

    def serve(self, *answers: Answer, by: Callable[[Asked], Answer] | None = None) -> Server:
        server = Server(*answers, by=by)
        self.addCleanup(server.close)
        return server

    def client(self, server: Server, **settings: Any) -> Stagedoor:
        self.slept: list[float] = []
        settings.setdefault("sleep", self.slept.append)
        client = Stagedoor("sk_test_1", base_url=server.url, **settings)
        self.addCleanup(client.close)
        return client
