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

export const causes: Record<string, string> = { live: 'live', retry: 'retry beside the order', redeliver: 'redelivered by hand', replay: 'replay', test: 'test' }
const errors: Record<string, string> = {
  destination_blocked: 'The address is not a public one',
  connect: 'No connection could be made',
  tls: 'The TLS handshake failed',
  timeout: 'No answer within 10 seconds',
  connection_broken: 'The connection broke',
  bad_response: 'The answer was no HTTP',
}
export function errorWord(code: string | null): string {
  return code ? (errors[code] ?? words(code)) : 'No answer'
}

export function useRedeliver(account: string) {
  const client = useQueryClient()
  return useMutation({
    mutationFn: (id: string) => api.post('/v1/accounts/{id}/webhook/deliveries/{deliveryId}/redeliver', { path: { id: account, deliveryId: id } }),
    onSuccess: () => {
      toast.ok('It is being sent again, once')
      setTimeout(() => void client.invalidateQueries({ queryKey: ['deliveries'] }), 2500)
    },
    onError: toast.problem,
  })
}

/** One attempt to deliver an event: what was sent, what came back, and how to do the same by hand. */
export function Inspector({ delivery: d, account, hook, name }: { delivery: Delivery; account: string; hook: Webhook | null | undefined; name: string }) {
  const why = useWhyNot('webhooks:write', 'redeliver events')
  const again = useRedeliver(account)
  const stored = d.cause !== 'test' && d.cursor !== null
  const raw = useQuery({ queryKey: keys.event(d.eventId), queryFn: ({ signal }) => rawEvent(d.eventId, signal), staleTime: Infinity, enabled: stored })
  const sent = { url: hook?.url ?? 'https://example.com/hooks', event: d.event, eventId: d.eventId, attempt: d.attempt, at: Math.floor((Date.parse(d.at) - d.durationMs) / 1000), seq: raw.data?.event.meta.seq ?? null }
  const facts: [ReactNode, ReactNode][] = [
    ['State', <State key="s" state={d.state} />],
    ['Answer', d.status ? <Status key="a" status={d.status} /> : <span key="a" className="text-bad-text">{errorWord(d.error)}</span>],
    ['Took', <span key="t" className="font-mono text-xs">{millis(d.durationMs)}</span>],
    ['At', <Time key="at" at={d.at} as="exact" />],
    ['Try', `${d.attempt} (${causes[d.cause] ?? d.cause})`],
    ...(d.state === 'failed' && hook?.health.nextAttemptAt ? ([['Next try', <Time key="n" at={hook.health.nextAttemptAt} />]] as [ReactNode, ReactNode][]) : []),
    ['Event', stored ? <Link key="e" to="/events/$id" params={{ id: d.eventId }} className="link font-mono text-xs break-all">{d.eventId}</Link> : <Id key="e" id={d.eventId} short />],
    ['Account', <Link key="ac" to="/accounts/$id" params={{ id: account }} className="link">{name}</Link>],
  ]
  const gone = raw.isError && isProblem(raw.error) && raw.error.notFound
  return (
    <div className="space-y-4">
      <Facts items={facts} />
      <div className="flex flex-wrap gap-2">
        <Button icon={<RotateCcw className="size-4" aria-hidden />} why={why ?? (stored ? null : 'A test is not stored: send another')} busy={again.isPending} onClick={() => again.mutate(d.id)}>
          Redeliver
        </Button>
      </div>
      <div>
        <h3 className="mb-1 font-medium">Answer</h3>
        {d.responseSnippet ? <Code code={d.responseSnippet} label="answer" wrap /> : <p className="text-mute">{d.state === 'delivered' ? 'Accepted; what an accepted delivery is answered with is not kept.' : d.status ? 'It had no body.' : errorWord(d.error) + '.'}</p>}
      </div>
      <div>
        <h3 className="mb-1 font-medium">Request headers</h3>
        <Code
          label="headers"
          code={[`POST ${hook ? hook.url : '(the webhook is gone)'}`, ...headersOf(sent).map(([n, v]) => `${n}: ${v}`), `X-Webhook-Signature: sha256=(HMAC of the body, made with the secret${hook ? ` ending ${hook.signingSecretLast4}` : ''})`].join('\n')}
        />
        <p className="mt-1 text-xs text-mute">As they are made for every delivery; the signature itself is not kept.</p>
      </div>
      <div>
        <h3 className="mb-1 font-medium">Request body</h3>
        {!stored || gone ? (
          <p className="text-mute">{gone ? 'The event is older than your plan keeps.' : 'Tests and ephemeral events are not stored.'}</p>
        ) : (
          <Query query={raw} what="the body" skeleton={<Skeleton className="h-24 w-full" />}>
            {(r) => (
              <div className="space-y-3">
                <Json value={r.event} label="body" open={2} />
                <div>
                  <h3 className="mb-1 font-medium">Send the same by hand</h3>
                  <Code code={reproduce(sent, r.text)} label="script" />
                  <p className="mt-1 text-xs text-mute">
                    The body is in the very bytes that are signed. Put your secret into <code>WEBHOOK_SECRET</code>.
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
