import { useState } from 'react'
import { useNavigate } from '@tanstack/react-router'
import { Plus, ShieldCheck } from 'lucide-react'
import { useFilters } from '@/lib/filters'
import { useWhyNot } from '@/shell/session'
import { Button, ButtonLink, PageHead, Tabs } from '@/ui'
import { EndpointDialog } from './EndpointDialog'
import { Endpoints } from './Endpoints'
import { HookDialog } from './HookDialog'
import { Hooks } from './Hooks'
import { useLiveWebhooks } from './useEndpoints'

/** Where events go: the endpoints of the organisation, and the webhooks of single accounts. */
export default function Webhooks() {
  const f = useFilters({ tab: '', state: '' })
  // Links to webhooks in a state mean those of accounts.
  const tab = f.values.tab || (f.values.state ? 'accounts' : 'endpoints')
  const navigate = useNavigate()
  const why = useWhyNot('webhooks:write', 'add webhooks')
  const [adding, setAdding] = useState(false)
  const close = () => setAdding(false)
  useLiveWebhooks()
  return (
    <>
      <PageHead
        title="Webhooks"
        hint="Events of your accounts, sent to your URLs"
        actions={
          <>
            <ButtonLink to="/webhooks/signature" icon={<ShieldCheck className="size-4" aria-hidden />}>
              Check a signature
            </ButtonLink>
            <Button
              variant="primary"
              icon={<Plus className="size-4" aria-hidden />}
              why={why}
              onClick={() => setAdding(true)}
            >
              {tab === 'endpoints' ? 'Add endpoint' : 'Add webhook'}
            </Button>
          </>
        }
      />
      <Tabs
        label="Webhooks"
        tabs={[
          { value: 'endpoints', label: 'Endpoints' },
          { value: 'accounts', label: 'Of single accounts' },
        ]}
        value={tab}
        onChange={(next) =>
          void navigate({ to: '/webhooks', search: (next === 'endpoints' ? {} : { tab: next }) as never })
        }
      >
        {(shown) =>
          shown === 'endpoints' ? <Endpoints onAdd={() => setAdding(true)} /> : <Hooks onAdd={() => setAdding(true)} />
        }
      </Tabs>
      {!adding ? null : tab === 'endpoints' ? (
        <EndpointDialog
          onClose={close}
          onSaved={(id) => void navigate({ to: '/webhooks/endpoints/$id', params: { id } as never })}
        />
      ) : (
        <HookDialog
          onClose={close}
          onSaved={(account) => void navigate({ to: '/webhooks/$account', params: { account } as never })}
        />
      )}
    </>
  )
}
