import { Field, Input, Select } from '@/ui'

const day = 86_400_000
const choices: [string, string, number | null][] = [
  ['never', 'Never', null],
  ['7', 'In 7 days', 7],
  ['30', 'In 30 days', 30],
  ['90', 'In 90 days', 90],
  ['365', 'In a year', 365],
  ['date', 'On a date…', null],
]

export interface Expiry {
  /** keep, never, a number of days, or date. */
  choice: string
  date: string
}

/** When a key ends: null for never, undefined if it stays as it is. */
export function expiryOf({ choice, date }: Expiry): string | null | undefined {
  if (choice === 'keep') return undefined
  if (choice === 'date') return date ? new Date(`${date}T23:59:59Z`).toISOString() : undefined
  const days = choices.find(([v]) => v === choice)?.[2] ?? null
  return days === null ? null : new Date(Date.now() + days * day).toISOString()
}

/** Chooses when a key ends. `keep` is the text of an option that changes nothing. */
export function ExpiryField({
  value,
  onChange,
  keep,
  error,
}: {
  value: Expiry
  onChange: (expiry: Expiry) => void
  keep?: string
  error?: string | undefined
}) {
  return (
    <Field label="Expires" error={error}>
      {(p) => (
        <>
          <Select
            {...p}
            className="w-full"
            value={value.choice}
            onChange={(e) => onChange({ ...value, choice: e.target.value })}
          >
            {keep ? <option value="keep">{keep}</option> : null}
            {choices.map(([v, text]) => (
              <option key={v} value={v}>
                {text}
              </option>
            ))}
          </Select>
          {value.choice === 'date' ? (
            <Input
              type="date"
              aria-label="Expires on"
              className="mt-2"
              min={new Date().toISOString().slice(0, 10)}
              value={value.date}
              onChange={(e) => onChange({ ...value, date: e.target.value })}
            />
          ) : null}
        </>
      )}
    </Field>
  )
}
