"""Verification of webhooks."""

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
    """Verify a webhook request and return its event.

    secret is the webhook's signing secret, or several during a rotation. headers are the request's headers, with names
    in any case. body is the raw body, byte for byte: parsing and encoding it again would change it. A request that was
    signed more than tolerance_sec seconds ago is rejected, to prevent replays. now is the time in seconds since 1970,
    for tests.

    With allow_untimed, a request with `X-Webhook-Signature` but without `webhook-signature` is accepted too. That
    signature does not cover the time, so store the ids of events to recognise replays.

    Raises WebhookVerificationError, whose `reason` says why.
    """
    secrets = [secret] if isinstance(secret, str) else list(secret)
    if not secrets or not all(secrets):
        raise ValueError("the secret must not be empty")
    raw = body.encode() if isinstance(body, str) else bytes(body)
    found = _lower(headers)
    missing = [n for n in ("webhook-id", "webhook-timestamp", "webhook-signature") if not found.get(n)]
    if not missing:
        _check_standard(secrets, found, raw, tolerance_sec, time.time() if now is None else now)
    elif allow_untimed and found.get("x-webhook-signature"):
        _check_body(secrets, found, raw)
    else:
        _reject("missing-header", f"the header {missing[0]} is missing")
    return _event(raw)


def _check_standard(secrets: list[str], headers: Mapping[str, str], body: bytes, tolerance: float, now: float) -> None:
    identity, timestamp = headers["webhook-id"], headers["webhook-timestamp"]
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 16):
        _reject("malformed-header", "webhook-timestamp is not a number of seconds")
    given = headers["webhook-signature"].split()
    if not any(one.startswith("v1,") for one in given):
        _reject("malformed-header", "webhook-signature has no signature of the form v1,…")
    age = now - int(timestamp)
    if age > tolerance:
        _reject("timestamp-too-old", f"the request was signed {age:.0f} seconds ago; {tolerance:.0f} are allowed")
    if -age > tolerance:
        _reject("timestamp-too-new", f"the request was signed {-age:.0f} seconds in the future; check your clock")
    signed = f"{identity}.{timestamp}.".encode() + body
    wanted = [b"v1," + base64.b64encode(hmac.digest(_key(secret), signed, hashlib.sha256)) for secret in secrets]
    _match(wanted, given)


def _check_body(secrets: list[str], headers: Mapping[str, str], body: bytes) -> None:
    given = [headers[name] for name in ("x-webhook-signature", "x-webhook-signature-previous") if headers.get(name)]
    if not any(one.startswith("sha256=") for one in given):
        _reject("malformed-header", "X-Webhook-Signature has no signature of the form sha256=…")
    wanted = [b"sha256=" + hmac.digest(secret.encode(), body, hashlib.sha256).hex().encode() for secret in secrets]
    _match(wanted, given)


def _match(wanted: list[bytes], given: list[str]) -> None:
    # Compare all, each in constant time, so that the duration reveals nothing.
    if not any([hmac.compare_digest(one, other.encode()) for one in wanted for other in given]):
        _reject("no-match", "no signature matches: the secret is wrong, or the body was changed")


def _key(secret: str) -> bytes:
    if secret.startswith("whsec_"):
        try:
            return base64.b64decode(secret.removeprefix("whsec_"), validate=True) or secret.encode()
        except (binascii.Error, ValueError):
            pass  # Not a generated secret: use all of it as the key.
    return secret.encode()


def _lower(headers: Mapping[str, Any] | Iterable[tuple[str, str]]) -> dict[str, str]:
    pairs = headers.items() if isinstance(headers, Mapping) or hasattr(headers, "items") else headers
    found: dict[str, str] = {}
    for name, value in pairs:
        # Some frameworks have a list of values for each name.
        one = value[0] if isinstance(value, (list, tuple)) and value else value
        found[_plain(name).lower()] = _plain(one).strip()
    return found


def _plain(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _event(body: bytes) -> Event:
    try:
        return cast("Event", json.loads(body))
    except ValueError as error:
        raise StagedoorError("the signature is valid, but the body is not JSON") from error


def _reject(reason: VerificationReason, message: str) -> NoReturn:
    raise WebhookVerificationError(reason, message)
