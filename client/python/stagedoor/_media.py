"""File transfers. Files are streamed, and held in memory only if you ask for bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Self, cast

from ._core import Core, RawResponse, RequestOptions, path_segment
from ._errors import StagedoorError
from ._transport import Content, Response

if TYPE_CHECKING:
    from .types import Upload, UploadedPart

_PIECE = 1 << 16


class Download:
    """A file that is being downloaded. Read it, save it, or iterate over its chunks. Close it, or use `with`."""

    def __init__(self, response: Response) -> None:
        self._response = response
        #: 200, 206 for a range, or 304 if the file has not changed.
        self.status = response.status
        #: Names are in lower case.
        self.headers: Mapping[str, str] = response.headers
        self.content_type = response.headers.get("content-type", "application/octet-stream")
        length = response.headers.get("content-length", "")
        #: The size in bytes, or None if it is unknown.
        self.length: int | None = int(length) if length.isdigit() else None

    def read(self) -> bytes:
        """Return the complete content."""
        return self._response.read()

    def __iter__(self) -> Iterator[bytes]:
        while piece := self._response.read_some(_PIECE):
            yield piece

    def save(self, path: str | os.PathLike[str]) -> int:
        """Write the content to a file and return its size in bytes."""
        size = 0
        with open(path, "wb") as file:
            for piece in self:
                size += file.write(piece)
        return size

    def close(self) -> None:
        """End the download, even if it is incomplete."""
        self._response.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Media:
    """Uploads and downloads the files of an account."""

    def __init__(self, core: Core, account_id: str) -> None:
        self._core = core
        self._path = f"/v1/accounts/{path_segment(account_id)}/media"

    def upload(
        self,
        content: bytes | BinaryIO | Iterable[bytes],
        *,
        filename: str,
        content_type: str,
        size: int | None = None,
        sha256: str | None = None,
        options: RequestOptions | None = None,
    ) -> Upload:
        """Upload a file. Use its `mediaId` in posts and messages, after the event mediaReady.

        content is bytes, a file opened in binary mode, or an iterable of bytes, which requires size. An upload from a
        file or iterable is not retried. If it fails midway, the problem has raw["uploadId"] and raw["nextPart"];
        continue with upload_part.
        """
        length = _size(content, size)
        response = self._core.send(
            "POST",
            self._path,
            query={"fileName": filename, "sha256": sha256},
            content=content,
            headers={"Content-Type": content_type, "Content-Length": str(length)},
            options=options,
        )
        return cast("Upload", read_json(response)["result"])

    def upload_part(
        self, upload_id: str, number: int, content: bytes, *, options: RequestOptions | None = None
    ) -> UploadedPart:
        """Send one part of an upload that was started before. It is safe to send a part twice."""
        response = self._core.send(
            "PUT",
            f"{self._path}/uploads/{path_segment(upload_id)}/parts/{number}",
            content=content,
            headers={"Content-Type": "application/octet-stream", "Content-Length": str(len(content))},
            options=options,
        )
        return cast("UploadedPart", read_json(response)["part"])

    def download(
        self,
        media_id: str,
        *,
        quality: str | None = None,
        start: int | None = None,
        etag: str | None = None,
        options: RequestOptions | None = None,
    ) -> Download:
        """Download a media file. start resumes at that byte; pass the etag of the first part to detect changes."""
        path = f"{self._path}/{path_segment(media_id)}"
        return open_download(self._core, path, {"quality": quality}, start, etag, options)

    def fetch(
        self,
        url: str,
        *,
        start: int | None = None,
        etag: str | None = None,
        options: RequestOptions | None = None,
    ) -> Download:
        """Download from an address in a result of the platform, such as an avatar."""
        return open_download(self._core, self._path, {"url": url}, start, etag, options)


def open_download(
    core: Core,
    path: str,
    query: Mapping[str, Any],
    start: int | None,
    etag: str | None,
    options: RequestOptions | None,
) -> Download:
    """Open a download, from a byte on if start is given."""
    headers = {"Accept": "*/*"}
    if start is not None:
        headers["Range"] = f"bytes={start}-"
        if etag:
            headers["If-Range"] = etag
    elif etag:
        headers["If-None-Match"] = etag
    return Download(core.send("GET", path, query=query, headers=headers, options=options))


def _size(content: Content, size: int | None) -> int:
    if isinstance(content, bytes):
        return len(content)
    if size is not None:
        return size
    try:
        file = cast(BinaryIO, content)
        here = file.tell()
        end = file.seek(0, os.SEEK_END)
        file.seek(here)
        return end - here
    except (AttributeError, OSError) as error:
        raise StagedoorError("the size of the content is unknown: pass size") from error


def read_json(response: Response) -> Any:
    return RawResponse(response.status, response.headers, response.read()).json()
