import { ButtonLink } from '@/ui/Button'
import { Empty } from '@/ui/States'

export function NotFound() {
  return (
    <div className="card">
      <h1 className="sr-only">Not found</h1>
      <Empty title="There is no page at this address" action={<ButtonLink to="/">Go to the overview</ButtonLink>}>
        The link may be out of date.
      </Empty>
    </div>
  )
}
