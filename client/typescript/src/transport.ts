import { ConnectionError, Problem, readProblem, StagedoorError } from "./problem.js";

/** Options of a client. */
export interface ClientOptions {
  /** The API key. Default: STAGEDOOR_API_KEY from the environment. `null` creates a client without a key, for pages that only use stream tokens. */
  apiKey?: string | null | undefined;
  /** The address of the API. Default: STAGEDOOR_URL from the environment. */
  baseUrl?: string | undefined;
  /** How often a call is retried at most, if a retry is safe and may help. Default 2. */
  maxRetries?: number | undefined;
  /** How many milliseconds one attempt may take, to the last byte of the response. Default 60 000; 0 means no limit. */
  timeout?: number | undefined;
  /** The fetch function to use. Default: the global one. */
  fetch?: typeof fetch | undefined;
  /** Headers to send with every request. */
  headers?: Record<string, string> | undefined;
}

/** Options of a single call. */
export interface CallOptions {
  /** Makes a retry safe: requests with the same key are carried out once. Default: a new key for every write that needs one. */
  idempotencyKey?: string | undefined;
  /** Aborting it ends the call, even between two attempts. */
  signal?: AbortSignal | undefined;
  /** As in ClientOptions. */
  maxRetries?: number | undefined;
  /** As in ClientOptions. */
  timeout?: number | undefined;
  /** Headers for this call. */
  headers?: Record<string, string> | undefined;
}

/** Options of a call that can wait for a change. */
export interface WaitOptions extends CallOptions {
  /** How many seconds (0 to 25) the API may wait for a change before it responds. */
  wait?: number | undefined;
}

/** Options of a method call on an account. */
export interface MethodOptions extends CallOptions {
  /** Checks the key, the arguments, the account and the limits without calling the platform. The result is null. */
  dryRun?: boolean | undefined;
}

/** A query value. A list becomes a repeated parameter; undefined and null are omitted. */
export type QueryValue = string | number | boolean | readonly (string | number | boolean)[] | null | undefined;

/** A body that is sent unchanged. */
export type RequestBody = string | Blob | ArrayBuffer | Uint8Array | FormData | URLSearchParams | ReadableStream<Uint8Array>;

/** One request, as described by the generated code. */
export interface Request {
  method: string;
  /** Starts with / and is already encoded. */
  path: string;
  query?: Readonly<Record<string, QueryValue>> | undefined;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent unchanged. */
  body?: RequestBody | undefined;
  headers?: Record<string, string> | undefined;
  /** Whether sending it twice is harmless. GET always is. */
  safe?: boolean | undefined;
  /** Whether it gets an idempotency key by default. */
  keyed?: boolean | undefined;
}

/** A response with its raw body. */
export interface RawAnswer {
  status: number;
  headers: Headers;
  body: Uint8Array;
  /** The body as JSON. */
  json<T = unknown>(): T;
}

/** The version of this library. `make generate` sets it from client/VERSION. */
export const version = "0.1.0";

/** If the API asks for a longer wait, the call fails instead. */
const longestWaitSec = 60;

/** Sends requests with the key, headers, time limit and retries. */
export class Transport {
  readonly baseUrl: string;
  readonly #apiKey: string | null;
  readonly #fetch: typeof fetch;
  readonly #headers: Record<string, string>;
  readonly #maxRetries: number;
  readonly #timeout: number;

  constructor(options: ClientOptions) {
    const apiKey = options.apiKey === undefined ? environment("STAGEDOOR_API_KEY") : options.apiKey;
    if (apiKey === undefined || apiKey === "") throw new StagedoorError("No API key: pass apiKey or set STAGEDOOR_API_KEY.");
    const baseUrl = options.baseUrl ?? environment("STAGEDOOR_URL");
    if (!baseUrl) throw new StagedoorError("No API address: pass baseUrl or set STAGEDOOR_URL.");
    this.baseUrl = new URL(baseUrl).href.replace(/\/+$/, "");
    this.#apiKey = apiKey;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
    this.#maxRetries = options.maxRetries ?? 2;
    this.#timeout = options.timeout ?? 60_000;
    this.#headers = { ...agent(), ...options.headers };
  }

  /** Sends a request and reads the response as JSON. */
  async json<T>(request: Request, options: CallOptions = {}): Promise<T> {
    return this.send(request, options, (response) => readJSON<T>(response));
  }

  /** Sends a request and leaves the body to the caller. The time limit covers the headers only. */
  async open(request: Request, options: CallOptions = {}): Promise<Response> {
    return this.send(request, options, (response) => Promise.resolve(response));
  }

  /** Sends a request and reads the whole body. */
  async raw(request: Request, options: CallOptions = {}): Promise<RawAnswer> {
    return this.send(request, options, async (response) => {
      const body = new Uint8Array(await response.arrayBuffer());
      return { status: response.status, headers: response.headers, body, json: <T>() => JSON.parse(new TextDecoder().decode(body)) as T };
    });
  }

  /** Sends a request, with retries where they are safe and may help. */
  async send<T>(request: Request, options: CallOptions, read: (response: Response) => Promise<T>): Promise<T> {
    const key = options.idempotencyKey ?? (request.keyed ? crypto.randomUUID() : undefined);
    const safe = request.safe === true || request.method === "GET" || request.method === "HEAD" || key !== undefined;
    const maxRetries = request.body instanceof ReadableStream ? 0 : (options.maxRetries ?? this.#maxRetries);
    const init = this.#init(request, options, key);
    const url = this.url(request);
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#once(url, init, options, read);
      } catch (error) {
        if (options.signal?.aborted) throw options.signal.reason;
        const waitSec = attempt < maxRetries ? retryIn(error, attempt, safe) : undefined;
        if (waitSec === undefined || waitSec > longestWaitSec) throw error;
        await pause(waitSec * 1000, options.signal);
      }
    }
  }

  /** Fetches once for a stream, without a time limit and without checking the status. */
  async fetch(request: Request, signal: AbortSignal): Promise<Response> {
    try {
      return await this.#fetch(this.url(request), { ...this.#init(request, {}, undefined), signal });
    } catch (error) {
      throw lost(error);
    }
  }

  url(request: Pick<Request, "path" | "query">): string {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(request.query ?? {})) {
      if (value === undefined || value === null) continue;
      for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
    }
    const search = query.toString();
    return this.baseUrl + request.path + (search && (request.path.includes("?") ? "&" : "?") + search);
  }

  #init(request: Request, options: WaitOptions, key: string | undefined): RequestInit {
    const headers = new Headers({ accept: "application/json", ...this.#headers });
    if (this.#apiKey !== null) headers.set("authorization", `Bearer ${this.#apiKey}`);
    if (request.json !== undefined) headers.set("content-type", "application/json");
    if (key !== undefined) headers.set("idempotency-key", key);
    if (options.wait !== undefined) headers.set("prefer", `wait=${options.wait}`);
    for (const [name, value] of Object.entries({ ...request.headers, ...options.headers })) headers.set(name, value);
    const body = request.json === undefined ? request.body : JSON.stringify(request.json);
    const init: RequestInit & { duplex?: "half" } = { method: request.method, headers, redirect: "error" };
    if (body !== undefined) init.body = body as BodyInit;
    if (body instanceof ReadableStream) init.duplex = "half"; // fetch requires it for a streamed body
    return init;
  }

  async #once<T>(url: string, init: RequestInit, options: CallOptions, read: (response: Response) => Promise<T>): Promise<T> {
    const limit = new AbortController();
    const timeout = options.timeout ?? this.#timeout;
    const timer = timeout > 0 ? setTimeout(() => limit.abort(), timeout) : undefined;
    const signal = options.signal ? AbortSignal.any([options.signal, limit.signal]) : limit.signal;
    try {
      const response = await this.#fetch(url, { ...init, signal });
      if (response.status >= 400) throw await readProblem(response);
      return await read(response);
    } catch (error) {
      if (limit.signal.aborted) throw new ConnectionError("timeout", `No response within ${timeout} ms.`, { cause: error });
      throw lost(error);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Encodes one segment of a path. */
export function segment(value: string | number): string {
  const text = String(value);
  if (text === "" || text === "." || text === "..") throw new StagedoorError(`"${text}" cannot be part of a path: is an id missing?`);
  return encodeURIComponent(text);
}

/** Waits. Rejects when the signal aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** The seconds to wait before the next attempt if the API names none: exponential, with jitter. */
export function backoffSec(attempt: number): number {
  return 0.5 * 2 ** attempt * (0.5 + Math.random() / 2);
}

/** The seconds after which a failed call may be retried; undefined if it must not be. */
function retryIn(error: unknown, attempt: number, safe: boolean): number | undefined {
  if (error instanceof ConnectionError) return safe ? backoffSec(attempt) : undefined;
  if (!(error instanceof Problem) || !error.retryable || error.status === 410) return undefined;
  // The server may have carried out the change, so it is not retried, even if the problem is retryable.
  if (error.body.outcome === "unknown") return undefined;
  // A response of a proxy does not show whether the call was carried out.
  if (error.code === "unexpected-answer" && !safe) return undefined;
  return error.retryAfterSec ?? backoffSec(attempt);
}

async function readJSON<T>(response: Response): Promise<T> {
  if (response.status === 204 || response.status === 304) return undefined as T;
  const raw = await response.text();
  try {
    return JSON.parse(raw) as T;
  } catch (error) {
    throw new ConnectionError("bad-answer", `The response is not JSON: ${raw.slice(0, 100)}`, { cause: error });
  }
}

/** The cause of a fetch error says more than the error itself. */
function lost(error: unknown): unknown {
  if (error instanceof StagedoorError) return error;
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return new ConnectionError("network", `The connection failed: ${cause instanceof Error ? cause.message : String(cause)}`, { cause: error });
}

/** Undefined in browsers. */
const server = (globalThis as { process?: { env?: Record<string, string | undefined>; versions?: { node?: string } } }).process;

function environment(name: string): string | undefined {
  return server?.env?.[name];
}

/** Browsers send their own user agent; setting it from a page would cost a preflight request. */
function agent(): Record<string, string> {
  return server?.versions?.node ? { "user-agent": `stagedoor-typescript/${version}` } : {};
}
