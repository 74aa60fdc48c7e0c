import { useRef, useState } from 'react'
import { Link } from '@tanstack/react-router'
import { useMutation } from '@tanstack/react-query'
import { CircleAlert, CircleCheck, CircleX } from 'lucide-react'
import { call, isProblem } from '@/api/client'
import type { SignatureCheck } from '@/api/types'
import { useEndpoints } from '@/api/hooks'
import { useAccountNames } from '@/api/names'
import { useFilters } from '@/lib/filters'
import { bytes as size } from '@/lib/format'
import { AccountPicker } from '@/ui/AccountPicker'
import {
  Badge,
  Button,
  Card,
  CodeBlock,
  Empty,
  Field,
  Forbidden,
  Input,
  Notice,
  PageHead,
  Select,
  Textarea,
  toast,
  type Tone,
} from '@/ui'
import { rawEvent } from '../events/raw'
import { readHeaders } from './hook'
import { endpointName } from './useEndpoints'

const verdicts: Record<SignatureCheck['verdict'], [string, Tone]> = {
  match: ['The signature matches', 'ok'],
  timestamp_old: ['The signature matches but is too old', 'warn'],
  wrong_secret: ['Wrong secret', 'bad'],
  other_account: ['The secret of another webhook', 'bad'],
  previous_secret: ['The previous secret', 'bad'],
  body_changed: ['The body was changed', 'bad'],
  header_missing: ['The signature is missing', 'bad'],
  header_malformed: ['The header is malformed', 'bad'],
  base64: ['The hash is base64, not hex', 'bad'],
}

const good = [
  {
    name: 'Go',
    code: 'body, _ := io.ReadAll(r.Body) // before anything parses it\nif !verify.Request(secret, r.Header, body, time.Now()) {\n\thttp.Error(w, "not signed", http.StatusUnauthorized)\n\treturn\n}',
  },
  {
    name: 'TypeScript',
    code: "// raw bytes, not a parsed body\napp.post('/hooks', express.raw({ type: '*/*' }), (req, res) => {\n  if (!verifyRequest(secret, req.headers, req.body)) return res.status(401).end()\n  queue.add(JSON.parse(req.body.toString()))\n  res.status(204).end()\n})",
  },
  {
    name: 'Python',
    code: 'body = request.get_data()  # before request.json\nif not verify_request(secret, {k.lower(): v for k, v in request.headers.items()}, body):\n    abort(401)',
  },
]

function base64(data: Uint8Array): string {
  let text = ''
  for (let i = 0; i < data.length; i += 0x8000) text += String.fromCharCode(...data.subarray(i, i + 0x8000))
  return btoa(text)
}

/** Says why a signature does not match. */
export default function Signature() {
  const f = useFilters({ account: '', endpoint: '', event: '' })
  const name = useAccountNames()
  const endpoints = useEndpoints().data ?? []
  const [body, setBody] = useState('')
  const [file, setFile] = useState<{ name: string; data: Uint8Array } | null>(null)
  const [headers, setHeaders] = useState('')
  const [secret, setSecret] = useState('')
  const picker = useRef<HTMLInputElement>(null)
  const read = readHeaders(headers)
  const check = useMutation({
    mutationFn: () =>
      call<SignatureCheck>('POST', '/v1/webhooks/check-signature', {
        body: {
          ...(f.values.endpoint
            ? { endpointId: f.values.endpoint }
            : f.values.account
              ? { accountId: f.values.account }
              : {}),
          ...(f.values.event.trim() ? { eventId: f.values.event.trim() } : {}),
          ...(file ? { bodyBase64: base64(file.data) } : { body }),
          headers: read,
          ...(secret ? { secret } : {}),
        },
      }),
  })
  const fetchBody = useMutation({
    mutationFn: () => rawEvent(f.values.event.trim()),
    onSuccess: (r) => {
      setFile(null)
      setBody(r.text)
    },
    onError: toast.problem,
  })
  const error = check.error && isProblem(check.error) ? check.error : null
  return (
    <>
      <PageHead
        title="Check a signature"
        hint="Paste a delivery to see why its signature does not match. Nothing is stored or logged."
        back={
          <Link to="/webhooks" className="link">
            ← Webhooks
          </Link>
        }
      />
      <div className="grid items-start gap-3 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <Card title="Delivery">
          <form
            className="space-y-4"
            onSubmit={(e) => {
              e.preventDefault()
              check.mutate()
            }}
          >
            <Field
              label="Headers"
              hint={
                Object.keys(read).length
                  ? `Read: ${Object.keys(read).join(', ')}`
                  : 'Lines as received, a JSON object, or only the value of X-Webhook-Signature'
              }
              error={error?.field('headers')}
            >
              {(p) => (
                <Textarea
                  {...p}
                  mono
                  rows={4}
                  spellCheck={false}
                  autoComplete="off"
                  placeholder={'X-Webhook-Signature: sha256=…\nwebhook-id: evt_…\nwebhook-timestamp: 1763229600'}
                  value={headers}
                  onChange={(e) => setHeaders(e.target.value)}
                />
              )}
            </Field>
            <div>
              {file ? (
                <div>
                  <div className="mb-1 font-medium">Body</div>
                  <div className="flex flex-wrap items-center gap-2 rounded-lg border bg-subtle px-3 py-2">
                    <span className="min-w-0 flex-1 break-all">
                      {file.name} · {size(file.data.length)}
                    </span>
                    <Button size="sm" onClick={() => setFile(null)}>
                      Remove
                    </Button>
                  </div>
                </div>
              ) : (
                <Field
                  label="Body"
                  hint="The body that your receiver checked. A text field changes line endings: choose a file for exact bytes."
                  error={error?.field('body')}
                >
                  {(p) => (
                    <Textarea
                      {...p}
                      mono
                      rows={6}
                      spellCheck={false}
                      placeholder={'{"id":"evt_…","event":"message",…}'}
                      value={body}
                      onChange={(e) => setBody(e.target.value)}
                    />
                  )}
                </Field>
              )}
              <div className="mt-2 flex flex-wrap gap-2">
                <Button size="sm" onClick={() => picker.current?.click()}>
                  Choose a file
                </Button>
                <input
                  ref={picker}
                  type="file"
                  className="hidden"
                  aria-label="File with the body"
                  tabIndex={-1}
                  onChange={(e) => {
                    const one = e.target.files?.[0]
                    e.target.value = ''
                    if (!one) return
                    if (one.size > 512 * 1024) toast.bad('The file is larger than 512 KB. No delivery is that large.')
                    else void one.arrayBuffer().then((b) => setFile({ name: one.name, data: new Uint8Array(b) }))
                  }}
                />
                {f.values.event.trim() ? (
                  <Button size="sm" busy={fetchBody.isPending} onClick={() => fetchBody.mutate()}>
                    Insert the body that we sent
                  </Button>
                ) : null}
              </div>
            </div>
            <div className="grid gap-3 sm:grid-cols-2">
              <Field
                label="Endpoint"
                note="optional"
                hint="Default: the one whose secret fits"
                error={error?.code === 'endpoint-not-found' ? error.detail : undefined}
              >
                {(p) => (
                  <Select
                    {...p}
                    className="w-full"
                    value={f.values.endpoint}
                    onChange={(e) => f.set({ endpoint: e.target.value, account: '' })}
                  >
                    <option value="">Not specified</option>
                    {endpoints.map((e) => (
                      <option key={e.id} value={e.id}>
                        {endpointName(e)}
                      </option>
                    ))}
                  </Select>
                )}
              </Field>
              <Field
                label="Account"
                note="optional"
                hint="For an account’s own webhook. Default: the account of the event or the body"
              >
                {({ id, 'aria-describedby': described }) => (
                  <AccountPicker
                    id={id}
                    aria-describedby={described}
                    none="Not specified"
                    value={f.values.account || null}
                    onChange={(v) => f.set({ account: v ?? '', endpoint: '' })}
                  />
                )}
              </Field>
              <Field
                label="Event id"
                note="optional"
                hint="To compare the body with what was sent"
                className="sm:col-span-2"
                error={error?.field('eventId') ?? (error?.code === 'event-not-found' ? error.detail : undefined)}
              >
                {(p) => (
                  <Input
                    {...p}
                    mono
                    className="text-xs"
                    spellCheck={false}
                    placeholder="evt_…"
                    value={f.values.event}
                    onChange={(e) => f.set({ event: e.target.value })}
                  />
                )}
              </Field>
              <Field
                label="Secret"
                note="optional"
                hint="The secret that your receiver uses. Default: that of the endpoint or webhook."
                className="sm:col-span-2"
                error={error?.field('secret')}
              >
                {(p) => (
                  <Input
                    {...p}
                    type="password"
                    mono
                    autoComplete="off"
                    spellCheck={false}
                    placeholder="whsec_…"
                    value={secret}
                    onChange={(e) => setSecret(e.target.value)}
                  />
                )}
              </Field>
            </div>
            <Button
              type="submit"
              variant="primary"
              why={!body && !file ? 'Enter the body' : null}
              busy={check.isPending}
            >
              Check
            </Button>
          </form>
        </Card>
        <div className="min-w-0 space-y-3">
          <Card title="Result">
            <div aria-live="polite">
              {error ? (
                error.forbidden ? (
                  <Forbidden what="check signatures" />
                ) : (
                  <Notice tone="bad">
                    {error.detail} {error.requestId ? <code className="text-xs">{error.requestId}</code> : null}
                  </Notice>
                )
              ) : check.data ? (
                <Verdict
                  r={check.data}
                  name={name}
                  endpoint={(id) => {
                    const one = endpoints.find((e) => e.id === id)
                    return one ? endpointName(one) : id
                  }}
                />
              ) : (
                <Empty title="Nothing checked yet" className="!py-8">
                  Common causes: a parsed and re-serialised body, the secret of another webhook, a truncated header,
                  base64 instead of hex.
                </Empty>
              )}
            </div>
          </Card>
          <div className="min-w-0">
            <h2 className="mb-1 font-medium">How to check it in code</h2>
            <CodeBlock snippets={good} />
          </div>
        </div>
      </div>
    </>
  )
}

function Verdict({
  r,
  name,
  endpoint,
}: {
  r: SignatureCheck
  name: (id: string | null | undefined) => string
  endpoint: (id: string) => string
}) {
  const [title, tone] = verdicts[r.verdict] ?? [r.verdict, 'bad' as Tone]
  const Icon = tone === 'ok' ? CircleCheck : tone === 'warn' ? CircleAlert : CircleX
  return (
    <div className="space-y-3">
      <div className="flex items-start gap-2">
        <Icon
          className={
            tone === 'ok'
              ? 'mt-0.5 size-5 shrink-0 text-ok-text'
              : tone === 'warn'
                ? 'mt-0.5 size-5 shrink-0 text-warn-text'
                : 'mt-0.5 size-5 shrink-0 text-bad-text'
          }
          aria-hidden
        />
        <div className="min-w-0">
          <p className="flex flex-wrap items-center gap-2 text-base font-semibold">
            {title}
            <Badge mono tone={tone}>
              {r.verdict}
            </Badge>
          </p>
          <p className="mt-0.5 text-soft">{r.message}</p>
        </div>
      </div>
      {r.details.length > 0 ? (
        <ul className="divide-y rounded-lg border">
          {r.details.map((d, i) => (
            <li key={i} className="px-3 py-1.5">
              {d.message} <code className="text-xs text-mute">{d.code}</code>
            </li>
          ))}
        </ul>
      ) : null}
      {r.secretOfAccountId ? (
        <p>
          This is the secret of{' '}
          <Link to="/webhooks/$account" params={{ account: r.secretOfAccountId }} className="link">
            {name(r.secretOfAccountId)}
          </Link>
          .
        </p>
      ) : null}
      {r.secretOfEndpointId ? (
        <p>
          This is the secret of{' '}
          <Link to="/webhooks/endpoints/$id" params={{ id: r.secretOfEndpointId }} className="link">
            {endpoint(r.secretOfEndpointId)}
          </Link>
          .
        </p>
      ) : null}
      {r.endpointId || r.accountId || r.eventId ? (
        <p className="text-xs text-mute">
          Compared with{' '}
          {r.endpointId ? (
            <>
              the endpoint{' '}
              <Link to="/webhooks/endpoints/$id" params={{ id: r.endpointId }} className="link">
                {endpoint(r.endpointId)}
              </Link>
            </>
          ) : r.accountId ? (
            <>
              the webhook of{' '}
              <Link to="/webhooks/$account" params={{ account: r.accountId }} className="link">
                {name(r.accountId)}
              </Link>
            </>
          ) : null}
          {(r.endpointId || r.accountId) && r.eventId ? ' and ' : null}
          {r.eventId ? (
            <Link to="/events/$id" params={{ id: r.eventId }} className="link">
              the stored event
            </Link>
          ) : null}
          .
        </p>
      ) : null}
    </div>
  )
}
