import { useId } from 'react'
import { cx } from '@/lib/cx'
import { Field, Input, PlatformMark } from '@/ui'
import type { PlaceInput } from './usePlace'

/** Chooses the platform, if there are several. */
export function PlatformChoice({ place }: { place: PlaceInput }) {
  const label = useId()
  if (place.choices.length === 0) return null
  return (
    <div>
      <div id={label} className="mb-1 font-medium">
        Platform
      </div>
      <div role="group" aria-labelledby={label} className="flex flex-wrap gap-2">
        {place.choices.map((p) => {
          const on = p.id === place.platform?.id
          return (
            <button
              key={p.id}
              type="button"
              aria-pressed={on}
              onClick={() => place.choose(p.id)}
              className={cx(
                'flex max-w-full items-center gap-2 rounded-xl border px-3 py-2',
                on ? 'border-accent bg-accent-soft' : 'hover:bg-subtle',
              )}
            >
              <PlatformMark platform={p} className="size-5" />
              <span className="min-w-0 truncate font-medium">{p.name}</span>
            </button>
          )
        })}
      </div>
    </div>
  )
}

/** The creator's site, on a platform where each creator has one. */
export function SiteField({
  place,
  error,
  optional,
}: {
  place: PlaceInput
  error?: string | null | undefined
  optional?: boolean
}) {
  if (!place.needsSite) return null
  return (
    <Field
      label="Site"
      note={optional ? 'optional' : undefined}
      hint={
        optional
          ? 'Without it, the page asks the creator'
          : `Where the creator signs in to ${place.platform?.name ?? 'the platform'}`
      }
      error={error ?? undefined}
    >
      {(p) => (
        <Input
          {...p}
          type="url"
          inputMode="url"
          autoComplete="off"
          spellCheck={false}
          placeholder={place.platform?.siteExample ?? 'https://'}
          value={place.site}
          onChange={(e) => place.setSite(e.target.value)}
        />
      )}
    </Field>
  )
}
