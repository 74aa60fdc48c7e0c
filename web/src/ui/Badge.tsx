import type { ReactNode } from 'react'
import { tones } from '@/api/facts'
import { cx } from '@/lib/cx'
import { words } from '@/lib/format'
import type { Tone } from './Notice'

const backgrounds: Record<Tone, string> = {
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
        backgrounds[tone],
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

// The display names of states that are not just their own words.
const names: Record<string, string> = {
  // accounts
  active: 'Connected',
  reauthenticating: 'Signing in again',
  // attempts and links
  awaiting_mobile_session: 'Waiting for the phone',
  needs_otp: 'Waiting for a code',
  needs_app_otp: 'Waiting for an app code',
  needs_email: 'Waiting for the email',
  needs_face_otp: 'Waiting for a selfie',
  wrong_2fa_code_retry: 'Wrong code',
  completed_success: 'Connected',
  completed_failed: 'Failed',
  success: 'Connected',
}

export function stateTone(state: string): Tone {
  return (tones as Record<string, Tone>)[state] ?? 'neutral'
}

/** The state of an account, webhook, delivery, attempt or link: always a word and a dot. */
export function State({ state, dot = true }: { state: string; dot?: boolean }) {
  return (
    <Badge tone={stateTone(state)} dot={dot}>
      {stateWord(state)}
    </Badge>
  )
}

export function stateWord(state: string): string {
  return names[state] ?? words(state)
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
