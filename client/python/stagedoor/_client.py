"""The client itself, and what is written by hand because it is no plain call: streams, files, waiting."""

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
    from .events import EventKind
    from ._media import Media
    from ._transport import Transport


class Stagedoor(ClientGroups):
    """A client of the Stagedoor API. Threads may share it.

    api_key and base_url are taken from STAGEDOOR_API_KEY and STAGEDOOR_URL if they are left out. A call is tried again
    up to max_retries times where that is safe and may help. timeout is how many seconds to wait for a connection, and
    for each piece of an answer.
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
        """Closes connections that were kept for the next call."""
        self._core.transport.close()

    def account(self, account_id: str) -> Account:
        """One connected account: its messages, fans, posts and all else that the platform has. Nothing is sent yet."""
        return Account(self._core, account_id)

    @cached_property
    def connect(self) -> Connect:
        """Ways to connect a creator's account, and how far they have come."""
        from ._connect import Connect

        return Connect(self._core)

    def stream(
        self,
        *,
        since: str | None = None,
        events: Iterable[EventKind | str] | None = None,
        account_id: str | None = None,
        on_drop: Callable[[StagedoorError | None, float], None] | None = None,
    ) -> EventStream:
        """The events of all accounts and of the organisation, as they happen.

        since is the cursor of an earlier stream, to go on behind it; "0" begins with the oldest event that is kept.
        Left out, the stream begins now. events keeps it to kinds ("message"), families ("account.*") and exceptions
        ("!typing"). on_drop is told why a connection ended (None: the server ended it, as it does twice an hour) and
        in how many seconds it comes back. An account's cursors do not fit here.
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
        """Any request, for what this library has no name for. Names are those on the wire; path begins with /v1.

        A body that is not bytes goes as JSON. Problems are raised as everywhere; a POST has an idempotency key.
        """
        chosen = with_key(options) if method == "POST" else options
        return self._core.request(method, path, query=query, body=body, headers=headers, options=chosen)


class Account(AccountResources):
    """One connected account."""

    def __repr__(self) -> str:
        return f"Account({self.id!r})"

    @cached_property
    def media(self) -> Media:
        """The account's files."""
        from ._media import Media

        return Media(self._core, self.id)

    def stream(
        self,
        *,
        since: str | None = None,
        events: Iterable[EventKind | str] | None = None,
        on_drop: Callable[[StagedoorError | None, float], None] | None = None,
    ) -> EventStream:
        """The account's events as they happen; see Stagedoor.stream. The organisation's cursors do not fit here."""
        query = {"events": None if events is None else list(events)}
        return EventStream(self._core, f"/v1/accounts/{path_segment(self.id)}/events", query, since, on_drop=on_drop)

    def call(
        self, method: str, arguments: Mapping[str, Any] | None = None, *, options: RequestOptions | None = None
    ) -> Any:
        """Calls a method by its name, such as "messages.send", with arguments by their names on the wire."""
        resource, dot, name = method.partition(".")
        if not dot or not resource or not name:
            raise StagedoorError(f'a method is named like "messages.send", not {method!r}')
        path = f"/v1/accounts/{path_segment(self.id)}/{path_segment(resource)}/{path_segment(name)}"
        return self._core.request("POST", path, body=dict(arguments or {}), options=with_key(options)).json()["result"]
