import { useState } from 'react'
import { Link, useParams } from '@tanstack/react-router'
import { Ellipsis, Send } from 'lucide-react'
import { useAccount, useLiveAccounts } from '@/api/hooks'
import type { Account } from '@/api/types'
import { useFilters } from '@/lib/filters'
import { snippets } from '@/lib/snippets'
import { useDialogs } from '@/shell/dialogs'
import { useWhyNot } from '@/shell/session'
import {
  Button,
  Card,
  CodeBlock,
  Dialog,
  Failed,
  IconButton,
  Id,
  Menu,
  MenuItem,
  MenuLine,
  PageHead,
  Platform,
  Skeleton,
  SkeletonRows,
  State,
  Tabs,
} from '@/ui'
import { useAccountActions } from './actions'
import { Calls } from './Calls'
import { Disconnect } from './Disconnect'
import { Events } from './Events'
import { Health } from './Health'
import { nameOf } from './reasons'
import { AccountSettings } from './Settings'
import { WebhookTab } from './WebhookTab'

const tabs = [
  { value: 'health', label: 'Health' },
  { value: 'events', label: 'Events' },
  { value: 'calls', label: 'Calls' },
  { value: 'webhook', label: 'Webhook' },
  { value: 'settings', label: 'Settings' },
]

export default function AccountPage() {
  const { id } = useParams({ strict: false }) as { id: string }
  const f = useFilters({ tab: 'health' })
  const account = useAccount(id)
  useLiveAccounts()
  const back = (
    <Link to="/accounts" className="link">
      ← Accounts
    </Link>
  )
  const a = account.data
  if (!a) {
    if (account.isError)
      return (
        <>
          <PageHead back={back} title="Account" />
          <Card>
            <Failed what={`account ${id}`} error={account.error} retry={() => void account.refetch()} />
          </Card>
        </>
      )
    return (
      <>
        <PageHead back={back} title="Account" hint={<Skeleton className="mt-1 h-4 w-72" />} />
        <Card flush>
          <SkeletonRows rows={4} label="Loading the account" />
        </Card>
      </>
    )
  }
  const tab = tabs.some((t) => t.value === f.values.tab) ? f.values.tab : 'health'
  return (
    <>
      <PageHead
        back={back}
        title={
          <>
            <span className="min-w-0 break-words">{nameOf(a)}</span>
            <State state={a.state} />
          </>
        }
        hint={
          <span className="flex flex-wrap items-center gap-x-4 gap-y-0.5">
            <Platform id={a.platform} site={a.site} />
            <Id id={a.id} />
            <span>
              upstream <span className="font-mono text-xs">{a.ofUserId || '–'}</span>
            </span>
            {a.username && a.credentials === 'session' ? <span>@{a.username}</span> : null}
            <span>region {a.proxyCountry}</span>
            <span>
              {a.credentials === 'session'
                ? `credentials stored: ${a.rememberCredentials ? 'yes' : 'no'}`
                : `signed in with ${a.credentials === 'token' ? 'a key' : 'OAuth'}`}
            </span>
          </span>
        }
        actions={<Actions account={a} />}
      />
      <Tabs label="Account" tabs={tabs} value={tab} onChange={(t) => f.set({ tab: t }, { push: true })}>
        {(t) =>
          t === 'health' ? (
            <Health account={a} />
          ) : t === 'events' ? (
            <Events account={a} />
          ) : t === 'calls' ? (
            <Calls account={a} />
          ) : t === 'webhook' ? (
            <WebhookTab account={a} />
          ) : (
            <AccountSettings account={a} />
          )
        }
      </Tabs>
    </>
  )
}

function Actions({ account: a }: { account: Account }) {
  const { link, connect } = useDialogs()
  const why = useWhyNot('accounts:write', 'change accounts')
  const { pause, resume, reauthenticate } = useAccountActions(a)
  const [asking, setAsking] = useState<'disconnect' | 'code' | null>(null)
  return (
    <>
      {a.state === 'paused' ? (
        <Button why={why} busy={resume.isPending} onClick={() => resume.mutate()}>
          Resume
        </Button>
      ) : null}
      <Button
        variant={a.state === 'reconnect_required' ? 'primary' : 'secondary'}
        icon={<Send className="size-4" aria-hidden />}
        why={why}
        onClick={() => link({ accountId: a.id, label: nameOf(a) })}
      >
        Send reconnect link
      </Button>
      <Menu
        trigger={
          <IconButton label="More actions" variant="secondary">
            <Ellipsis className="size-4" aria-hidden />
          </IconButton>
        }
      >
        <MenuItem disabled={Boolean(why)} onSelect={() => connect({ accountId: a.id, label: nameOf(a) })}>
          Reconnect here
        </MenuItem>
        <MenuItem
          disabled={Boolean(why) || !a.rememberCredentials}
          hint={a.rememberCredentials ? undefined : 'No credentials are stored'}
          onSelect={() => reauthenticate.mutate()}
        >
          Sign in again
        </MenuItem>
        {a.state === 'paused' ? null : (
          <MenuItem disabled={Boolean(why)} onSelect={() => pause.mutate()}>
            Pause
          </MenuItem>
        )}
        <MenuItem onSelect={() => setAsking('code')}>Copy as curl / CLI</MenuItem>
        <MenuLine />
        <MenuItem danger disabled={Boolean(why)} onSelect={() => setAsking('disconnect')}>
          Disconnect
        </MenuItem>
      </Menu>
      <Dialog open={asking === 'code'} onOpenChange={() => setAsking(null)} title="This account in the API" size="lg">
        <CodeBlock snippets={snippets({ method: 'GET', path: `/v1/accounts/${a.id}` })} />
      </Dialog>
      <Disconnect account={a} open={asking === 'disconnect'} onOpenChange={() => setAsking(null)} />
    </>
  )
}
