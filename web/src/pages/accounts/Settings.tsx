import { useState, type ReactNode } from 'react'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { api, isProblem } from '@/api/client'
import type { Account, AccountChange, AuditEntry } from '@/api/types'
import { keys, useMe } from '@/api/hooks'
import { useWhyNot } from '@/shell/session'
import {
  Button,
  Card,
  Confirm,
  Empty,
  Facts,
  Field,
  Id,
  Input,
  Platform,
  Query,
  Select,
  Table,
  Time,
  SiteLink,
  toast,
  type Column,
} from '@/ui'
import { Disconnect } from './Disconnect'
import { actionWords } from '../audit/words'
import { nameOf } from './reasons'

export function AccountSettings({ account: a }: { account: Account }) {
  const client = useQueryClient()
  const me = useMe()
  const why = useWhyNot('accounts:write', 'change accounts')
  const [label, setLabel] = useState(a.label)
  const [region, setRegion] = useState(a.proxyCountry)
  const [asking, setAsking] = useState<'region' | 'forget' | 'disconnect' | null>(null)
  const regions = me.data?.limits.proxyCountries ?? [a.proxyCountry]
  const send = async (body: AccountChange) => {
    const { account } = await api.patch('/v1/accounts/{id}', { path: { id: a.id }, body })
    client.setQueryData(keys.account(a.id), account)
    void client.invalidateQueries({ queryKey: ['accounts'] })
    void client.invalidateQueries({ queryKey: ['audit', a.id] })
  }
  const rename = useMutation({
    mutationFn: () => send({ label: label.trim() }),
    onSuccess: () => toast.ok('Label saved'),
  })
  return (
    <div className="grid gap-3 lg:grid-cols-2">
      <Card>
        <form
          className="space-y-3"
          onSubmit={(e) => {
            e.preventDefault()
            if (!why) rename.mutate()
          }}
        >
          <Field
            label="Label"
            hint="What your team calls this account. The creator does not see it."
            error={isProblem(rename.error) ? (rename.error.field('label') ?? rename.error.detail) : undefined}
          >
            {(p) => <Input {...p} value={label} maxLength={120} onChange={(e) => setLabel(e.target.value)} />}
          </Field>
          <Button type="submit" variant="primary" why={why} busy={rename.isPending} disabled={label.trim() === a.label}>
            Save
          </Button>
        </form>
      </Card>
      <Card>
        <div className="space-y-3">
          <Field
            label="Region"
            hint="All traffic of this account leaves from this region. A move changes the IP address that the platform sees; it may ask the creator to confirm."
          >
            {(p) => (
              <Select {...p} className="w-full" value={region} onChange={(e) => setRegion(e.target.value)}>
                {(regions ?? []).map((r) => (
                  <option key={r} value={r}>
                    {r}
                  </option>
                ))}
              </Select>
            )}
          </Field>
          <Button why={why} disabled={region === a.proxyCountry} onClick={() => setAsking('region')}>
            Move
          </Button>
        </div>
      </Card>
      <Card title="Stored credentials">
        {a.rememberCredentials ? (
          <>
            <p className="mb-3 text-soft">
              The password is stored encrypted, so that we can sign in again without the creator when the session ends.
            </p>
            <Button why={why} onClick={() => setAsking('forget')}>
              Forget credentials
            </Button>
          </>
        ) : (
          <p className="text-soft">
            No credentials are stored. When the session ends, the creator must sign in again. You can store them the
            next time the account is connected.
          </p>
        )}
      </Card>
      <Card title="Details">
        <Facts
          items={[
            ['Account', <Id key="i" id={a.id} />],
            ['Platform', <Platform key="p" id={a.platform} />],
            ...(a.site ? [['Site', <SiteLink key="s" site={a.site} />] as [string, ReactNode]] : []),
            ['Your reference', a.referenceId ?? '–'],
            ['Connected', <Time key="t" at={a.createdAt} as="exact" />],
            ...Object.entries(a.metadata).map(([k, v]) => [k, v] as [string, string]),
          ]}
        />
      </Card>
      <History account={a} />
      <Card title="Disconnect" className="lg:col-span-2">
        <p className="mb-3 text-soft">
          Permanently deletes the session and stops calls, events and webhooks. You cannot undo this. To stop for a
          while, pause the account from the menu above.
        </p>
        <Button variant="danger" why={why} onClick={() => setAsking('disconnect')}>
          Disconnect
        </Button>
      </Card>
      <Disconnect account={a} open={asking === 'disconnect'} onOpenChange={() => setAsking(null)} />
      <Confirm
        open={asking === 'region'}
        onOpenChange={() => setAsking(null)}
        title={`Move ${nameOf(a)} to ${region}?`}
        action="Move"
        run={async () => {
          await send({ proxyCountry: region as AccountChange['proxyCountry'] })
          toast.ok(`${nameOf(a)} moved to ${region}`)
        }}
      >
        <p>
          From the next call, the platform sees an IP address in {region}. It may treat this as an unknown sign-in and
          ask for a code.
        </p>
      </Confirm>
      <Confirm
        open={asking === 'forget'}
        onOpenChange={() => setAsking(null)}
        title="Forget the stored credentials?"
        action="Forget"
        danger
        run={async () => {
          await send({ rememberCredentials: false })
          toast.ok('Credentials deleted')
        }}
      >
        <p>
          This deletes the stored password. The current session stays open. When it ends, the creator must sign in
          again.
        </p>
      </Confirm>
    </div>
  )
}

function History({ account: a }: { account: Account }) {
  const list = useQuery({
    queryKey: ['audit', a.id],
    queryFn: async ({ signal }) =>
      (await api.get('/v1/accounts/{id}/audit', { path: { id: a.id }, query: { limit: 10 }, signal })).entries ?? [],
  })
  const columns: Column<AuditEntry>[] = [
    { key: 'at', head: 'Time', cell: (e) => <Time at={e.at} className="whitespace-nowrap text-mute" /> },
    { key: 'action', head: 'Action', cell: (e) => actionWords(e.action) },
    { key: 'actor', head: 'Actor', from: 'sm', cell: (e) => e.actor.label || e.actor.kind },
  ]
  return (
    <Card flush title="Recent changes" className="lg:col-span-2">
      <Query query={list} what="the changes">
        {(rows) =>
          rows.length === 0 ? (
            <Empty title="No changes yet" />
          ) : (
            <Table label="Changes" dense columns={columns} rows={rows} rowKey={(e) => e.id} />
          )
        }
      </Query>
    </Card>
  )
}
