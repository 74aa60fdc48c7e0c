import { Badge, Card, Empty, Facts, Meter, Notice, PageHead, Query, Skeleton, Table, type Column } from '@/ui'
import { number } from '@/lib/format'
import { useKeyring } from '../hooks'
import type { Keyring, Wrap } from '../types'

const name = (w: Wrap | null) => (w ? <span className="font-mono text-xs break-all">{w.id} · version {w.version}</span> : '–')

const columns: Column<Keyring['orgKeys'][number]>[] = [
  { key: 'by', head: 'Wrapped by', cell: (k) => name(k.by) },
  { key: 'state', head: 'State', cell: (k) => (k.current ? <Badge tone="ok" dot>Current</Badge> : <Badge tone="warn" dot>Older</Badge>) },
  { key: 'keys', head: 'Keys', align: 'right', cell: (k) => number(k.keys) },
]

export default function Keys() {
  const query = useKeyring()
  return (
    <>
      <PageHead title="Keys" hint="What sessions are sealed with, in counts. No key is ever shown." />
      <Query query={query} what="the keyring" skeleton={<Card><Skeleton className="h-40 w-full" /></Card>}>
        {(k) => (
          <div className="grid gap-3 lg:grid-cols-2">
            <Card title="Rotation" actions={k.kms === 'up' ? <Badge tone="ok" dot>Key management answers</Badge> : <Badge tone="bad" dot>Key management is away</Badge>}>
              {k.kms === 'down' ? (
                <Notice tone="bad">The key management service does not answer: how far a rotation is, is not known. Accounts used lately go on for a while; new ones cannot be connected.</Notice>
              ) : (
                <Meter label={k.waiting === 0 ? 'Everything is wrapped by the newest keys' : `${number(k.waiting)} keys are still wrapped by older ones`} used={k.percentDone ?? 0} limit={100} note="Per cent. The nodes wrap older ones again by themselves." />
              )}
              <Facts
                className="mt-4"
                items={[
                  ['Wraps now', name(k.wrapsNow)],
                  ['Root', name(k.root)],
                  ['Data keys', `${number(k.dataKeys)} of ${number(k.orgs)} organisations`],
                  ['Renewed', number(k.renewed)],
                  ['Holders', number(k.holders)],
                  ['Shredded lately', number(k.shredded)],
                ]}
              />
              <div className="mt-4 text-mute">
                Begin a rotation on a machine that reaches the keyring: <code>stagedoord seal rotate</code>
              </div>
            </Card>
            <Card flush title="Keys of organisations">
              {k.orgKeys.length === 0 ? <Empty title="No key yet">The first account or attempt makes one.</Empty> : <Table label="Keys of organisations" columns={columns} rows={k.orgKeys} rowKey={(o) => o.by.id + o.by.version} />}
            </Card>
          </div>
        )}
      </Query>
    </>
  )
}
