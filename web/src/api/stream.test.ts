import { afterEach, describe, expect, it, vi } from 'vitest'
import { Parser, Stream, type Frame } from './stream'

describe('Parser', () => {
  const text =
    'retry: 3412\n\nevent: ready\ndata: {"cursor":"1"}\n\n: comment\nid: 2\nevent: message\ndata: a\ndata: b\n\nid: 3\r\ndata:c\r\n\r\n'
  const want: Frame[] = [
    { id: null, event: 'ready', data: '{"cursor":"1"}' },
    { id: '2', event: 'message', data: 'a\nb' },
    { id: '3', event: 'message', data: 'c' },
  ]
  it('reads frames', () => {
    const p = new Parser()
    expect(p.push(text)).toEqual(want)
    expect(p.retry).toBe(3412)
  })
  it('accepts chunks that are cut anywhere', () => {
    for (let size = 1; size < 12; size++) {
      const p = new Parser()
      const got: Frame[] = []
      for (let i = 0; i < text.length; i += size) got.push(...p.push(text.slice(i, i + size)))
      expect(got).toEqual(want)
    }
  })
  it('holds back an incomplete frame', () => {
    const p = new Parser()
    expect(p.push('id: 9\ndata: x\n')).toEqual([])
    expect(p.push('\n')).toEqual([{ id: '9', event: 'message', data: 'x' }])
  })
})

describe('Stream', () => {
  afterEach(() => {
    vi.unstubAllGlobals()
    vi.useRealTimers()
  })
  it('resumes after the last id it received', async () => {
    vi.useFakeTimers()
    const bodies = [
      'event: ready\ndata: {"cursor":"5"}\n\nid: 6\nevent: message\ndata: {}\n\n',
      'id: 7\nevent: message\ndata: {}\n\n',
    ]
    const ids: (string | null)[] = []
    vi.stubGlobal('fetch', (_: string, init: { headers: Record<string, string>; signal: AbortSignal }) => {
      ids.push(init.headers['Last-Event-ID'] ?? null)
      const body = bodies.shift()
      if (body === undefined) return new Promise(() => {})
      return Promise.resolve(new Response(body, { headers: { 'Content-Type': 'text/event-stream' } }))
    })
    const stream = new Stream('/v1/events')
    const got: string[] = []
    const stop = stream.listen((f) => got.push(f.id ?? ''))
    await vi.advanceTimersByTimeAsync(5000)
    expect(ids).toEqual([null, '6', '7'])
    expect(got).toEqual(['6', '7'])
    stop()
    expect(stream.state).toBe('off')
  })
  it('gives up when the role is refused', async () => {
    vi.useFakeTimers()
    const sent = vi.fn(() =>
      Promise.resolve(
        new Response('{"code":"scope-missing","title":"x"}', {
          status: 403,
          headers: { 'Content-Type': 'application/problem+json' },
        }),
      ),
    )
    vi.stubGlobal('fetch', sent)
    const stream = new Stream('/v1/events')
    const stop = stream.listen(() => {})
    await vi.advanceTimersByTimeAsync(60_000)
    expect(stream.state).toBe('refused')
    expect(sent).toHaveBeenCalledOnce()
    stop()
  })
  it('waits longer after each failure', async () => {
    vi.useFakeTimers()
    const at: number[] = []
    vi.stubGlobal('fetch', () => {
      at.push(Date.now())
      return Promise.reject(new TypeError('network'))
    })
    const stream = new Stream('/v1/events')
    const stop = stream.listen(() => {})
    await vi.advanceTimersByTimeAsync(60_000)
    expect(stream.state).toBe('reconnecting')
    expect(at.length).toBeGreaterThan(4)
    expect(at.length).toBeLessThan(14)
    stop()
  })
})
