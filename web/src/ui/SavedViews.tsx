import { useState, type FormEvent } from 'react'
import { Bookmark } from 'lucide-react'
import { keepViews, savedViews, withoutView, withView } from '@/lib/views'
import { useSession } from '@/shell/session'
import { Button } from './Button'
import { Dialog } from './Dialog'
import { Field } from './Field'
import { Input } from './Input'
import { Menu, MenuItem, MenuLabel, MenuLine } from './Menu'

/** A menu of saved filters of a page. They are kept in this browser. `current` has the filters that are set. */
export function SavedViews({
  page,
  current,
  onOpen,
}: {
  page: string
  current: Record<string, string>
  onOpen: (filters: Record<string, string>) => void
}) {
  const { org } = useSession()
  const [list, setList] = useState(() => savedViews(org.id, page))
  const [naming, setNaming] = useState(false)
  const [name, setName] = useState('')
  const keep = (next: typeof list) => {
    setList(next)
    keepViews(org.id, page, next)
  }
  const same = (filters: Record<string, string>) => {
    const text = (f: Record<string, string>) => JSON.stringify(Object.entries(f).sort())
    return text(filters) === text(current)
  }
  const open = list.find((v) => same(v.filters))
  const save = (e: FormEvent) => {
    e.preventDefault()
    const given = name.trim().slice(0, 60)
    if (!given) return
    keep(withView(list, { name: given, filters: current }))
    setNaming(false)
  }
  return (
    <>
      <Menu trigger={<Button icon={<Bookmark className="size-4" aria-hidden />}>{open ? open.name : 'Views'}</Button>}>
        {list.length > 0 ? <MenuLabel>Saved in this browser</MenuLabel> : null}
        {list.map((v) => (
          <MenuItem key={v.name} checked={v === open} onSelect={() => onOpen(v.filters)}>
            {v.name}
          </MenuItem>
        ))}
        {list.length > 0 ? <MenuLine /> : null}
        <MenuItem
          disabled={Object.keys(current).length === 0}
          hint={Object.keys(current).length === 0 ? 'Set a filter first' : undefined}
          onSelect={() => {
            setName(open?.name ?? '')
            setNaming(true)
          }}
        >
          Save this view
        </MenuItem>
        {open ? (
          <MenuItem danger onSelect={() => keep(withoutView(list, open.name))}>
            Remove “{open.name}”
          </MenuItem>
        ) : null}
      </Menu>
      <Dialog
        open={naming}
        onOpenChange={setNaming}
        size="sm"
        title="Save this view"
        description="The filters are kept in this browser."
        footer={
          <>
            <Button onClick={() => setNaming(false)}>Cancel</Button>
            <Button variant="primary" type="submit" form="save-view" disabled={!name.trim()}>
              Save
            </Button>
          </>
        }
      >
        <form id="save-view" onSubmit={save}>
          <Field label="Name" hint="A view of the same name is replaced.">
            {(p) => <Input {...p} value={name} maxLength={60} onChange={(e) => setName(e.target.value)} />}
          </Field>
        </form>
      </Dialog>
    </>
  )
}
