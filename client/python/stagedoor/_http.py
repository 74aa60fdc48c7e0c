"""HTTP with the standard library: connections that are kept, and timeouts."""

from __future__ import annotations

import http.client
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from ._errors import ConnectionFailed
from ._transport import Request, Response

if TYPE_CHECKING:
    import ssl

_IDLE_SECONDS = 50.0
_IDLE_CONNECTIONS = 16


class HttpTransport:
    """The transport that clients use unless they are given another. Threads may share it."""

    def __init__(self, *, ssl_context: ssl.SSLContext | None = None) -> None:
        self._ssl_context = ssl_context
        self._lock = threading.Lock()
        self._idle: dict[tuple[str, str], list[tuple[http.client.HTTPConnection, float]]] = {}

    def send(self, request: Request) -> Response:
        url = urlsplit(request.url)
        connection = self._take(url, request.timeout)
        try:
            answer = _exchange(connection, request, _target(url))
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _failure(url, error) from error
        except BaseException:
            connection.close()
            raise
        return _HttpResponse(answer, connection, lambda: self._give_back(url, connection), url)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection, _ in connections:
                connection.close()

    def _take(self, url: SplitResult, timeout: float) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                idle = self._idle.get((url.scheme, url.netloc))
                if not idle:
                    return self._open(url, timeout)
                connection, since = idle.pop()
            sock: socket.socket | None = connection.sock
            # Nothing may come on an idle connection: if it can be read, the server has closed it.
            if sock is None or time.monotonic() - since > _IDLE_SECONDS or _readable(sock):
                connection.close()
                continue
            sock.settimeout(timeout)
            return connection

    def _open(self, url: SplitResult, timeout: float) -> http.client.HTTPConnection:
        if not url.hostname or url.scheme not in ("http", "https"):
            raise ConnectionFailed(f"not an HTTP address: {url.geturl()!r}")
        if url.scheme == "https":
            return http.client.HTTPSConnection(url.hostname, url.port, timeout=timeout, context=self._ssl_context)
        return http.client.HTTPConnection(url.hostname, url.port, timeout=timeout)

    def _give_back(self, url: SplitResult, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            idle = self._idle.setdefault((url.scheme, url.netloc), [])
            if len(idle) < _IDLE_CONNECTIONS:
                idle.append((connection, time.monotonic()))
                return
        connection.close()


class _HttpResponse:
    def __init__(
        self,
        answer: http.client.HTTPResponse,
        connection: http.client.HTTPConnection,
        release: Callable[[], None],
        url: SplitResult,
    ) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in answer.getheaders()}
        self._answer = answer
        self._connection = connection
        # http.client forgets the socket of a connection that ends with its answer; close() needs it.
        self._socket: socket.socket | None = connection.sock
        self._release: Callable[[], None] | None = release
        self._url = url

    def read(self) -> bytes:
        try:
            data = self._answer.read()
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            self._discard()
            raise _failure(self._url, error) from error
        self._finish()
        return data

    def read_some(self, most: int) -> bytes:
        try:
            data = self._answer.read1(most)
            # read1 does not tell a body that was cut off from one that has ended.
            if not data and (self._answer.length or 0) > 0:
                raise http.client.IncompleteRead(b"", self._answer.length)
        # close() by another thread takes the file away under a read: that shows as a ValueError or AttributeError.
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            self._discard()
            raise _failure(self._url, error) from error
        if not data:
            self._finish()
        return data

    def close(self) -> None:
        if self._answer.isclosed():
            self._finish()
        else:
            self._discard()

    def _finish(self) -> None:
        release, self._release = self._release, None
        if release is None:
            return
        self._answer.close()
        if self._answer.will_close or self._connection.sock is None:
            self._connection.close()
        else:
            release()

    def _discard(self) -> None:
        self._release = None
        if self._socket is not None:
            try:
                # Wakes a thread that waits in read_some; closing alone would not.
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._connection.close()


def _exchange(connection: http.client.HTTPConnection, request: Request, target: str) -> http.client.HTTPResponse:
    body, headers = request.body, request.headers
    pieces = body is not None and not isinstance(body, bytes) and "Content-Length" not in headers
    try:
        connection.request(request.method, target, body=body, headers=headers, encode_chunked=pieces)
    except (BrokenPipeError, ConnectionResetError):
        # A server that refuses an upload answers before it has all of it, and closes. The answer may still be there.
        return connection.getresponse()
    return connection.getresponse()


def _target(url: SplitResult) -> str:
    return (url.path or "/") + (f"?{url.query}" if url.query else "")


def _readable(sock: socket.socket) -> bool:
    try:
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select([sock], [], [], 0)[0])
    except (OSError, ValueError):
        return True


def _failure(url: SplitResult, error: Exception) -> ConnectionFailed:
    if isinstance(error, TimeoutError):
        return ConnectionFailed(f"{url.netloc} did not answer in time", timed_out=True)
    if isinstance(error, ConnectionRefusedError):
        return ConnectionFailed(f"{url.netloc} refused the connection")
    return ConnectionFailed(f"the connection to {url.netloc} failed: {str(error) or type(error).__name__}")
