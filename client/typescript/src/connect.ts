import { ConnectGroup } from "./gen/groups/connect.js";
import type { Attempt } from "./gen/types.js";
import { ConnectionError, Problem } from "./problem.js";
import { connect, parse, passes } from "./stream.js";
import { backoffSec, pause, segment, type CallOptions } from "./transport.js";

/** Options of `waitFor`. */
export interface WaitForOptions {
  /**
   * When to return: `"action"`, once you or the creator must do something; `"end"`, once the attempt has ended; or a test
   * of your own. Default `"action"`. An attempt that has ended is always returned.
   */
  until?: "action" | "end" | ((attempt: Attempt) => boolean) | undefined;
  /** The longest wait in milliseconds. Default: until the attempt expires. */
  timeout?: number | undefined;
  signal?: AbortSignal | undefined;
  /** Called with the attempt whenever it changes. */
  onChange?: ((attempt: Attempt) => void) | undefined;
}

/** Connects creators' accounts and follows the attempts. */
export class Connect extends ConnectGroup {
  /** Waits for an attempt and returns it. A failed attempt is returned, not thrown: check its `state`. */
  async waitFor(attemptId: string, options: WaitForOptions = {}): Promise<Attempt> {
    const limit = options.timeout === undefined ? undefined : AbortSignal.timeout(options.timeout);
    const signals = [limit, options.signal].filter((one) => one !== undefined);
    const signal = signals.length > 0 ? AbortSignal.any(signals) : undefined;
    try {
      return await this.#wait(attemptId, options, signal);
    } catch (error) {
      if (limit?.aborted && !options.signal?.aborted) {
        throw new ConnectionError("timeout", `The attempt did not get there within ${options.timeout} ms.`, { cause: error });
      }
      throw error;
    }
  }

  async #wait(attemptId: string, options: WaitForOptions, signal: AbortSignal | undefined): Promise<Attempt> {
    const request = { method: "GET", path: attemptPath(attemptId) };
    let etag: string | undefined;
    for (;;) {
      // The API answers when the attempt changes, or with 304 after 25 seconds without a change.
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

  /** Yields the attempt immediately and after every change, until it has ended. It reconnects automatically. */
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
      const retryAfterSec = lost instanceof Problem ? lost.retryAfterSec : undefined;
      await pause((retryAfterSec ?? backoffSec(Math.min(failures, 5))) * 1000, signal).catch(() => undefined);
    }
  }

  /** Returns the QR code that the creator scans, as an image or as text for a terminal. It changes about once a minute. */
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
