"""The hand-written part of jobs: downloads their results."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from ._core import RequestOptions, path_segment
from ._media import Download, open_download, read_json
from .groups.jobs import JobsGroup

if TYPE_CHECKING:
    from .types import Job, JobItem


class Jobs(JobsGroup):
    """Starts work that is longer than a call, and reads its results."""

    def get_result(
        self, job_id: str, *, start: int | None = None, etag: str | None = None, options: RequestOptions | None = None
    ) -> Download:
        """Download the result of a job: a gzip file with one line of JSON per record.

        While the job runs, it ends with what is written so far. start continues at that byte; pass the etag of the
        first part to detect changes.
        """
        return open_download(self._core, f"/v1/jobs/{path_segment(job_id)}/result", {}, start, etag, options)

    def put_items(self, job_id: str, items: Iterable[JobItem], *, options: RequestOptions | None = None) -> Job:
        """Give a bulk job its items and start it. The job was started without items.

        The same items can be sent again.
        """
        lines = "".join(json.dumps(item, separators=(",", ":")) + "\n" for item in items).encode()
        response = self._core.send(
            "PUT",
            f"/v1/jobs/{path_segment(job_id)}/items",
            content=lines,
            headers={"Content-Type": "application/x-ndjson", "Content-Length": str(len(lines))},
            options=options,
        )
        return cast("Job", read_json(response)["job"])
