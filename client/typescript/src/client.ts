import { AccountCalls } from "./calls.js";
import { Connect } from "./connect.js";
import { AccountResources } from "./gen/account.js";
import { ApiGroups } from "./gen/client.js";
import { Jobs } from "./jobs.js";
import { AccountMedia } from "./media.js";
import { StagedoorError } from "./problem.js";
import { EventStream, type EventFilter, type EventsOf, type StreamOptions } from "./stream.js";
import { segment, Transport, type CallOptions, type ClientOptions, type MethodOptions, type QueryValue, type RawAnswer, type RequestBody } from "./transport.js";

/** A request to any path. */
export interface RawRequest extends CallOptions {
  /** Default GET. */
  method?: string | undefined;
  /** Starts with /, such as /v1/me. */
  path: string;
  query?: Readonly<Record<string, QueryValue>> | undefined;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent unchanged; set its content type in `headers`. */
  body?: RequestBody | undefined;
}

/**
 * Stagedoor's API.
 *
 *     const client = new Stagedoor({ apiKey, baseUrl });
 *     await client.account(id).messages.send({ chatId, text: "Thank you!" });
 */
export class Stagedoor extends ApiGroups {
  override readonly connect: Connect;
  override readonly jobs: Jobs;
  readonly #transport: Transport;

  /** The key and the address default to STAGEDOOR_API_KEY and STAGEDOOR_URL. */
  constructor(options: ClientOptions = {}) {
    const transport = new Transport(options);
    super(transport);
    this.#transport = transport;
    this.connect = new Connect(transport);
    this.jobs = new Jobs(transport);
  }

  /** Returns a client for one account: the platform's methods, files and events. It sends nothing. */
  account(accountId: string): AccountClient {
    return new AccountClient(this.#transport, accountId);
  }

  /** The events of all accounts and of the organisation, as they happen. */
  stream<const Filter extends EventFilter = EventFilter>(
    options: StreamOptions<Filter> & { /** Only this account's. */ accountId?: string } = {},
  ): EventStream<EventsOf<Filter>> {
    return new EventStream(this.#transport, "/v1/events", { accountId: options.accountId }, options);
  }

  /**
   * Sends any request, with the same key, retries and errors as the other methods. A write has an idempotency key only if
   * you pass one; without it, the write is not retried after a lost connection.
   */
  request(request: RawRequest): Promise<RawAnswer> {
    const { method = "GET", path, query, json, body, ...options } = request;
    return this.#transport.raw({ method: method.toUpperCase(), path, query, json, body }, options);
  }
}

/** A client for one account: the platform's methods, files and events. */
export class AccountClient extends AccountResources {
  readonly id: string;
  /** The account's files. */
  readonly media: AccountMedia;
  readonly #calls: AccountCalls;
  readonly #transport: Transport;

  constructor(transport: Transport, id: string) {
    const calls = new AccountCalls(transport, id);
    super(calls);
    this.#calls = calls;
    this.id = id;
    this.media = new AccountMedia(calls);
    this.#transport = transport;
  }

  /**
   * Calls a method by its name, such as `"messages.send"`: one chosen at run time, or newer than this version of the
   * library. Name the result's type yourself.
   */
  async call<Result = unknown>(method: string, params?: object, options?: MethodOptions): Promise<Result> {
    const [resource, name, ...rest] = method.split(".");
    if (!resource || !name || rest.length > 0) throw new StagedoorError(`A method name has the form resource.name, such as messages.send; got "${method}".`);
    return this.#calls.call<Result, CallOptions>(resource, name, "write", params, options);
  }

  /** The account's events, as they happen. */
  stream<const Filter extends EventFilter = EventFilter>(options: StreamOptions<Filter> = {}): EventStream<EventsOf<Filter>> {
    return new EventStream(this.#transport, `/v1/accounts/${segment(this.id)}/events`, {}, options);
  }
}
