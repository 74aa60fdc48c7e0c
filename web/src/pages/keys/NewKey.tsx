import { useState, type ReactNode } from 'react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { CircleCheck, LoaderCircle } from 'lucide-react'
import { api, isProblem, type Answer } from '@/api/client'
import { keys, useMe } from '@/api/hooks'
import { useSession } from '@/shell/session'
import { baseURL } from '@/lib/snippets'
import { Button, Checkbox, Chips, Code, CopyButton, Dialog, Field, Input, Notice, Status, Time } from '@/ui'
import { useLastCall } from './calls'
import { ExpiryField, expiryOf, type Expiry } from './Expiry'
import { LimitFields, listsOf, missingIn, noLimits, ScopeFields } from './LimitFields'
import { messagesOf } from './problems'
import { presetOf, presets } from './scopes'

type Minted = Answer<'post', '/v1/me/keys'>

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
  const [expiry, setExpiry] = useState<Expiry>({ choice: 'never', date: '' })
  const [limits, setLimits] = useState(noLimits)
  const mine = new Set([...scopes].filter((s) => held.has(s)))

  const mint = useMutation({
    mutationFn: () => {
      const expiresAt = expiryOf(expiry)
      const lists = Object.entries(listsOf(limits)).filter(([, list]) => list !== null)
      return api.post('/v1/me/keys', {
        body: {
          label: label.trim(),
          scopes: [...mine],
          ...(expiresAt ? { expiresAt } : {}),
          ...Object.fromEntries(lists),
        },
      })
    },
    onSuccess: (made) => {
      void client.invalidateQueries({ queryKey: keys.keys })
      onMade(made)
    },
  })
  const problem = isProblem(mint.error) ? mint.error : null
  const at = messagesOf(mint.error)
  const missing =
    label.trim() === ''
      ? 'Enter a label.'
      : mine.size === 0
        ? 'Choose at least one scope.'
        : expiry.choice === 'date' && !expiry.date
          ? 'Choose an expiry date.'
          : missingIn(limits)

  return (
    <Dialog
      open={open}
      onOpenChange={onOpenChange}
      title="New API key"
      size="lg"
      description={
        <>
          The key works in <strong className="font-medium text-fg">{org.name}</strong>, which is{' '}
          {org.environment === 'live' ? 'live' : 'a sandbox'}. Its scopes can only be taken away later.
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
          <ExpiryField value={expiry} onChange={setExpiry} error={at('expiresAt')} />
        </div>
        <ScopeFields
          value={mine}
          onChange={setScopes}
          whyNot={(s) =>
            held.has(s)
              ? null
              : me.isPending
                ? 'Loading…'
                : 'Your role does not have this scope, so you cannot grant it.'
          }
          presets={
            <Chips
              label="Presets"
              items={presets.map((p) => ({ value: p.id, label: p.label }))}
              value={presetOf(mine)}
              onChange={(id) => setScopes(new Set(presets.find((p) => p.id === id)?.scopes ?? []))}
            />
          }
          error={at('scopes')}
        />
        <LimitFields value={limits} onChange={setLimits} at={at} />
        {problem && !['label', 'methods', 'accountIds', 'allowedIps', 'scopes', 'expiresAt'].some(at) ? (
          <Notice tone="bad">{problem.detail}</Notice>
        ) : null}
      </form>
    </Dialog>
  )
}

/** Shows the key once. It closes only after the user confirms that the key is stored. */
export function Reveal({
  open,
  made,
  note,
  onClose,
}: {
  open: boolean
  made: Pick<Minted, 'id' | 'key' | 'label'>
  note?: ReactNode
  onClose: () => void
}) {
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
        {note ? <Notice tone="warn">{note}</Notice> : null}
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
