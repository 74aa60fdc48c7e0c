import { useState } from 'react'
import { Ellipsis, KeyRound, Pencil, Plus, Trash2 } from 'lucide-react'
import { useKeys, useMe } from '@/api/hooks'
import type { Key } from '@/api/types'
import { useFilters } from '@/lib/filters'
import { number } from '@/lib/format'
import { useWhyNot } from '@/shell/session'
import {
  Badge,
  Button,
  Card,
  Chips,
  Empty,
  IconButton,
  Id,
  Menu,
  MenuItem,
  NoMatch,
  PageHead,
  Query,
  SearchInput,
  Table,
  Time,
  type Column,
} from '@/ui'
import { EditKey } from './EditKey'
import { KeySheet } from './KeySheet'
import { NewKey } from './NewKey'
import { Revoke } from './Revoke'
import { RotateKey } from './RotateKey'
import { KeyStateBadge } from './KeyStateBadge'
import { expiresSoon, keyState, scopeCount } from './scopes'

export default function Keys() {
  const f = useFilters({ q: '', state: 'active', key: '' })
  const me = useMe()
  const why = useWhyNot('me:write', 'create keys')
  const whyChange = useWhyNot('me:write', 'change keys')
  const [making, setMaking] = useState(0)
  const [open, setOpen] = useState(false)
  const [editing, setEditing] = useState<Key | null>(null)
  const [rotating, setRotating] = useState<Key | null>(null)
  const [revoking, setRevoking] = useState<Key | null>(null)
  const list = useKeys()
  const all = [...(list.data ?? [])].reverse()
  const active = all.filter((k) => keyState(k) === 'active')
  const soon = active.filter((k) => expiresSoon(k)).length
  const q = f.values.q.toLowerCase()
  const rows = all.filter(
    (k) =>
      (f.values.state === 'all' ||
        (f.values.state === 'soon' ? expiresSoon(k) : (f.values.state === 'active') === (keyState(k) === 'active'))) &&
      (!q || `${k.label} ${k.id} ${k.hint}`.toLowerCase().includes(q)),
  )
  const shown = all.find((k) => k.id === f.values.key) ?? null
  const max = me.data?.limits.maxKeys

  const columns: Column<Key>[] = [
    {
      key: 'label',
      head: 'Label',
      cell: (k) => (
        <div className="min-w-0">
          <button
            type="button"
            className="min-h-6 max-w-full text-left font-medium break-words hover:underline"
            onClick={() => f.set({ key: k.id }, { push: true })}
          >
            {k.label || 'No label'}
          </button>
          <span className="flex flex-wrap items-center gap-x-2">
            <Id id={k.id} short />
            {k.current ? <Badge tone="accent">current</Badge> : null}
          </span>
          <span className="block text-xs text-mute sm:hidden">
            {scopeCount(k.scopes)} scopes
            {keyState(k) === 'active' ? (
              k.expiresAt ? (
                <span className={expiresSoon(k) ? 'font-medium text-warn-text' : undefined}>
                  {' '}
                  · {k.replacedBy ? 'ends' : 'expires'} <Time at={k.expiresAt} />
                </span>
              ) : null
            ) : (
              ` · ${keyState(k)}`
            )}
          </span>
        </div>
      ),
    },
    {
      key: 'hint',
      head: 'Starts with',
      from: 'lg',
      cell: (k) => <code className="text-xs whitespace-nowrap">{k.hint}…</code>,
    },
    {
      key: 'scopes',
      head: 'Scopes',
      from: 'sm',
      cell: (k) => (
        <span className="whitespace-nowrap">
          {scopeCount(k.scopes)}
          {k.methods || k.inheritedMethods ? <span className="text-mute"> · some methods</span> : null}
          {k.accountIds ? <span className="text-mute"> · {k.accountIds.length} acc.</span> : null}
        </span>
      ),
    },
    { key: 'state', head: 'State', from: 'sm', cell: (k) => <KeyStateBadge k={k} /> },
    {
      key: 'used',
      head: 'Last used',
      from: 'md',
      cell: (k) =>
        k.lastUsedAt ? (
          <Time at={k.lastUsedAt} className="whitespace-nowrap" />
        ) : (
          <span className="text-mute">never</span>
        ),
    },
    {
      key: 'created',
      head: 'Created',
      from: 'xl',
      cell: (k) => <Time at={k.createdAt} as="day" className="whitespace-nowrap text-mute" />,
    },
    {
      key: 'action',
      head: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (k) =>
        keyState(k) === 'revoked' ? null : (
          <span className="inline-flex gap-1">
            {keyState(k) === 'active' ? (
              <Button
                size="sm"
                className="max-sm:hidden"
                why={whyChange}
                aria-label={`Edit ${k.label || k.id}`}
                onClick={() => setEditing(k)}
              >
                Edit
              </Button>
            ) : null}
            <Menu
              trigger={
                <IconButton label={`Actions on ${k.label || k.id}`} size="sm" variant="secondary">
                  <Ellipsis className="size-4" aria-hidden />
                </IconButton>
              }
            >
              {keyState(k) === 'active' ? (
                <>
                  <MenuItem
                    icon={<Pencil className="size-4 text-mute" aria-hidden />}
                    disabled={Boolean(whyChange)}
                    onSelect={() => setEditing(k)}
                  >
                    Edit
                  </MenuItem>
                  <MenuItem
                    icon={<KeyRound className="size-4 text-mute" aria-hidden />}
                    disabled={Boolean(whyChange)}
                    onSelect={() => setRotating(k)}
                  >
                    Rotate
                  </MenuItem>
                </>
              ) : null}
              <MenuItem
                icon={<Trash2 className="size-4" aria-hidden />}
                danger
                disabled={Boolean(whyChange) || k.current}
                onSelect={() => setRevoking(k)}
              >
                Revoke
              </MenuItem>
            </Menu>
          </span>
        ),
    },
  ]

  return (
    <>
      <PageHead
        title="API keys"
        hint={
          list.data
            ? `${number(active.length)} active${max !== undefined && max >= 0 ? ` of ${number(max)} in your plan` : ''} · secrets are shown once, when a key is created`
            : 'Secrets are shown once, when a key is created'
        }
        actions={
          <Button
            variant="primary"
            icon={<Plus className="size-4" aria-hidden />}
            why={why}
            onClick={() => {
              setMaking(making + 1)
              setOpen(true)
            }}
          >
            New key
          </Button>
        }
      />
      <Card flush>
        <div className="flex flex-wrap items-center gap-2 border-b px-4 py-3">
          <SearchInput
            label="Label, id or prefix"
            className="w-full sm:w-64"
            value={f.values.q}
            onChange={(v) => f.set({ q: v })}
          />
          <Chips
            label="State"
            value={f.values.state}
            onChange={(state) => f.set({ state })}
            items={[
              { value: 'active', label: 'Active', count: list.data ? active.length : undefined },
              ...(soon > 0 || f.values.state === 'soon'
                ? [{ value: 'soon', label: 'Expiring soon', count: soon }]
                : []),
              { value: 'ended', label: 'Inactive', count: list.data ? all.length - active.length : undefined },
              { value: 'all', label: 'All', count: list.data ? all.length : undefined },
            ]}
          />
        </div>
        <Query query={list} what="the keys">
          {() =>
            rows.length > 0 ? (
              <Table
                label="API keys"
                columns={columns}
                rows={rows}
                rowKey={(k) => k.id}
                selected={f.values.key || null}
              />
            ) : all.length === 0 || (f.values.state === 'active' && active.length === 0 && !q) ? (
              <Empty
                title={all.length === 0 ? 'No keys yet' : 'No active keys'}
                action={
                  <Button
                    variant="primary"
                    why={why}
                    onClick={() => {
                      setMaking(making + 1)
                      setOpen(true)
                    }}
                  >
                    New key
                  </Button>
                }
              >
                A key lets your programs call the API in this organisation.
              </Empty>
            ) : f.values.state === 'ended' && !q ? (
              <Empty title="No inactive keys">Revoked and expired keys appear here.</Empty>
            ) : (
              <NoMatch title="No key matches" onClear={() => f.set({ q: '', state: 'active' })} />
            )
          }
        </Query>
      </Card>
      <NewKey key={making} open={open} onOpenChange={setOpen} />
      {editing ? <EditKey key={editing.id} subject={editing} onClose={() => setEditing(null)} /> : null}
      {rotating ? <RotateKey key={rotating.id} subject={rotating} onClose={() => setRotating(null)} /> : null}
      <Revoke subject={revoking} onClose={() => setRevoking(null)} />
      <KeySheet
        subject={shown}
        wanted={f.values.key}
        loaded={list.isSuccess}
        onClose={() => f.set({ key: '' })}
        onEdit={setEditing}
        onRotate={setRotating}
        onRevoke={setRevoking}
      />
    </>
  )
}
