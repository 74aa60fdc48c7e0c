import { useState } from 'react'
import { useMutation } from '@tanstack/react-query'
import { api } from '@/api/client'
import { cx } from '@/lib/cx'
import { useSession, useWhyNot } from '@/shell/session'
import { Button, ButtonLink, Card, Empty, Failed, Notice, Segments } from '@/ui'

/** The creators' page in a frame, through a real link that expires after ten minutes. */
export function Preview() {
  const { org } = useSession()
  const why = useWhyNot('accounts:write', 'create a link for the preview')
  const [width, setWidth] = useState('phone')
  const [lang, setLang] = useState('en')
  const make = useMutation({
    mutationFn: async () => {
      const { session } = await api.post('/v1/connect/sessions', {
        body: { expires_in_sec: 600, label: 'Preview', allowed_origins: [location.origin] },
      })
      // The page may be served under another host; a frame may only show our own.
      return session.url ? new URL(session.url).pathname : null
    },
  })
  const path = make.data
  return (
    <Card
      title="What creators see"
      hint="The page of a connect link, with your name and colours"
      actions={
        <>
          <Segments
            label="Width"
            items={[
              { value: 'phone', label: 'Phone' },
              { value: 'desktop', label: 'Desktop' },
            ]}
            value={width}
            onChange={setWidth}
          />
          <Segments
            label="Language"
            items={[
              { value: 'en', label: 'English' },
              { value: 'es', label: 'Español' },
            ]}
            value={lang}
            onChange={setLang}
          />
          <ButtonLink to="/settings/$section" params={{ section: 'page' }}>
            Colours
          </ButtonLink>
        </>
      }
    >
      {make.isError ? (
        <Failed what="the preview" error={make.error} retry={() => make.mutate()} />
      ) : path ? (
        <div className="space-y-3">
          <Notice tone="warn">
            This is a working{org.environment === 'sandbox' ? ' sandbox' : ''} link, valid for ten minutes. Signing in
            here really connects an account.
          </Notice>
          <div
            className={cx(
              'mx-auto overflow-hidden rounded-xl border bg-bg',
              width === 'phone' ? 'max-w-[390px]' : 'max-w-full',
            )}
          >
            <iframe
              key={lang}
              title="The page that creators see"
              src={`${path}/embed?lang=${lang}`}
              className="block h-[640px] w-full"
              referrerPolicy="no-referrer"
            />
          </div>
          <div className="flex justify-center">
            <Button size="sm" busy={make.isPending} onClick={() => make.mutate()}>
              Load a new preview
            </Button>
          </div>
        </div>
      ) : (
        <Empty
          title="See the page as a creator does"
          action={
            <Button variant="primary" why={why} busy={make.isPending} onClick={() => make.mutate()}>
              Show the page
            </Button>
          }
        >
          This creates a link that expires after ten minutes and opens it here. It appears in the list of links.
        </Empty>
      )}
    </Card>
  )
}
