"""Hand-written parts of connecting accounts: wait for an attempt, watch it, get its QR code."""

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

#: What to wait for: "action" means until someone must act or the attempt has ended, "end" until it has ended.
Until = Union[Literal["action", "end"], "Callable[[Attempt], bool]"]

_LONGEST_POLL = 25
_SHORTEST_PAUSE = 0.5


class Connect(ConnectGroup):
    """Connects creators' accounts and follows connect attempts."""

    def wait_for(self, attempt_id: str, *, until: Until = "action", timeout: float | None = None) -> Attempt:
        """Wait for an attempt and return it.

        until is "action" (the state is no longer pending: a code is required, a page must be shown, or the attempt has
        ended), "end" (it has succeeded or failed), or a function that takes the attempt and returns True to stop. An
        attempt that has ended is always returned. Raises TimeoutError after timeout seconds.
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
                # Long polling: the server responds when the attempt has changed since this ETag. The first request has
                # no ETag and gets an immediate response.
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
        """Yield an attempt immediately and after every change, until it has ended. Reconnects automatically."""
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
        """Return `phone_url` as a QR code, an image or text for a terminal. Get a new one when it expires."""
        accept = {"svg": "image/svg+xml", "png": "image/png", "text": "text/plain"}.get(format)
        if accept is None:
            raise StagedoorError(f"the format must be svg, png or text, not {format!r}")
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
