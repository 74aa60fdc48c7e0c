import { JobsGroup } from "./gen/groups/jobs.js";
import { download, type RangeOptions } from "./media.js";
import { segment } from "./transport.js";

/** Starts work that is longer than a call, and reads its results. */
export class Jobs extends JobsGroup {
  /**
   * Downloads the result of a job: a gzip file with one line of JSON per record. While the job runs, it ends with what is
   * written so far; `range` continues there. Read the response's `body`, `blob()` or `arrayBuffer()`.
   */
  async getResult(jobId: string, options: RangeOptions = {}): Promise<Response> {
    return download(this.transport, `/v1/jobs/${segment(jobId)}/result`, {}, options);
  }
}
