"""Streams of server-sent events that resume after a lost connection."""

from __future__ import annotations

import json
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ._core import Core, RequestOptions, backoff
from ._errors import ConnectionFailed, Problem, StagedoorError
from ._transport import Response

if TYPE_CHECKING:
    from .events import Event

#: A stream that is silent for this many seconds is dead. The service sends a heartbeat every 15 seconds.
SILENCE = 45.0

_REMEMBERED = 512


class Frame(NamedTuple):
    """One server-sent event."""

    event: str
    data: str
    id: str | None
    retry: float | None


class EventStream:
    """An iterator over events, in order and each once. It has no end.

    The stream connects when the first event is requested. After a lost connection it reconnects and continues after the
    last event, so that none is lost. It raises a Problem if the server rejects it permanently, for example because the
    key was revoked.

        with client.account(account_id).stream() as events:
            for event in events:
                ...
    """

    def __init__(
        self,
        core: Core,
        path: str,
        query: Mapping[str, Any],
        since: str | None,
        *,
        on_drop: Callable[[StagedoorError | None, float], None] | None = None,
    ) -> None:
        self._core = core
        self._path = path
        self._query = query
        self._on_drop = on_drop
        self._response: Response | None = None
        self._closed = threading.Event()
        self._seen: deque[str] = deque(maxlen=_REMEMBERED)
        self._retry: float | None = None
        self._events = self._run()
        #: The position of the last event. Store it, and pass it as `since` to continue after it.
        self.cursor: str | None = since
        #: Whether events were missed because they were no longer stored when the stream resumed.
        self.gap = False

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the stream. A thread that waits for the next event stops waiting."""
        self._closed.set()
        if self._response is not None:
            self._response.close()

    def _run(self) -> Iterator[Event]:
        connected_before = False
        failures = 0
        while not self._closed.is_set():
            problem: StagedoorError | None = None
            try:
                for event in self._connection(connected_before):
                    failures = 0
                    yield event
                failures = 0
            except (ConnectionFailed, Problem) as error:
                if self._closed.is_set():
                    return
                if not _is_transient(error) or (not connected_before and self._response is None):
                    raise
                problem = error
            finally:
                connected_before = connected_before or self._response is not None
                self._drop()
            if self._closed.is_set():
                return
            wait = self._wait(problem, failures)
            failures += 1
            if self._on_drop is not None:
                self._on_drop(problem, wait)
            self._closed.wait(wait)

    def _connection(self, resumes: bool) -> Iterator[Event]:
        """Yield the events of one connection until it ends."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if self.cursor is not None:
            headers["Last-Event-ID"] = self.cursor
        # The first connection fails like any call, so that a wrong address is noticed. Later ones are retried forever.
        options: RequestOptions = {"timeout": SILENCE}
        if resumes:
            options["max_retries"] = 0
        self._response = self._core.send("GET", self._path, query=self._query, headers=headers, options=options)
        if self._closed.is_set():
            return
        for frame in frames(self._response):
            if frame.retry is not None:
                self._retry = frame.retry
            if frame.event == "ready":
                self._ready(json.loads(frame.data))
            elif frame.event == "problem":
                raw = json.loads(frame.data)
                raise Problem(int(raw.get("status") or 0), raw)
            elif frame.event and frame.event != "heartbeat":
                event = json.loads(frame.data)
                if frame.id:
                    self.cursor = frame.id
                if self._is_new(event):
                    yield event

    def _ready(self, ready: Mapping[str, Any]) -> None:
        gap = ready.get("gap") is True
        # Without this, a stream that drops before its first event would miss the events until it reconnects.
        if (self.cursor is None or gap) and ready.get("cursor"):
            self.cursor = ready["cursor"]
        self.gap = self.gap or gap

    def _is_new(self, event: Mapping[str, Any]) -> bool:
        identity = event.get("id")
        if not isinstance(identity, str):
            return True
        if identity in self._seen:
            return False
        self._seen.append(identity)
        return True

    def _wait(self, problem: StagedoorError | None, failures: int) -> float:
        if isinstance(problem, Problem) and problem.retry_after_sec is not None:
            return problem.retry_after_sec
        if problem is None and self._retry is not None:
            return self._retry * random.uniform(0.5, 1.0)
        return backoff(failures)

    def _drop(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.close()


def frames(response: Response) -> Iterator[Frame]:
    """Read server-sent events. A truncated one is dropped."""
    event = ""
    data: list[str] = []
    identity: str | None = None
    retry: float | None = None
    for line in _lines(response):
        if not line:
            if data:
                yield Frame(event or "message", "\n".join(data), identity, retry)
            elif retry is not None:
                yield Frame("", "", None, retry)
            event, data, identity, retry = "", [], None, None
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            event = value
        elif name == "data":
            data.append(value)
        elif name == "id":
            identity = value
        elif name == "retry" and value.isascii() and value.isdigit():
            retry = int(value) / 1000


def _lines(response: Response) -> Iterator[str]:
    rest = b""
    while some := response.read_some(65536):
        *lines, rest = (rest + some).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")


def _is_transient(error: StagedoorError) -> bool:
    if isinstance(error, Problem):
        # A proxy without a backend sends its own error page instead of a problem document.
        return error.retryable or (error.status >= 500 and error.code == "unexpected-answer")
    return isinstance(error, ConnectionFailed)
