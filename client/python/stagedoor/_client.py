"""The client and its hand-written parts: streams, files and waiting."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from ._core import Core, RawResponse, RequestOptions, path_segment, with_key
from ._errors import StagedoorError
from .resources import AccountResources
from .groups import ClientGroups
from ._stream import EventStream

if TYPE_CHECKING:
    from ._connect import Connect
    from ._jobs import Jobs
    from .events import EventKind
    from ._media import Media
    from ._transport import Transport


class Stagedoor(ClientGroups):
    """A client of the Stagedoor API. It is thread-safe.

    api_key and base_url default to STAGEDOOR_API_KEY and STAGEDOOR_URL. A call is retried up to max_retries times if
    that is safe and may help. timeout limits the wait for a connection and for each part of a response, in seconds.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        max_retries: int = 2,
        timeout: float = 60.0,
        transport: Transport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(
            Core(
                api_key=api_key,
                base_url=base_url,
                max_retries=max_retries,
                timeout=timeout,
                transport=transport,
                sleep=sleep,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Stagedoor(base_url={self._core.base_url!r})"

    def close(self) -> None:
        """Close idle connections."""
        self._core.transport.close()

    def account(self, account_id: str) -> Account:
        """Return a client for a connected account. It sends no request and does not check the id."""
        return Account(self._core, account_id)

    @cached_property
    def connect(self) -> Connect:
        """Connects creators' accounts and follows connect attempts."""
        from ._connect import Connect

        return Connect(self._core)

    @cached_property
    def jobs(self) -> Jobs:
        """Starts work that is longer than a call, and reads its results."""
        from ._jobs import Jobs

        return Jobs(self._core)

    def stream(
        self,
        *,
        since: str | None = None,
        events: Iterable[EventKind | str] | None = None,
        account_id: str | None = None,
        on_drop: Callable[[StagedoorError | None, float], None] | None = None,
    ) -> EventStream:
        """Stream the events of all accounts and of the organisation.

        since is the cursor of an earlier stream; the new one continues after it. "0" starts with the oldest stored
        event. Default: only new events. events selects kinds ("message"), patterns ("account.*") and exclusions
        ("!typing"). on_drop is called after a connection has ended, with the reason (None if the server closed it, as
        it does twice an hour) and the seconds until the stream reconnects. Cursors of an account's stream are not
        valid here.
        """
        query = {"events": None if events is None else list(events), "accountId": account_id}
        return EventStream(self._core, "/v1/events", query, since, on_drop=on_drop)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        options: RequestOptions | None = None,
    ) -> RawResponse:
        """Send any request, for operations that this library has no method for. path starts with /v1.

        Use the names on the wire. A body that is not bytes is sent as JSON. An error response is raised as a Problem. A
        POST gets an idempotency key.
        """
        chosen = with_key(options) if method == "POST" else options
        return self._core.request(method, path, query=query, body=body, headers=headers, options=chosen)


class Account(AccountResources):
    """One connected account."""

    def __repr__(self) -> str:
        return f"Account({self.id!r})"

    @cached_property
    def media(self) -> Media:
        """Uploads and downloads the account's files."""
        from ._media import Media

        return Media(self._core, self.id)

    def stream(
        self,
        *,
        since: str | None = None,
        events: Iterable[EventKind | str] | None = None,
        on_drop: Callable[[StagedoorError | None, float], None] | None = None,
    ) -> EventStream:
        """Stream the account's events; see Stagedoor.stream. Cursors of the organisation's stream are invalid here."""
        query = {"events": None if events is None else list(events)}
        return EventStream(self._core, f"/v1/accounts/{path_segment(self.id)}/events", query, since, on_drop=on_drop)

    def call(
        self, method: str, arguments: Mapping[str, Any] | None = None, *, options: RequestOptions | None = None
    ) -> Any:
        """Call a method by its name, such as "messages.send". Arguments have their names on the wire."""
        resource, dot, name = method.partition(".")
        if not dot or not resource or not name:
            raise StagedoorError(f'{method!r} is not a method name such as "messages.send"')
        path = f"/v1/accounts/{path_segment(self.id)}/{path_segment(resource)}/{path_segment(name)}"
        return self._core.request("POST", path, body=dict(arguments or {}), options=with_key(options)).json()["result"]
