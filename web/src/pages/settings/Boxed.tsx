import type { ReactNode } from 'react'
import type { UseQueryResult } from '@tanstack/react-query'
import { Card, Failed, Query } from '@/ui'

/** A Query for content that has its own cards: a failure is shown in a card too. */
export function Boxed<T>({
  query,
  what,
  skeleton,
  children,
}: {
  query: UseQueryResult<T>
  what: string
  skeleton?: ReactNode
  children: (data: T) => ReactNode
}) {
  if (query.data === undefined && query.isError)
    return (
      <Card>
        <Failed what={what} error={query.error} retry={() => void query.refetch()} />
      </Card>
    )
  return (
    <Query query={query} what={what} {...(skeleton ? { skeleton } : {})}>
      {children}
    </Query>
  )
}
