import { useState } from 'react'
import { X } from 'lucide-react'
import { useAccountNames } from '@/api/names'
import { plural } from '@/lib/format'
import { AccountPicker } from './AccountPicker'
import { Field } from './Field'

/** Chooses some accounts, by their ids. */
export function AccountList({
  label = 'Accounts',
  value,
  onChange,
  most,
  platform,
  error,
  className,
}: {
  label?: string
  value: readonly string[]
  onChange: (ids: string[]) => void
  most: number
  /** Only accounts on this platform. */
  platform?: string
  error?: string | undefined
  className?: string
}) {
  const known = useAccountNames()
  // The names of accounts that were picked here, which useAccountNames may not know.
  const [picked, setPicked] = useState<Record<string, string>>({})
  const name = (id: string) => picked[id] ?? known(id)
  return (
    <div className={className}>
      <Field label={label} error={error} hint={`${plural(value.length, 'account')}, at most ${most}`}>
        {(p) => (
          <AccountPicker
            id={p.id}
            aria-describedby={p['aria-describedby']}
            value={null}
            placeholder="Add an account"
            without={value}
            {...(platform ? { platform } : {})}
            onChange={(_, a) => {
              if (!a || value.length >= most) return
              setPicked((old) => ({ ...old, [a.id]: a.label || a.displayName || a.id }))
              onChange([...value, a.id])
            }}
          />
        )}
      </Field>
      {value.length > 0 ? (
        <ul className="mt-2 flex max-h-40 flex-wrap gap-1.5 overflow-y-auto">
          {value.map((id) => (
            <li
              key={id}
              className="inline-flex max-w-full items-center gap-1 rounded-full bg-subtle py-0.5 pr-1 pl-2.5 text-xs"
            >
              <span className="truncate">{name(id)}</span>
              <button
                type="button"
                aria-label={`Remove ${name(id)}`}
                className="grid size-6 place-items-center rounded-full text-mute hover:text-fg"
                onClick={() => onChange(value.filter((x) => x !== id))}
              >
                <X className="size-3.5" aria-hidden />
              </button>
            </li>
          ))}
        </ul>
      ) : null}
    </div>
  )
}
