import { useState, type ReactNode } from 'react'
import { Link } from '@tanstack/react-router'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { CircleCheck, LoaderCircle } from 'lucide-react'
import { api, call, idempotent, isProblem, ProblemError } from '@/api/client'
import { keys, useEvents } from '@/api/hooks'
import type { Account, Attempt, Event } from '@/api/types'
import { cx } from '@/lib/cx'
import { eventText, eventTone, ofPlatform } from '@/lib/events'
import { snippets } from '@/lib/snippets'
import { useDialogs } from '@/shell/dialogs'
import { useSession, useWhyNot } from '@/shell/session'
import { StreamBadge } from '@/shell/StreamBadge'
import { Badge, Button, ButtonLink, Card, Code, CodeBlock, CopyButton, Failed, Id, Json, Notice, Time } from '@/ui'
import { nameOf } from '../accounts/reasons'
import { useSetup, type Step } from './setup'

/** The four steps from an empty org to a first event, all on one page. */
export function Guide() {
  const { steps, usage } = useSetup()
  const [made, setMade] = useState<string | null>(null)
  const accounts = useQuery({
    queryKey: keys.accounts({ start: true }),
    queryFn: async ({ signal }) => (await api.get('/v1/accounts', { query: { limit: 5 }, signal })).accounts ?? [],
  })
  const account = accounts.data?.find((a) => a.state === 'active') ?? accounts.data?.[0]
  const current = steps.find((s) => !s.done)?.id
  if (usage.isError && !usage.data)
    return (
      <Card>
        <Failed what="your progress" error={usage.error} retry={() => void usage.refetch()} />
      </Card>
    )
  return (
    <ol className="space-y-3">
      {steps.map((s, i) => (
        <li key={s.id}>
          <StepCard step={s} n={i + 1} current={s.id === current}>
            {s.id === 'key' ? (
              <KeyStep done={s.done} made={made} onMade={setMade} />
            ) : s.id === 'account' ? (
              <AccountStep account={account} />
            ) : s.id === 'call' ? (
              <CallStep account={account} apiKey={made} />
            ) : (
              <EventStep account={account} />
            )}
          </StepCard>
        </li>
      ))}
    </ol>
  )
}

function StepCard({ step, n, current, children }: { step: Step; n: number; current: boolean; children: ReactNode }) {
  return (
    <Card className={cx(current && '!border-accent')}>
      <div className="flex gap-3">
        {step.done ? (
          <CircleCheck className="mt-0.5 size-5 shrink-0 text-ok" aria-label="Done" />
        ) : (
          <span
            className={cx(
              'mt-0.5 grid size-5 shrink-0 place-items-center rounded-full text-xs font-semibold',
              current ? 'bg-accent text-accent-fg' : 'bg-subtle text-mute',
            )}
            aria-hidden
          >
            {n}
          </span>
        )}
        <div className="min-w-0 flex-1">
          <h2 className="font-semibold">{step.title}</h2>
          <p className="mb-3 text-mute">{step.hint}</p>
          {children}
        </div>
      </div>
    </Card>
  )
}

function Wrong({ error }: { error: unknown }) {
  if (!error) return null
  return (
    <Notice tone="bad" className="mt-3">
      {isProblem(error) ? error.detail : 'Something went wrong. Try again.'}
      {isProblem(error) && error.requestId ? <Id id={error.requestId} className="ml-2 !text-inherit" /> : null}
    </Notice>
  )
}

function KeyStep({ done, made, onMade }: { done: boolean; made: string | null; onMade: (key: string) => void }) {
  const client = useQueryClient()
  const why = useWhyNot('me:write', 'create keys')
  const mint = useMutation({
    mutationFn: () => api.post('/v1/me/keys', { body: { label: 'Start guide' }, headers: idempotent() }),
    onSuccess: (k) => {
      onMade(k.key)
      void client.invalidateQueries({ queryKey: keys.keys })
    },
  })
  if (made)
    return (
      <>
        <Notice tone="warn" className="mb-2">
          Store it now: it is not shown again.
        </Notice>
        <Code code={made} label="key" wrap />
        <div className="mt-2">
          <CopyButton text={`export STAGEDOOR_API_KEY=${made}`}>Copy as export</CopyButton>
        </div>
      </>
    )
  return (
    <div className="flex flex-wrap items-center gap-2">
      <Button variant={done ? 'secondary' : 'primary'} why={why} busy={mint.isPending} onClick={() => mint.mutate()}>
        {done ? 'Create another key' : 'Create a key'}
      </Button>
      {done ? <ButtonLink to="/keys">View your keys</ButtonLink> : null}
      <Wrong error={mint.error} />
    </div>
  )
}

const ended = (a: Attempt) => a.state === 'completed_success' || a.state === 'completed_failed'

// Signs in a persona: a new creator each time, so that the button works more than once.
async function connectPersona(): Promise<Attempt> {
  const name = Math.random().toString(36).slice(2, 7)
  let attempt = await call<Attempt>('POST', '/v1/connect/login', {
    body: { email: `ok+${name}@sandbox.test`, password: 'any password', label: `Sandbox ${name}` },
    headers: { Prefer: 'wait=10', ...idempotent() },
  })
  for (let i = 0; i < 6 && !ended(attempt); i++)
    attempt = await call<Attempt>('GET', `/v1/connect/login/${attempt.attempt_id}`, { query: { wait: 10 } })
  if (attempt.state !== 'completed_success') {
    throw new ProblemError(
      {
        code: attempt.failure?.code ?? 'attempt',
        status: 0,
        title: 'The account did not connect',
        detail: attempt.failure?.message ?? `The sign-in stopped at ${attempt.state}.`,
      },
      null,
    )
  }
  return attempt
}

function AccountStep({ account }: { account: Account | undefined }) {
  const client = useQueryClient()
  const { org } = useSession()
  const { connect, link } = useDialogs()
  const why = useWhyNot('accounts:write', 'connect accounts')
  const done = () => {
    void client.invalidateQueries({ queryKey: ['accounts'] })
    void client.invalidateQueries({ queryKey: ['usage'] })
    // The server caches these totals for a second.
    setTimeout(() => void client.invalidateQueries({ queryKey: ['usage'] }), 1500)
  }
  const persona = useMutation({ mutationFn: connectPersona, onSuccess: done })
  const sandbox = org.environment === 'sandbox'
  return (
    <>
      {account ? (
        <p className="mb-3 flex flex-wrap items-center gap-2">
          <Link to="/accounts/$id" params={{ id: account.id }} className="link font-medium">
            {nameOf(account)}
          </Link>
          <Id id={account.id} short />
        </p>
      ) : null}
      <div className="flex flex-wrap gap-2">
        {sandbox ? (
          <Button
            variant={account ? 'secondary' : 'primary'}
            why={why}
            busy={persona.isPending}
            onClick={() => persona.mutate()}
          >
            {persona.isPending ? 'Signing in…' : 'Do it for me'}
          </Button>
        ) : null}
        <Button
          variant={account || sandbox ? 'secondary' : 'primary'}
          why={why}
          onClick={() => connect({ onDone: done })}
        >
          Connect one myself
        </Button>
        {sandbox ? null : (
          <Button why={why} onClick={() => link()}>
            Create connect link
          </Button>
        )}
      </div>
      <Wrong error={persona.error} />
    </>
  )
}

function CallStep({ account, apiKey }: { account: Account | undefined; apiKey: string | null }) {
  const client = useQueryClient()
  const why = useWhyNot('sdk:call', 'call methods')
  const run = useMutation({
    mutationFn: (id: string) => call<{ result: unknown }>('POST', `/v1/accounts/${id}/me/get`, { body: {} }),
    onSuccess: () => setTimeout(() => void client.invalidateQueries({ queryKey: ['usage'] }), 2500),
  })
  const code = snippets({ method: 'POST', path: `/v1/accounts/${account?.id ?? 'acct_…'}/me/get`, body: {} }).map(
    (s) => (apiKey && s.name === 'curl' ? { ...s, code: s.code.replace('$STAGEDOOR_API_KEY', apiKey) } : s),
  )
  return (
    <>
      <CodeBlock snippets={code} />
      <div className="mt-3 flex flex-wrap gap-2">
        <Button
          variant="primary"
          why={why ?? (account ? null : 'Connect an account first')}
          busy={run.isPending}
          onClick={() => account && run.mutate(account.id)}
        >
          Run it here
        </Button>
        <ButtonLink to="/explorer" search={{ method: 'me.get', ...(account ? { account: account.id } : {}) }}>
          Open the explorer
        </ButtonLink>
      </div>
      {run.data ? <Json value={run.data} label="Response" className="mt-3" open={2} /> : null}
      <Wrong error={run.error} />
    </>
  )
}

function EventStep({ account }: { account: Account | undefined }) {
  const client = useQueryClient()
  const { org } = useSession()
  const why = useWhyNot('accounts:write', 'send test events')
  const [events, setEvents] = useState<Event[]>([])
  useEvents((batch) => {
    const came = batch.filter(ofPlatform).reverse()
    if (came.length === 0) return
    setEvents((old) => [...came, ...old].slice(0, 5))
    client.setQueryData(keys.events({ setup: true }), true)
  })
  const fire = useMutation({
    mutationFn: (id: string) =>
      api.post('/v1/sandbox/accounts/{id}/fire_event', {
        path: { id },
        body: { event: 'message', data: { text: 'Hello from the start guide' } },
      }),
  })
  const waiting = fire.isSuccess && events.length === 0
  return (
    <>
      <div className="flex flex-wrap items-center gap-3">
        {org.environment === 'sandbox' ? (
          <Button
            variant="primary"
            why={why ?? (account ? null : 'Connect an account first')}
            busy={fire.isPending}
            onClick={() => account && fire.mutate(account.id)}
          >
            Send a test message
          </Button>
        ) : null}
        <ButtonLink to="/events">Open live events</ButtonLink>
        <StreamBadge />
      </div>
      <div aria-live="polite" className="mt-3">
        {events.length > 0 ? (
          <ul className="divide-y rounded-lg border">
            {events.map((e) => (
              <li key={e.id} className="flex flex-wrap items-center gap-x-3 gap-y-1 px-3 py-2">
                <Time at={e.ts} as="millis" className="font-mono text-xs text-mute" />
                <Badge tone={eventTone(e.event)} mono>
                  {e.event}
                </Badge>
                <span className="min-w-0 flex-1 truncate">{eventText(e)}</span>
                <Link to="/events/$id" params={{ id: e.id }} className="link text-xs">
                  Open
                </Link>
              </li>
            ))}
          </ul>
        ) : (
          <p className="flex items-center gap-2 text-mute">
            {waiting ? <LoaderCircle className="size-4 animate-spin" aria-hidden /> : null}
            {waiting ? 'Sent. Waiting for the event…' : 'Listening… events appear here as they happen.'}
          </p>
        )}
      </div>
      <Wrong error={fire.error} />
      <p className="mt-3 text-mute">
        Your program receives events by{' '}
        <Link to="/webhooks" className="link">
          webhook
        </Link>
        . To receive them on your machine, run:
      </p>
      <Code className="mt-2" code="stagedoor listen --forward-to localhost:3000" label="command" wrap />
    </>
  )
}
