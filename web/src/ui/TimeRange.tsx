import { useState } from 'react'
import { useUTC } from '@/lib/clock'
import { fromField, toField } from '@/lib/range'
import { Input, Select } from './Input'

const spans: [string, string][] = [
  ['', 'Any time'],
  ['0.25', 'Last 15 minutes'],
  ['1', 'Last hour'],
  ['24', 'Last 24 h'],
  ['168', 'Last 7 days'],
]

export interface Range {
  /** How many hours back; empty if since and until count. */
  hours: string
  since: string
  until: string
}

/** A period: the last hours, or from one time to another. */
export function TimeRange({ value, onChange }: { value: Range; onChange: (next: Range) => void }) {
  const utc = useUTC()
  const [custom, setCustom] = useState(false)
  const shown = custom || value.since !== '' || value.until !== ''
  const field = (label: string, name: 'since' | 'until') => (
    <label className="flex items-center gap-1.5 text-xs text-mute">
      {label}
      <Input
        type="datetime-local"
        className="!w-auto"
        value={value[name] ? toField(value[name], utc) : ''}
        onChange={(e) => onChange({ ...value, hours: '', [name]: fromField(e.target.value, utc) })}
      />
    </label>
  )
  return (
    <div className="flex flex-wrap items-center gap-2">
      <Select
        aria-label="Time"
        value={shown ? 'custom' : value.hours}
        onChange={(e) => {
          const chosen = e.target.value
          setCustom(chosen === 'custom')
          onChange({ hours: chosen === 'custom' ? '' : chosen, since: '', until: '' })
        }}
      >
        {spans.map(([hours, label]) => (
          <option key={hours} value={hours}>
            {label}
          </option>
        ))}
        <option value="custom">From … to</option>
      </Select>
      {shown ? (
        <>
          {field('From', 'since')}
          {field(utc ? 'to (UTC)' : 'to', 'until')}
        </>
      ) : null}
    </div>
  )
}
