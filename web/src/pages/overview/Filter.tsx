import { usePlatforms, type SeriesFilter } from '@/api/hooks'
import { useTyped } from '@/lib/filters'
import { shortId } from '@/lib/format'
import { useKeyNames } from '@/shell/keyNames'
import { AccountPicker } from '@/ui/AccountPicker'
import { SearchInput, Select } from '@/ui'

/** The filters of the overview in its URL: what calls are selected by, and the value. */
export interface Selection {
  by: string
  of: string
}

const dimensions: Record<string, keyof SeriesFilter> = {
  key: 'keyId',
  method: 'method',
  account: 'accountId',
  platform: 'platform',
}

/** The filter of a series; empty until a value is chosen. */
export function seriesFilter({ by, of }: Selection): SeriesFilter {
  const name = dimensions[by]
  return name && of ? { [name]: of } : {}
}

export function Filter({ value, onChange }: { value: Selection; onChange: (next: Selection) => void }) {
  const platforms = usePlatforms()
  const keyNames = useKeyNames()
  const set = (of: string) => onChange({ by: value.by, of })
  const [method, setMethod] = useTyped(value.by === 'method' ? value.of : '', (m) => {
    if (value.by === 'method') set(m.trim())
  })
  return (
    <>
      <Select aria-label="Calls of" value={value.by} onChange={(e) => onChange({ by: e.target.value, of: '' })}>
        <option value="">All calls</option>
        <option value="key">One key</option>
        <option value="method">One method</option>
        <option value="account">One account</option>
        {platforms.several || value.by === 'platform' ? <option value="platform">One platform</option> : null}
      </Select>
      {value.by === 'key' ? (
        <Select aria-label="Key" className="w-44" value={value.of} onChange={(e) => set(e.target.value)}>
          <option value="">Choose a key</option>
          {value.of && !keyNames.has(value.of) ? <option value={value.of}>{shortId(value.of)}</option> : null}
          {[...keyNames].map(([id, label]) => (
            <option key={id} value={id}>
              {label}
            </option>
          ))}
        </Select>
      ) : value.by === 'method' ? (
        <SearchInput label="Method" placeholder="messages.send" className="w-44" value={method} onChange={setMethod} />
      ) : value.by === 'account' ? (
        <AccountPicker label="Account" className="w-52" value={value.of || null} onChange={(id) => set(id ?? '')} />
      ) : value.by === 'platform' ? (
        <Select aria-label="Platform" className="w-40" value={value.of} onChange={(e) => set(e.target.value)}>
          <option value="">Choose a platform</option>
          {platforms.list.map((p) => (
            <option key={p.id} value={p.id}>
              {p.name}
            </option>
          ))}
        </Select>
      ) : null}
    </>
  )
}
