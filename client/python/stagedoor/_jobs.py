"""The hand-written part of jobs: downloads their results."""

from __future__ import annotations

from ._core import RequestOptions, path_segment
from ._media import Download, open_download
from .groups.jobs import JobsGroup


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
