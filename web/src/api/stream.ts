// Server-sent events over fetch. EventSource cannot send the header that names the
// org, and hides why it was refused.
import { currentOrg, problemOf, ProblemError, queryString, type Query } from './client'

export interface Frame {
  id: string | null
  event: string
  data: string
}

/** Parses server-sent events. Push the chunks as they arrive. */
export class Parser {
  private rest = ''
  private id: string | null = null
  private event = ''
  private data: string[] = []
  retry: number | null = null

  push(chunk: string): Frame[] {
    const out: Frame[] = []
    // A trailing carriage return may be half of a CRLF; it waits for the next chunk.
    let text = this.rest + chunk
    this.rest = ''
    if (text.endsWith('\r')) {
      this.rest = '\r'
      text = text.slice(0, -1)
    }
    const lines = text.split(/\r\n|\n|\r/)
    this.rest = (lines.pop() ?? '') + this.rest
    for (const line of lines) {
      if (line === '') {
        if (this.data.length > 0) out.push({ id: this.id, event: this.event || 'message', data: this.data.join('\n') })
        this.event = ''
        this.data = []
        continue
      }
      if (line.startsWith(':')) continue
      const at = line.indexOf(':')
      const field = at < 0 ? line : line.slice(0, at)
      let value = at < 0 ? '' : line.slice(at + 1)
      if (value.startsWith(' ')) value = value.slice(1)
      if (field === 'data') this.data.push(value)
      else if (field === 'event') this.event = value
      else if (field === 'id') this.id = value
      else if (field === 'retry' && /^\d+$/.test(value)) this.retry = Number(value)
    }
    return out
  }
}

export type StreamState = 'off' | 'connecting' | 'live' | 'reconnecting' | 'refused'

/** Reads one connection until it ends. Throws a ProblemError when it is refused. */
export async function read(
  path: string,
  opts: {
    query?: Query
    lastId?: string | null
    signal: AbortSignal
    onOpen?: () => void
    onFrame: (f: Frame) => void
  },
): Promise<{ retry: number | null }> {
  const headers: Record<string, string> = { Accept: 'text/event-stream' }
  const org = currentOrg()
  if (org) headers['Stagedoor-Org'] = org
  if (opts.lastId) headers['Last-Event-ID'] = opts.lastId
  const res = await fetch(path + queryString(opts.query), {
    headers,
    credentials: 'same-origin',
    signal: opts.signal,
    cache: 'no-store',
  })
  if (!res.ok || !res.body) throw await problemOf(res)
  opts.onOpen?.()
  const parser = new Parser()
  const reader = res.body.pipeThrough(new TextDecoderStream()).getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return { retry: parser.retry }
    for (const frame of parser.push(value)) opts.onFrame(frame)
  }
}

const silence = 40_000 // the server sends a heartbeat every 15 s
const hiddenFor = 60_000

/**
 * One connection that reconnects automatically and resumes after the last id it received.
 * It is open while there are listeners, and closed while the tab is hidden: browsers allow
 * six connections to a host over HTTP/1.1, and each tab would hold one.
 */
export class Stream {
  state: StreamState = 'off'
  problem: ProblemError | null = null
  /** True when the server could not send every event since the last id. */
  gap = false
  private lastId: string | null = null
  private abort: AbortController | null = null
  private timer: ReturnType<typeof setTimeout> | undefined
  private hide: ReturnType<typeof setTimeout> | undefined
  private quiet: ReturnType<typeof setTimeout> | undefined
  private failures = 0
  private readonly frames = new Set<(f: Frame) => void>()
  private readonly states = new Set<() => void>()

  private readonly path: string
  private readonly query: Query

  constructor(path: string, query: Query = {}) {
    this.path = path
    this.query = query
  }

  listen(onFrame: (f: Frame) => void): () => void {
    this.frames.add(onFrame)
    if (this.frames.size === 1) this.start()
    return () => {
      this.frames.delete(onFrame)
      if (this.frames.size === 0) this.stop()
    }
  }

  watch(onState: () => void): () => void {
    this.states.add(onState)
    return () => this.states.delete(onState)
  }

  /** Reconnects immediately instead of waiting for the backoff. */
  retryNow(): void {
    if (this.frames.size === 0) return
    this.failures = 0
    this.abort?.abort()
    clearTimeout(this.timer)
    void this.connect()
  }

  private start(): void {
    if (typeof document !== 'undefined') document.addEventListener('visibilitychange', this.onVisible)
    this.failures = 0
    void this.connect()
  }

  private stop(): void {
    if (typeof document !== 'undefined') document.removeEventListener('visibilitychange', this.onVisible)
    clearTimeout(this.timer)
    clearTimeout(this.hide)
    clearTimeout(this.quiet)
    this.abort?.abort()
    this.abort = null
    this.lastId = null
    this.set('off')
  }

  private readonly onVisible = () => {
    clearTimeout(this.hide)
    if (document.hidden) {
      this.hide = setTimeout(() => {
        clearTimeout(this.timer)
        clearTimeout(this.quiet)
        this.abort?.abort()
        this.abort = null
        this.set('off')
      }, hiddenFor)
    } else if (!this.abort && this.frames.size > 0) {
      clearTimeout(this.timer)
      void this.connect()
    }
  }

  private set(state: StreamState): void {
    if (this.state === state) return
    this.state = state
    for (const f of this.states) f()
  }

  private heard(abort: AbortController): void {
    clearTimeout(this.quiet)
    this.quiet = setTimeout(() => abort.abort(), silence)
  }

  private async connect(): Promise<void> {
    const abort = new AbortController()
    this.abort = abort
    this.set(this.failures > 0 || this.lastId ? 'reconnecting' : 'connecting')
    let pause = 0
    try {
      this.heard(abort)
      const { retry } = await read(this.path, {
        query: this.query,
        lastId: this.lastId,
        signal: abort.signal,
        onOpen: () => {
          this.failures = 0
          this.problem = null
          this.set('live')
        },
        onFrame: (f) => {
          this.heard(abort)
          this.take(f)
        },
      })
      pause = retry ?? 1000
    } catch (e) {
      if (this.abort !== abort) return // stopped, or another connection took over
      this.failures++
      if (e instanceof ProblemError) {
        this.problem = e
        if (e.status === 401 || e.status === 403 || e.status === 404) {
          this.abort = null
          this.set('refused')
          return
        }
        pause = (e.retryAfterSec ?? 0) * 1000
      }
      pause = Math.max(pause, Math.min(30_000, 500 * 2 ** Math.min(this.failures, 6)) * (0.5 + Math.random() / 2))
    } finally {
      if (this.abort === abort) clearTimeout(this.quiet)
    }
    if (this.abort !== abort || this.frames.size === 0) return
    this.abort = null
    this.set('reconnecting')
    this.timer = setTimeout(() => void this.connect(), pause)
  }

  private take(f: Frame): void {
    if (f.event === 'heartbeat') return
    if (f.event === 'ready') {
      const ready = JSON.parse(f.data) as { cursor?: string; gap?: boolean }
      this.gap = ready.gap ?? false
      // Before the first event there is no id: resume from the cursor.
      if (!this.lastId && ready.cursor) this.lastId = ready.cursor
      return
    }
    if (f.id) this.lastId = f.id
    for (const listener of this.frames) listener(f)
  }
}

let shared: { org: string | null; stream: Stream } | null = null

/** The org's event stream: one connection for the whole tab. */
export function orgStream(): Stream {
  const org = currentOrg()
  if (!shared || shared.org !== org) shared = { org, stream: new Stream('/v1/events') }
  return shared.stream
}
