"""The exceptions of this package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, TypedDict

if TYPE_CHECKING:
    from .problems import ProblemCode

VerificationReason = Literal["missing-header", "malformed-header", "timestamp-too-old", "timestamp-too-new", "no-match"]


class FieldError(TypedDict):
    """An invalid part of a request."""

    pointer: str
    code: str
    detail: str


class StagedoorError(Exception):
    """The base of all errors that this package raises."""


class ConnectionFailed(StagedoorError):
    """There was no complete response: the server could not be reached, or the connection broke.

    A write may have been carried out.
    """

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class Problem(StagedoorError):
    """An error response, a problem document as in RFC 9457. Branch on `code` and `retryable`."""

    def __init__(self, status: int, raw: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        #: The complete document, including members that only some codes have.
        self.raw: dict[str, Any] = dict(raw)
        #: The headers of the response, with names in lower case.
        self.headers: dict[str, str] = dict(headers or {})
        #: A stable code, such as `quota-exceeded`.
        self.code: str = _text(raw.get("code")) or "unexpected-answer"
        self.title: str = _text(raw.get("title")) or f"HTTP {status}"
        self.detail: str = _text(raw.get("detail"))
        #: The address of a page about this kind of problem.
        self.doc_url: str = _text(raw.get("type"))
        #: Whether the same request may succeed later.
        self.retryable: bool = raw.get("retryable") is True
        #: How many seconds to wait before a retry, or None if the server did not say.
        self.retry_after_sec: float | None = _wait(raw.get("retryAfterSec"), self.headers)
        #: The invalid parts of the request.
        self.errors: list[FieldError] = raw["errors"] if isinstance(raw.get("errors"), list) else []
        #: Identifies the request in logs and to support.
        self.request_id: str = self.headers.get("x-request-id") or _text(raw.get("instance")).rpartition(":")[2]
        super().__init__(self._message())

    def _message(self) -> str:
        message = f"{self.status} {self.code}: {self.detail or self.title}"
        for error in self.errors:
            message += f"\n  {error.get('pointer', '')}: {error.get('detail', '')}"
        return f"{message} (request {self.request_id})" if self.request_id else message

    @classmethod
    def from_answer(cls, status: int, headers: Mapping[str, str], body: bytes) -> Problem:
        """Decode a response. If it is no problem document, such as a proxy's page, the code is `unexpected-answer`."""
        try:
            raw = json.loads(body)
        except ValueError:
            raw = None
        if not isinstance(raw, dict) or not isinstance(raw.get("code"), str):
            raw = {"detail": body[:200].decode("utf-8", "replace").strip()}
        return cls(status, raw, headers)


class WebhookVerificationError(StagedoorError, ValueError):
    """The request does not come from Stagedoor, or its timestamp is outside the tolerance. `reason` says why."""

    def __init__(self, reason: VerificationReason, message: str) -> None:
        super().__init__(message)
        self.reason: VerificationReason = reason


def is_problem(error: BaseException | None, *codes: ProblemCode) -> TypeGuard[Problem]:
    """Return whether an error is a Problem and, if codes are given, has one of them."""
    return isinstance(error, Problem) and (not codes or error.code in codes)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _wait(seconds: object, headers: Mapping[str, str]) -> float | None:
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool):
        return max(0, seconds)
    after = headers.get("retry-after", "").strip()
    # Stagedoor sends seconds. HTTP also allows a date, which only proxies send; then the default backoff applies.
    return int(after) if after.isascii() and after.isdigit() else None
