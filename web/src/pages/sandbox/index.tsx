import { useQuery } from '@tanstack/react-query'
import { FlaskConicalOff } from 'lucide-react'
import { call, isProblem } from '@/api/client'
import type { Account, Personas } from '@/api/types'
import { useFilters } from '@/lib/filters'
import { useDialogs } from '@/shell/dialogs'
import { useSession, useWhyNot } from '@/shell/session'
import { AccountPicker, Button, Card, Empty, Failed, PageHead, State, toast } from '@/ui'
import { useChosen } from './account'
import { Act } from './Act'
import { Generator } from './Generator'
import { PersonaTable } from './Personas'
import { Tail } from './Tail'
import { Trouble } from './Trouble'

/** Controls the sandbox platform: its fans, its faults and its event generator. */
export default function Sandbox() {
  const { org } = useSession()
  return org.environment === 'sandbox' ? <Play /> : <Live />
}

function Live() {
  const { org, orgs, switchOrg } = useSession()
  const others = orgs.filter((o) => o.environment === 'sandbox')
  return (
    <>
      <PageHead title="Sandbox" hint="Simulated creators, fans and faults" />
      <Card>
        <Empty
          title={`${org.name} is live`}
          icon={<FlaskConicalOff className="size-5" />}
          action={others.map((o) => (
            <Button key={o.id} variant="primary" onClick={() => void switchOrg(o.id).catch(toast.problem)}>
              Switch to {o.name}
            </Button>
          ))}
        >
          Its accounts belong to real people on the real platform, so nothing can be simulated here.{' '}
          {others.length > 0
            ? 'Use this page in your sandbox organisation.'
            : 'Ask the operators of this service for a sandbox organisation.'}
        </Empty>
      </Card>
    </>
  )
}

function Play() {
  const f = useFilters({ account: '' })
  const chosen = useChosen(f.values.account)
  const { connect } = useDialogs()
  const why = useWhyNot('accounts:write', 'control the sandbox')
  const personas = useQuery({
    queryKey: ['personas'],
    queryFn: ({ signal }) => call<Personas>('GET', '/v1/sandbox/personas', { signal }),
    staleTime: Infinity,
    retry: false,
  })
  const account: Account | null = chosen.account
  return (
    <>
      <PageHead
        title="Sandbox"
        hint="Act as a fan, break the platform, generate events. No real people are contacted."
        actions={
          <>
            {account ? <State state={account.state} /> : null}
            <AccountPicker
              label="Sandbox account"
              platform="sandbox"
              className="w-60 max-w-full"
              value={chosen.id}
              onChange={(id) => f.set({ account: id ?? '' })}
              placeholder={chosen.none ? 'No accounts yet' : 'Choose an account'}
            />
          </>
        }
      />
      <div className="grid min-w-0 gap-3 lg:grid-cols-2">
        {chosen.none ? (
          <Card className="lg:col-span-2">
            <Empty
              title="Connect a sandbox account first"
              action={
                <Button
                  variant="primary"
                  why={why}
                  onClick={() => connect({ method: 'login', email: 'ok@sandbox.test' })}
                >
                  Connect ok@sandbox.test
                </Button>
              }
            >
              Any login in the table below works, with any password.
            </Empty>
          </Card>
        ) : chosen.missing ? (
          <Card className="lg:col-span-2">
            <Empty
              title="Account not found"
              action={<Button onClick={() => f.set({ account: '' })}>Choose another</Button>}
            >
              {isProblem(chosen.error) ? chosen.error.detail : null}
            </Empty>
          </Card>
        ) : chosen.failed && !account ? (
          <Card className="lg:col-span-2">
            <Failed what="the accounts" error={chosen.error} retry={chosen.retry} />
          </Card>
        ) : (
          <>
            <Act account={account} why={why} />
            <Tail account={account} />
            <Trouble account={account} why={why} />
            <Generator account={account} why={why} />
          </>
        )}
        <PersonaTable personas={personas} why={why} />
      </div>
    </>
  )
}
