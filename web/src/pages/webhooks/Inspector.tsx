import type { ReactNode } from 'react'
import { Link } from '@tanstack/react-router'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { RotateCcw } from 'lucide-react'
import { call, isProblem } from '@/api/client'
import { keys } from '@/api/hooks'
import type { Delivery, EndpointDelivery, Webhook } from '@/api/types'
import { millis } from '@/lib/format'
import { useWhyNot } from '@/shell/session'
import { Button, Code, Facts, Id, Json, Query, Skeleton, State, Status, Time, toast } from '@/ui'
import { headersOf, rawEvent, reproduce } from '../events/raw'
import { failureHelp, failureTitle } from './failures'
import { pathOf, type Target } from './target'

const causes: Record<string, string> = {
  live: 'live',
  retry: 'retry, out of order',
  redeliver: 'manual redelivery',
  replay: 'replay',
  test: 'test',
}
/** Sends the event of a delivery again. */
function useRedeliver(of: Target) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: (id: string) => call('POST', `${pathOf(of)}/deliveries/${encodeURIComponent(id)}/redeliver`),
    onSuccess: () => {
      toast.ok('Sending the event again, once')
      setTimeout(() => void client.invalidateQueries({ queryKey: ['deliveries'] }), 2500)
    },
    onError: toast.problem,
  })
}

/** Reports whether the event of a delivery is stored. Tests and ephemeral events are not. */
const isStored = (d: Delivery): boolean => d.cause !== 'test' && d.cursor !== null

/** What became of an attempt, the response, and a button that repeats it. */
function Outcome({
  delivery: d,
  of,
  name,
  nextAttemptAt,
}: {
  delivery: Delivery
  of: Target
  /** The name of the account; null for an event of the organisation. */
  name: string | null
  nextAttemptAt: string | null | undefined
}) {
  const why = useWhyNot('webhooks:write', 'redeliver events')
  const again = useRedeliver(of)
  const stored = isStored(d)
  const help = d.status ? null : failureHelp(d.error)
  const facts: [ReactNode, ReactNode][] = [
    ['State', <State key="s" state={d.state} />],
    [
      'Response',
      d.status ? (
        <Status key="a" status={d.status} />
      ) : (
        <span key="a" className="text-bad-text">
          {failureTitle(d.error)}
        </span>
      ),
    ],
    [
      'Duration',
      <span key="t" className="font-mono text-xs">
        {millis(d.durationMs)}
      </span>,
    ],
    ['Time', <Time key="at" at={d.at} as="exact" />],
    ['Attempt', `${d.attempt} (${causes[d.cause] ?? d.cause})`],
    ...(d.state === 'failed' && nextAttemptAt
      ? ([['Next attempt', <Time key="n" at={nextAttemptAt} />]] as [ReactNode, ReactNode][])
      : []),
    [
      'Event',
      stored ? (
        <Link key="e" to="/events/$id" params={{ id: d.eventId }} className="link font-mono text-xs break-all">
          {d.eventId}
        </Link>
      ) : (
        <Id key="e" id={d.eventId} short />
      ),
    ],
    [
      'Account',
      d.accountId && name !== null ? (
        <Link key="ac" to="/accounts/$id" params={{ id: d.accountId }} className="link">
          {name}
        </Link>
      ) : (
        'none: an event of the organisation'
      ),
    ],
  ]
  return (
    <>
      <Facts items={facts} />
      <div className="flex flex-wrap gap-2">
        <Button
          icon={<RotateCcw className="size-4" aria-hidden />}
          why={why ?? (stored ? null : 'Tests are not stored. Send another one')}
          busy={again.isPending}
          onClick={() => again.mutate(d.id)}
        >
          Redeliver
        </Button>
      </div>
      <div>
        <h3 className="mb-1 font-medium">Response</h3>
        {d.responseSnippet ? (
          <Code code={d.responseSnippet} label="response" wrap />
        ) : (
          <p className="text-mute">
            {d.state === 'delivered'
              ? 'Accepted. The response body of an accepted delivery is not stored.'
              : d.status
                ? 'The response had no body.'
                : `${failureTitle(d.error)}.${help ? ' ' + help : ''}`}
          </p>
        )}
      </div>
    </>
  )
}

/** One attempt to deliver an event to an endpoint: the request as it was sent, the response, and a command that repeats it. */
export function EndpointInspector({
  delivery: d,
  endpoint,
  name,
  nextAttemptAt,
}: {
  delivery: Delivery
  endpoint: string
  name: string | null
  nextAttemptAt: string | null | undefined
}) {
  const of: Target = { kind: 'endpoint', id: endpoint }
  const detail = useQuery({
    queryKey: ['deliveries', 'sent', d.id],
    queryFn: async ({ signal }) =>
      (
        await call<{ delivery: EndpointDelivery }>('GET', `${pathOf(of)}/deliveries/${encodeURIComponent(d.id)}`, {
          signal,
        })
      ).delivery,
    staleTime: Infinity,
  })
  return (
    <div className="space-y-4">
      <Outcome delivery={d} of={of} name={name} nextAttemptAt={nextAttemptAt} />
      <Query query={detail} what="the request" skeleton={<Skeleton className="h-40 w-full" />}>
        {({ request, curl }) => (
          <>
            <div>
              <h3 className="mb-1 font-medium">Request headers</h3>
              <Code
                label="headers"
                code={[
                  `${request.method} ${request.url}`,
                  ...Object.entries(request.headers)
                    .sort(([a], [b]) => a.localeCompare(b))
                    .map(([n, v]) => `${n}: ${v}`),
                ].join('\n')}
              />
              <p className="mt-1 text-xs text-mute">As sent, without the signatures, which are not stored.</p>
            </div>
            <div>
              <h3 className="mb-1 font-medium">Request body</h3>
              {request.body === null ? (
                <p className="text-mute">
                  {isStored(d)
                    ? 'The event is older than your plan keeps events.'
                    : 'Tests and ephemeral events are not stored.'}
                </p>
              ) : (
                <Body text={request.body} />
              )}
            </div>
            {request.body === null ? null : (
              <div>
                <h3 className="mb-1 font-medium">Repeat this delivery by hand</h3>
                <Code code={curl} label="curl" wrap />
                <p className="mt-1 text-xs text-mute">
                  Sends the same bytes without a signature. A receiver that checks signatures refuses it.
                </p>
              </div>
            )}
          </>
        )}
      </Query>
    </div>
  )
}

/** The body of a request, as a tree if it is JSON. */
function Body({ text }: { text: string }) {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return <Code code={text} label="body" wrap />
  }
  return <Json value={value} label="body" open={2} />
}

/** One attempt to deliver an event to the webhook of an account: what was sent, the response, and how to repeat it by hand. */
export function Inspector({
  delivery: d,
  account,
  hook,
  name,
}: {
  delivery: Delivery
  account: string
  hook: Webhook | null | undefined
  name: string
}) {
  const stored = isStored(d)
  const raw = useQuery({
    queryKey: keys.event(d.eventId),
    queryFn: ({ signal }) => rawEvent(d.eventId, signal),
    staleTime: Infinity,
    enabled: stored,
  })
  const sent = {
    url: hook?.url ?? 'https://example.com/hooks',
    event: d.event,
    eventId: d.eventId,
    attempt: d.attempt,
    at: Math.floor((Date.parse(d.at) - d.durationMs) / 1000),
    seq: raw.data?.event.meta.seq ?? null,
  }
  const gone = raw.isError && isProblem(raw.error) && raw.error.notFound
  return (
    <div className="space-y-4">
      <Outcome
        delivery={d}
        of={{ kind: 'account', id: account }}
        name={name}
        nextAttemptAt={hook?.health.nextAttemptAt}
      />
      <div>
        <h3 className="mb-1 font-medium">Request headers</h3>
        <Code
          label="headers"
          code={[
            `POST ${hook ? hook.url : '(the webhook was deleted)'}`,
            ...headersOf(sent).map(([n, v]) => `${n}: ${v}`),
            `X-Webhook-Signature: sha256=(HMAC of the body with the secret${hook ? ` ending ${hook.signingSecretLast4}` : ''})`,
          ].join('\n')}
        />
        <p className="mt-1 text-xs text-mute">These headers are reconstructed. The signature itself is not stored.</p>
      </div>
      <div>
        <h3 className="mb-1 font-medium">Request body</h3>
        {!stored || gone ? (
          <p className="text-mute">
            {gone ? 'The event is older than your plan keeps events.' : 'Tests and ephemeral events are not stored.'}
          </p>
        ) : (
          <Query query={raw} what="the body" skeleton={<Skeleton className="h-24 w-full" />}>
            {(r) => (
              <div className="space-y-3">
                <Json value={r.event} label="body" open={2} />
                <div>
                  <h3 className="mb-1 font-medium">Repeat this delivery by hand</h3>
                  <Code code={reproduce(sent, r.text)} label="script" />
                  <p className="mt-1 text-xs text-mute">
                    The body has the exact bytes that are signed. Set <code>WEBHOOK_SECRET</code> to your secret.
                  </p>
                </div>
              </div>
            )}
          </Query>
        )}
      </div>
    </div>
  )
}
