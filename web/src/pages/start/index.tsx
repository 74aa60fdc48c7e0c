import { ButtonLink, PageHead } from '@/ui'
import { Guide } from './Guide'
import { useSetup } from './setup'

export default function Start() {
  const { progress } = useSetup()
  return (
    <div className="mx-auto max-w-3xl">
      <PageHead title="Start here" hint={progress} actions={<ButtonLink to="/">Overview</ButtonLink>} />
      <Guide />
    </div>
  )
}
