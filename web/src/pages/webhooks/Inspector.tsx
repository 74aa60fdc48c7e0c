import type { ReactNode } from 'react'
import { Link } from '@tanstack/react-router'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { RotateCcw } from 'lucide-react'
import { api, isProblem } from '@/api/client'
import { keys } from '@/api/hooks'
import type { Delivery, Webhook } from '@/api/types'
import { millis, words } from '@/lib/format'
import { useWhyNot } from '@/shell/session'
import { Button, Code, Facts, Id, Json, Query, Skeleton, State, Status, Time, toast } from '@/ui'
import { headersOf, rawEvent, reproduce } from '../events/raw'

export const causes: Record<string, string> = {
  live: 'live',
  retry: 'retry, out of order',
  redeliver: 'manual redelivery',
  replay: 'replay',
  test: 'test',
}
const errors: Record<string, string> = {
  destination_blocked: 'The address is not public',
  connect: 'We could not connect',
  tls: 'The TLS handshake failed',
  timeout: 'No response within 10 seconds',
  connection_broken: 'The connection was lost',
  bad_response: 'The response was not valid HTTP',
}
export function errorWord(code: string | null): string {
  return code ? (errors[code] ?? words(code)) : 'No response'
}

export function useRedeliver(account: string) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: (id: string) =>
      api.post('/v1/accounts/{id}/webhook/deliveries/{deliveryId}/redeliver', {
        path: { id: account, deliveryId: id },
      }),
    onSuccess: () => {
      toast.ok('Sending the event again, once')
      setTimeout(() => void client.invalidateQueries({ queryKey: ['deliveries'] }), 2500)
    },
    onError: toast.problem,
  })
}

/** One attempt to deliver an event: what was sent, the response, and how to repeat it by hand. */
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
  const why = useWhyNot('webhooks:write', 'redeliver events')
  const again = useRedeliver(account)
  const stored = d.cause !== 'test' && d.cursor !== null
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
  const facts: [ReactNode, ReactNode][] = [
    ['State', <State key="s" state={d.state} />],
    [
      'Response',
      d.status ? (
        <Status key="a" status={d.status} />
      ) : (
        <span key="a" className="text-bad-text">
          {errorWord(d.error)}
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
    ...(d.state === 'failed' && hook?.health.nextAttemptAt
      ? ([['Next attempt', <Time key="n" at={hook.health.nextAttemptAt} />]] as [ReactNode, ReactNode][])
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
      <Link key="ac" to="/accounts/$id" params={{ id: account }} className="link">
        {name}
      </Link>,
    ],
  ]
  const gone = raw.isError && isProblem(raw.error) && raw.error.notFound
  return (
    <div className="space-y-4">
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
                : errorWord(d.error) + '.'}
          </p>
        )}
      </div>
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
