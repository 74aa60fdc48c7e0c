"""The default transport: HTTP with the standard library, with a connection pool and timeouts."""

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
    """The default transport. It is thread-safe."""

    def __init__(self, *, ssl_context: ssl.SSLContext | None = None) -> None:
        self._ssl_context = ssl_context
        self._lock = threading.Lock()
        self._idle: dict[tuple[str, str], list[tuple[http.client.HTTPConnection, float]]] = {}

    def send(self, request: Request) -> Response:
        url = urlsplit(request.url)
        connection = self._acquire(url, request.timeout)
        try:
            response = _exchange(connection, request, _target(url))
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise _failure(url, error) from error
        except BaseException:
            connection.close()
            raise
        return _HttpResponse(response, connection, lambda: self._release(url, connection), url)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection, _ in connections:
                connection.close()

    def _acquire(self, url: SplitResult, timeout: float) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                idle = self._idle.get((url.scheme, url.netloc))
                if not idle:
                    return self._open(url, timeout)
                connection, since = idle.pop()
            sock: socket.socket | None = connection.sock
            # An idle connection receives no data, so if it is readable, the server has closed it.
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

    def _release(self, url: SplitResult, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            idle = self._idle.setdefault((url.scheme, url.netloc), [])
            if len(idle) < _IDLE_CONNECTIONS:
                idle.append((connection, time.monotonic()))
                return
        connection.close()


class _HttpResponse:
    def __init__(
        self,
        response: http.client.HTTPResponse,
        connection: http.client.HTTPConnection,
        release: Callable[[], None],
        url: SplitResult,
    ) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.getheaders()}
        self._response = response
        self._connection = connection
        # Keep the socket for _discard: http.client drops its reference if the connection ends with this response.
        self._socket: socket.socket | None = connection.sock
        self._release: Callable[[], None] | None = release
        self._url = url

    def read(self) -> bytes:
        try:
            data = self._response.read()
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            self._discard()
            raise _failure(self._url, error) from error
        self._finish()
        return data

    def read_some(self, most: int) -> bytes:
        try:
            data = self._response.read1(most)
            # read1 returns nothing both at the end and for a truncated body.
            if not data and (self._response.length or 0) > 0:
                raise http.client.IncompleteRead(b"", self._response.length)
        # close() in another thread during a read causes a ValueError or AttributeError here.
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            self._discard()
            raise _failure(self._url, error) from error
        if not data:
            self._finish()
        return data

    def close(self) -> None:
        if self._response.isclosed():
            self._finish()
        else:
            self._discard()

    def _finish(self) -> None:
        release, self._release = self._release, None
        if release is None:
            return
        self._response.close()
        if self._response.will_close or self._connection.sock is None:
            self._connection.close()
        else:
            release()

    def _discard(self) -> None:
        self._release = None
        if self._socket is not None:
            try:
                # Shut down to wake a thread that is blocked in read_some; closing would not.
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._connection.close()


def _exchange(connection: http.client.HTTPConnection, request: Request, target: str) -> http.client.HTTPResponse:
    body, headers = request.body, request.headers
    chunked = body is not None and not isinstance(body, bytes) and "Content-Length" not in headers
    try:
        connection.request(request.method, target, body=body, headers=headers, encode_chunked=chunked)
    except (BrokenPipeError, ConnectionResetError):
        # A server that rejects an upload may respond and close before it has read the body. Try to read the response.
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
        return ConnectionFailed(f"{url.netloc} did not respond in time", timed_out=True)
    if isinstance(error, ConnectionRefusedError):
        return ConnectionFailed(f"{url.netloc} refused the connection")
    return ConnectionFailed(f"the connection to {url.netloc} failed: {str(error) or type(error).__name__}")
