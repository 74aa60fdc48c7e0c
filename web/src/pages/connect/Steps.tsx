import type { Funnel } from '@/api/types'
import { cx } from '@/lib/cx'
import { number, percent, plural } from '@/lib/format'
import { Empty } from '@/ui'

/** How many creators got how far. */
export function Steps({ d }: { d: Funnel }) {
  const steps: [string, number, string][] = [
    ['Opened', d.opened, 'opened a page where they can connect'],
    ['Credentials', d.credentials, 'entered credentials or a session, or requested a QR code'],
    ['Challenge', d.challenge, 'were asked for a code, a selfie or their phone; some creators are not'],
    ['Connected', d.connected, 'connected an account'],
  ]
  const top = Math.max(d.opened, 1)
  if (d.opened === 0)
    return (
      <Empty title="No visits in this period" className="!py-8">
        Send a creator a link, or connect an account here.
      </Empty>
    )
  return (
    <>
      <ol className="space-y-2.5">
        {steps.map(([name, n, what], i) => (
          <li key={name}>
            <div className="flex flex-wrap items-baseline justify-between gap-x-3">
              <span title={what}>{name}</span>
              <span className="text-xs text-mute">
                <span className="font-mono text-fg">{number(n)}</span>
                {i > 0 ? ` · ${percent(n / top, 0)}` : ''}
              </span>
            </div>
            <div className="mt-1 h-2 overflow-hidden rounded-full bg-subtle" aria-hidden>
              <div
                className={cx('h-full rounded-full', i === 3 ? 'bg-ok' : i === 2 ? 'bg-info' : 'bg-accent')}
                style={{ width: `${Math.min(100, (n / top) * 100)}%` }}
              />
            </div>
          </li>
        ))}
      </ol>
      <p className="mt-3 text-xs text-mute">
        {d.linksMade !== undefined ? `${plural(d.linksMade, 'link')} created · ` : ''}
        {number(d.failed)} failed permanently
      </p>
    </>
  )
}
