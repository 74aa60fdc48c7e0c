import { useState } from 'react'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { UserPlus } from 'lucide-react'
import { call, isProblem } from '@/api/client'
import { keys as queryKeys } from '@/api/hooks'
import type { Invitation, Member, MemberRemoved, Role } from '@/api/types'
import { plural } from '@/lib/format'
import { useSession, useWhyNot } from '@/shell/session'
import {
  Badge,
  Button,
  Card,
  Checkbox,
  Code,
  Confirm,
  CopyButton,
  Dialog,
  Empty,
  Field,
  Input,
  Notice,
  Query,
  Select,
  Table,
  Time,
  toast,
  type Column,
} from '@/ui'
import { givable, roles, roleWords } from './words'

interface TeamList {
  members: Member[] | null
  invitations: Invitation[] | null
}
const teamKey = ['team'] as const

const label = (r: string) => roleWords[r as Role]?.label ?? r

type Asking =
  | { kind: 'role'; member: Member; role: Role }
  | { kind: 'remove'; member: Member }
  | { kind: 'withdraw'; invitation: Invitation }

export function Team() {
  const { org } = useSession()
  const client = useQueryClient()
  const why = useWhyNot('me:write', 'change the team')
  const mine = givable(org.role)
  const team = useQuery({
    queryKey: teamKey,
    queryFn: ({ signal }) => call<TeamList>('GET', '/v1/org/members', { signal }),
  })
  const [asking, setAsking] = useState<Asking | null>(null)
  const [inviting, setInviting] = useState({ open: false, n: 0 })
  const owners = team.data?.members?.filter((m) => m.role === 'owner').length ?? 0

  // Why the signed-in member cannot change this one; null if they can.
  const blocked = (m: Member): string | null => {
    if (why) return why
    if (m.role === 'owner' && org.role !== 'owner') return 'Only an owner can change or remove an owner.'
    if (m.role === 'owner' && owners === 1)
      return 'The last owner cannot be changed or removed. Make another member an owner first.'
    return null
  }

  const roleSelect = (m: Member) => {
    const no = blocked(m)
    return (
      <Select
        aria-label={`Role of ${m.email}`}
        className="w-32"
        value={m.role}
        disabled={Boolean(no)}
        title={no ?? undefined}
        onChange={(e) => setAsking({ kind: 'role', member: m, role: e.target.value as Role })}
      >
        {roles
          .filter((r) => r === m.role || mine.includes(r))
          .map((r) => (
            <option key={r} value={r}>
              {roleWords[r].label}
            </option>
          ))}
      </Select>
    )
  }
  const columns: Column<Member>[] = [
    {
      key: 'member',
      head: 'Member',
      cell: (m) => (
        <div className="min-w-0">
          <span className="flex flex-wrap items-center gap-x-2 font-medium">
            <span className="break-words">{m.name || m.email}</span>
            {m.you ? <Badge tone="accent">you</Badge> : null}
          </span>
          {m.name ? <span className="block text-xs break-all text-mute">{m.email}</span> : null}
          <div className="mt-1 sm:hidden">{roleSelect(m)}</div>
        </div>
      ),
    },
    { key: 'role', head: 'Role', from: 'sm', cell: roleSelect },
    {
      key: 'seen',
      head: 'Last seen',
      from: 'md',
      cell: (m) => <Time at={m.lastSeenAt} className="whitespace-nowrap text-mute" />,
    },
    {
      key: 'joined',
      head: 'Joined',
      from: 'lg',
      cell: (m) => <Time at={m.joinedAt} as="day" className="whitespace-nowrap text-mute" />,
    },
    {
      key: 'go',
      head: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (m) => (
        <Button
          size="sm"
          variant="danger"
          why={blocked(m)}
          aria-label={m.you ? 'Leave the organisation' : `Remove ${m.email}`}
          onClick={() => setAsking({ kind: 'remove', member: m })}
        >
          {m.you ? 'Leave' : 'Remove'}
        </Button>
      ),
    },
  ]
  const invitationColumns: Column<Invitation>[] = [
    {
      key: 'email',
      head: 'Invited',
      cell: (i) => (
        <div className="min-w-0">
          <span className="break-all">{i.email}</span>
          <span className="block text-xs text-mute sm:hidden">{label(i.role)}</span>
        </div>
      ),
    },
    { key: 'role', head: 'Role', from: 'sm', cell: (i) => label(i.role) },
    { key: 'by', head: 'By', from: 'md', cell: (i) => <span className="break-all">{i.invitedBy}</span> },
    {
      key: 'ends',
      head: 'Expires',
      from: 'sm',
      cell: (i) => <Time at={i.expiresAt} className="whitespace-nowrap text-mute" />,
    },
    {
      key: 'go',
      head: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (i) => (
        <Button
          size="sm"
          why={why}
          aria-label={`Withdraw the invitation for ${i.email}`}
          onClick={() => setAsking({ kind: 'withdraw', invitation: i })}
        >
          Withdraw
        </Button>
      ),
    },
  ]

  const [left, setLeft] = useState<{ member: Member; keys: NonNullable<MemberRemoved['keys']> } | null>(null)
  const run = async () => {
    if (!asking) return
    if (asking.kind === 'role') {
      await call('PATCH', `/v1/org/members/${encodeURIComponent(asking.member.id)}`, { body: { role: asking.role } })
      toast.ok(`${asking.member.email} is now ${label(asking.role).toLowerCase()}`)
      if (asking.member.you) await client.invalidateQueries()
    } else if (asking.kind === 'remove') {
      const { keys } = await call<MemberRemoved>('DELETE', `/v1/org/members/${encodeURIComponent(asking.member.id)}`)
      if (asking.member.you) return location.assign('/app/')
      toast.ok(`${asking.member.email} was removed`)
      if (keys && keys.length > 0) setLeft({ member: asking.member, keys })
    } else {
      await call('DELETE', `/v1/org/invitations/${encodeURIComponent(asking.invitation.id)}`)
      toast.ok('The link no longer works')
    }
    await client.invalidateQueries({ queryKey: teamKey })
  }

  return (
    <div className="space-y-3">
      <Card
        flush
        title="Members"
        hint={
          team.data?.members
            ? `${plural(team.data.members.length, 'person', 'people')} can sign in to this organisation`
            : 'Who can sign in to this organisation'
        }
        actions={
          <Button
            variant="primary"
            icon={<UserPlus className="size-4" aria-hidden />}
            why={why}
            onClick={() => setInviting({ open: true, n: inviting.n + 1 })}
          >
            Invite
          </Button>
        }
      >
        <Query query={team} what="the team">
          {(t) =>
            t.members && t.members.length > 0 ? (
              <Table label="Members" columns={columns} rows={t.members} rowKey={(m) => m.id} />
            ) : (
              <Empty title="No members">Only API keys use this organisation.</Empty>
            )
          }
        </Query>
      </Card>
      {team.data ? (
        <Card flush title="Invitations" hint="Links that can still be used">
          {team.data.invitations && team.data.invitations.length > 0 ? (
            <Table
              label="Invitations"
              dense
              columns={invitationColumns}
              rows={team.data.invitations}
              rowKey={(i) => i.id}
            />
          ) : (
            <Empty title="No open invitations" className="!py-8">
              An invitation is a link that works once, for one address, for seven days.
            </Empty>
          )}
        </Card>
      ) : null}
      <Card title="Roles">
        <dl className="grid gap-x-6 gap-y-3 sm:grid-cols-2">
          {roles.map((r) => (
            <div key={r}>
              <dt className="font-medium">{roleWords[r].label}</dt>
              <dd className="text-soft">{roleWords[r].can}</dd>
            </div>
          ))}
        </dl>
      </Card>
      <Invite
        key={inviting.n}
        open={inviting.open}
        onOpenChange={(open) => setInviting({ ...inviting, open })}
        can={mine}
      />
      <Confirm
        open={asking !== null}
        onOpenChange={(open) => (open ? undefined : setAsking(null))}
        title={
          asking?.kind === 'role'
            ? `Make ${asking.member.name || asking.member.email} ${/^[ao]/.test(asking.role) ? 'an' : 'a'} ${asking.role}?`
            : asking?.kind === 'remove'
              ? asking.member.you
                ? `Leave ${org.name}?`
                : `Remove ${asking.member.name || asking.member.email}?`
              : 'Withdraw the invitation?'
        }
        action={
          asking?.kind === 'role'
            ? 'Change role'
            : asking?.kind === 'remove'
              ? asking.member.you
                ? 'Leave'
                : 'Remove'
              : 'Withdraw'
        }
        danger={asking?.kind !== 'role'}
        run={run}
      >
        {asking?.kind === 'role' ? (
          <>
            <p>{roleWords[asking.role].can}</p>
            <p>
              The role applies from the next call, on every server.
              {asking.member.you
                ? ' This is your own role: you immediately lose access to what it does not allow.'
                : ''}
            </p>
          </>
        ) : asking?.kind === 'remove' ? (
          <p>
            {asking.member.you
              ? 'You will be signed out of this organisation immediately.'
              : 'Their browsers will be signed out of this organisation immediately.'}{' '}
            Keys that {asking.member.you ? 'you' : 'they'} created belong to the organisation and are kept
            {asking.member.you ? '' : '; next, you can revoke them all'}.
          </p>
        ) : (
          <p>The link for {asking?.kind === 'withdraw' ? asking.invitation.email : 'them'} will no longer work.</p>
        )}
      </Confirm>
      <Confirm
        open={left !== null}
        onOpenChange={(open) => (open ? undefined : setLeft(null))}
        title={`Revoke the keys of ${left?.member.name || left?.member.email || ''}?`}
        action="Revoke all"
        danger
        run={async () => {
          if (!left) return
          await call('POST', `/v1/org/members/${encodeURIComponent(left.member.id)}/revoke-keys`)
          toast.ok(`${plural(left.keys.length, 'key')} revoked. Every server now refuses them.`)
          await client.invalidateQueries({ queryKey: queryKeys.keys })
        }}
      >
        <p>They may still have a copy of these keys. Programs that use them stop working when you revoke them:</p>
        <ul className="list-disc pl-5">
          {left?.keys.map((k) => (
            <li key={k.id} className="break-words">
              {k.label || k.id}
            </li>
          ))}
        </ul>
      </Confirm>
    </div>
  )
}

function Invite({ open, onOpenChange, can }: { open: boolean; onOpenChange: (open: boolean) => void; can: Role[] }) {
  const client = useQueryClient()
  const [email, setEmail] = useState('')
  const [role, setRole] = useState<Role>('developer')
  const [sent, setSent] = useState(false)
  const invite = useMutation({
    mutationFn: () =>
      call<{ invitation: Invitation; url: string; mail: { status: string } | null }>('POST', '/v1/org/invitations', {
        body: { email: email.trim(), role },
      }),
    onSuccess: () => void client.invalidateQueries({ queryKey: teamKey }),
  })
  const problem = isProblem(invite.error) ? invite.error : null
  const made = invite.data
  if (made)
    return (
      <Dialog
        open={open}
        onOpenChange={(next) => {
          if (!next && sent) onOpenChange(false)
        }}
        sticky
        title={`Invitation link for ${made.invitation.email}`}
        description={
          made.mail?.status === 'queued'
            ? 'We send it by email. You can also send the link yourself; it is not shown again.'
            : 'Send the link yourself. It is not shown again.'
        }
        footer={
          <>
            <Checkbox
              label="I copied the link"
              className="mr-auto items-center"
              checked={sent}
              onChange={(e) => setSent(e.target.checked)}
            />
            <Button
              variant="primary"
              why={sent ? null : 'Copy the link first: it is not shown again.'}
              onClick={() => onOpenChange(false)}
            >
              Close
            </Button>
          </>
        }
      >
        <Code code={made.url} label="link" wrap />
        <div className="mt-2 flex flex-wrap items-center gap-2">
          <CopyButton variant="primary" text={made.url}>
            Copy link
          </CopyButton>
          <span className="text-xs text-mute">
            Works once, only for {made.invitation.email}, until <Time at={made.invitation.expiresAt} as="exact" />.
          </span>
        </div>
      </Dialog>
    )
  return (
    <Dialog
      open={open}
      onOpenChange={onOpenChange}
      title="Invite a member"
      description="We email a link, or you send it yourself. Only a person who signs in with this address can use it."
      footer={
        <>
          <Button onClick={() => onOpenChange(false)}>Cancel</Button>
          <Button
            variant="primary"
            busy={invite.isPending}
            why={/^\S+@\S+$/.test(email.trim()) ? null : 'Enter an email address.'}
            onClick={() => invite.mutate()}
          >
            Create link
          </Button>
        </>
      }
    >
      <form
        className="space-y-4"
        onSubmit={(e) => {
          e.preventDefault()
          if (/^\S+@\S+$/.test(email.trim()) && !invite.isPending) invite.mutate()
        }}
      >
        <Field
          label="Email"
          required
          error={problem?.field('email') ?? (problem?.code === 'already-member' ? problem.detail : undefined)}
        >
          {(p) => (
            <Input
              {...p}
              type="email"
              value={email}
              maxLength={254}
              autoComplete="off"
              onChange={(e) => setEmail(e.target.value)}
              placeholder="ada@example.com"
            />
          )}
        </Field>
        <fieldset>
          <legend className="mb-1 font-medium">Role</legend>
          <div className="divide-y rounded-lg border">
            {roles.map((r) => {
              const ok = can.includes(r)
              return (
                <label key={r} className={`flex items-start gap-2 px-3 py-2 ${ok ? '' : 'bg-subtle text-mute'}`}>
                  <input
                    type="radio"
                    name="role"
                    value={r}
                    className="mt-1 accent-accent"
                    checked={role === r}
                    disabled={!ok}
                    onChange={() => setRole(r)}
                  />
                  <span>
                    <span className="font-medium">{roleWords[r].label}</span>
                    <span className="block text-xs text-mute">
                      {ok ? roleWords[r].can : 'Only an owner can invite an owner.'}
                    </span>
                  </span>
                </label>
              )
            })}
          </div>
        </fieldset>
        {problem && !problem.field('email') && problem.code !== 'already-member' ? (
          <Notice tone="bad">{problem.detail}</Notice>
        ) : null}
      </form>
    </Dialog>
  )
}
