"""The common part of all calls: names, retries, idempotency keys, problems."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypedDict, TypeVar
from urllib.parse import quote, urlencode

from ._errors import ConnectionFailed, Problem, StagedoorError
from ._transport import Content, Request, Response, Transport
from ._version import __version__


T = TypeVar("T")

#: The longest wait before a retry, in seconds. If the service asks for more, the problem is raised instead.
LONGEST_WAIT = 60.0

#: A read whose query is longer than this is sent as POST, which has the same effect.
_LONGEST_QUERY = 4000


class RequestOptions(TypedDict, total=False):
    """Options of a single call."""

    #: Makes the service carry out the call once, however often it is sent. Default for writes: a random key.
    idempotency_key: str
    #: Check the call without carrying it out. The result is None.
    dry_run: bool
    #: How many seconds the server may delay its response until something changes; for calls that connect accounts.
    wait: int
    #: Replaces the client's max_retries.
    max_retries: int
    #: Replaces the client's timeout, in seconds.
    timeout: float
    #: Additional headers.
    headers: Mapping[str, str]


class RawResponse:
    """A response that was not decoded."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        #: Names are in lower case.
        self.headers = headers
        self.body = body

    def json(self) -> Any:
        """Return the decoded body, or None if it is empty."""
        if not self.body:
            return None
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise StagedoorError(f"the response ({self.status}) is not JSON: {error}") from error


class Core:
    """The settings of a client. Sends its requests."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        max_retries: int = 2,
        timeout: float = 60.0,
        transport: Transport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        key = api_key or os.environ.get("STAGEDOOR_API_KEY", "")
        url = base_url or os.environ.get("STAGEDOOR_URL", "")
        if not key:
            raise StagedoorError("no API key: pass api_key, or set STAGEDOOR_API_KEY")
        if not url:
            raise StagedoorError("no base URL: pass base_url, or set STAGEDOOR_URL")
        if not key.isascii() or not key.isprintable() or " " in key:
            raise StagedoorError("the API key contains invalid characters; check that you copied only the key")
        self._key = key
        self.base_url = url.rstrip("/")
        self.max_retries = max_retries
        self.timeout = timeout
        self.sleep = sleep
        self.transport: Transport = transport if transport is not None else _default_transport()

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        content: Content | None = None,
        headers: Mapping[str, str] | None = None,
        options: RequestOptions | None = None,
    ) -> Response:
        """Send a request, with retries if that is safe and may help. The caller reads the body of the response."""
        chosen = options or {}
        request = self.prepare(method, path, query=query, content=content, headers=headers, options=options)
        retries = chosen.get("max_retries", self.max_retries)
        # A file or iterator can be sent only once.
        repeatable = content is None or isinstance(content, bytes)
        safe = repeatable and (method in ("GET", "HEAD") or "Idempotency-Key" in request.headers)
        for attempt in range(retries + 1):
            last = attempt == retries
            try:
                response = self.transport.send(request)
                if response.status < 400:
                    return response
                problem = Problem.from_answer(response.status, response.headers, response.read())
            except ConnectionFailed:
                if last or not safe:
                    raise
                self.sleep(backoff(attempt))
                continue
            wait = problem.retry_after_sec if problem.retry_after_sec is not None else backoff(attempt)
            # With an unknown outcome the change may have been carried out, so never repeat it.
            unknown = problem.raw.get("outcome") == "unknown"
            hopeless = unknown or not problem.retryable or problem.status == 410 or wait > LONGEST_WAIT
            if last or not repeatable or hopeless:
                raise problem
            self.sleep(wait)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def prepare(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        content: Content | None = None,
        headers: Mapping[str, str] | None = None,
        options: RequestOptions | None = None,
    ) -> Request:
        """Build a request with the headers that all requests have."""
        chosen = options or {}
        sent = {
            "Authorization": f"Bearer {self._key}",
            "User-Agent": f"stagedoor-python/{__version__}",
            "Accept": "application/json",
        }
        if chosen.get("dry_run"):
            sent["X-Dry-Run"] = "true"
        if "wait" in chosen:
            sent["Prefer"] = f"wait={chosen['wait']}"
        if "idempotency_key" in chosen:
            sent["Idempotency-Key"] = chosen["idempotency_key"]
        sent.update(headers or {})
        sent.update(chosen.get("headers", {}))
        timeout = chosen.get("timeout", self.timeout)
        return Request(method, self.base_url + path + encode_query(query), sent, content, timeout)

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
        """Send a request and read the complete response. A body that is not bytes is sent as JSON."""
        sent = dict(headers or {})
        content: bytes | None = None
        if isinstance(body, bytes):
            content = body
        elif body is not None:
            content = encode_json(body)
            sent.setdefault("Content-Type", "application/json")
        response = self.send(method, path, query=query, content=content, headers=sent, options=options)
        return RawResponse(response.status, response.headers, response.read())

    def call(
        self,
        account_id: str,
        resource: str,
        method: str,
        params: Mapping[str, Any],
        *,
        read: bool,
        options: RequestOptions | None,
    ) -> Any:
        """Call a method of the platform on an account."""
        path = f"/v1/accounts/{quote(account_id, safe='')}/{resource}/{method}"
        arguments = wire(params, "camel")
        if read:
            if len(encode_query(arguments)) <= _LONGEST_QUERY:
                return self.request("GET", path, query=arguments, options=options).json()["result"]
            return self.request("POST", path, body=arguments, options=options).json()["result"]
        return self.request("POST", path, body=arguments, options=with_key(options)).json()["result"]


def _default_transport() -> Transport:
    # Import lazily: http.client takes longer to import than the rest of the package.
    from ._http import HttpTransport

    return HttpTransport()


class Resource:
    """Base class of the platform's resources, for one account."""

    _resource: str

    def __init__(self, core: Core, account_id: str) -> None:
        self._core = core
        self._account_id = account_id

    def _read(
        self, method: str, params: Mapping[str, Any], options: RequestOptions | None
    ) -> T:  # type: ignore[type-var]
        result: T = self._core.call(self._account_id, self._resource, method, params, read=True, options=options)
        return result

    def _write(
        self, method: str, params: Mapping[str, Any], options: RequestOptions | None
    ) -> T:  # type: ignore[type-var]
        result: T = self._core.call(self._account_id, self._resource, method, params, read=False, options=options)
        return result

    def _iterate(
        self, method: str, params: Mapping[str, Any], options: RequestOptions | None, paging: tuple[str, str, str]
    ) -> Iterator[T]:
        def page(more: Mapping[str, Any]) -> Any:
            everything = {**params, **more}
            return self._core.call(self._account_id, self._resource, method, everything, read=True, options=options)

        return iterate(page, paging, params.get(paging[0]))


class Group:
    """Base class of the API's groups of operations."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def _get(
        self,
        path: str,
        params: Mapping[str, Any] | None = None,
        *,
        case: Literal["camel", "snake"] = "camel",
        unwrap: str = "",
        options: RequestOptions | None = None,
    ) -> T:  # type: ignore[type-var]
        answer = self._core.request("GET", path, query=wire(params or {}, case), options=options).json()
        result: T = answer[unwrap] if unwrap else answer
        return result

    def _change(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None = None,
        *,
        case: Literal["camel", "snake"] = "camel",
        in_query: bool = False,
        key: bool = False,
        unwrap: str = "",
        options: RequestOptions | None = None,
    ) -> T:  # type: ignore[type-var]
        sent = None if params is None else wire(params, case)
        query, body = (sent, None) if in_query else (None, sent)
        chosen = with_key(options) if key else options
        answer = self._core.request(method, path, query=query, body=body, options=chosen).json()
        result: T = answer[unwrap] if unwrap else answer
        return result

    def _iterate(
        self,
        path: str,
        params: Mapping[str, Any],
        paging: tuple[str, str, str],
        *,
        case: Literal["camel", "snake"] = "camel",
        options: RequestOptions | None = None,
    ) -> Iterator[T]:
        query = wire(params, case)

        def page(more: Mapping[str, Any]) -> Any:
            return self._core.request("GET", path, query={**query, **more}, options=options).json()

        return iterate(page, paging, query.get(paging[0]))


def iterate(page: Callable[[Mapping[str, Any]], Any], paging: tuple[str, str, str], start: Any = None) -> Iterator[T]:
    """Yield the items of all pages, fetched on demand. paging names the parameter, the cursor and the items."""
    parameter, cursor, items = paging
    here = start
    while True:
        answer = page({} if here is None else {parameter: here})
        yield from answer[items] or []
        following = answer.get(cursor)
        # Some lists always return a cursor, for items that may follow later. If it does not change, the list has ended.
        if not following or following == here:
            return
        here = following


def with_key(options: RequestOptions | None) -> RequestOptions:
    """Return a copy of the options with an idempotency key, a random one if none is set."""
    chosen: RequestOptions = options.copy() if options else {}
    chosen.setdefault("idempotency_key", random_uuid())
    return chosen


def random_uuid() -> str:
    """Return a UUID of version 4. The module uuid would take longer to import than this package."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def backoff(attempt: int, longest: float = 30.0) -> float:
    """Return the default wait before a retry: half a second, doubled each time, with jitter."""
    return float(min(0.5 * 2.0**attempt, longest) * random.uniform(0.5, 1.0))


def path_segment(value: str) -> str:
    """Escape a value for a path."""
    if not value:
        raise StagedoorError("an id must not be empty")
    return quote(value, safe="")


def wire(params: Mapping[str, Any], case: Literal["camel", "snake"]) -> dict[str, Any]:
    """Return arguments with their names on the wire: chatId for chat_id, from for from_."""
    return {(camel(name) if case == "camel" else name.rstrip("_")): value for name, value in params.items()}


def camel(name: str) -> str:
    """Return chatId for chat_id."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def encode_json(value: Any) -> bytes:
    """Return compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def encode_query(query: Mapping[str, Any] | None) -> str:
    """Return a query string with its question mark. A list repeats its name; None is omitted."""
    pairs: list[tuple[str, str]] = []
    for name, value in (query or {}).items():
        for one in value if isinstance(value, (list, tuple, set, frozenset)) else [value]:
            if one is not None:
                pairs.append((name, _query_text(one)))
    return "?" + urlencode(pairs, quote_via=quote) if pairs else ""


def _query_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return encode_json(value).decode()
