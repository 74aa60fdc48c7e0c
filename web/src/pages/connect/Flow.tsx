import { useEffect, useRef, useState, type FormEvent, type ReactNode } from 'react'
import { useMutation } from '@tanstack/react-query'
import { Check, ExternalLink, LoaderCircle } from 'lucide-react'
import { api, call, fill, isProblem, send } from '@/api/client'
import type { Attempt } from '@/api/types'
import { useNow } from '@/lib/clock'
import { cx } from '@/lib/cx'
import { isWebLink, plural } from '@/lib/format'
import { useSession, useWhyNot } from '@/shell/session'
import {
  Badge,
  Button,
  ButtonLink,
  Copy,
  Dot,
  Failed,
  Field,
  Id,
  Input,
  Notice,
  Skeleton,
  State,
  toast,
  type Tone,
} from '@/ui'
import { useAttempt, type Follow } from './useAttempt'
import {
  can,
  channelWords,
  codeProblem,
  countdown,
  creatorReads,
  finished,
  methodOf,
  stepOf,
  steps,
  type Method,
} from './words'

/** 1 Scan → 2 Approve → 3 Done. */
export function Steps({ method, at, failed }: { method: Method; at: number; failed?: boolean }) {
  return (
    <ol className="flex flex-wrap items-center gap-x-2 gap-y-1 text-xs" aria-label="Steps">
      {steps[method].map((name, i) => (
        <li
          key={name}
          aria-current={i === at ? 'step' : undefined}
          className={cx(
            'flex items-center gap-2',
            i === at ? (failed ? 'font-medium text-bad-text' : 'font-medium text-accent-text') : 'text-mute',
          )}
        >
          {i > 0 ? <span aria-hidden>→</span> : null}
          <span>
            {i + 1} {name}
          </span>
        </li>
      ))}
    </ol>
  )
}

export interface FlowProps {
  id: string
  first?: Attempt
  /** Offered after a failure: starts over, with another method if one is given. */
  onAgain?: (method?: Method) => void
  onDone?: (accountId: string) => void
  /** Hides the steps and the footer, for pages that already have them. */
  bare?: boolean
}

/** A live attempt: its current step, or its result. */
export function Flow({ id, first, onAgain, onDone, bare }: FlowProps) {
  const { query, attempt: a, mode, set } = useAttempt(id, first)
  const told = useRef(false)
  useEffect(() => {
    if (a?.state === 'completed_success' && a.account_id && !told.current) {
      told.current = true
      onDone?.(a.account_id)
    }
  }, [a, onDone])
  if (!a) {
    if (query.isError) return <Failed what="the attempt" error={query.error} retry={() => void query.refetch()} />
    return (
      <div role="status" aria-label="Loading" className="space-y-3">
        <Skeleton className="h-4 w-40" />
        <Skeleton className="h-24 w-full" />
      </div>
    )
  }
  const method = methodOf(a.kind)
  return (
    <div className="flex min-w-0 flex-col gap-4">
      {bare ? null : <Steps method={method} at={stepOf(a)} failed={a.state === 'completed_failed'} />}
      {/* Announces changes to screen readers. */}
      <div role="status" className="sr-only">
        {a.state === 'completed_success' ? 'Connected' : a.state === 'completed_failed' ? 'Failed' : heading(a)}
      </div>
      <Body a={a} set={set} onAgain={onAgain} />
      {bare ? null : <Foot a={a} mode={mode} />}
    </div>
  )
}

function heading(a: Attempt): string {
  switch (a.state) {
    case 'needs_otp':
      return 'Check your phone'
    case 'needs_app_otp':
      return 'Open your authenticator app'
    case 'needs_email':
      return 'Check your email'
    case 'wrong_2fa_code_retry':
      return a.otp_channel === 'app'
        ? 'Open your authenticator app'
        : a.otp_channel === 'email'
          ? 'Check your email'
          : 'Check your phone'
    case 'needs_face_otp':
      return 'Take a quick selfie'
    case 'awaiting_mobile_session':
      return a.progress === 'scanned' ? 'Code scanned' : 'Scan with the creator’s phone'
    default:
      return 'Signing in'
  }
}

function Body({ a, set, onAgain }: { a: Attempt; set: (a: Attempt) => void; onAgain: FlowProps['onAgain'] }) {
  switch (a.state) {
    case 'completed_success':
      return <Success a={a} onAgain={onAgain} />
    case 'completed_failed':
      return <Failure a={a} onAgain={onAgain} />
    case 'awaiting_mobile_session':
      return <Scan a={a} set={set} />
    case 'needs_face_otp':
      return <Selfie a={a} set={set} />
    case 'needs_otp':
    case 'needs_app_otp':
    case 'needs_email':
    case 'wrong_2fa_code_retry':
      return <CodeStep a={a} set={set} />
    default:
      // An unknown state may still accept a code.
      return can(a, 'submit_code') ? <CodeStep a={a} set={set} /> : <Pending a={a} set={set} />
  }
}

function Title({ children }: { children: ReactNode }) {
  return <h3 className="text-base font-semibold">{children}</h3>
}

// --- waiting -------------------------------------------------------------------

const waits: [string, string[]][] = [
  ['Contacting the platform', ['queued', 'signing_in']],
  ['Checking the details', ['checking_code', 'awaiting_code', 'awaiting_selfie', 'awaiting_scan', 'scanned']],
  ['Securing the session', ['verifying_session', 'done']],
]

function Pending({ a, set }: { a: Attempt; set: (a: Attempt) => void }) {
  const now = useNow()
  const began = useRef(Date.now())
  const waited = (now - began.current) / 1000
  const at = Math.max(
    0,
    waits.findIndex(([, list]) => list.includes(a.progress)),
  )
  return (
    <div className="space-y-3">
      <Title>Signing in</Title>
      <ul className="space-y-1.5">
        {waits.map(([text], i) => (
          <li key={text} className={cx('flex items-center gap-2', i > at && 'text-mute')}>
            <span className="grid size-4 place-items-center" aria-hidden>
              {i < at ? (
                <Check className="size-4 text-ok" />
              ) : i === at ? (
                <LoaderCircle className="size-4 animate-spin text-accent-text" />
              ) : (
                <Dot tone="neutral" />
              )}
            </span>
            {text}
            <span className="sr-only">{i < at ? ' (done)' : i === at ? ' (now)' : ''}</span>
          </li>
        ))}
      </ul>
      {waited >= 60 ? (
        <p className="text-soft">This is taking longer than usual. Keep waiting, or start again.</p>
      ) : waited >= 8 ? (
        <p className="text-soft">Still working. This can take up to a minute.</p>
      ) : null}
      <Cancel a={a} set={set} />
    </div>
  )
}

function Cancel({ a, set }: { a: Attempt; set: (a: Attempt) => void }) {
  const why = useWhyNot('accounts:write', 'cancel attempts')
  const cancel = useMutation({
    mutationFn: () => api.delete('/v1/connect/login/{attemptId}', { path: { attemptId: a.attempt_id } }),
    onSuccess: (next) => set(next as Attempt),
    onError: toast.problem,
  })
  if (!can(a, 'cancel')) return null
  return (
    <Button
      size="sm"
      variant="ghost"
      className="self-start"
      why={why}
      busy={cancel.isPending}
      onClick={() => cancel.mutate()}
    >
      Cancel
    </Button>
  )
}

// --- codes ---------------------------------------------------------------------

function CodeStep({ a, set }: { a: Attempt; set: (a: Attempt) => void }) {
  const { org } = useSession()
  const why = useWhyNot('accounts:write', 'connect accounts')
  const [code, setCode] = useState('')
  const [error, setError] = useState<string | null>(null)
  const input = useRef<HTMLInputElement>(null)
  const channel = a.otp_channel ?? (a.state === 'needs_app_otp' ? 'app' : a.state === 'needs_email' ? 'email' : 'sms')
  const wrong = a.state === 'wrong_2fa_code_retry'
  const left = a.submissions_remaining
  const submit = useMutation({
    mutationFn: () =>
      api.put('/v1/connect/login/{attemptId}', {
        path: { attemptId: a.attempt_id },
        body: { code: code.replace(/[\s-]/g, '') },
      }),
    onSuccess: (next) => {
      setCode('')
      set(next as Attempt)
      input.current?.focus()
    },
    onError: (e) => setError(isProblem(e) ? (e.field('code') ?? e.detail) : 'Something went wrong. Try again.'),
  })
  const mail = useMutation({
    mutationFn: () =>
      api.post('/v1/connect/login/{attemptId}/send-email-to-creator', { path: { attemptId: a.attempt_id } }),
    onSuccess: (next) => set(next as Attempt),
    onError: toast.problem,
  })
  const go = (e: FormEvent) => {
    e.preventDefault()
    if (why) return
    const bad = codeProblem(code)
    setError(bad)
    if (bad) input.current?.focus()
    else submit.mutate()
  }
  const refused =
    wrong && !error
      ? left !== null && left <= 2
        ? 'That code did not match. After more wrong codes, the platform may lock the account for a while.'
        : 'That code did not match. Check it and try again, or send a new one.'
      : null
  const masked = channel === 'email' ? a.email_mask : a.phone_mask
  const unsent = can(a, 'send_email') && !can(a, 'submit_code')
  return (
    <div className="space-y-3">
      <div>
        <Title>{heading(a)}</Title>
        <p className="mt-0.5 text-soft">
          {channel === 'app' ? (
            'Enter the 6-digit code it shows for the platform.'
          ) : channel === 'email' ? (
            unsent ? (
              <>
                The platform will send a code to {masked ? <strong>{masked}</strong> : 'the creator’s email address'}.
              </>
            ) : (
              <>
                The platform sent a message to {masked ? <strong>{masked}</strong> : 'the creator’s email address'}.
                Enter the code from it.
              </>
            )
          ) : (
            <>
              We asked the platform to text a 6-digit code to{' '}
              {masked ? (
                <>
                  the number ending <strong>{masked}</strong>
                </>
              ) : (
                'the creator’s phone'
              )}
              .
            </>
          )}
        </p>
      </div>
      {unsent ? (
        <Button variant="primary" why={why} busy={mail.isPending} onClick={() => mail.mutate()}>
          Send the email
        </Button>
      ) : (
        <form onSubmit={go} className="space-y-3" noValidate>
          <Field
            label="Security code"
            error={error ?? refused}
            hint={
              channel === 'app'
                ? 'Codes change every 30 seconds. If one is refused, wait for the next.'
                : left !== null && left !== undefined && left < 5
                  ? `${plural(left, 'attempt')} left`
                  : undefined
            }
          >
            {(p) => (
              <Input
                {...p}
                ref={input}
                autoFocus
                mono
                inputMode="numeric"
                autoComplete="one-time-code"
                spellCheck={false}
                className="max-w-48 text-base tracking-widest"
                value={code}
                onChange={(e) => {
                  setCode(e.target.value)
                  setError(null)
                }}
              />
            )}
          </Field>
          <div className="flex flex-wrap items-center gap-2">
            <Button type="submit" variant="primary" why={why} busy={submit.isPending}>
              Continue
            </Button>
            <Resend a={a} set={set} why={why} />
          </div>
        </form>
      )}
      <Channels a={a} set={set} why={why} />
      {org.environment === 'sandbox' && a.platform === 'sandbox' ? (
        <Notice tone="warn">
          Sandbox: <code>123456</code> is correct, <code>000000</code> is wrong, <code>111111</code> has expired.
        </Notice>
      ) : null}
      <Cancel a={a} set={set} />
    </div>
  )
}

function Resend({ a, set, why }: { a: Attempt; set: (a: Attempt) => void; why: string | null }) {
  const now = useNow()
  const [due, setDue] = useState(0)
  // The wait counts from the time of the response.
  useEffect(() => setDue(Date.now() + (a.resend_after_sec ?? 0) * 1000), [a.updated_at, a.resend_after_sec])
  const resend = useMutation({
    mutationFn: () => api.post('/v1/connect/login/{attemptId}/resend', { path: { attemptId: a.attempt_id } }),
    onSuccess: (next) => {
      set(next as Attempt)
      toast.ok('A new code is on its way. Earlier codes stay valid.')
    },
    onError: toast.problem,
  })
  const known = a.resends_remaining !== null && a.resends_remaining !== undefined
  if (known && a.resends_remaining === 0) return <span className="text-mute">No more codes can be sent.</span>
  if (!known && !can(a, 'resend_code')) return null
  const wait = (due - now) / 1000
  if (wait > 0) return <span className="text-mute tabular-nums">Send a new code in {countdown(wait)}</span>
  return (
    <Button variant="ghost" why={why} busy={resend.isPending} onClick={() => resend.mutate()}>
      Not received? Send a new code
    </Button>
  )
}

function Channels({ a, set, why }: { a: Attempt; set: (a: Attempt) => void; why: string | null }) {
  const switchTo = useMutation({
    mutationFn: (channel: 'sms' | 'app' | 'email' | 'face') =>
      api.put('/v1/connect/login/{attemptId}', { path: { attemptId: a.attempt_id }, body: { otp_channel: channel } }),
    onSuccess: (next) => set(next as Attempt),
    onError: toast.problem,
  })
  const others = (a.otp_channels_available ?? []).filter((c) => c !== a.otp_channel && channelWords[c])
  if (!can(a, 'switch_channel') || others.length === 0) return null
  return (
    <div className="flex flex-wrap gap-x-4 gap-y-1">
      {others.map((c) => (
        <button
          key={c}
          type="button"
          className="link underline disabled:opacity-60"
          disabled={Boolean(why) || switchTo.isPending}
          onClick={() => switchTo.mutate(c as 'sms')}
        >
          {channelWords[c]}
        </button>
      ))}
    </div>
  )
}

// --- selfie --------------------------------------------------------------------

function Selfie({ a, set }: { a: Attempt; set: (a: Attempt) => void }) {
  const { org } = useSession()
  const why = useWhyNot('accounts:write', 'connect accounts')
  const [notYet, setNotYet] = useState(false)
  const done = useMutation({
    mutationFn: () =>
      api.put('/v1/connect/login/{attemptId}', {
        path: { attemptId: a.attempt_id },
        body: { selfie_verification_completed: true },
      }),
    onSuccess: (next) => {
      set(next as Attempt)
      setNotYet((next as Attempt).state === 'needs_face_otp')
    },
    onError: toast.problem,
  })
  const url = a.verification_page_url
  return (
    <div className="space-y-3">
      <div>
        <Title>Take a quick selfie</Title>
        <p className="mt-0.5 text-soft">
          The platform wants to confirm that this is the creator. This opens the platform’s own check; {org.name} does
          not receive the photo. Send the creator this page:
        </p>
      </div>
      {url ? <LinkChip url={url} /> : null}
      <div className="flex flex-wrap gap-2">
        {url && isWebLink(url) ? (
          <a
            href={url}
            target="_blank"
            rel="noopener noreferrer"
            className="inline-flex h-8 items-center gap-2 rounded-lg border border-line-strong/80 bg-panel px-3 text-sm font-medium hover:bg-subtle"
          >
            Open the check <ExternalLink className="size-4" aria-hidden />
          </a>
        ) : null}
        <Button variant="primary" why={why} busy={done.isPending} onClick={() => done.mutate()}>
          I have finished the check
        </Button>
      </div>
      {notYet ? (
        <Notice tone="warn">The platform has not confirmed it yet. Finish on the phone, then try again.</Notice>
      ) : null}
      <Channels a={a} set={set} why={why} />
      <Play
        a={a}
        set={set}
        acts={[
          ['pass_selfie', 'Take the selfie'],
          ['fail_selfie', 'Look away'],
        ]}
        what="camera"
      />
      <Cancel a={a} set={set} />
    </div>
  )
}

// --- phone ---------------------------------------------------------------------

function Scan({ a, set }: { a: Attempt; set: (a: Attempt) => void }) {
  const now = useNow()
  const left = a.phone_url_expires_at ? (Date.parse(a.phone_url_expires_at) - now) / 1000 : null
  const seen = a.progress === 'scanned'
  return (
    <div className="space-y-4">
      <div className="flex flex-wrap items-start gap-5">
        <QR id={a.attempt_id} url={a.phone_url} dim={seen} />
        <div className="min-w-0 flex-1 basis-52 space-y-2.5">
          <Title>{heading(a)}</Title>
          {seen ? (
            <p className="text-soft">
              Tap <strong>Approve</strong> in the app.
            </p>
          ) : (
            <ol className="list-decimal space-y-0.5 pl-5 text-soft">
              <li>Open the camera</li>
              <li>Point it at the code</li>
              <li>
                Tap <strong>Approve</strong> in the app
              </li>
            </ol>
          )}
          {left !== null && !seen ? (
            <p className="text-mute">
              The code refreshes in <span className="font-mono tabular-nums">{countdown(left)}</span>
            </p>
          ) : null}
          {a.phone_url ? (
            <>
              <LinkChip url={a.phone_url} />
              <p className="text-xs text-mute">Already on the phone? Send this link instead.</p>
            </>
          ) : null}
        </div>
      </div>
      <Play
        a={a}
        set={set}
        acts={
          seen
            ? [
                ['approve', 'Approve'],
                ['deny', 'Decline'],
              ]
            : [
                ['scan', 'Scan'],
                ['approve', 'Approve'],
                ['deny', 'Decline'],
              ]
        }
        what="phone"
      />
      <Cancel a={a} set={set} />
    </div>
  )
}

/** The phone link as a QR code. It is fetched, because an image tag cannot send the header that names the org. */
function QR({ id, url, dim }: { id: string; url: string | null; dim: boolean }) {
  const [picture, setPicture] = useState<string | null>(null)
  const [failed, setFailed] = useState(false)
  useEffect(() => {
    if (!url) return
    const abort = new AbortController()
    let made: string | null = null
    setFailed(false)
    send('GET', fill('/v1/connect/login/{id}/qr', { id }), {
      headers: { Accept: 'image/svg+xml' },
      signal: abort.signal,
    })
      .then((res) => res.blob())
      .then((blob) => {
        made = URL.createObjectURL(blob)
        setPicture(made)
      })
      .catch(() => {
        if (!abort.signal.aborted) setFailed(true)
      })
    return () => {
      abort.abort()
      if (made) URL.revokeObjectURL(made)
    }
  }, [id, url])
  return (
    <div className="grid size-40 shrink-0 place-items-center rounded-lg bg-white p-2 ring-1 ring-line">
      {picture && url ? (
        <img
          src={picture}
          alt="QR code to scan with the creator’s phone"
          className={cx('size-full', dim && 'opacity-25')}
        />
      ) : !url ? (
        <span className="px-2 text-center text-xs text-zinc-600">Your role cannot see this code.</span>
      ) : failed ? (
        <span className="px-2 text-center text-xs text-zinc-600">
          We could not load the QR code. Send the link instead.
        </span>
      ) : (
        <span className="size-full animate-pulse rounded bg-zinc-100" role="status" aria-label="Loading the QR code" />
      )}
    </div>
  )
}

function LinkChip({ url }: { url: string }) {
  const shown = url.replace(/^https?:\/\//, '')
  return (
    <span className="flex max-w-full items-center gap-1 rounded-lg bg-subtle py-0.5 pr-1 pl-2.5">
      <span className="min-w-0 flex-1 truncate font-mono text-xs" title="Copy copies the full link">
        {shown.length > 34 ? `${shown.slice(0, 26)}…${shown.slice(-4)}` : shown}
      </span>
      <Copy text={url} label="Copy link" />
    </span>
  )
}

// The sandbox has no creator with a phone, so the user plays that part.
function Play({
  a,
  set,
  acts,
  what,
}: {
  a: Attempt
  set: (a: Attempt) => void
  acts: [string, string][]
  what: string
}) {
  const { org } = useSession()
  const why = useWhyNot('accounts:write', 'play the creator')
  const play = useMutation({
    mutationFn: (to: string) =>
      call<Attempt>('POST', fill('/v1/sandbox/attempts/{id}/advance', { id: a.attempt_id }), { body: { to } }),
    onSuccess: (next) => {
      if (next && typeof next === 'object' && 'attempt_id' in next) set(next)
    },
    onError: toast.problem,
  })
  if (org.environment !== 'sandbox') return null
  return (
    <Notice
      tone="warn"
      action={
        <span className="flex flex-wrap gap-2">
          {acts.map(([to, text]) => (
            <Button
              key={to}
              size="sm"
              why={why}
              busy={play.isPending && play.variables === to}
              onClick={() => play.mutate(to)}
            >
              {text}
            </Button>
          ))}
        </span>
      }
    >
      Sandbox: play the creator’s {what}.
    </Notice>
  )
}

// --- ends ----------------------------------------------------------------------

function Success({ a, onAgain }: { a: Attempt; onAgain: FlowProps['onAgain'] }) {
  return (
    <div className="space-y-3">
      <div className="flex items-start gap-3">
        <span className="grid size-8 shrink-0 place-items-center rounded-full bg-ok-soft text-ok-text" aria-hidden>
          <Check className="size-4" />
        </span>
        <div className="min-w-0">
          <Title>{a.reconnect ? 'Reconnected' : 'Connected'}</Title>
          <p className="text-soft">
            {a.label ? <strong className="break-words">{a.label}</strong> : 'The account'} is ready to use through the
            API.
          </p>
          {a.account_id ? <Id id={a.account_id} /> : null}
        </div>
      </div>
      <div className="flex flex-wrap gap-2">
        {a.account_id ? (
          <ButtonLink variant="primary" to="/accounts/$id" params={{ id: a.account_id }}>
            Open the account
          </ButtonLink>
        ) : null}
        {a.account_id ? (
          <ButtonLink to="/explorer" search={{ account: a.account_id }}>
            Try a call
          </ButtonLink>
        ) : null}
        {onAgain && !a.reconnect ? <Button onClick={() => onAgain()}>Connect another</Button> : null}
      </div>
    </div>
  )
}

function Failure({ a, onAgain }: { a: Attempt; onAgain: FlowProps['onAgain'] }) {
  const f = a.failure as Attempt['failure'] | null
  const reads = f ? creatorReads(f.code) : null
  return (
    <div className="space-y-3">
      <div>
        <Title>We could not connect the account</Title>
        <p className="mt-0.5 text-soft">{f?.message ?? 'The attempt failed.'} Nothing was saved.</p>
      </div>
      {f ? (
        <dl className="grid grid-cols-[minmax(88px,auto)_minmax(0,1fr)] gap-x-4 gap-y-1">
          <dt className="text-mute">Code</dt>
          <dd>
            <code className="text-xs">{f.code}</code> {f.retryable ? <Badge tone="info">can be retried</Badge> : null}
          </dd>
          {reads ? (
            <>
              <dt className="text-mute">Creator sees</dt>
              <dd className="break-words">“{reads}”</dd>
            </>
          ) : null}
          {f.upstream_message || f.upstream_code ? (
            <>
              <dt className="text-mute">Platform said</dt>
              <dd className="break-words">{[f.upstream_code, f.upstream_message].filter(Boolean).join(' · ')}</dd>
            </>
          ) : null}
        </dl>
      ) : null}
      {f?.retry_after_sec ? (
        <p className="text-mute">Wait {plural(f.retry_after_sec, 'second')} before you try again.</p>
      ) : null}
      {onAgain ? (
        <div className="flex flex-wrap gap-2">
          <Button variant="primary" onClick={() => onAgain()}>
            Try again
          </Button>
          {can(a, 'use_mobile_app') && a.kind !== 'mobile_app' ? (
            <Button onClick={() => onAgain('mobile')}>Use the creator’s phone</Button>
          ) : null}
        </div>
      ) : null}
    </div>
  )
}

const feet: Record<string, [string, Tone]> = {
  awaiting_mobile_session: ['Waiting for approval', 'info'],
  pending: ['Working', 'info'],
  completed_success: ['Connected', 'ok'],
  completed_failed: ['Failed', 'bad'],
}

function Foot({ a, mode }: { a: Attempt; mode: Follow }) {
  const [text, tone] = feet[a.state] ?? ['Waiting for the creator', 'info']
  return (
    <div
      className={cx(
        'flex min-w-0 flex-wrap items-center gap-x-2 rounded-lg px-3 py-1.5 text-xs',
        tone === 'ok'
          ? 'bg-ok-soft text-ok-text'
          : tone === 'bad'
            ? 'bg-bad-soft text-bad-text'
            : 'bg-info-soft text-info-text',
      )}
    >
      <Dot tone={tone} className={finished(a) ? '' : 'animate-pulse'} />
      <span>
        {text}
        {mode === 'polling' ? ' (live updates are down; polling every few seconds)' : ''} · attempt
      </span>
      <Id id={a.attempt_id} short className="!text-current [&_button]:!text-current" />
    </div>
  )
}

/** The state of an attempt in a word, for lists. */
export function AttemptState({ a }: { a: Pick<Attempt, 'state'> }) {
  return <State state={a.state === 'pending' ? 'in_progress' : a.state} />
}
