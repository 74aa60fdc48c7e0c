import { Link } from '@tanstack/react-router'
import type { Account, Endpoint } from '@/api/types'
import { plural } from '@/lib/format'
import { endpointName } from '../webhooks/useEndpoints'

/** The endpoints of the organisation that get the events of an account. */
export function endpointsOf(a: Pick<Account, 'id' | 'platform'>, list: readonly Endpoint[] | undefined): Endpoint[] {
  return (list ?? []).filter(
    (e) =>
      e.enabled &&
      (e.accountIds === null || e.accountIds.includes(a.id)) &&
      (e.platforms === null || e.platforms.includes(a.platform)),
  )
}

/** Names the endpoint, or says how many there are. */
export function Endpoints({ list }: { list: Endpoint[] }) {
  const [only, ...others] = list
  if (!only) return null
  return others.length > 0 ? (
    <Link to="/webhooks" className="link">
      {plural(list.length, 'endpoint', 'endpoints')}
    </Link>
  ) : (
    <>
      endpoint{' '}
      <Link to="/webhooks/endpoints/$id" params={{ id: only.id }} className="link break-all">
        {endpointName(only)}
      </Link>
    </>
  )
}
