import type { MethodOptions, Transport } from "./transport.js";
import { segment } from "./transport.js";

/** The result of a call; null after a dry run. */
export type Answer<Result, Options> = Options extends { dryRun: true } ? null : Result;

/** Calls the platform's methods on one account. */
export class AccountCalls {
  constructor(
    readonly transport: Transport,
    readonly accountId: string,
  ) {}

  /**
   * Calls a method. A method that reads or is safe to repeat is retried after a lost connection. Every other one gets an
   * idempotency key, so that it can be retried too.
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
