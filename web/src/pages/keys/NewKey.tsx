import { useState } from 'react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { CircleCheck, LoaderCircle, X } from 'lucide-react'
import { api, isProblem, type Answer } from '@/api/client'
import { scopes as allScopes } from '@/api/facts'
import { keys, useMe } from '@/api/hooks'
import { useSession } from '@/shell/session'
import { baseURL } from '@/lib/snippets'
import { plural } from '@/lib/format'
import {
  AccountPicker,
  Button,
  Checkbox,
  Chips,
  Code,
  CopyButton,
  Dialog,
  Field,
  Input,
  Notice,
  Select,
  Status,
  Textarea,
  Time,
} from '@/ui'
import { useLastCall } from './calls'
import { lines, presetOf, presets } from './scopes'

type Minted = Answer<'post', '/v1/me/keys'>

const day = 86_400_000
const expiries: [string, string, number | null][] = [
  ['never', 'Never', null],
  ['7', 'In 7 days', 7],
  ['30', 'In 30 days', 30],
  ['90', 'In 90 days', 90],
  ['365', 'In a year', 365],
  ['date', 'On a date…', null],
]

/** Creates a key, then shows it once. */
export function NewKey({ open, onOpenChange }: { open: boolean; onOpenChange: (open: boolean) => void }) {
  const [made, setMade] = useState<Minted | null>(null)
  if (made) return <Reveal open={open} made={made} onClose={() => onOpenChange(false)} />
  return <Draft open={open} onOpenChange={onOpenChange} onMade={setMade} />
}

function Draft({
  open,
  onOpenChange,
  onMade,
}: {
  open: boolean
  onOpenChange: (open: boolean) => void
  onMade: (made: Minted) => void
}) {
  const { org } = useSession()
  const client = useQueryClient()
  const me = useMe()
  const held = new Set<string>(me.data?.scopes ?? [])
  const everyday = presets.find((p) => p.id === 'everyday')?.scopes ?? []
  const [label, setLabel] = useState('')
  const [scopes, setScopes] = useState<ReadonlySet<string>>(new Set(everyday))
  const [expiry, setExpiry] = useState('never')
  const [date, setDate] = useState('')
  const [narrow, setNarrow] = useState(false)
  const [methods, setMethods] = useState('')
  const [accounts, setAccounts] = useState<{ id: string; name: string }[]>([])
  const [limited, setLimited] = useState(false)
  const mine = new Set([...scopes].filter((s) => held.has(s)))

  const mint = useMutation({
    mutationFn: () => {
      const days = expiries.find(([v]) => v === expiry)?.[2] ?? null
      const expiresAt =
        expiry === 'date'
          ? date
            ? new Date(`${date}T23:59:59Z`).toISOString()
            : undefined
          : days
            ? new Date(Date.now() + days * day).toISOString()
            : undefined
      return api.post('/v1/me/keys', {
        body: {
          label: label.trim(),
          scopes: [...mine],
          ...(expiresAt ? { expiresAt } : {}),
          ...(narrow && lines(methods).length > 0 ? { methods: lines(methods) } : {}),
          ...(limited ? { accountIds: accounts.map((a) => a.id) } : {}),
        },
      })
    },
    onSuccess: (made) => {
      void client.invalidateQueries({ queryKey: keys.keys })
      onMade(made)
    },
  })
  const problem = isProblem(mint.error) ? mint.error : null
  const at = (name: string) => {
    const found = problem?.problem.errors?.filter((e) => e.pointer === '/' + name || e.pointer.startsWith(`/${name}/`))
    return found && found.length > 0
      ? found
          .map((e) => {
            const n = Number(e.pointer.slice(name.length + 2))
            return Number.isInteger(n) && e.pointer !== '/' + name ? `Line ${n + 1} ${e.detail}` : e.detail
          })
          .join('. ')
      : undefined
  }
  const missing =
    label.trim() === ''
      ? 'Enter a label.'
      : mine.size === 0
        ? 'Choose at least one scope.'
        : expiry === 'date' && !date
          ? 'Choose an expiry date.'
          : limited && accounts.length === 0
            ? 'Choose at least one account.'
            : null

  return (
    <Dialog
      open={open}
      onOpenChange={onOpenChange}
      title="New API key"
      size="lg"
      description={
        <>
          The key works in <strong className="font-medium text-fg">{org.name}</strong>, which is{' '}
          {org.environment === 'live' ? 'live' : 'a sandbox'}. You cannot change its permissions later.
        </>
      }
      footer={
        <>
          <Button onClick={() => onOpenChange(false)}>Cancel</Button>
          <Button variant="primary" why={missing} busy={mint.isPending} onClick={() => mint.mutate()}>
            Create key
          </Button>
        </>
      }
    >
      <form
        className="space-y-5"
        onSubmit={(e) => {
          e.preventDefault()
          if (!missing && !mint.isPending) mint.mutate()
        }}
      >
        <div className="grid gap-4 sm:grid-cols-[minmax(0,1fr)_200px]">
          <Field label="Label" hint="What it is for, such as “inbox worker”." required error={at('label')}>
            {(p) => (
              <Input
                {...p}
                value={label}
                maxLength={120}
                onChange={(e) => setLabel(e.target.value)}
                autoComplete="off"
              />
            )}
          </Field>
          <Field label="Expires" error={at('expiresAt')}>
            {(p) => (
              <>
                <Select {...p} className="w-full" value={expiry} onChange={(e) => setExpiry(e.target.value)}>
                  {expiries.map(([v, text]) => (
                    <option key={v} value={v}>
                      {text}
                    </option>
                  ))}
                </Select>
                {expiry === 'date' ? (
                  <Input
                    type="date"
                    aria-label="Expires on"
                    className="mt-2"
                    min={new Date().toISOString().slice(0, 10)}
                    value={date}
                    onChange={(e) => setDate(e.target.value)}
                  />
                ) : null}
              </>
            )}
          </Field>
        </div>

        <fieldset>
          <legend className="mb-1 flex w-full flex-wrap items-center gap-x-3 gap-y-1">
            <span className="font-medium">Scopes</span>
            <Chips
              label="Presets"
              items={presets.map((p) => ({ value: p.id, label: p.label }))}
              value={presetOf(mine)}
              onChange={(id) => setScopes(new Set(presets.find((p) => p.id === id)?.scopes ?? []))}
            />
          </legend>
          <div className="relative overflow-hidden rounded-lg border">
            <table className="w-full text-left">
              <caption className="sr-only">Permissions of the key</caption>
              <tbody className="divide-y">
                {allScopes.map((s) => {
                  const can = held.has(s.name)
                  const id = 'scope-' + s.name
                  return (
                    <tr key={s.name} className={can ? '' : 'bg-subtle'}>
                      <td className="w-9 py-1.5 pl-3 align-top">
                        <input
                          id={id}
                          type="checkbox"
                          className="mt-0.5 size-4 accent-accent"
                          checked={mine.has(s.name)}
                          disabled={!can}
                          aria-describedby={id + 'h'}
                          onChange={(e) => {
                            const next = new Set(mine)
                            if (e.target.checked) next.add(s.name)
                            else next.delete(s.name)
                            setScopes(next)
                          }}
                        />
                      </td>
                      <td className="py-1.5 pr-3">
                        <label htmlFor={id}>{s.title}</label>
                        <span id={id + 'h'} className="block text-xs text-mute">
                          {can
                            ? s.description
                            : me.isPending
                              ? 'Loading…'
                              : 'Your role does not have this scope, so you cannot grant it.'}
                        </span>
                      </td>
                      <td className="py-1.5 pr-3 text-right align-top font-mono text-xs text-mute max-sm:hidden">
                        {s.name}
                      </td>
                    </tr>
                  )
                })}
              </tbody>
            </table>
          </div>
          {at('scopes') ? <p className="mt-1 text-xs text-bad-text">{at('scopes')}</p> : null}
        </fieldset>

        <div className="space-y-3">
          <Checkbox
            label="Only some methods"
            hint="Limits which methods the key can call, regardless of its scopes."
            checked={narrow}
            onChange={(e) => setNarrow(e.target.checked)}
          />
          {narrow ? (
            <Field
              label="Methods"
              className="pl-6"
              error={at('methods')}
              hint={
                <>
                  One per line: <code>messages.send</code>, <code>chats.*</code>, <code>*</code>, or{' '}
                  <code>sensitive</code> for money and legal data. A leading <code>!</code> denies a method, and denials
                  win.
                </>
              }
            >
              {(p) => (
                <Textarea
                  {...p}
                  mono
                  rows={4}
                  spellCheck={false}
                  placeholder={'chats.*\nmessages.*\n!sensitive'}
                  value={methods}
                  onChange={(e) => setMethods(e.target.value)}
                />
              )}
            </Field>
          ) : null}
          <Checkbox
            label="Only some accounts"
            hint="The key cannot see or use other accounts, or connect new ones."
            checked={limited}
            onChange={(e) => setLimited(e.target.checked)}
          />
          {limited ? (
            <div className="space-y-2 pl-6">
              <Field
                label="Accounts"
                error={at('accountIds')}
                hint={`${plural(accounts.length, 'account')}, at most 100`}
              >
                {(p) => (
                  <AccountPicker
                    id={p.id}
                    aria-describedby={p['aria-describedby']}
                    value={null}
                    placeholder="Add an account"
                    without={accounts.map((a) => a.id)}
                    onChange={(_, a) => {
                      if (a && accounts.length < 100)
                        setAccounts([...accounts, { id: a.id, name: a.label || a.displayName || a.id }])
                    }}
                  />
                )}
              </Field>
              {accounts.length > 0 ? (
                <ul className="flex flex-wrap gap-1.5">
                  {accounts.map((a) => (
                    <li
                      key={a.id}
                      className="inline-flex max-w-full items-center gap-1 rounded-full bg-subtle py-0.5 pr-1 pl-2.5 text-xs"
                    >
                      <span className="truncate">{a.name}</span>
                      <button
                        type="button"
                        aria-label={`Remove ${a.name}`}
                        className="grid size-6 place-items-center rounded-full text-mute hover:text-fg"
                        onClick={() => setAccounts(accounts.filter((x) => x.id !== a.id))}
                      >
                        <X className="size-3.5" aria-hidden />
                      </button>
                    </li>
                  ))}
                </ul>
              ) : null}
            </div>
          ) : null}
        </div>
        {problem && !at('label') && !at('methods') && !at('accountIds') && !at('scopes') && !at('expiresAt') ? (
          <Notice tone="bad">{problem.detail}</Notice>
        ) : null}
      </form>
    </Dialog>
  )
}

/** Shows the key once. It closes only after the user confirms that the key is stored. */
function Reveal({ open, made, onClose }: { open: boolean; made: Minted; onClose: () => void }) {
  const { org } = useSession()
  const [stored, setStored] = useState(false)
  const last = useLastCall(made.id, { enabled: open, every: 3000 })
  const used = last.data ?? null
  return (
    <Dialog
      open={open}
      onOpenChange={(next) => {
        if (!next && stored) onClose()
      }}
      sticky
      size="lg"
      title={`Key ${made.label} is ready`}
      description="This is the only time the key is shown. Store it where your program reads its secrets."
      footer={
        <>
          <Checkbox
            label="I stored it"
            className="mr-auto items-center"
            checked={stored}
            onChange={(e) => setStored(e.target.checked)}
          />
          <Button
            variant="primary"
            why={stored ? null : 'Tick “I stored it” first: the key is not shown again.'}
            onClick={onClose}
          >
            Close
          </Button>
        </>
      }
    >
      <div className="space-y-4">
        <div>
          <Code code={made.key} label="key" wrap />
          <div className="mt-2 flex flex-wrap gap-2">
            <CopyButton variant="primary" text={made.key}>
              Copy key
            </CopyButton>
            <CopyButton text={`STAGEDOOR_API_KEY=${made.key}`}>Copy as .env line</CopyButton>
          </div>
          {org.environment === 'live' ? (
            <p className="mt-2 text-xs text-warn-text">
              This is a live key: anyone who has it can act for your creators.
            </p>
          ) : null}
        </div>
        <div>
          <h3 className="mb-1 font-medium">Try it</h3>
          <Code label="test call" code={`curl ${baseURL()}/v1/me \\\n  -H "Authorization: Bearer ${made.key}"`} wrap />
          <div className="mt-2" role="status">
            {used ? (
              <p className="flex flex-wrap items-center gap-2 rounded-lg bg-ok-soft px-3 py-2 text-ok-text">
                <CircleCheck className="size-4 shrink-0" aria-hidden />
                <span>
                  It works: <code>{used.method}</code> <Time at={used.at} />
                </span>
                <Status status={used.status} />
              </p>
            ) : last.isError ? (
              <p className="rounded-lg bg-subtle px-3 py-2 text-mute">
                We cannot tell whether it was used. Check the API logs.
              </p>
            ) : (
              <p className="flex items-center gap-2 rounded-lg bg-info-soft px-3 py-2 text-info-text">
                <LoaderCircle className="size-4 shrink-0 animate-spin" aria-hidden /> Waiting for its first call…
              </p>
            )}
          </div>
        </div>
      </div>
    </Dialog>
  )
}
