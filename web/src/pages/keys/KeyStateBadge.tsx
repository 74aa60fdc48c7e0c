import type { Key } from '@/api/types'
import { Badge, Time } from '@/ui'
import { expiresSoon, keyState, type KeyState } from './scopes'

const stateBadge: Record<KeyState, { tone: 'ok' | 'warn' | 'neutral'; text: string }> = {
  active: { tone: 'ok', text: 'Active' },
  expired: { tone: 'warn', text: 'Expired' },
  revoked: { tone: 'neutral', text: 'Revoked' },
}

export function KeyStateBadge({ k }: { k: Key }) {
  const s = stateBadge[keyState(k)]
  return (
    <span className="inline-flex flex-wrap items-center gap-x-2">
      <Badge tone={s.tone} dot>
        {s.text}
      </Badge>
      {keyState(k) === 'active' && k.expiresAt ? (
        <span className={`text-xs whitespace-nowrap ${expiresSoon(k) ? 'font-medium text-warn-text' : 'text-mute'}`}>
          {k.replacedBy ? 'replaced, ends' : 'expires'} <Time at={k.expiresAt} />
        </span>
      ) : null}
    </span>
  )
}
