import type { paths } from './schema'

export interface FieldError {
  pointer: string
  code: string
  detail: string
}

/** An error response of the API (application/problem+json). */
export interface Problem {
  type?: string
  code: string
  title: string
  status: number
  detail?: string
  retryable?: boolean
  retryAfterSec?: number
  errors?: FieldError[]
  logUrl?: string
  reason?: string
  upstreamCode?: number | string | null
  upstreamMessage?: string | null
}

/** The only error that calls throw, except when they are aborted. */
export class ProblemError extends Error {
  readonly problem: Problem
  readonly requestId: string | null
  constructor(problem: Problem, requestId: string | null) {
    super(problem.detail || problem.title)
    this.name = 'ProblemError'
    this.problem = problem
    this.requestId = requestId
  }
  get code(): string {
    return this.problem.code
  }
  get status(): number {
    return this.problem.status
  }
  get title(): string {
    return this.problem.title
  }
  get detail(): string {
    return this.problem.detail || this.problem.title
  }
  get retryable(): boolean {
    return this.problem.retryable ?? (this.status === 0 || this.status >= 500)
  }
  get retryAfterSec(): number | null {
    return this.problem.retryAfterSec ?? null
  }
  /** The scope that the caller's role lacks; null unless the code is scope-missing. */
  get missingScope(): string | null {
    if (this.code !== 'scope-missing') return null
    return /\b(accounts|webhooks|me|usage|sdk):(read|write|call)\b/.exec(this.detail)?.[0] ?? null
  }
  get forbidden(): boolean {
    return this.status === 403
  }
  get notFound(): boolean {
    return this.status === 404
  }
  /** The message for one field of a form, by its JSON pointer without the slash. */
  field(name: string): string | undefined {
    return this.problem.errors?.find((e) => e.pointer === '/' + name || e.pointer === name)?.detail
  }
}

export function isProblem(e: unknown): e is ProblemError {
  return e instanceof ProblemError
}

// --- who is calling ------------------------------------------------------------

let org: string | null = null
let onSignedOut: () => void = () => {}
let onStale: () => void = () => {}

/** Sets the org of all calls, sent as Stagedoor-Org. */
export function setOrg(id: string | null): void {
  org = id
}
export function currentOrg(): string | null {
  return org
}
/** Sets the callback for a session that has ended (401). */
export function setSignedOut(f: () => void): void {
  onSignedOut = f
}

/** Sets the callback for an operation that needs a newer sign-in (403 reauthentication-required). */
export function setStale(f: () => void): void {
  onStale = f
}

// --- calls ---------------------------------------------------------------------

type Scalar = string | number | boolean
export type Query = Record<string, Scalar | readonly Scalar[] | null | undefined>

export interface Options {
  query?: Query
  body?: unknown
  /** Sent as it is, in place of a body. Give its Content-Type in `headers`. */
  file?: Blob
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** Fills escaped parameters into a path such as "/v1/accounts/{id}". */
export function fill(path: string, params: Record<string, Scalar> = {}): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = params[name]
    if (value === undefined) throw new Error(`missing ${name} for ${path}`)
    return encodeURIComponent(String(value))
  })
}

export function queryString(query: Query = {}): string {
  const out = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === '') continue
    if (Array.isArray(value)) for (const one of value) out.append(name, String(one))
    else out.append(name, String(value))
  }
  const text = out.toString()
  return text ? '?' + text : ''
}

/** Sends a request and returns the response if it succeeds; otherwise throws a ProblemError. */
export async function send(method: string, path: string, opts: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: 'application/json', ...opts.headers }
  if (org) headers['Stagedoor-Org'] = org
  const init: RequestInit = { method, headers, credentials: 'same-origin', redirect: 'error' }
  if (opts.signal) init.signal = opts.signal
  if (opts.body !== undefined) {
    headers['Content-Type'] = 'application/json'
    init.body = JSON.stringify(opts.body)
  } else if (opts.file) init.body = opts.file
  let res: Response
  try {
    res = await fetch(path + queryString(opts.query), init)
  } catch (e) {
    if (opts.signal?.aborted) throw e
    throw new ProblemError(
      {
        code: 'unreachable',
        status: 0,
        title: 'We could not reach the server',
        detail: 'We could not reach the server. Check your connection.',
        retryable: true,
      },
      null,
    )
  }
  if (res.ok) return res
  throw await problemOf(res)
}

/** Reads the problem of an error response. */
export async function problemOf(res: Response): Promise<ProblemError> {
  const requestId = res.headers.get('X-Request-Id')
  let problem: Problem = {
    code: 'http-' + res.status,
    status: res.status,
    title: res.status === 404 ? 'Not found' : `The server returned status ${res.status}`,
  }
  if ((res.headers.get('Content-Type') ?? '').includes('json')) {
    const body: unknown = await res.json().catch(() => null)
    if (body && typeof body === 'object' && 'code' in body && 'title' in body)
      problem = { ...problem, ...(body as Problem), status: res.status }
  }
  const after = Number(res.headers.get('Retry-After'))
  if (problem.retryAfterSec === undefined && after > 0) problem.retryAfterSec = after
  if (res.status === 401) onSignedOut()
  if (problem.code === 'reauthentication-required') onStale()
  return new ProblemError(problem, requestId)
}

/** Calls an operation without the generated types. Prefer api.get, api.post and so on. */
export async function call<T>(method: string, path: string, opts: Options = {}): Promise<T> {
  const res = await send(method, path, opts)
  if (res.status === 204) return undefined as T
  return (await res.json()) as T
}

// --- typed by the OpenAPI document -----------------------------------------------

type Method = 'get' | 'put' | 'post' | 'patch' | 'delete'
export type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, { responses: unknown }> ? P : never
}[keyof paths]
type Op<M extends Method, P extends keyof paths> = paths[P] extends Record<M, infer O> ? O : never
type Success<R> = R extends { 200: infer A }
  ? A
  : R extends { 201: infer A }
    ? A
    : R extends { 202: infer A }
      ? A
      : never
/** The response body of an operation. */
export type Answer<M extends Method, P extends keyof paths> =
  Op<M, P> extends { responses: infer R }
    ? Success<R> extends { content: { 'application/json': infer J } }
      ? J
      : unknown
    : never
type PathParams<O> = O extends { parameters: { path: infer V } } ? V : never
type QueryParams<O> = O extends { parameters: { query?: infer V } } ? NonNullable<V> : never
type BodyOf<O> = O extends { requestBody: { content: { 'application/json': infer B } } }
  ? B
  : O extends { requestBody?: { content: { 'application/json': infer B } } }
    ? B
    : never

type Params<O> = ([PathParams<O>] extends [never] ? { path?: undefined } : { path: PathParams<O> }) &
  ([QueryParams<O>] extends [never] ? { query?: undefined } : { query?: QueryParams<O> }) &
  ([BodyOf<O>] extends [never] ? { body?: undefined } : { body?: BodyOf<O> }) & {
    headers?: Record<string, string>
    signal?: AbortSignal
  }
type Args<O> = [PathParams<O>] extends [never] ? [opts?: Params<O>] : [opts: Params<O>]

interface Loose {
  path?: Record<string, Scalar>
  query?: Query
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal
}

function typed<M extends Method>(method: M) {
  return <P extends PathOf<M>>(path: P, ...args: Args<Op<M, P>>): Promise<Answer<M, P>> => {
    const { path: params, ...opts } = (args[0] ?? {}) as Loose
    return call<Answer<M, P>>(method.toUpperCase(), fill(path as string, params), opts)
  }
}

/** api.get('/v1/accounts/{id}', { path: { id } }): path, query, body and response are type-checked. */
export const api = {
  get: typed('get'),
  put: typed('put'),
  post: typed('post'),
  patch: typed('patch'),
  delete: typed('delete'),
}

/** Returns a header that makes an operation run once even if a click is repeated. */
export function idempotent(key: string = crypto.randomUUID()): Record<string, string> {
  return { 'Idempotency-Key': key }
}

/** Fetches a file with the session and saves it as a browser download. */
export async function download(path: string, query: Query, accept: string, name: string): Promise<void> {
  const res = await send('GET', path, { query, headers: { Accept: accept } })
  const url = URL.createObjectURL(await res.blob())
  const a = document.createElement('a')
  a.href = url
  a.download = name
  a.click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000)
}
