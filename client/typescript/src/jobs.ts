import { JobsGroup } from "./gen/groups/jobs.js";
import { download, type RangeOptions } from "./media.js";
import type { JobItem } from "./gen/groups/jobs.js";
import type { Job } from "./gen/types.js";
import { segment, type CallOptions } from "./transport.js";

/** Starts work that is longer than a call, and reads its results. */
export class Jobs extends JobsGroup {
  /**
   * Downloads the result of a job: a gzip file with one line of JSON per record. While the job runs, it ends with what is
   * written so far; `range` continues there. Read the response's `body`, `blob()` or `arrayBuffer()`.
   */
  async getResult(jobId: string, options: RangeOptions = {}): Promise<Response> {
    return download(this.transport, `/v1/jobs/${segment(jobId)}/result`, {}, options);
  }

  /** Gives a bulk job its items and starts it. The job was started without items. The same items can be sent again. */
  async putItems(jobId: string, items: Iterable<JobItem>, options: CallOptions = {}): Promise<Job> {
    let body = "";
    for (const item of items) body += JSON.stringify(item) + "\n";
    const headers = { "content-type": "application/x-ndjson" };
    const response = await this.transport.open({ method: "PUT", path: `/v1/jobs/${segment(jobId)}/items`, headers, body }, options);
    return ((await response.json()) as { job: Job }).job;
  }
}
