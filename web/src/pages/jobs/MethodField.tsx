import { useState } from 'react'
import { usePlatforms } from '@/api/hooks'
import { Field, Input, Select } from '@/ui'
import { useCatalog } from '../explorer/catalog'

/** Chooses a platform, if there are several, and one of its methods. */
export function MethodField({
  access,
  value,
  onChange,
  error,
}: {
  /** Only reads, or all methods. */
  access: 'read' | 'all'
  value: string
  onChange: (method: string, platform: string) => void
  error?: string | undefined
}) {
  const platforms = usePlatforms()
  const [chosen, setChosen] = useState('')
  const platform = chosen || (platforms.list[0]?.id ?? '')
  const catalog = useCatalog(platforms.loading ? null : platforms.several ? platform : '')
  const names = (catalog.data ?? [])
    .filter((m) => access === 'all' || (m.access === 'read' && /^(list|search)/.test(m.method)))
    .map((m) => `${m.resource}.${m.method}`)
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      {platforms.several ? (
        <Field label="Platform">
          {(p) => (
            <Select
              {...p}
              className="w-full"
              value={platform}
              onChange={(e) => {
                setChosen(e.target.value)
                onChange('', e.target.value)
              }}
            >
              {platforms.list.map((one) => (
                <option key={one.id} value={one.id}>
                  {one.name}
                </option>
              ))}
            </Select>
          )}
        </Field>
      ) : null}
      <Field
        label="Method"
        hint={access === 'read' ? 'A read, such as fans.list' : 'Such as messages.send'}
        error={error ?? (catalog.isError ? 'We could not load the methods. Type the name.' : undefined)}
      >
        {(p) => (
          <>
            <Input
              {...p}
              mono
              list={`${p.id}list`}
              spellCheck={false}
              autoComplete="off"
              placeholder={access === 'read' ? 'fans.list' : 'messages.send'}
              value={value}
              onChange={(e) => onChange(e.target.value.trim(), platform)}
            />
            <datalist id={`${p.id}list`}>
              {names.map((n) => (
                <option key={n} value={n} />
              ))}
            </datalist>
          </>
        )}
      </Field>
    </div>
  )
}
