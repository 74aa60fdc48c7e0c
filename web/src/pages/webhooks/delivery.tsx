import { Link, useParams } from '@tanstack/react-router'
import { useQuery } from '@tanstack/react-query'
import { call, fill, isProblem } from '@/api/client'
import { useAccountNames } from '@/api/names'
import type { Delivery } from '@/api/types'
import { ButtonLink, Card, Empty, Failed, Id, PageHead, SkeletonRows, State } from '@/ui'
import { useHook } from './hook'
import { EndpointInspector, Inspector } from './Inspector'
import { endpointName, useEndpoint } from './useEndpoints'

/** One delivery: the page of a pasted whd_ id. */
export default function DeliveryPage() {
  const { id } = useParams({ strict: false }) as { id: string }
  const name = useAccountNames()
  const query = useQuery({
    queryKey: ['deliveries', 'one', id],
    queryFn: async ({ signal }) =>
      (await call<{ delivery: Delivery }>('GET', fill('/v1/deliveries/{id}', { id }), { signal })).delivery,
  })
  const d = query.data
  const endpoint = useEndpoint(d?.endpointId ?? '')
  const hook = useHook(d && !d.endpointId ? d.accountId : '')
  const gone = query.isError && isProblem(query.error) && query.error.notFound
  return (
    <>
      <PageHead
        title={
          d ? (
            <>
              <span>Delivery of {d.event}</span>
              <State state={d.state} />
            </>
          ) : (
            'Delivery'
          )
        }
        back={
          d?.endpointId ? (
            <Link to="/webhooks/endpoints/$id" params={{ id: d.endpointId }} className="link">
              ← {endpoint.data ? endpointName(endpoint.data) : 'Endpoint'}
            </Link>
          ) : d ? (
            <Link to="/webhooks/$account" params={{ account: d.accountId }} className="link">
              ← Webhook of {name(d.accountId)}
            </Link>
          ) : (
            <Link to="/webhooks" className="link">
              ← Webhooks
            </Link>
          )
        }
        hint={<Id id={id} />}
      />
      <Card>
        {d ? (
          <>
            <h2 className="sr-only">Details</h2>
            {d.endpointId ? (
              <EndpointInspector
                delivery={d}
                endpoint={d.endpointId}
                name={d.accountId ? name(d.accountId) : null}
                nextAttemptAt={endpoint.data?.health.nextAttemptAt}
              />
            ) : (
              <Inspector delivery={d} account={d.accountId} hook={hook.data} name={name(d.accountId)} />
            )}
          </>
        ) : gone ? (
          <Empty title="Delivery not found" action={<ButtonLink to="/webhooks">Webhooks</ButtonLink>}>
            We keep deliveries as long as your plan allows. This one may also belong to another organisation.
          </Empty>
        ) : query.isError ? (
          <Failed what="the delivery" error={query.error} retry={() => void query.refetch()} />
        ) : (
          <SkeletonRows rows={5} />
        )}
      </Card>
    </>
  )
}
