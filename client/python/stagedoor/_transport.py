"""What a client sends with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import BinaryIO, Protocol, Union

#: What can be sent: bytes, an open file, or pieces of bytes.
Content = Union[bytes, BinaryIO, Iterable[bytes]]


class Request:
    """A request as it goes to a transport."""

    def __init__(
        self, method: str, url: str, headers: dict[str, str], body: Content | None = None, timeout: float = 60.0
    ) -> None:
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        #: How many seconds to wait for a connection, and for each piece of the answer.
        self.timeout = timeout


class Response(Protocol):
    """An answer whose body has not been read yet. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]

    def read(self) -> bytes:
        """The rest of the body."""

    def read_some(self, most: int) -> bytes:
        """What is there of the body, at least a byte; empty at its end."""

    def close(self) -> None:
        """Gives the connection back, or closes it if something is left to read."""


class Transport(Protocol):
    """Sends requests. Give a client another one to use a proxy, or a library of your own."""

    def send(self, request: Request) -> Response:
        """Sends a request and returns the answer's beginning; ConnectionFailed if none came."""

    def close(self) -> None:
        """Closes all connections that are not in use."""
