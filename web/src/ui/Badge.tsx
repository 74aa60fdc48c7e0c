import type { ReactNode } from 'react'
import { cx } from '@/lib/cx'
import { words } from '@/lib/format'
import type { Tone } from './Notice'

const tones: Record<Tone, string> = {
  neutral: 'bg-subtle text-soft',
  ok: 'bg-ok-soft text-ok-text',
  warn: 'bg-warn-soft text-warn-text',
  bad: 'bg-bad-soft text-bad-text',
  info: 'bg-info-soft text-info-text',
  accent: 'bg-accent-soft text-accent-text',
}
const dots: Record<Tone, string> = {
  neutral: 'bg-mute',
  ok: 'bg-ok',
  warn: 'bg-warn',
  bad: 'bg-bad',
  info: 'bg-info',
  accent: 'bg-accent',
}

/** A word on a coloured background. */
export function Badge({
  tone = 'neutral',
  dot,
  mono,
  children,
  className,
}: {
  tone?: Tone
  dot?: boolean
  mono?: boolean
  children: ReactNode
  className?: string
}) {
  return (
    <span
      className={cx(
        'inline-flex max-w-full items-center gap-1.5 rounded-full px-2 py-0.5 text-xs font-medium whitespace-nowrap',
        mono && 'font-mono font-normal',
        tones[tone],
        className,
      )}
    >
      {dot ? <span className={cx('size-1.5 shrink-0 rounded-full', dots[tone])} aria-hidden /> : null}
      <span className="truncate">{children}</span>
    </span>
  )
}

export function Dot({ tone, className }: { tone: Tone; className?: string }) {
  return <span className={cx('inline-block size-1.5 shrink-0 rounded-full', dots[tone], className)} aria-hidden />
}

// The display names of account, webhook, delivery, attempt and link states.
const known: Record<string, [string, Tone]> = {
  // accounts
  active: ['Connected', 'ok'],
  degraded: ['Degraded', 'warn'],
  reconnect_required: ['Reconnect required', 'bad'],
  connecting: ['Connecting', 'info'],
  reauthenticating: ['Signing in again', 'info'],
  restricted: ['Restricted', 'warn'],
  disconnected: ['Disconnected', 'neutral'],
  // webhooks
  healthy: ['Healthy', 'ok'],
  failing: ['Failing', 'bad'],
  paused: ['Paused', 'neutral'],
  disabled: ['Disabled', 'neutral'],
  lagging: ['Lagging', 'warn'],
  none: ['None', 'neutral'],
  // deliveries
  delivered: ['Delivered', 'ok'],
  failed: ['Failed', 'bad'],
  pending: ['Pending', 'info'],
  // attempts and links
  awaiting_mobile_session: ['Waiting for the phone', 'info'],
  needs_otp: ['Waiting for a code', 'info'],
  needs_app_otp: ['Waiting for an app code', 'info'],
  needs_email: ['Waiting for the email', 'info'],
  needs_face_otp: ['Waiting for a selfie', 'info'],
  wrong_2fa_code_retry: ['Wrong code', 'warn'],
  completed_success: ['Connected', 'ok'],
  completed_failed: ['Failed', 'bad'],
  open: ['Open', 'info'],
  in_progress: ['In progress', 'info'],
  success: ['Connected', 'ok'],
  exited: ['Exited', 'neutral'],
  expired: ['Expired', 'neutral'],
}

/** The state of an account, webhook, delivery, attempt or link: always a word and a dot. */
export function State({ state, dot = true }: { state: string; dot?: boolean }) {
  const [text, tone] = known[state] ?? [words(state), 'neutral']
  return (
    <Badge tone={tone} dot={dot}>
      {text}
    </Badge>
  )
}

export function stateWord(state: string): string {
  return known[state]?.[0] ?? words(state)
}

/** An HTTP status, coloured by its class. */
export function Status({ status }: { status: number | null | undefined }) {
  if (!status) return <Badge tone="bad">none</Badge>
  const tone: Tone = status < 300 ? 'ok' : status < 400 ? 'neutral' : status < 500 ? 'warn' : 'bad'
  return (
    <Badge tone={tone} mono>
      {status}
    </Badge>
  )
}
