import type { MethodOptions, Transport } from "./transport.js";
import { segment } from "./transport.js";

/** What a call gives: its result, and nothing if it was a dry run. */
export type Answer<Result, Options> = Options extends { dryRun: true } ? null : Result;

/** Calls the platform's methods on one account. */
export class AccountCalls {
  constructor(
    readonly transport: Transport,
    readonly accountId: string,
  ) {}

  /**
   * Calls a method. One that reads, or can be repeated without harm, is sent again when the connection is lost; every
   * other one gets an idempotency key, so that it can be as well.
   */
  async call<Result, Options extends MethodOptions>(
    resource: string,
    method: string,
    access: "read" | "repeatable" | "write",
    params: object | undefined,
    options?: Options,
  ): Promise<Answer<Result, Options>> {
    const answer = await this.transport.json<{ result: Answer<Result, Options> }>(
      {
        method: "POST",
        path: `/v1/accounts/${segment(this.accountId)}/${segment(resource)}/${segment(method)}`,
        json: params ?? {},
        headers: options?.dryRun ? { "x-dry-run": "true" } : undefined,
        safe: access !== "write",
        keyed: access === "write",
      },
      options,
    );
    return answer.result;
  }
}
