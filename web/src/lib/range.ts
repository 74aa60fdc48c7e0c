// Times as the browser's date fields write them: "2026-11-19T21:05", in UTC or in local time.

const two = (n: number) => String(n).padStart(2, '0')

/** The text of a date field for a time; empty for an invalid one. */
export function toField(iso: string, utc: boolean): string {
  const d = new Date(iso)
  if (Number.isNaN(d.getTime())) return ''
  return utc
    ? d.toISOString().slice(0, 16)
    : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${two(d.getHours())}:${two(d.getMinutes())}`
}

/** The time in a date field, as the API reads it; empty if there is none. */
export function fromField(text: string, utc: boolean): string {
  const d = new Date(utc && text ? text + 'Z' : text)
  return Number.isNaN(d.getTime()) ? '' : d.toISOString()
}
