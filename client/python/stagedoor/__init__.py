"""Client of the Stagedoor API: creators' accounts, their messages, fans and earnings, and live events.

    from stagedoor import Stagedoor

    client = Stagedoor()  # reads STAGEDOOR_API_KEY and STAGEDOOR_URL
    account = client.account("acct_…")
    account.messages.send(chat_id="3438267820000000001", text="Thank you!")

Types are in stagedoor.types, stagedoor.params, stagedoor.events and stagedoor.problems.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._client import Account, Stagedoor
from ._core import RawResponse, RequestOptions
from ._errors import (
    ConnectionFailed,
    FieldError,
    Problem,
    StagedoorError,
    VerificationReason,
    WebhookVerificationError,
    is_problem,
)
from ._stream import EventStream
from ._transport import Request, Response, Transport
from ._version import __version__
from ._webhooks import verify_webhook

if TYPE_CHECKING:
    from ._http import HttpTransport

__all__ = [
    "Account",
    "ConnectionFailed",
    "EventStream",
    "FieldError",
    "HttpTransport",
    "Problem",
    "RawResponse",
    "Request",
    "RequestOptions",
    "Response",
    "Stagedoor",
    "StagedoorError",
    "Transport",
    "VerificationReason",
    "WebhookVerificationError",
    "__version__",
    "is_problem",
    "verify_webhook",
]


def __getattr__(name: str) -> Any:
    # Import lazily: the transport's imports are slow, and few programs use it by name.
    if name == "HttpTransport":
        from ._http import HttpTransport

        return HttpTransport
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
