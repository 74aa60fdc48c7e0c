import type { ReactNode } from 'react'
import { cx } from '@/lib/cx'

export type Tone = 'neutral' | 'ok' | 'warn' | 'bad' | 'info' | 'accent'

const tones: Record<Tone, string> = {
  neutral: 'bg-subtle text-soft',
  ok: 'bg-ok-soft text-ok-text',
  warn: 'bg-warn-soft text-warn-text',
  bad: 'bg-bad-soft text-bad-text',
  info: 'bg-info-soft text-info-text',
  accent: 'bg-accent-soft text-accent-text',
}

/** A coloured box with a message. Screen readers announce `bad` immediately. */
export function Notice({
  tone = 'info',
  icon,
  action,
  children,
  className,
}: {
  tone?: Tone
  icon?: ReactNode
  action?: ReactNode
  children: ReactNode
  className?: string
}) {
  return (
    <div
      role={tone === 'bad' ? 'alert' : 'status'}
      className={cx('flex flex-wrap items-center gap-x-3 gap-y-2 rounded-lg px-3 py-2', tones[tone], className)}
    >
      {icon}
      <div className="min-w-0 flex-1 basis-48 break-words">{children}</div>
      {action}
    </div>
  )
}
