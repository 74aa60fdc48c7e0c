"""Connecting accounts: waiting for an attempt, watching it, and its QR code."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, Union, cast

from ._core import RequestOptions, backoff, path_segment
from ._errors import ConnectionFailed, Problem, StagedoorError
from .groups.connect import ConnectGroup
from ._stream import SILENCE, frames

if TYPE_CHECKING:
    from .types import Attempt

#: What to wait for: "action" is until somebody must do something, or it has ended; "end" is until it has ended.
Until = Union[Literal["action", "end"], "Callable[[Attempt], bool]"]

_LONGEST_POLL = 25
_SHORTEST_PAUSE = 0.5


class Connect(ConnectGroup):
    """Ways to connect a creator's account, and how far they have come."""

    def wait_for(self, attempt_id: str, *, until: Until = "action", timeout: float | None = None) -> Attempt:
        """Waits for an attempt, and returns it as it then is.

        until is "action" (the state is no longer pending: a code is wanted, a page must be shown, or it has ended),
        "end" (it has succeeded or failed), or a function that is given the attempt and says when to stop. An attempt
        that has ended is always returned. timeout is in seconds; when it has passed, TimeoutError is raised.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        path = f"/v1/connect/login/{path_segment(attempt_id)}"
        attempt: Attempt | None = None
        etag = ""
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0 and attempt is not None:
                raise TimeoutError(f"attempt {attempt_id} is still {attempt['state']} after {timeout:g} seconds")
            began = time.monotonic()
            options: RequestOptions = {}
            headers: dict[str, str] = {}
            if etag:
                # The server holds the answer until the attempt is another than this: news come at once, and it is
                # asked seldom. The first time there is nothing to compare with, and it is to answer at once.
                headers["If-None-Match"] = etag
                options["wait"] = _LONGEST_POLL if left is None else max(0, min(_LONGEST_POLL, int(left)))
            answer = self._core.request("GET", path, headers=headers, options=options)
            if answer.status != 304:
                attempt = cast("Attempt", answer.json())
                etag = answer.headers.get("etag", "")
                if _reached(attempt, until):
                    return attempt
            pause = _SHORTEST_PAUSE
            if attempt is not None and not etag:
                pause = float(attempt["poll_after_sec"] or 1)
            self._core.sleep(max(0.0, pause - (time.monotonic() - began)))

    def watch(self, attempt_id: str) -> Iterator[Attempt]:
        """An attempt, at once and whenever it changes, until it has ended. It survives a connection that drops."""
        path = f"/v1/connect/login/{path_segment(attempt_id)}/events"
        failures = 0
        before = ""
        while True:
            try:
                response = self._core.send(
                    "GET", path, headers={"Accept": "text/event-stream"}, options={"timeout": SILENCE}
                )
                try:
                    for frame in frames(response):
                        if frame.event == "problem":
                            raw = json.loads(frame.data)
                            raise Problem(int(raw.get("status") or 0), raw)
                        if frame.event != "attempt" or frame.data == before:
                            continue
                        failures, before = 0, frame.data
                        attempt: Attempt = json.loads(frame.data)
                        yield attempt
                        if _ended(attempt):
                            return
                finally:
                    response.close()
            except ConnectionFailed:
                if failures >= self._core.max_retries:
                    raise
            except Problem as problem:
                if not problem.retryable or failures >= self._core.max_retries:
                    raise
            self._core.sleep(backoff(failures))
            failures += 1

    def get_qr(self, attempt_id: str, format: Literal["svg", "png", "text"] = "svg") -> bytes:
        """The attempt's `phone_url` as a QR code: a picture, or text for a terminal. Load it again when it expires."""
        accept = {"svg": "image/svg+xml", "png": "image/png", "text": "text/plain"}.get(format)
        if accept is None:
            raise StagedoorError(f"a QR code is svg, png or text, not {format!r}")
        return self._core.request(
            "GET", f"/v1/connect/login/{path_segment(attempt_id)}/qr", headers={"Accept": accept}
        ).body


def _reached(attempt: Attempt, until: Until) -> bool:
    if _ended(attempt):
        return True
    if callable(until):
        return until(attempt)
    return until == "action" and attempt["state"] != "pending"


def _ended(attempt: Attempt) -> bool:
    return attempt["state"] in ("completed_success", "completed_failed")
