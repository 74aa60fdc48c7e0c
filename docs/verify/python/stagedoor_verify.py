"""Checks that a webhook comes from Stagedoor. Copy this file; it needs only the standard library."""
import base64
import binascii
import hashlib
import hmac
import time

TOLERANCE_SECONDS = 300


def verify_request(secret: str, headers, body: bytes, now: float | None = None) -> bool:
    """Reports whether a request is signed with the secret and not older than five minutes.

    The names in headers must be lower case, and body must be the raw bytes that you received.
    While a secret is being rotated, X-Webhook-Signature-Previous has the signature of the old one.
    """
    signed = any(verify_signature(secret, headers.get(name, ""), body) for name in ("x-webhook-signature", "x-webhook-signature-previous"))
    return signed and verify_standard(
        secret, headers.get("webhook-id", ""), headers.get("webhook-timestamp", ""), headers.get("webhook-signature", ""), body, now)


def verify_signature(secret: str, signature: str, body: bytes) -> bool:
    """Checks X-Webhook-Signature, which covers only the body. It does not detect replayed requests."""
    want = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(want.encode(), signature.encode())


def verify_standard(secret: str, id: str, timestamp: str, signatures: str, body: bytes, now: float | None = None) -> bool:
    """Checks webhook-signature (Standard Webhooks), which covers id, time and body.

    The header has several signatures while a secret is being rotated.
    """
    if not (timestamp.isascii() and timestamp.isdigit()) or abs((time.time() if now is None else now) - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    key = secret.encode()
    if secret.startswith("whsec_"):
        try:
            key = base64.b64decode(secret[len("whsec_"):], validate=True) or key
        except binascii.Error:
            pass
    mac = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256)
    want = b"v1," + base64.b64encode(mac.digest())
    return any([hmac.compare_digest(want, one.encode()) for one in signatures.split(" ")])
