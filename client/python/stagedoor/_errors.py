"""What can go wrong, as exceptions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, TypedDict

if TYPE_CHECKING:
    from .problems import ProblemCode

VerificationReason = Literal["missing-header", "malformed-header", "timestamp-too-old", "timestamp-too-new", "no-match"]


class FieldError(TypedDict):
    """One thing that is wrong in a request."""

    pointer: str
    code: str
    detail: str


class StagedoorError(Exception):
    """The base of all errors that this package raises."""


class ConnectionFailed(StagedoorError):
    """No answer came, or only a part of one: the server could not be reached, or the connection broke.

    Whether the request was carried out is not known, unless it only reads.
    """

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class Problem(StagedoorError):
    """An answer that says no: an RFC 9457 problem. Branch on `code` and `retryable`."""

    def __init__(self, status: int, raw: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        #: Everything that the problem has, also members that only its kind knows.
        self.raw: dict[str, Any] = dict(raw)
        #: The answer's headers, with names in lower case.
        self.headers: dict[str, str] = dict(headers or {})
        #: A stable word for this kind of problem, such as `quota-exceeded`.
        self.code: str = _text(raw.get("code")) or "unexpected-answer"
        self.title: str = _text(raw.get("title")) or f"HTTP {status}"
        self.detail: str = _text(raw.get("detail"))
        #: The address of a page about this kind of problem.
        self.doc_url: str = _text(raw.get("type"))
        #: Whether the same request may succeed later.
        self.retryable: bool = raw.get("retryable") is True
        #: How many seconds to wait before trying again; None if the server did not say.
        self.retry_after_sec: float | None = _wait(raw.get("retryAfterSec"), self.headers)
        #: What is wrong in the request, field by field.
        self.errors: list[FieldError] = raw["errors"] if isinstance(raw.get("errors"), list) else []
        #: Names the request; give it to support.
        self.request_id: str = self.headers.get("x-request-id") or _text(raw.get("instance")).rpartition(":")[2]
        super().__init__(self._message())

    def _message(self) -> str:
        message = f"{self.status} {self.code}: {self.detail or self.title}"
        for error in self.errors:
            message += f"\n  {error.get('pointer', '')}: {error.get('detail', '')}"
        return f"{message} (request {self.request_id})" if self.request_id else message

    @classmethod
    def from_answer(cls, status: int, headers: Mapping[str, str], body: bytes) -> Problem:
        """Reads an answer. One that is no problem document, such as a proxy's page, becomes `unexpected-answer`."""
        try:
            raw = json.loads(body)
        except ValueError:
            raw = None
        if not isinstance(raw, dict) or not isinstance(raw.get("code"), str):
            raw = {"detail": body[:200].decode("utf-8", "replace").strip()}
        return cls(status, raw, headers)


class WebhookVerificationError(StagedoorError, ValueError):
    """A request that does not come from Stagedoor, or not in time. `reason` says why."""

    def __init__(self, reason: VerificationReason, message: str) -> None:
        super().__init__(message)
        self.reason: VerificationReason = reason


def is_problem(error: BaseException | None, *codes: ProblemCode) -> TypeGuard[Problem]:
    """Whether an error is a problem, and, if codes are given, whether it is one of these."""
    return isinstance(error, Problem) and (not codes or error.code in codes)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _wait(seconds: object, headers: Mapping[str, str]) -> float | None:
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool):
        return max(0, seconds)
    after = headers.get("retry-after", "").strip()
    # Stagedoor sends seconds; the date that HTTP also allows comes from proxies only, and is left to the backoff.
    return int(after) if after.isascii() and after.isdigit() else None
