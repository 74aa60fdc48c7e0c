"""The interface between a client and its transport."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import BinaryIO, Protocol, Union

#: A request body: bytes, a file opened in binary mode, or an iterable of bytes.
Content = Union[bytes, BinaryIO, Iterable[bytes]]


class Request:
    """A request for a transport to send."""

    def __init__(
        self, method: str, url: str, headers: dict[str, str], body: Content | None = None, timeout: float = 60.0
    ) -> None:
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        #: How many seconds to wait for a connection, and for each part of the response.
        self.timeout = timeout


class Response(Protocol):
    """A response whose body has not been read yet. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]

    def read(self) -> bytes:
        """Return the rest of the body."""

    def read_some(self, most: int) -> bytes:
        """Return available bytes of the body, at least one. Empty at its end."""

    def close(self) -> None:
        """Release the connection, or close it if the body was not read completely."""


class Transport(Protocol):
    """Sends requests. Pass your own to a client to use a proxy or another HTTP library."""

    def send(self, request: Request) -> Response:
        """Send a request and return the response before its body is read. Raises ConnectionFailed if there is none."""

    def close(self) -> None:
        """Close all idle connections."""
