import { useEffect, useRef, useState, type FormEvent, type ReactNode } from 'react'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useLocation } from '@tanstack/react-router'
import { Cookie, KeyRound, Mail, Smartphone, SquareTerminal } from 'lucide-react'
import { api, idempotent, isProblem, type ProblemError } from '@/api/client'
import { useMe } from '@/api/hooks'
import type { Attempt } from '@/api/types'
import { cx } from '@/lib/cx'
import { useSession, useWhyNot } from '@/shell/session'
import type { ConnectOptions, DialogProps } from '@/shell/dialogs'
import { Button, Checkbox, Dialog, Field, Input, Notice, Select, Textarea } from '@/ui'
import { Flow, Steps } from './Flow'
import { readCookies, verdict, type Pasted } from './paste'
import { PlatformChoice, SiteField } from './Place'
import { siteError, usePlace, type PlaceInput } from './usePlace'
import { hasMethod, type Method } from './words'

const methods: { id: Method; name: string; hint: string; icon: ReactNode }[] = [
  {
    id: 'token',
    name: 'Key',
    hint: 'Recommended by the platform',
    icon: <KeyRound className="size-4" aria-hidden />,
  },
  {
    id: 'mobile',
    name: 'Mobile QR',
    hint: 'Creator approves on their phone',
    icon: <Smartphone className="size-4" aria-hidden />,
  },
  {
    id: 'login',
    name: 'Email & password',
    hint: 'With code or selfie if asked',
    icon: <Mail className="size-4" aria-hidden />,
  },
  { id: 'cookie', name: 'Cookies', hint: 'Paste a session export', icon: <Cookie className="size-4" aria-hidden /> },
  { id: 'curl', name: 'cURL', hint: 'Paste “Copy as cURL”', icon: <SquareTerminal className="size-4" aria-hidden /> },
]

/** Connects or reconnects an account: the methods on the left, the flow on the right. */
export default function Wizard({ open, onOpenChange, options }: DialogProps<ConnectOptions>) {
  const [picked, setMethod] = useState<Method>(options.method ?? 'mobile')
  const place = usePlace(options)
  const offered = methods.filter((m) => hasMethod(place.platform, m.id))
  const method = offered.some((m) => m.id === picked) ? picked : (offered[0]?.id ?? picked)
  // Each method keeps its attempt, so that switching methods or platforms loses nothing.
  const [attempts, setAttempts] = useState<Record<string, Attempt | undefined>>({})
  const slot = (m: Method) => `${place.platform?.id ?? ''} ${m}`
  const client = useQueryClient()
  // Close the dialog when one of its links opens a page.
  const path = useLocation({ select: (l) => l.pathname })
  const began = useRef(path)
  useEffect(() => {
    if (path !== began.current) onOpenChange(false)
  }, [path, onOpenChange])
  const again = Boolean(options.accountId)
  const attempt = attempts[slot(method)]
  const set = (m: Method, a: Attempt | undefined) => setAttempts((old) => ({ ...old, [slot(m)]: a }))
  return (
    <Dialog
      open={open}
      onOpenChange={onOpenChange}
      size="lg"
      title={again ? `Reconnect ${options.label ?? 'the account'}` : 'Connect an account'}
      description="Pick how the creator signs in. We never show you their password or session."
    >
      {place.choices.length > 0 ? (
        <div className="mb-4">
          <PlatformChoice place={place} />
        </div>
      ) : null}
      <div className="grid gap-4 sm:grid-cols-[230px_minmax(0,1fr)]">
        <div role="group" aria-label="How the creator signs in" className="grid content-start gap-2 max-sm:grid-cols-2">
          {offered.map((m) => (
            <button
              key={m.id}
              type="button"
              aria-pressed={m.id === method}
              onClick={() => setMethod(m.id)}
              className={cx(
                'flex items-start gap-2.5 rounded-xl border px-3 py-2.5 text-left',
                m.id === method ? 'border-accent bg-accent-soft' : 'hover:bg-subtle',
              )}
            >
              <span className={cx('mt-0.5 shrink-0', m.id === method ? 'text-accent-text' : 'text-soft')}>
                {m.icon}
              </span>
              <span className="min-w-0">
                <span className="block font-medium">{m.name}</span>
                <span className="block text-xs text-soft max-sm:hidden">{m.hint}</span>
              </span>
            </button>
          ))}
        </div>
        <div className="min-w-0 rounded-xl border p-4">
          {attempt ? (
            <Flow
              key={attempt.attempt_id}
              id={attempt.attempt_id}
              first={attempt}
              onAgain={(m) => {
                set(method, undefined)
                if (m) {
                  set(m, undefined)
                  setMethod(m)
                }
              }}
              onDone={(id) => {
                for (const key of ['accounts', 'account', 'usage', 'attempts', 'funnel'])
                  void client.invalidateQueries({ queryKey: [key] })
                options.onDone?.(id)
              }}
            />
          ) : (
            <Start
              key={slot(method)}
              method={method}
              options={options}
              place={place}
              onStarted={(a) => set(method, a)}
            />
          )}
        </div>
      </div>
    </Dialog>
  )
}

interface StartProps {
  method: Method
  options: ConnectOptions
  place: PlaceInput
  onStarted: (a: Attempt) => void
}

/** The fields that all methods share. */
interface Common {
  label: string
  region: string
  reference: string
}

function Start({ method, options, place, onStarted }: StartProps) {
  const why = useWhyNot('accounts:write', 'connect accounts')
  const [common, setCommon] = useState<Common>({
    label: options.accountId ? '' : (options.label ?? ''),
    region: '',
    reference: '',
  })
  const [busyWith, setBusyWith] = useState<string | null>(null)
  const [badSite, setBadSite] = useState<string | null>(null)
  const start = useMutation({
    mutationFn: async ({ body, supersede }: { body: Record<string, unknown>; supersede?: boolean }) => {
      const all = {
        ...body,
        ...place.body,
        ...(options.accountId ? { account_id: options.accountId } : {}),
        ...(common.label.trim() ? { label: common.label.trim() } : {}),
        ...(common.region ? { proxy_country: common.region } : {}),
        ...(common.reference.trim() ? { reference_id: common.reference.trim() } : {}),
        ...(supersede ? { supersede: true } : {}),
      }
      const path = (
        {
          token: '/v1/connect/token',
          mobile: '/v1/connect/mobile',
          login: '/v1/connect/login',
          cookie: '/v1/connect/cookie',
          curl: '/v1/connect/curl',
        } as const
      )[method]
      return (await api.post(path, { body: all as never, headers: idempotent() })) as Attempt
    },
    onSuccess: onStarted,
    onError: (e) => {
      if (isProblem(e) && e.code === 'attempt-in-progress')
        setBusyWith(String((e.problem as unknown as Record<string, unknown>)['attemptId'] ?? ''))
    },
  })
  const error = start.error && isProblem(start.error) && start.error.code !== 'attempt-in-progress' ? start.error : null
  const props: WayProps = {
    why,
    busy: start.isPending,
    error,
    place,
    begin: (body) => {
      setBusyWith(null)
      setBadSite(place.problem)
      if (!place.problem) start.mutate({ body })
    },
  }
  // A typed site clears the message about it.
  useEffect(() => setBadSite(null), [place.site])
  const aboutSite = place.needsSite ? (badSite ?? siteError(error)) : undefined
  // What the form has no field for is shown below it.
  const elsewhere = ['platform', 'auth_type', ...(place.needsSite ? [] : ['site'])].flatMap(
    (f) => error?.field(f) ?? [],
  )
  const fields = <CommonFields value={common} onChange={setCommon} again={Boolean(options.accountId)} error={error} />
  return (
    <div className="space-y-4">
      <Steps method={method} at={0} />
      <SiteField place={place} error={aboutSite} />
      {method === 'token' ? (
        <Key {...props}>{fields}</Key>
      ) : method === 'mobile' ? (
        <Mobile {...props}>{fields}</Mobile>
      ) : method === 'login' ? (
        <Login {...props} first={options.email ?? ''}>
          {fields}
        </Login>
      ) : method === 'cookie' ? (
        <Cookies {...props}>{fields}</Cookies>
      ) : (
        <Curl {...props} account={options.accountId}>
          {fields}
        </Curl>
      )}
      {busyWith !== null ? (
        <Notice
          tone="warn"
          action={
            <>
              {busyWith ? (
                <Button
                  size="sm"
                  onClick={() =>
                    void api
                      .get('/v1/connect/login/{attemptId}', { path: { attemptId: busyWith } })
                      .then((a) => onStarted(a as Attempt))
                  }
                >
                  Continue it
                </Button>
              ) : null}
              <Button
                size="sm"
                busy={start.isPending}
                onClick={() => start.variables && start.mutate({ body: start.variables.body, supersede: true })}
              >
                Start over
              </Button>
            </>
          }
        >
          An attempt for this login is already in progress. Two attempts at the same time would invalidate each other’s
          codes.
        </Notice>
      ) : null}
      {error && !aboutSite && (!error.problem.errors?.length || elsewhere.length > 0) ? (
        <Notice tone="bad">
          {error.code === 'quota-exceeded'
            ? `Too many attempts in the last hour.${error.retryAfterSec ? ` Try again in ${Math.ceil(error.retryAfterSec / 60)} min.` : ''}`
            : [error.detail, ...elsewhere].join(' ')}{' '}
          {error.requestId ? <code className="text-xs">{error.requestId}</code> : null}
        </Notice>
      ) : null}
    </div>
  )
}

function CommonFields({
  value,
  onChange,
  again,
  error,
}: {
  value: Common
  onChange: (v: Common) => void
  again: boolean
  error: ProblemError | null
}) {
  const me = useMe()
  const regions = me.data?.limits?.proxyCountries ?? []
  if (again) return null
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      <Field label="Label" note="optional" error={error?.field('label')}>
        {(p) => (
          <Input
            {...p}
            maxLength={120}
            placeholder="Maya · main"
            value={value.label}
            onChange={(e) => onChange({ ...value, label: e.target.value })}
          />
        )}
      </Field>
      <Field label="Region" error={error?.field('proxy_country')}>
        {(p) => (
          <Select
            {...p}
            className="w-full"
            value={value.region}
            onChange={(e) => onChange({ ...value, region: e.target.value })}
          >
            <option value="">{regions[0]} (default)</option>
            {regions.slice(1).map((r) => (
              <option key={r}>{r}</option>
            ))}
          </Select>
        )}
      </Field>
      <Field label="Your reference" note="optional" className="sm:col-span-2" error={error?.field('reference_id')}>
        {(p) => (
          <Input
            {...p}
            maxLength={255}
            placeholder="user_456"
            value={value.reference}
            onChange={(e) => onChange({ ...value, reference: e.target.value })}
          />
        )}
      </Field>
    </div>
  )
}

interface WayProps {
  why: string | null
  busy: boolean
  error: ProblemError | null
  place: PlaceInput
  begin: (body: Record<string, unknown>) => void
  children?: ReactNode
}

function Head({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div>
      <h3 className="text-base font-semibold">{title}</h3>
      <p className="mt-0.5 text-soft">{children}</p>
    </div>
  )
}

function Mobile({ why, busy, begin, children }: WayProps) {
  return (
    <form
      className="space-y-4"
      onSubmit={(e) => {
        e.preventDefault()
        if (!why) begin({})
      }}
    >
      <Head title="Scan with the creator’s phone">
        The creator approves in their own app. Neither you nor we see a password.
      </Head>
      {children}
      <Button type="submit" variant="primary" why={why} busy={busy}>
        Show the QR code
      </Button>
    </form>
  )
}

function Key({ why, busy, error, place, begin, children }: WayProps) {
  const { name, help } = useNeeds('token', place.platform?.id)
  const [key, setKey] = useState('')
  const [missing, setMissing] = useState(false)
  return (
    <form
      className="space-y-4"
      noValidate
      onSubmit={(e) => {
        e.preventDefault()
        setMissing(!key.trim())
        if (!why && key.trim()) begin({ token: key.trim() })
      }}
    >
      <Head title={`Paste the ${name ?? 'key'}`}>
        No person signs in, and no code is needed. Some methods are for people only.
      </Head>
      <Field label={name ?? 'Key'} hint={help} error={missing ? 'Paste the key first.' : error?.field('token')}>
        {(p) => (
          <Input {...p} mono type="password" autoComplete="off" value={key} onChange={(e) => setKey(e.target.value)} />
        )}
      </Field>
      {children}
      <Button type="submit" variant="primary" why={why} busy={busy}>
        Connect
      </Button>
    </form>
  )
}

const personas = ['ok', 'sms', 'app', 'email', 'face', 'locked', 'slow']

function Login({ why, busy, error, place, begin, first, children }: WayProps & { first: string }) {
  const { org } = useSession()
  const [email, setEmail] = useState(first)
  const [password, setPassword] = useState(first.endsWith('@sandbox.test') ? 'good' : '')
  const [remember, setRemember] = useState(false)
  const [missing, setMissing] = useState<{ email?: string; password?: string }>({})
  const go = (e: FormEvent) => {
    e.preventDefault()
    const bad = {
      ...(/^\S+@\S+$/.test(email.trim()) ? {} : { email: 'Enter the email address, such as name@example.com.' }),
      ...(password ? {} : { password: 'Enter the password.' }),
    }
    setMissing(bad)
    if (why || bad.email || bad.password) return
    begin({ email: email.trim(), password, ...(remember ? { remember_credentials: true } : {}) })
  }
  return (
    <form className="space-y-4" onSubmit={go} noValidate>
      <Head title="Sign in for the creator">
        Enter the credentials that the creator gave you. To avoid handling passwords, send a connect link instead.
      </Head>
      <div className="grid gap-3 sm:grid-cols-2">
        <Field label="Email" error={missing.email ?? error?.field('email')}>
          {(p) => (
            <Input
              {...p}
              type="email"
              autoComplete="off"
              spellCheck={false}
              value={email}
              onChange={(e) => setEmail(e.target.value)}
            />
          )}
        </Field>
        <Field label="Password" error={missing.password ?? error?.field('password')}>
          {(p) => (
            <Input
              {...p}
              type="password"
              autoComplete="new-password"
              value={password}
              onChange={(e) => setPassword(e.target.value)}
            />
          )}
        </Field>
      </div>
      {org.environment === 'sandbox' && (place.platform?.id ?? 'sandbox') === 'sandbox' ? (
        <div className="flex flex-wrap items-center gap-1 text-xs" role="group" aria-label="Sandbox logins">
          <span className="text-mute">Fill in:</span>
          {personas.map((p) => (
            <button
              key={p}
              type="button"
              className="rounded-full bg-subtle px-2 py-0.5 font-mono text-soft hover:bg-line hover:text-fg"
              onClick={() => {
                setEmail(`${p}@sandbox.test`)
                setPassword('good')
                setMissing({})
              }}
            >
              {p}@
            </button>
          ))}
        </div>
      ) : null}
      {children}
      <Checkbox
        label="Remember the credentials"
        hint="Stored encrypted, to sign in again automatically when the session ends."
        checked={remember}
        onChange={(e) => setRemember(e.target.checked)}
      />
      <Button type="submit" variant="primary" why={why} busy={busy}>
        Sign in
      </Button>
    </form>
  )
}

/** A field that hides its text once it is entered: secrets are not shown again. */
function Hidden({
  label,
  hint,
  placeholder,
  summary,
  error,
  onText,
  onClear,
}: {
  label: string
  hint: ReactNode
  placeholder: string
  summary: ReactNode | null
  error?: ReactNode
  onText: (text: string) => void
  onClear: () => void
}) {
  if (summary)
    return (
      <div>
        <div className="mb-1 font-medium">{label}</div>
        <div className="flex flex-wrap items-center gap-2 rounded-lg border bg-subtle px-3 py-2">
          <div className="min-w-0 flex-1 basis-48">{summary}</div>
          <Button size="sm" onClick={onClear}>
            Replace
          </Button>
        </div>
        {error ? <p className="mt-1 text-xs text-bad-text">{error}</p> : null}
      </div>
    )
  return (
    <Field label={label} hint={hint} error={error}>
      {(p) => (
        <Textarea
          {...p}
          mono
          rows={4}
          spellCheck={false}
          autoComplete="off"
          placeholder={placeholder}
          defaultValue=""
          onPaste={(e) => {
            e.preventDefault()
            onText(e.clipboardData.getData('text'))
          }}
          onBlur={(e) => {
            const text = e.target.value
            if (text.trim()) onText(text)
          }}
        />
      )}
    </Field>
  )
}

function useNeeds(kind: string, platform: string | undefined) {
  const flows = useQuery({
    queryKey: ['flows', platform ?? null],
    queryFn: ({ signal }) => api.get('/v1/connect/flows', { query: platform ? { platform } : {}, signal }),
    staleTime: 600_000,
  })
  const flow = flows.data?.flows?.find((f) => f.kind === kind)
  const fields = flow?.fields ?? []
  return {
    name: flow?.name,
    help: flow?.help,
    cookies: fields.filter((f) => f.type === 'cookie' && f.required).map((f) => f.id),
    headers: fields.filter((f) => f.type === 'header'),
  }
}

function Dots({ names }: { names: string[] }) {
  return (
    <ul className="mt-1 flex flex-wrap gap-x-3 font-mono text-xs text-mute">
      {names.slice(0, 12).map((n) => (
        <li key={n} className="break-all">
          {n}=••••
        </li>
      ))}
      {names.length > 12 ? <li>and {names.length - 12} more</li> : null}
    </ul>
  )
}

function Cookies({ why, busy, error, place, begin, children }: WayProps) {
  const needs = useNeeds('cookie', place.platform?.id)
  const [pasted, setPasted] = useState<Pasted | null>(null)
  const [bad, setBad] = useState<string | null>(null)
  const [agent, setAgent] = useState(navigator.userAgent)
  const [headers, setHeaders] = useState<Record<string, string>>({})
  const found = pasted ? verdict(pasted.names, needs.cookies) : null
  const take = (text: string) => {
    const p = readCookies(text)
    if (p.form === 'curl') setBad('This is a command. Choose cURL on the left instead.')
    else if (p.form === 'nothing')
      setBad(
        'We found no cookies. Paste a Cookie header, a cookies.txt file or the JSON export of a browser extension.',
      )
    else {
      setBad(null)
      setPasted(p)
    }
  }
  const missingHeaders = needs.headers.filter((h) => h.required && !headers[h.id]?.trim())
  const blocked =
    why ??
    (found && found.missing.length > 0
      ? `Not found: ${found.missing.join(', ')}`
      : missingHeaders.length > 0 && pasted
        ? `Enter the header ${missingHeaders.map((h) => h.id).join(', ')}`
        : null)
  return (
    <form
      className="space-y-4"
      onSubmit={(e) => {
        e.preventDefault()
        if (blocked) return
        if (!pasted) {
          setBad('Paste the cookies first.')
          return
        }
        const given = Object.fromEntries(Object.entries(headers).filter(([, v]) => v.trim()))
        begin({
          cookie: pasted.header,
          user_agent: agent.trim(),
          ...(Object.keys(given).length ? { headers: given } : {}),
        })
      }}
    >
      <Head title="Paste a session export">
        For your own accounts: a session copied from a signed-in browser. We check it here first; values are hidden
        immediately and not shown again.
      </Head>
      <Hidden
        label="Cookies"
        hint="A Cookie header, Netscape cookies.txt or JSON export"
        placeholder={needs.cookies.map((c) => c + '=…').join('; ') || 'name=…'}
        error={bad ?? error?.field('cookie')}
        summary={
          pasted && found ? (
            <>
              <span className={found.missing.length > 0 ? 'text-bad-text' : 'text-ok-text'}>{found.text}</span>
              {found.missing.length > 0 ? (
                <span className="block text-bad-text">Missing: {found.missing.join(', ')}</span>
              ) : null}
              <Dots names={pasted.names} />
            </>
          ) : null
        }
        onText={take}
        onClear={() => setPasted(null)}
      />
      <Field
        label="User agent"
        hint="The User-Agent header that the browser sent with these cookies"
        error={error?.field('user_agent')}
      >
        {(p) => <Input {...p} mono className="text-xs" value={agent} onChange={(e) => setAgent(e.target.value)} />}
      </Field>
      {needs.headers.map((h) => (
        <Field
          key={h.id}
          label={`Header ${h.id}`}
          note={h.required ? undefined : 'optional'}
          hint="The platform ties the session to this header"
          error={error?.field(`headers/${h.id}`)}
        >
          {(p) => (
            <Input
              {...p}
              mono
              autoComplete="off"
              value={headers[h.id] ?? ''}
              onChange={(e) => setHeaders({ ...headers, [h.id]: e.target.value })}
            />
          )}
        </Field>
      ))}
      {children}
      <Button type="submit" variant="primary" why={blocked} busy={busy}>
        Check and connect
      </Button>
    </form>
  )
}

interface Extracted {
  cookies: string[] | null
  headers: string[] | null
  missing: string[] | null
}

function Curl({ why, busy, error, place, begin, account, children }: WayProps & { account?: string | undefined }) {
  const [curl, setCurl] = useState<string | null>(null)
  const [bad, setBad] = useState<string | null>(null)
  const look = useMutation({
    mutationFn: async (text: string) =>
      (
        (await api.post('/v1/connect/curl', {
          body: { curl: text, dry_run: true, ...place.body, ...(account ? { account_id: account } : {}) },
        })) as unknown as {
          extracted: Extracted
        }
      ).extracted,
    onError: (e) =>
      setBad(isProblem(e) ? (e.field('curl') ?? siteError(e) ?? e.detail) : 'We could not read it. Try again.'),
  })
  // Drop a command that cannot be used.
  useEffect(() => {
    if (look.isError) setCurl(null)
  }, [look.isError])
  const found = look.data
  const missing = found?.missing ?? []
  return (
    <form
      className="space-y-4"
      onSubmit={(e) => {
        e.preventDefault()
        if (why || missing.length > 0) return
        if (!curl) setBad('Paste the command first.')
        else begin({ curl })
      }}
    >
      <Head title="Paste “Copy as cURL”">
        In a signed-in browser, open the developer tools, go to Network, pick a request to the platform and choose Copy
        as cURL. We read the command and never run it.
      </Head>
      <Hidden
        label="Command"
        hint="bash, cmd or PowerShell"
        placeholder={"curl 'https://…' -H 'cookie: …'"}
        error={bad ?? error?.field('curl')}
        summary={
          curl === null ? null : look.isPending || !found ? (
            'Reading…'
          ) : (
            <>
              <span className={missing.length > 0 ? 'text-bad-text' : 'text-ok-text'}>
                {(found.cookies ?? []).length} of {(found.cookies ?? []).length + missing.length} required cookies and
                headers found
              </span>
              {missing.length > 0 ? <span className="block text-bad-text">Missing: {missing.join(', ')}</span> : null}
              <Dots names={[...(found.cookies ?? []), ...(found.headers ?? [])]} />
            </>
          )
        }
        onText={(text) => {
          if (!text.trim()) return
          if (place.problem) {
            setBad('Enter the site first, then paste the command again.')
            return
          }
          setBad(null)
          setCurl(text)
          look.mutate(text)
        }}
        onClear={() => {
          setCurl(null)
          look.reset()
        }}
      />
      {children}
      <Button
        type="submit"
        variant="primary"
        why={why ?? (missing.length > 0 ? `Not found: ${missing.join(', ')}` : null)}
        busy={busy || look.isPending}
      >
        Check and connect
      </Button>
    </form>
  )
}
