"""Checks that a webhook comes from Stagedoor."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

from ._errors import StagedoorError, VerificationReason, WebhookVerificationError

if TYPE_CHECKING:
    from .events import Event


def verify_webhook(
    secret: str | Sequence[str],
    headers: Mapping[str, Any] | Iterable[tuple[str, str]],
    body: bytes | str,
    *,
    tolerance_sec: float = 300,
    now: float | None = None,
    allow_untimed: bool = False,
) -> Event:
    """Checks a request, and returns its event.

    secret is the webhook's, or several while one replaces another. headers are the request's, with names in any case;
    body is what came, byte for byte: parsing and writing it again changes it. A request that was signed more than
    tolerance_sec ago is refused, so that nobody can send an old one again. now is the time in seconds since 1970, for
    tests.

    With allow_untimed, a request that has no `webhook-signature` but `X-Webhook-Signature` alone is taken as well. That
    one does not cover the time: keep the ids of events that you have seen.

    Raises WebhookVerificationError, whose `reason` says why.
    """
    secrets = [secret] if isinstance(secret, str) else list(secret)
    if not secrets or not all(secrets):
        raise ValueError("a webhook's secret is empty")
    raw = body.encode() if isinstance(body, str) else bytes(body)
    found = _lower(headers)
    missing = [n for n in ("webhook-id", "webhook-timestamp", "webhook-signature") if not found.get(n)]
    if not missing:
        _check_standard(secrets, found, raw, tolerance_sec, time.time() if now is None else now)
    elif allow_untimed and found.get("x-webhook-signature"):
        _check_body(secrets, found, raw)
    else:
        _refuse("missing-header", f"the request has no {missing[0]} header")
    return _event(raw)


def _check_standard(secrets: list[str], headers: Mapping[str, str], body: bytes, tolerance: float, now: float) -> None:
    identity, timestamp = headers["webhook-id"], headers["webhook-timestamp"]
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 16):
        _refuse("malformed-header", "webhook-timestamp is not a number of seconds")
    given = headers["webhook-signature"].split()
    if not any(one.startswith("v1,") for one in given):
        _refuse("malformed-header", "webhook-signature has no signature of the form v1,…")
    age = now - int(timestamp)
    if age > tolerance:
        _refuse("timestamp-too-old", f"the request was signed {age:.0f} seconds ago; {tolerance:.0f} are allowed")
    if -age > tolerance:
        _refuse("timestamp-too-new", f"the request was signed {-age:.0f} seconds in the future; is your clock right?")
    signed = f"{identity}.{timestamp}.".encode() + body
    wanted = [b"v1," + base64.b64encode(hmac.digest(_key(secret), signed, hashlib.sha256)) for secret in secrets]
    _match(wanted, given)


def _check_body(secrets: list[str], headers: Mapping[str, str], body: bytes) -> None:
    given = [headers[name] for name in ("x-webhook-signature", "x-webhook-signature-previous") if headers.get(name)]
    if not any(one.startswith("sha256=") for one in given):
        _refuse("malformed-header", "X-Webhook-Signature has no signature of the form sha256=…")
    wanted = [b"sha256=" + hmac.digest(secret.encode(), body, hashlib.sha256).hex().encode() for secret in secrets]
    _match(wanted, given)


def _match(wanted: list[bytes], given: list[str]) -> None:
    # All of them are compared, each in constant time, so that the time taken tells nothing.
    if not any([hmac.compare_digest(one, other.encode()) for one in wanted for other in given]):
        _refuse("no-match", "no signature fits: another secret signed it, or the body is not the one that was sent")


def _key(secret: str) -> bytes:
    if secret.startswith("whsec_"):
        try:
            return base64.b64decode(secret.removeprefix("whsec_"), validate=True) or secret.encode()
        except (binascii.Error, ValueError):
            pass  # It only looks like ours: then the whole of it is the key.
    return secret.encode()


def _lower(headers: Mapping[str, Any] | Iterable[tuple[str, str]]) -> dict[str, str]:
    pairs = headers.items() if isinstance(headers, Mapping) or hasattr(headers, "items") else headers
    found: dict[str, str] = {}
    for name, value in pairs:
        # Some frameworks have a list of values per name.
        one = value[0] if isinstance(value, (list, tuple)) and value else value
        found[_plain(name).lower()] = _plain(one).strip()
    return found


def _plain(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _event(body: bytes) -> Event:
    try:
        return cast("Event", json.loads(body))
    except ValueError as error:
        raise StagedoorError("the webhook is signed, but its body is not JSON") from error


def _refuse(reason: VerificationReason, message: str) -> NoReturn:
    raise WebhookVerificationError(reason, message)
