import { AccountCalls } from "./calls.js";
import { Connect } from "./connect.js";
import { AccountResources } from "./gen/account.js";
import { ApiGroups } from "./gen/client.js";
import { AccountMedia } from "./media.js";
import { StagedoorError } from "./problem.js";
import { EventStream, type EventFilter, type EventsOf, type StreamOptions } from "./stream.js";
import { segment, Transport, type CallOptions, type ClientOptions, type MethodOptions, type QueryValue, type RawAnswer, type RequestBody } from "./transport.js";

/** A request that you put together yourself. */
export interface RawRequest extends CallOptions {
  /** Default GET. */
  method?: string | undefined;
  /** Begins with /, such as /v1/me. */
  path: string;
  query?: Readonly<Record<string, QueryValue>> | undefined;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as it is; say what it is in `headers`. */
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
  readonly #transport: Transport;

  /** Key and address are taken from STAGEDOOR_API_KEY and STAGEDOOR_URL if they are not given. */
  constructor(options: ClientOptions = {}) {
    const transport = new Transport(options);
    super(transport);
    this.#transport = transport;
    this.connect = new Connect(transport);
  }

  /** One account: the platform's methods on it, its files, its events. Nothing is sent yet. */
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
   * Sends any request, with the key, the retries and the problems of all others. A write gets an idempotency key only if
   * you give one, and without it is not sent again when the connection is lost.
   */
  request(request: RawRequest): Promise<RawAnswer> {
    const { method = "GET", path, query, json, body, ...options } = request;
    return this.#transport.raw({ method: method.toUpperCase(), path, query, json, body }, options);
  }
}

/** One account: the platform's methods on it, its files, its events. */
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
   * Calls a method by its name, such as `"messages.send"`: one that is chosen when the program runs, or came after this
   * version of the library. The compiler knows nothing of it; say yourself what it gives.
   */
  async call<Result = unknown>(method: string, params?: object, options?: MethodOptions): Promise<Result> {
    const [resource, name, ...rest] = method.split(".");
    if (!resource || !name || rest.length > 0) throw new StagedoorError(`A method is called resource.name, such as messages.send, not "${method}".`);
    return this.#calls.call<Result, CallOptions>(resource, name, "write", params, options);
  }

  /** The account's events, as they happen. */
  stream<const Filter extends EventFilter = EventFilter>(options: StreamOptions<Filter> = {}): EventStream<EventsOf<Filter>> {
    return new EventStream(this.#transport, `/v1/accounts/${segment(this.id)}/events`, {}, options);
  }
}
