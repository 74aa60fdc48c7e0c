import type { AnyEvent, EventKind, StagedoorEvent } from "./gen/events.js";
import { ConnectionError, Problem, readProblem, StagedoorError } from "./problem.js";
import { ServerSentEvents, type ServerSentEvent } from "./sse.js";
import { backoffSec, pause, type QueryValue, type Transport } from "./transport.js";

/** A kind of event, a family such as `message*`, or `!kind` to exclude a kind. */
export type EventFilter = EventKind | `${string}*` | `!${string}`;

/** The events that a filter lets through, as far as its type says. */
export type EventsOf<Filter> = [Filter] extends [EventKind] ? Extract<StagedoorEvent, { event: Filter }> : StagedoorEvent;

/** Options of a stream. */
export interface StreamOptions<Filter extends EventFilter = EventFilter> {
  /** Continue after this cursor of an earlier stream or page. `"0"` starts with the oldest event. Default: only new events. */
  since?: string | undefined;
  /** Only these events. Default: all. */
  events?: readonly Filter[] | undefined;
  /** Aborting it ends the stream: the loop ends without an error. */
  signal?: AbortSignal | undefined;
  /** After this many milliseconds without data, the connection counts as lost. Default 45 000; the API sends a heartbeat every 15 s. */
  silence?: number | undefined;
  /** Called whenever the stream has connected. `gap` means that events after the cursor are no longer stored. */
  onReady?: ((ready: StreamReady) => void) | undefined;
  /** Called whenever the connection is lost, with the error and the time until the next attempt. */
  onDrop?: ((error: Error, waitMs: number) => void) | undefined;
  /** For pages in a browser, which have no API key: fetches a token from your server for every connection (see `client.events.createToken`). */
  token?: (() => Promise<string>) | undefined;
}

/** The first message of a connection. */
export interface StreamReady {
  cursor: string;
  /** Whether the stream continues after the cursor you sent. */
  resumed: boolean;
  /** Whether events after that cursor are no longer stored. */
  gap: boolean;
  oldest?: string;
}

/** How many event ids are remembered to drop repeated events. */
const remembered = 1024;

const longestWait = 30_000;

/**
 * The events of an account or of the organisation, as they happen. Loop over it:
 *
 *     for await (const event of client.account(id).stream()) …
 *
 * It reconnects automatically and continues where it was: no event is missed or repeated. `break`, `close` or the signal
 * ends it. A problem that retrying cannot solve, such as a revoked key, is thrown.
 */
export class EventStream<Event extends AnyEvent = StagedoorEvent> implements AsyncIterable<Event> {
  readonly #transport: Transport;
  readonly #path: string;
  readonly #query: Record<string, QueryValue>;
  readonly #options: StreamOptions<EventFilter>;
  readonly #seen = new Set<string>();
  readonly #closed = new AbortController();
  #cursor: string | undefined;
  #retry: number | undefined;

  constructor(transport: Transport, path: string, query: Record<string, QueryValue>, options: StreamOptions<EventFilter>) {
    this.#transport = transport;
    this.#path = path;
    this.#query = query;
    this.#options = options;
    this.#cursor = options.since;
  }

  /** The position of the stream. In the loop it belongs to the current event: store it once you have handled that event. */
  get cursor(): string | undefined {
    return this.#cursor;
  }

  /** Ends the loop, even while it waits for an event. */
  close(): void {
    this.#closed.abort();
  }

  /** Loops over the events. A second loop continues where the first one ended. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void, undefined> {
    const { signal: given } = this.#options;
    const signal = given ? AbortSignal.any([given, this.#closed.signal]) : this.#closed.signal;
    let failures = 0;
    while (!signal.aborted) {
      let dropped: Error;
      try {
        for await (const event of this.#connection(signal)) {
          failures = 0;
          if (event) yield event;
        }
        dropped = new ConnectionError("network", "The stream ended.");
      } catch (error) {
        if (signal.aborted) return;
        if (!passes(error)) throw error;
        dropped = error;
      }
      const wait = this.#waitFor(dropped, failures++);
      this.#options.onDrop?.(dropped, wait);
      try {
        await pause(wait, signal);
      } catch {
        return; // the signal ended it
      }
    }
  }

  #waitFor(error: Error, failures: number): number {
    const retryAfterSec = error instanceof Problem ? error.retryAfterSec : undefined;
    if (retryAfterSec !== undefined) return retryAfterSec * 1000;
    return Math.max(this.#retry ?? 0, Math.min(backoffSec(failures) * 1000, longestWait));
  }

  /** One connection. It yields undefined once it is open, so that the loop resets its backoff. */
  async *#connection(signal: AbortSignal): AsyncGenerator<Event | undefined, void, undefined> {
    const messages = connect(this.#transport, this.#path, {
      query: await this.#ask(),
      headers: this.#options.token || this.#cursor === undefined ? {} : { "last-event-id": this.#cursor },
      signal,
      silence: this.#options.silence,
      onRetry: (ms) => (this.#retry = ms),
    });
    for await (const message of messages) {
      if (message.event === "ready") {
        const ready = parse<StreamReady>(message);
        // If the connection is lost before the first event, the next one continues here.
        if (this.#cursor === undefined || ready.gap) this.#cursor = ready.cursor;
        this.#options.onReady?.(ready);
        yield undefined;
        continue;
      }
      const event = parse<Event>(message);
      if (this.#isNew(event.id)) {
        if (message.id !== undefined) this.#cursor = message.id;
        yield event;
      }
    }
  }

  async #ask(): Promise<Record<string, QueryValue>> {
    const query: Record<string, QueryValue> = { ...this.#query, events: this.#options.events };
    if (this.#options.token) {
      query.token = await this.#options.token();
      query.last_event_id = this.#cursor; // a header would cost the browser a preflight request
    }
    return query;
  }

  #isNew(id: string): boolean {
    if (this.#seen.has(id)) return false;
    this.#seen.add(id);
    if (this.#seen.size > remembered) {
      for (const oldest of this.#seen) {
        this.#seen.delete(oldest);
        break;
      }
    }
    return true;
  }
}

interface Connect {
  query: Record<string, QueryValue>;
  headers?: Record<string, string>;
  signal: AbortSignal | undefined;
  silence: number | undefined;
  onRetry?: (ms: number) => void;
}

/** Connects once and yields the messages of the stream, without heartbeats. A `problem` in it is thrown. */
export async function* connect(transport: Transport, path: string, options: Connect): AsyncGenerator<ServerSentEvent, void, undefined> {
  const silence = options.silence ?? 45_000;
  const watch = new AbortController();
  const signal = options.signal ? AbortSignal.any([options.signal, watch.signal]) : watch.signal;
  // Only waiting for the server counts, not the time that the caller spends on an event.
  const listen = async <T>(work: Promise<T>): Promise<T> => {
    const timer = setTimeout(() => watch.abort(), silence);
    try {
      return await work;
    } catch (error) {
      if (options.signal?.aborted) throw options.signal.reason;
      if (watch.signal.aborted) throw new ConnectionError("timeout", `The stream was silent for ${silence} ms.`, { cause: error });
      throw error instanceof StagedoorError ? error : new ConnectionError("network", "The connection of the stream was lost.", { cause: error });
    } finally {
      clearTimeout(timer);
    }
  };
  const headers = { accept: "text/event-stream", ...options.headers };
  try {
    const response = await listen(transport.fetch({ method: "GET", path, query: options.query, headers }, signal));
    if (!response.ok) throw await listen(readProblem(response));
    if (!response.body) throw new ConnectionError("bad-answer", "The stream has no body.");
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    const events = new ServerSentEvents();
    for (;;) {
      const { done, value } = await listen(reader.read());
      if (done) return;
      const messages = events.push(decoder.decode(value, { stream: true }));
      if (events.retry !== undefined) options.onRetry?.(events.retry);
      for (const message of messages) {
        if (message.event === "heartbeat") continue;
        if (message.event === "problem") throw new Problem(parse(message), { status: 0 });
        yield message;
      }
    }
  } finally {
    watch.abort(); // closes the connection however the loop ends
  }
}

/** Whether a stream may reconnect after this error: always, except after a refusal that retrying cannot solve. */
export function passes(error: unknown): error is Error {
  if (error instanceof Problem) return error.retryable || error.status >= 500 || error.status === 429;
  return error instanceof ConnectionError;
}

export function parse<T>(message: ServerSentEvent): T {
  try {
    return JSON.parse(message.data) as T;
  } catch (error) {
    throw new ConnectionError("bad-answer", `The stream sent a message that is not JSON: ${message.data.slice(0, 100)}`, { cause: error });
  }
}
