import { ConnectGroup } from "./gen/groups/connect.js";
import type { Attempt } from "./gen/types.js";
import { ConnectionError, Problem } from "./problem.js";
import { connect, parse, passes } from "./stream.js";
import { backoffSec, pause, segment, type CallOptions } from "./transport.js";

/** What can be said of waiting for an attempt. */
export interface WaitForOptions {
  /**
   * What to wait for: `"action"`, until something is asked of you or the creator, or the attempt has ended; `"end"`, until
   * it has ended; or a test of your own. Default `"action"`. An attempt that has ended is returned in any case.
   */
  until?: "action" | "end" | ((attempt: Attempt) => boolean) | undefined;
  /** How many milliseconds at most. Default: as long as the attempt lives. */
  timeout?: number | undefined;
  signal?: AbortSignal | undefined;
  /** Told of the attempt whenever it is another. */
  onChange?: ((attempt: Attempt) => void) | undefined;
}

/** Ways to connect a creator's account, and how far they have come. */
export class Connect extends ConnectGroup {
  /** Waits for an attempt, and returns it as it then is. An attempt that failed is not thrown: look at its `state`. */
  async waitFor(attemptId: string, options: WaitForOptions = {}): Promise<Attempt> {
    const limit = options.timeout === undefined ? undefined : AbortSignal.timeout(options.timeout);
    const signals = [limit, options.signal].filter((one) => one !== undefined);
    const signal = signals.length > 0 ? AbortSignal.any(signals) : undefined;
    try {
      return await this.#wait(attemptId, options, signal);
    } catch (error) {
      if (limit?.aborted && !options.signal?.aborted) {
        throw new ConnectionError("timeout", `The attempt has not got there within ${options.timeout} ms.`, { cause: error });
      }
      throw error;
    }
  }

  async #wait(attemptId: string, options: WaitForOptions, signal: AbortSignal | undefined): Promise<Attempt> {
    const request = { method: "GET", path: attemptPath(attemptId) };
    let etag: string | undefined;
    for (;;) {
      // The API holds the answer until there is news; 304 says that there was none.
      const query = etag === undefined ? undefined : { wait: 25 };
      const headers = etag === undefined ? undefined : { "if-none-match": etag };
      const answer = await this.transport.raw({ ...request, query, headers }, { signal });
      if (answer.status === 304) continue;
      const attempt = answer.json<Attempt>();
      options.onChange?.(attempt);
      if (reached(attempt, options.until ?? "action")) return attempt;
      etag = answer.headers.get("etag") ?? undefined;
      if (etag === undefined) await pause((attempt.poll_after_sec ?? 2) * 1000, signal);
    }
  }

  /** Watches an attempt: it comes at once, and whenever it changes, until it has ended. A lost connection is made again. */
  async *watch(attemptId: string, options: { signal?: AbortSignal } = {}): AsyncGenerator<Attempt, void, undefined> {
    const { signal } = options;
    let last = "";
    for (let failures = 0; !signal?.aborted; failures++) {
      let lost: unknown;
      try {
        const messages = connect(this.transport, `${attemptPath(attemptId)}/events`, { query: {}, signal, silence: undefined });
        for await (const message of messages) {
          if (message.event !== "attempt" || message.data === last) continue;
          last = message.data;
          failures = 0;
          const attempt = parse<Attempt>(message);
          yield attempt;
          if (ended(attempt)) return;
        }
      } catch (error) {
        if (signal?.aborted) return;
        if (!passes(error)) throw error;
        lost = error;
      }
      const told = lost instanceof Problem ? lost.retryAfterSec : undefined;
      await pause((told ?? backoffSec(Math.min(failures, 5))) * 1000, signal).catch(() => undefined);
    }
  }

  /** The QR code that the creator scans, as a picture or as text for a terminal. It changes about once a minute. */
  async getQR(attemptId: string, options: CallOptions & { format?: "svg" | "png" | "text" } = {}): Promise<Uint8Array> {
    const accept = { svg: "image/svg+xml", png: "image/png", text: "text/plain" }[options.format ?? "svg"];
    const answer = await this.transport.raw({ method: "GET", path: `${attemptPath(attemptId)}/qr`, headers: { accept } }, options);
    return answer.body;
  }
}

function attemptPath(attemptId: string): string {
  return `/v1/connect/login/${segment(attemptId)}`;
}

function reached(attempt: Attempt, until: "action" | "end" | ((attempt: Attempt) => boolean)): boolean {
  if (ended(attempt)) return true;
  return typeof until === "function" ? until(attempt) : until === "action" && attempt.state !== "pending";
}

function ended(attempt: Attempt): boolean {
  return attempt.state === "completed_success" || attempt.state === "completed_failed";
}
