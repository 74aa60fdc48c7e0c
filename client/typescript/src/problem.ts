import type { ProblemCode } from "./gen/problems.js";

/** The base class of every error that this library throws. */
export class StagedoorError extends Error {
  override name = "StagedoorError";
}

/** An error in one field of a request. */
export interface FieldError {
  /** A JSON pointer into the body, or query/name, header/name, path/name. */
  pointer: string;
  /** A stable code. */
  code: string;
  /** A description for people. */
  detail: string;
}

/** A code that this version of the library knows, or a newer one. */
export type AnyProblemCode = ProblemCode | (string & {});

/**
 * The API's error response, an RFC 9457 problem.
 * Branch on `code` and `retryable`; `title` and `detail` are for people.
 */
export class Problem<Code extends string = AnyProblemCode> extends StagedoorError {
  override name = "Problem";
  /** The HTTP status. */
  readonly status: number;
  /** A stable slug. */
  readonly code: Code;
  /** A short summary, always the same for a code. */
  readonly title: string;
  /** What happened in this case. */
  readonly detail: string;
  /** Whether the same request is safe to retry and may succeed later. */
  readonly retryable: boolean;
  /** The seconds to wait before a retry, if the API names them. */
  readonly retryAfterSec: number | undefined;
  /** The id of the request, for support or `client.logs.get`. */
  readonly requestId: string | undefined;
  /** The invalid fields of the request. */
  readonly errors: readonly FieldError[];
  /** The documentation page of this kind of problem. */
  readonly docUrl: string;
  /** The whole problem as received, including members that only this kind has. */
  readonly body: Readonly<Record<string, unknown>>;

  constructor(body: Record<string, unknown>, from: { status: number; requestId?: string | undefined; retryAfterSec?: number | undefined }) {
    const title = text(body.title) ?? `HTTP ${from.status}`;
    const code = text(body.code) ?? "unexpected-answer";
    const detail = text(body.detail) ?? "";
    super(detail ? `${code}: ${detail}` : `${code}: ${title}`);
    this.status = typeof body.status === "number" ? body.status : from.status;
    this.code = code as Code;
    this.title = title;
    this.detail = detail;
    this.retryable = body.retryable === true;
    this.retryAfterSec = typeof body.retryAfterSec === "number" ? body.retryAfterSec : from.retryAfterSec;
    this.requestId = from.requestId ?? requestOf(body.instance);
    this.errors = Array.isArray(body.errors) ? (body.errors as FieldError[]) : [];
    this.docUrl = text(body.type) ?? "about:blank";
    this.body = body;
  }
}

/** No complete response arrived: the network failed or the time ran out. The call may have been carried out. */
export class ConnectionError extends StagedoorError {
  override name = "ConnectionError";

  constructor(
    readonly reason: "network" | "timeout" | "bad-answer",
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Reports whether an error is a problem and, if codes are given, has one of them. */
export function isProblem(error: unknown): error is Problem;
export function isProblem<Code extends ProblemCode>(error: unknown, ...codes: [Code, ...Code[]]): error is Problem<Code>;
export function isProblem(error: unknown, ...codes: string[]): boolean {
  return error instanceof Problem && (codes.length === 0 || codes.includes(error.code));
}

/** Reads the problem from an error response. */
export async function readProblem(response: Response): Promise<Problem> {
  const from = {
    status: response.status,
    requestId: response.headers.get("x-request-id") ?? undefined,
    retryAfterSec: readRetryAfter(response.headers.get("retry-after")),
  };
  const raw = await response.text();
  const body = parseObject(raw);
  if (body && typeof body.code === "string") return new Problem(body, from);
  // The response comes from a proxy, not from the API. A gateway error may be temporary.
  const gateway = response.status === 502 || response.status === 503 || response.status === 504;
  return new Problem({ title: response.statusText || `HTTP ${response.status}`, detail: raw.slice(0, 300), retryable: gateway }, from);
}

function parseObject(raw: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(raw);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function readRetryAfter(value: string | null): number | undefined {
  if (value === null) return undefined;
  if (/^[0-9]+$/.test(value.trim())) return Number(value);
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil((at - Date.now()) / 1000));
}

function requestOf(instance: unknown): string | undefined {
  const prefix = "urn:request:";
  return typeof instance === "string" && instance.startsWith(prefix) ? instance.slice(prefix.length) : undefined;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
