import { useEffect, useState } from 'react'
import { Plus, Trash2 } from 'lucide-react'
import { isProblem } from '@/api/client'
import { useSession, useWhyNot } from '@/shell/session'
import { Button, Card, Code, Empty, Field, IconButton, Input, Notice } from '@/ui'
import { Boxed } from './Boxed'
import { usePageLook, useSavePage } from './page'
import { originProblem } from './words'

const most = 10

/** The sites that may show the creators' pages in a frame, and where creators are sent at the end. */
export function Origins() {
  const page = usePageLook()
  return (
    <div className="grid min-w-0 items-start gap-3 lg:grid-cols-2">
      <Boxed query={page} what="the allowed origins">
        {(p) => <List origins={p.allowed_origins} />}
      </Boxed>
      <Card title="Return URLs" hint="Where the creator’s browser goes at the end">
        <div className="space-y-3 text-soft">
          <p>
            A return URL belongs to a link: set <code>return_url</code> when you create it. Any https URL works; in the
            sandbox, so does http on this machine. The creator arrives with <code>status</code>, <code>account_id</code>
            , <code>reference_id</code> and <code>session_id</code> in the query.
          </p>
          <Code
            label="example"
            code={
              'POST /v1/connect/sessions\n{\n  "return_url": "https://app.example.com/done",\n  "reference_id": "user_456"\n}'
            }
          />
          <p>
            Anyone can enter such a URL, so trust the event <code>connect.session_finished</code> or the API, not the
            browser that returns.
          </p>
        </div>
      </Card>
    </div>
  )
}

function List({ origins }: { origins: string[] }) {
  const { org } = useSession()
  const sandbox = org.environment === 'sandbox'
  const why = useWhyNot('me:write', 'change allowed origins')
  const save = useSavePage()
  const [list, setList] = useState(origins)
  const [text, setText] = useState('')
  const [tried, setTried] = useState(false)
  const saved = origins.join('\n')
  useEffect(() => setList(saved === '' ? [] : saved.split('\n')), [saved])
  const wrong =
    text.trim() === ''
      ? null
      : list.includes(text.trim())
        ? 'This origin is already on the list.'
        : originProblem(text.trim(), sandbox)
  const problem = isProblem(save.error) ? save.error : null
  const add = () => {
    setTried(true)
    if (why || text.trim() === '' || wrong || list.length >= most) return
    setList([...list, text.trim()])
    setText('')
    setTried(false)
  }
  return (
    <Card
      title="Allowed origins"
      hint="Sites that may embed the connect page and receive its messages, unless a link names its own"
    >
      <div className="space-y-3">
        {list.length === 0 ? (
          <Empty title="No allowed origins" className="!py-6">
            Links open as full pages. That is fine unless you embed them with connect.js.
          </Empty>
        ) : (
          <ul className="divide-y rounded-lg border">
            {list.map((o) => (
              <li key={o} className="flex items-center gap-2 py-1 pr-1 pl-3">
                <code className="min-w-0 flex-1 text-xs break-all">{o}</code>
                <IconButton
                  label={`Remove ${o}`}
                  disabled={Boolean(why)}
                  onClick={() => setList(list.filter((x) => x !== o))}
                >
                  <Trash2 className="size-4" aria-hidden />
                </IconButton>
              </li>
            ))}
          </ul>
        )}
        <form
          className="flex flex-wrap items-start gap-2"
          onSubmit={(e) => {
            e.preventDefault()
            add()
          }}
        >
          <Field
            label="Origin"
            className="min-w-48 flex-1"
            hint={`Scheme, host and port only. ${list.length} of ${most}.`}
            error={tried || text.length > 12 ? (wrong ?? undefined) : undefined}
          >
            {(p) => (
              <Input
                {...p}
                mono
                value={text}
                disabled={Boolean(why) || list.length >= most}
                placeholder="https://app.example.com"
                onChange={(e) => setText(e.target.value)}
                spellCheck={false}
                autoComplete="off"
              />
            )}
          </Field>
          <Button
            type="submit"
            className="mt-6"
            icon={<Plus className="size-4" aria-hidden />}
            why={why}
            disabled={list.length >= most}
          >
            Add
          </Button>
        </form>
        {problem ? <Notice tone="bad">{problem.field('allowed_origins') ?? problem.detail}</Notice> : null}
        <div className="flex flex-wrap gap-2">
          <Button
            variant="primary"
            why={why}
            busy={save.isPending}
            disabled={list.join('\n') === saved}
            onClick={() => save.mutate({ allowed_origins: list })}
          >
            Save
          </Button>
          {list.join('\n') !== saved ? <Button onClick={() => setList(origins)}>Undo</Button> : null}
        </div>
        {why ? <p className="text-xs text-mute">{why}</p> : null}
      </div>
    </Card>
  )
}
