import { Badge, Card, Empty, Facts, Meter, Notice, PageHead, Query, Skeleton, Table, type Column } from '@/ui'
import { number } from '@/lib/format'
import { useKeyring } from '../hooks'
import type { Keyring, Wrap } from '../types'

const name = (w: Wrap | null) =>
  w ? (
    <span className="font-mono text-xs break-all">
      {w.id} · version {w.version}
    </span>
  ) : (
    '–'
  )

const columns: Column<Keyring['orgKeys'][number]>[] = [
  { key: 'by', head: 'Wrapped by', cell: (k) => name(k.by) },
  {
    key: 'state',
    head: 'State',
    cell: (k) =>
      k.current ? (
        <Badge tone="ok" dot>
          Current
        </Badge>
      ) : (
        <Badge tone="warn" dot>
          Older
        </Badge>
      ),
  },
  { key: 'keys', head: 'Keys', align: 'right', cell: (k) => number(k.keys) },
]

export default function Keys() {
  const query = useKeyring()
  return (
    <>
      <PageHead title="Keys" hint="Counts of the keys that encrypt sessions. Keys are never shown." />
      <Query
        query={query}
        what="the keyring"
        skeleton={
          <Card>
            <Skeleton className="h-40 w-full" />
          </Card>
        }
      >
        {(k) => (
          <div className="grid gap-3 lg:grid-cols-2">
            <Card
              title="Rotation"
              actions={
                k.kms === 'up' ? (
                  <Badge tone="ok" dot>
                    Key management is up
                  </Badge>
                ) : (
                  <Badge tone="bad" dot>
                    Key management is down
                  </Badge>
                )
              }
            >
              {k.kms === 'down' ? (
                <Notice tone="bad">
                  The key management service does not respond, so the progress of a rotation is unknown. Recently used
                  accounts keep working for a while; new accounts cannot be connected.
                </Notice>
              ) : (
                <Meter
                  label={
                    k.waiting === 0
                      ? 'All keys are wrapped by the newest keys'
                      : `${number(k.waiting)} keys are still wrapped by older keys`
                  }
                  used={k.percentDone ?? 0}
                  limit={100}
                  note="Per cent. Nodes rewrap older keys automatically."
                />
              )}
              <Facts
                className="mt-4"
                items={[
                  ['Wrapping key', name(k.wrapsNow)],
                  ['Root', name(k.root)],
                  ['Data keys', `${number(k.dataKeys)} for ${number(k.orgs)} organisations`],
                  ['Renewed', number(k.renewed)],
                  ['Holders', number(k.holders)],
                  ['Recently shredded', number(k.shredded)],
                ]}
              />
              <div className="mt-4 text-mute">
                Start a rotation on a machine that can reach the keyring: <code>stagedoord seal rotate</code>
              </div>
            </Card>
            <Card flush title="Organisation keys">
              {k.orgKeys.length === 0 ? (
                <Empty title="No keys yet">The first account or connect attempt creates one.</Empty>
              ) : (
                <Table
                  label="Organisation keys"
                  columns={columns}
                  rows={k.orgKeys}
                  rowKey={(o) => o.by.id + o.by.version}
                />
              )}
            </Card>
          </div>
        )}
      </Query>
    </>
  )
}
