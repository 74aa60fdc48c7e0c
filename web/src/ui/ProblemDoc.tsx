import { useQuery } from '@tanstack/react-query'
import { ExternalLink } from 'lucide-react'
import { call } from '@/api/client'
import { cx } from '@/lib/cx'
import { Badge } from './Badge'
import { Markdown } from './Markdown'
import { Skeleton } from './States'

export interface ProblemPage {
  code: string
  status: number
  title: string
  retryable: boolean
  fix: string
  /** Markdown; its first line is the title. */
  document?: string
}

/** Loads the documentation page of a problem. It is not billed and does not change, so it is cached. */
export function useProblemPage(code: string | null) {
  return useQuery({
    queryKey: ['problem', code],
    queryFn: ({ signal }) =>
      call<ProblemPage>('GET', '/problems/' + (code ?? '').split('/').map(encodeURIComponent).join('/'), { signal }),
    enabled: Boolean(code),
    staleTime: Infinity,
    retry: false,
  })
}

/** The documentation page of a problem: what it means and what to do. Renders nothing if there is no page. */
export function ProblemDoc({ code, className }: { code: string; className?: string }) {
  const page = useProblemPage(code)
  if (page.isPending)
    return (
      <div className={cx('space-y-2', className)}>
        <Skeleton className="h-4 w-1/2" />
        <Skeleton className="h-4 w-full" />
      </div>
    )
  if (!page.data) return null
  const { title, fix, retryable, document: text } = page.data
  return (
    <div className={cx('min-w-0 text-sm', className)}>
      <div className="mb-2 flex flex-wrap items-center gap-2">
        <h3 className="font-semibold">{title}</h3>
        <Badge tone={retryable ? 'info' : 'neutral'}>{retryable ? 'can be retried' : 'do not retry'}</Badge>
        <a
          href={'/problems/' + code}
          target="_blank"
          rel="noopener"
          className="link ml-auto inline-flex items-center gap-1 text-xs"
        >
          Docs <ExternalLink className="size-3" aria-hidden />
        </a>
      </div>
      {text ? (
        <Markdown text={text.replace(/^# .*\n/, '')} under={3} className="text-soft" />
      ) : (
        <p className="text-soft">{fix}</p>
      )}
    </div>
  )
}
