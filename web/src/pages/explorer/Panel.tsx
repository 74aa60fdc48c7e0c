import { useEffect, useMemo, useRef, useState } from 'react'
import { Link } from '@tanstack/react-router'
import { Play } from 'lucide-react'
import { idempotent, isProblem, ProblemError, send, type Problem } from '@/api/client'
import type { Account } from '@/api/types'
import { millis, plural } from '@/lib/format'
import { useSession, useWhyNot } from '@/shell/session'
import { useShortcut } from '@/shell/shortcuts'
import {
  Badge,
  Button,
  Card,
  Checkbox,
  CodeBlock,
  Confirm,
  Copy,
  Empty,
  Field,
  Id,
  Json,
  Notice,
  ProblemDoc,
  Segments,
  Skeleton,
  Status,
  Textarea,
} from '@/ui'
import type { FullMethod } from './catalog'
import { codeOf, requestOf } from './code'
import { Fields } from './Form'
import { record } from './history'
import { check, clean, positional, translate, type Types } from './schema'

type Values = Record<string, unknown>
interface Draft {
  values: Values
  raw: string | null
  form: 'name' | 'position'
  /** Whether the user has changed anything. If so, the example no longer replaces it. */
  touched: boolean
}

// The input for a method is kept while the tab is open, even when another method is shown.
const drafts = new Map<string, Draft>()

/** Makes a body from the history the draft of its method. */
export function adopt(org: string, platform: string, name: string, body: unknown): void {
  const named = isNamed(body)
  drafts.set(`${org} ${platform} ${name}`, {
    values: named ? body : {},
    raw: named || body === undefined ? null : JSON.stringify(body, null, 2),
    form: 'name',
    touched: true,
  })
  for (const f of adopted) f()
}
const adopted = new Set<() => void>()

function isNamed(body: unknown): body is Values {
  return typeof body === 'object' && body !== null && !Array.isArray(body) && !Array.isArray((body as Values)['args'])
}

// The catalogue's examples use the ids of this sandbox creator.
const exampleCreator = '343826782'

interface Answer {
  status: number
  ms: number
  upstreamMs: number | null
  requestId: string | null
  body: unknown
  problem: Problem | null
}

export function Panel({
  method: m,
  types,
  account,
  platform,
}: {
  method: FullMethod
  types: Types
  account: Account | null
  platform: string
}) {
  const { org } = useSession()
  const name = `${m.resource}.${m.method}`
  const slot = `${org.id} ${platform} ${name}`
  const sandbox = org.environment === 'sandbox'
  const example = useMemo<Values>(() => {
    const given = m.example ?? {}
    return account?.ofUserId && sandbox ? (translate(given, exampleCreator, account.ofUserId) as Values) : given
  }, [m.example, account?.ofUserId, sandbox])
  const fresh = useMemo<Draft>(
    () => ({ values: sandbox ? example : {}, raw: null, form: 'name', touched: false }),
    [example, sandbox],
  )
  const [draft, setDraft] = useState<Draft>(() => drafts.get(slot) ?? fresh)
  const [tried, setTried] = useState(false)
  const [refused, setRefused] = useState<Record<string, string>>({})
  const [dry, setDry] = useState(false)
  const [busy, setBusy] = useState(false)
  const [asking, setAsking] = useState(false)
  const [answer, setAnswer] = useState<Answer | null>(null)
  const shown = draft.touched ? draft : fresh
  const change = (patch: Partial<Draft>) => {
    const next = { ...shown, ...patch, touched: true }
    drafts.set(slot, next)
    setDraft(next)
    setRefused({})
  }
  useEffect(() => {
    const f = () => setDraft(drafts.get(slot) ?? fresh)
    adopted.add(f)
    return () => {
      adopted.delete(f)
    }
  }, [slot, fresh])

  const values = clean(shown.values) as Values
  const made = shown.form === 'position' && m.positional?.length ? { args: positional(m.positional, values) } : values
  let raw: { ok: true; body: unknown } | { ok: false; why: string } | null = null
  if (shown.raw !== null) {
    try {
      raw = { ok: true, body: shown.raw.trim() === '' ? {} : JSON.parse(shown.raw) }
    } catch (e) {
      raw = { ok: false, why: e instanceof Error ? e.message : 'not JSON' }
    }
  }
  const body = raw ? (raw.ok ? raw.body : undefined) : made
  const accountId = account?.id ?? 'ACCOUNT_ID'
  const request = requestOf(m.resource, m.method, accountId, m.access, body)
  const wrong = tried && !raw ? check(m.args, values, types) : {}
  const errors = { ...wrong, ...refused }
  const noScope = useWhyNot('sdk:call', 'call methods')
  const why = noScope ?? (account ? null : 'Choose an account first.')

  const latest = useRef(0)
  const answerBox = useRef<HTMLDivElement>(null)
  const run = async () => {
    if (!account) return
    const mine = ++latest.current
    setBusy(true)
    setRefused({})
    const started = performance.now()
    const headers: Record<string, string> = {
      ...(m.access === 'write' && !m.idempotent ? idempotent() : {}),
      ...(dry ? { 'X-Dry-Run': 'true' } : {}),
    }
    let got: Answer
    try {
      const res = await send(request.method, request.path, {
        ...(request.body !== undefined ? { body: request.body } : {}),
        headers,
      })
      const ms = performance.now() - started
      const text = await res.text()
      got = {
        status: res.status,
        ms,
        upstreamMs: Number(res.headers.get('X-Upstream-Duration-Ms')) || null,
        requestId: res.headers.get('X-Request-Id'),
        body: parsed(text),
        problem: null,
      }
    } catch (e) {
      const p = isProblem(e)
        ? e
        : new ProblemError({ code: 'unreachable', status: 0, title: 'The call did not reach the server' }, null)
      got = {
        status: p.status,
        ms: performance.now() - started,
        upstreamMs: null,
        requestId: p.requestId,
        body: p.problem,
        problem: p.problem,
      }
    }
    record({
      org: org.id,
      name,
      access: m.access,
      account: account.id,
      accountName: account.label || account.displayName || account.id,
      platform,
      body: request.body,
      status: got.status,
      ms: got.ms,
      requestId: got.requestId,
      code: got.problem?.code ?? null,
      dryRun: dry,
    })
    if (mine !== latest.current) return
    setAnswer(got)
    setBusy(false)
    // On a narrow screen, or below a long form, the response may be out of view.
    requestAnimationFrame(() => {
      const box = answerBox.current?.getBoundingClientRect()
      if (box && (box.top < 60 || box.top > window.innerHeight - 120))
        answerBox.current?.scrollIntoView({
          block: 'start',
          behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth',
        })
    })
    setRefused(Object.fromEntries((got.problem?.errors ?? []).map((x) => [x.pointer, x.detail])))
  }
  const start = () => {
    setTried(true)
    if (why || busy || (raw && !raw.ok)) return
    if (!raw && Object.keys(check(m.args, values, types)).length > 0) return
    if (!sandbox && m.access === 'write' && !dry) setAsking(true)
    else void run()
  }
  useShortcut('r', `Run ${name}`, start)

  const fields = Object.keys(m.args.properties ?? {}).length
  return (
    <div className="grid min-w-0 items-start gap-3 lg:grid-cols-2">
      <Card className="min-w-0">
        <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <h2 className="font-mono text-sm font-semibold break-all">{name}</h2>
          <Badge tone={m.access === 'write' ? 'warn' : 'info'}>{m.access}</Badge>
          {m.destructive ? <Badge tone="bad">cannot be undone</Badge> : null}
          {m.sensitive ? <Badge tone="warn">money or legal data</Badge> : null}
          {m.async ? <Badge>asynchronous</Badge> : null}
          {m.deprecated ? <Badge tone="bad">deprecated, removed in {m.deprecated}</Badge> : null}
          <Copy text={name} label={`Copy ${name}`} className="-my-1" />
        </div>
        <div className="flex flex-wrap items-start gap-x-3">
          <p className="min-w-0 flex-1 basis-40 text-mute">{m.description}</p>
          {fields > 0 ? (
            <span className="-mr-2 flex shrink-0">
              {m.example && Object.keys(m.example).length > 0 ? (
                <Button
                  size="sm"
                  variant="ghost"
                  onClick={() =>
                    change({ values: example, raw: shown.raw === null ? null : JSON.stringify(example, null, 2) })
                  }
                >
                  Example
                </Button>
              ) : null}
              <Button
                size="sm"
                variant="ghost"
                onClick={() => change({ values: {}, raw: shown.raw === null ? null : '{}' })}
              >
                Clear
              </Button>
            </span>
          ) : null}
        </div>
        {m.emits && m.emits.length > 0 ? (
          <p className="mt-1 text-xs text-mute">
            Usually emits{' '}
            {m.emits.map((e, i) => (
              <span key={e}>
                {i > 0 ? ', ' : ''}
                <code>{e}</code>
              </span>
            ))}
            .
          </p>
        ) : null}
        <div className="my-3 flex flex-wrap items-center gap-2">
          <Segments
            label="Argument format"
            value={shown.raw === null ? 'form' : 'json'}
            items={[
              { value: 'form', label: 'Form' },
              { value: 'json', label: 'JSON' },
            ]}
            onChange={(v) => {
              if (v === 'json') {
                if (shown.raw === null) change({ raw: JSON.stringify(made, null, 2) })
              } else if (raw) change({ raw: null, ...(raw.ok && isNamed(raw.body) ? { values: raw.body } : {}) })
            }}
          />
          {shown.raw === null && m.positional && m.positional.length > 0 ? (
            <Segments
              label="Body format"
              value={shown.form}
              items={[
                { value: 'name', label: 'By name' },
                { value: 'position', label: 'By position' },
              ]}
              onChange={(form) => change({ form: form as Draft['form'] })}
            />
          ) : null}
        </div>
        <form
          noValidate
          onSubmit={(e) => {
            e.preventDefault()
            start()
          }}
        >
          {raw ? (
            <Field label="Body" note="JSON" error={raw.ok ? undefined : `This is not valid JSON: ${raw.why}`}>
              {(p) => (
                <Textarea
                  {...p}
                  mono
                  rows={12}
                  spellCheck={false}
                  value={shown.raw ?? ''}
                  onChange={(e) => change({ raw: e.target.value })}
                />
              )}
            </Field>
          ) : fields === 0 ? (
            <p className="text-mute">This method takes no arguments.</p>
          ) : (
            <Fields
              schema={m.args}
              types={types}
              value={shown.values}
              onChange={(v) => change({ values: v })}
              errors={errors}
              example={example}
            />
          )}
          <div className="mt-4 flex flex-wrap items-center gap-x-3 gap-y-2">
            <Button
              type="submit"
              variant="primary"
              icon={<Play className="size-4" aria-hidden />}
              busy={busy}
              why={why}
            >
              {sandbox ? 'Run in sandbox' : m.access === 'write' ? 'Run live…' : 'Run live'}
            </Button>
            <span className="text-mute">{dry ? 'costs nothing' : `costs ${plural(m.cost, `${m.access} call`)}`}</span>
            <Checkbox
              label="Dry run"
              title="Checks key, arguments, account and limits, and sends nothing to the platform"
              checked={dry}
              onChange={(e) => setDry(e.target.checked)}
              className="ml-auto"
            />
            {dry ? (
              <p className="basis-full text-xs text-mute">
                Checks the key, the arguments, the account and the limits. Nothing is sent to the platform.
              </p>
            ) : null}
            {noScope || (why && tried) ? (
              <Notice tone="warn" className="basis-full">
                {why}
              </Notice>
            ) : null}
            {tried && Object.keys(wrong).length > 0 ? (
              <p className="basis-full text-xs text-bad-text">
                {plural(Object.keys(wrong).length, 'argument needs', 'arguments need')} attention, see above.
              </p>
            ) : null}
          </div>
        </form>
      </Card>
      <div className="min-w-0 space-y-3">
        {raw && !raw.ok ? (
          <Card>
            <p className="text-mute">The code appears when the body is valid JSON.</p>
          </Card>
        ) : (
          <CodeBlock snippets={codeOf(name, accountId, request)} />
        )}
        <div ref={answerBox} className="scroll-mt-16">
          <AnswerCard answer={answer} busy={busy} />
        </div>
        <details className="card group">
          <summary className="cursor-pointer px-4 py-2.5 font-medium">Result schema</summary>
          <div className="px-4 pb-4">
            <Json value={m.result} label="result schema" open={2} />
          </div>
        </details>
      </div>
      <Confirm
        open={asking}
        onOpenChange={setAsking}
        title={`Run ${name} in the live organisation?`}
        action={m.destructive ? 'Run it' : 'Run'}
        danger={m.destructive}
        run={run}
      >
        <p>
          This makes a real change to <strong>{account?.label || account?.displayName || account?.id}</strong>, an
          account of <strong>{org.name}</strong>.{m.destructive ? ' You cannot undo it.' : ''}
        </p>
        <p>It costs {plural(m.cost, `${m.access} call`)}. To check it without sending anything, use Dry run.</p>
      </Confirm>
    </div>
  )
}

function parsed(text: string): unknown {
  if (text === '') return null
  try {
    return JSON.parse(text) as unknown
  } catch {
    return text
  }
}

function AnswerCard({ answer, busy }: { answer: Answer | null; busy: boolean }) {
  return (
    <Card flush className="min-w-0">
      <div
        className="flex min-h-11 flex-wrap items-center gap-x-3 gap-y-1 border-b px-4 py-1.5"
        role="status"
        aria-label="Response"
      >
        {busy ? (
          <Skeleton className="h-5 w-40" />
        ) : answer ? (
          <>
            <Status status={answer.status} />
            <span className="font-mono text-xs text-mute">
              {millis(answer.ms)}
              {answer.upstreamMs !== null ? (
                <span title="Time taken by the platform and the route to it">
                  {' '}
                  · platform {millis(answer.upstreamMs)}
                </span>
              ) : null}
            </span>
            {answer.requestId ? (
              <span className="ml-auto flex min-w-0 items-center gap-2">
                <Link to="/logs/$id" params={{ id: answer.requestId }} className="link text-xs">
                  Log
                </Link>
                <Id id={answer.requestId} short />
              </span>
            ) : null}
          </>
        ) : (
          <span className="text-mute">Response</span>
        )}
      </div>
      <div className="p-3">
        {busy && !answer ? (
          <div className="space-y-2 p-1">
            <Skeleton className="h-4 w-2/3" />
            <Skeleton className="h-4 w-1/2" />
            <Skeleton className="h-4 w-3/5" />
          </div>
        ) : answer ? (
          <>
            <Json value={answer.body} label="response" />
            {answer.problem ? <ProblemDoc code={answer.problem.code} className="mt-3 border-t pt-3" /> : null}
          </>
        ) : (
          <Empty title="Not run yet" className="!py-8">
            Press Run, or <kbd className="rounded border bg-subtle px-1 text-xs">r</kbd>.
          </Empty>
        )}
      </div>
    </Card>
  )
}
