import { useState } from 'react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { CloudOff, Gauge, KeySquare, LogOut, ServerCrash, Snail, type LucideIcon } from 'lucide-react'
import { api, call, isProblem } from '@/api/client'
import { keys } from '@/api/hooks'
import type { Account, SandboxFault } from '@/api/types'
import { useNow } from '@/lib/clock'
import { duration } from '@/lib/format'
import { Badge, Button, Card, Confirm, toast } from '@/ui'

interface Kind {
  id: string
  label: string
  does: string
  icon: LucideIcon
  fault: SandboxFault | null
  done: string
}

const kinds: Kind[] = [
  {
    id: 'expire',
    label: 'Expire the session',
    does: 'The platform signs the account out. The next call or probe detects it.',
    icon: LogOut,
    fault: null,
    done: 'The platform ended the session',
  },
  {
    id: 'otp_next',
    label: 'Ask for 2FA at the next login',
    does: 'The next sign-in with this login requires a code (123456).',
    icon: KeySquare,
    fault: { kind: 'otp_next' },
    done: 'The next login will ask for a code',
  },
  {
    id: 'rate_limit',
    label: 'Rate-limit for 60 s',
    does: 'The platform answers every call with 429.',
    icon: Gauge,
    fault: { kind: 'rate_limit', seconds: 60 },
    done: 'Rate-limited for 60 s',
  },
  {
    id: 'slow',
    label: 'Slow for 60 s',
    does: 'Every response takes 3 s longer.',
    icon: Snail,
    fault: { kind: 'slow', value: 3000, seconds: 60 },
    done: 'Slow for 60 s',
  },
  {
    id: 'down',
    label: 'Go down for 60 s',
    does: 'The platform answers every call with 503.',
    icon: CloudOff,
    fault: { kind: 'down', seconds: 60 },
    done: 'Down for 60 s',
  },
  {
    id: 'error',
    label: 'Fail the next call',
    does: 'One response is a 500, then calls work again.',
    icon: ServerCrash,
    fault: { kind: 'error', value: 500, count: 1, seconds: 600 },
    done: 'The next call will fail',
  },
]

interface Running {
  account: string
  until: number | null
}

/** Simulates faults of the platform, for this account only. */
export function Trouble({ account, why }: { account: Account | null; why: string | null }) {
  const client = useQueryClient()
  const now = useNow(1)
  const [running, setRunning] = useState<Record<string, Running>>({})
  const [asking, setAsking] = useState(false)
  const id = account?.id ?? ''
  const order = async (k: Kind) => {
    if (!k.fault) {
      await api.post('/v1/sandbox/accounts/{id}/reset_login', { path: { id } })
      void client.invalidateQueries({ queryKey: keys.account(id) })
      return
    }
    const got = await call<{ until?: string | null }>('POST', `/v1/sandbox/accounts/${encodeURIComponent(id)}/fault`, {
      body: k.fault,
    })
    const until = got?.until
      ? new Date(got.until).getTime()
      : k.fault.seconds && !k.fault.count
        ? Date.now() + k.fault.seconds * 1000
        : null
    setRunning((old) => ({ ...old, [k.id]: { account: id, until } }))
  }
  const problem = (e: unknown) =>
    isProblem(e) && e.code === 'route-not-found'
      ? toast.bad('This server cannot simulate this fault yet.')
      : toast.problem(e)
  const fault = useMutation({ mutationFn: order, onSuccess: (_, k) => toast.ok(k.done), onError: problem })
  const calm = useMutation({
    mutationFn: () => call<{ cleared?: number }>('DELETE', `/v1/sandbox/accounts/${encodeURIComponent(id)}/fault`),
    onSuccess: () => {
      setRunning({})
      toast.ok('All faults of this account are cleared')
    },
    onError: problem,
  })
  const off = why ?? (account ? null : 'Choose an account first.')
  return (
    <Card
      title="Break things"
      hint="Affects this account only"
      actions={
        <Button size="sm" why={off} busy={calm.isPending} onClick={() => calm.mutate()}>
          Clear all faults
        </Button>
      }
    >
      <ul className="divide-y">
        {kinds.map((k) => {
          const r = running[k.id]
          const left = r && r.account === id && r.until !== null ? Math.ceil((r.until - now) / 1000) : null
          const Icon = k.icon
          return (
            <li key={k.id} className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2 first:pt-0 last:pb-0">
              <Icon className="size-4 shrink-0 text-mute" aria-hidden />
              <div className="min-w-40 flex-1">
                <span className="flex flex-wrap items-center gap-2">
                  {k.label}
                  {left !== null && left > 0 ? <Badge tone="bad">{duration(left)} left</Badge> : null}
                </span>
                <span className="block text-xs text-mute">{k.does}</span>
              </div>
              <Button
                size="sm"
                why={off}
                busy={fault.isPending && fault.variables?.id === k.id}
                aria-label={`Apply: ${k.label}`}
                onClick={() => (k.id === 'expire' ? setAsking(true) : fault.mutate(k))}
              >
                Apply
              </Button>
            </li>
          )
        })}
      </ul>
      <Confirm
        open={asking}
        onOpenChange={setAsking}
        title="Expire the session?"
        action="Expire"
        danger
        run={async () => {
          const k = kinds[0]
          if (k) {
            await order(k)
            toast.ok(k.done)
          }
        }}
      >
        <p>
          The platform signs <strong>{account?.label || account?.displayName || account?.id}</strong> out.{' '}
          {account?.rememberCredentials
            ? 'We then sign in again automatically with the stored password.'
            : 'You must then reconnect it.'}
        </p>
      </Confirm>
    </Card>
  )
}
