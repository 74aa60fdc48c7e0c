import { Skeleton, SkeletonRows } from '@/ui/States'

/** Shown when a page's code takes longer than a blink. */
export function PagePending() {
  return (
    <div>
      <Skeleton className="mb-2 h-6 w-40" />
      <Skeleton className="mb-5 h-4 w-64" />
      <div className="card">
        <SkeletonRows />
      </div>
    </div>
  )
}
