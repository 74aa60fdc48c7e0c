import { Component, type ErrorInfo, type ReactNode } from 'react'
import type { UseQueryResult } from '@tanstack/react-query'
import { CircleCheck, Inbox, Lock, RotateCw, SearchX, TriangleAlert } from 'lucide-react'
import { isProblem } from '@/api/client'
import { useMaybeSession } from '@/shell/session'
import { cx } from '@/lib/cx'
import { Button } from './Button'
import { Id } from './Copy'
import { Time } from './Time'

/** The empty state: a title, one sentence, one button. */
export function Empty({
  title,
  children,
  action,
  icon,
  good,
  className,
}: {
  title: string
  children?: ReactNode
  action?: ReactNode
  icon?: ReactNode
  good?: boolean
  className?: string
}) {
  return (
    <div className={cx('flex flex-col items-center px-6 py-12 text-center', className)}>
      <span
        className={cx(
          'mb-3 grid size-10 place-items-center rounded-full',
          good ? 'bg-ok-soft text-ok-text' : 'bg-subtle text-mute',
        )}
        aria-hidden
      >
        {icon ?? (good ? <CircleCheck className="size-5" /> : <Inbox className="size-5" />)}
      </span>
      <p className="text-base font-semibold">{title}</p>
      {children ? <div className="mt-1 w-full max-w-md text-mute">{children}</div> : null}
      {action ? <div className="mt-4 flex flex-wrap justify-center gap-2">{action}</div> : null}
    </div>
  )
}

/** The empty state of a list whose filters match nothing. */
export function NoMatch({ title, onClear }: { title: string; onClear?: () => void }) {
  return (
    <Empty
      title={title}
      icon={<SearchX className="size-5" />}
      action={onClear ? <Button onClick={onClear}>Clear filters</Button> : undefined}
    >
      Try different search terms or fewer filters.
    </Empty>
  )
}

/** Shown for what the role may not see or do. `what` completes "Your role cannot …". */
export function Forbidden({ what, className }: { what: string; className?: string }) {
  const org = useMaybeSession()?.org
  if (!org) return <Empty title={`You cannot ${what}`} icon={<Lock className="size-5" />} className={className ?? ''} />
  return (
    <Empty title={`Your role cannot ${what}`} icon={<Lock className="size-5" />} className={className ?? ''}>
      Your role in {org.name} is {org.role}. Ask an admin or the owner for a different role.
    </Empty>
  )
}

/** A section that could not be loaded. `what` completes "We could not load …". */
export function Failed({
  what,
  error,
  retry,
  className,
}: {
  what: string
  error: unknown
  retry?: () => void
  className?: string
}) {
  if (isProblem(error) && error.forbidden) return <Forbidden what={`see ${what}`} className={className ?? ''} />
  const gone = isProblem(error) && error.notFound
  return (
    <div role="alert" className={cx('flex flex-col items-center px-6 py-10 text-center', className)}>
      <TriangleAlert className="mb-2 size-5 text-warn" aria-hidden />
      <p className="font-medium">{gone ? `We could not find ${what}.` : `We could not load ${what}.`}</p>
      {isProblem(error) ? <p className="mt-0.5 max-w-md break-words text-mute">{error.detail}</p> : null}
      <div className="mt-3 flex flex-wrap items-center justify-center gap-2">
        {retry && !gone ? (
          <Button size="sm" icon={<RotateCw className="size-3.5" aria-hidden />} onClick={retry}>
            Retry
          </Button>
        ) : null}
        {isProblem(error) && error.requestId ? <Id id={error.requestId} /> : null}
      </div>
    </div>
  )
}

/** A grey bar in place of text that is loading. */
export function Skeleton({ className }: { className?: string }) {
  return <span className={cx('shimmer block rounded', className ?? 'h-4 w-full')} aria-hidden />
}

/** Rows of grey bars, for tables and lists. */
export function SkeletonRows({ rows = 6, label = 'Loading' }: { rows?: number; label?: string }) {
  return (
    <div role="status" aria-label={label} className="divide-y">
      {Array.from({ length: rows }, (_, i) => (
        <div key={i} className="flex items-center gap-4 px-4 py-4">
          <Skeleton className="h-4 w-1/3" />
          <Skeleton className="h-4 w-20" />
          <Skeleton className="ml-auto h-4 w-16" />
        </div>
      ))}
    </div>
  )
}

/**
 * Renders the four states of a query: skeleton, failed, forbidden and content. Loaded data stays
 * when a refetch fails.
 */
export function Query<T>({
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
  if (query.data !== undefined) {
    return (
      <>
        {query.isError ? <Stale query={query} /> : null}
        {children(query.data)}
      </>
    )
  }
  if (query.isError) return <Failed what={what} error={query.error} retry={() => void query.refetch()} />
  return <>{skeleton ?? <SkeletonRows />}</>
}

/** Warns that the data shown is out of date. */
function Stale({ query }: { query: UseQueryResult<unknown> }) {
  return (
    <div role="status" className="flex flex-wrap items-center gap-2 bg-warn-soft px-4 py-1.5 text-xs text-warn-text">
      <span>
        We could not refresh this. Last updated <Time at={query.dataUpdatedAt} />.
      </span>
      <button type="button" className="underline" onClick={() => void query.refetch()}>
        Retry
      </button>
    </div>
  )
}

/** Keeps an error in one section from breaking the whole page. */
export class Boundary extends Component<{ what: string; children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: null }
  static getDerivedStateFromError(error: unknown) {
    return { error: error ?? new Error('unknown') }
  }
  override componentDidCatch(error: unknown, info: ErrorInfo) {
    console.error(error, info.componentStack)
  }
  override render() {
    if (this.state.error === null) return this.props.children
    return <Failed what={this.props.what} error={this.state.error} retry={() => this.setState({ error: null })} />
  }
}
