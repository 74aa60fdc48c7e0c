import { Skeleton, SkeletonRows } from '@/ui/States'

/** A placeholder while the code of a page loads. */
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
