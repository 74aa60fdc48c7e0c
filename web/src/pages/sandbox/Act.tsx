import { useState, type FormEvent } from 'react'
import { useMutation } from '@tanstack/react-query'
import { Heart, MessageCircle, UserPlus } from 'lucide-react'
import { api, call, isProblem } from '@/api/client'
import type { Account } from '@/api/types'
import { Button, Card, Field, Input, toast } from '@/ui'

type Doing = { do: 'message' | 'tip' | 'subscribe'; text?: string; amountCents?: number }
const said: Record<Doing['do'], string> = {
  message: 'Message sent as a fan',
  tip: 'Tip sent as a fan',
  subscribe: 'Subscribed as a fan',
}
// The event names of the older operation.
const events: Record<Doing['do'], string> = { message: 'message', tip: 'tips', subscribe: 'subscribed' }

/** A fan writes, tips or subscribes. It happens on the sandbox platform, with all its effects. */
export function Act({ account, why }: { account: Account | null; why: string | null }) {
  const [text, setText] = useState('hey! loved the last post')
  const [dollars, setDollars] = useState('25')
  const act = useMutation({
    mutationFn: async (body: Doing) => {
      const id = account?.id ?? ''
      try {
        await call('POST', `/v1/sandbox/accounts/${encodeURIComponent(id)}/act`, { body: { as: 'fan', ...body } })
      } catch (e) {
        if (!isProblem(e) || e.code !== 'route-not-found') throw e
        const data = {
          ...(body.text ? { text: body.text } : {}),
          ...(body.amountCents ? { amountCents: body.amountCents } : {}),
        }
        await api.post('/v1/sandbox/accounts/{id}/fire_event', {
          path: { id },
          body: { event: events[body.do], data } as never,
        })
      }
    },
    onSuccess: (_, body) => toast.ok(said[body.do]),
    onError: toast.problem,
  })
  const off = why ?? (account ? null : 'Choose an account first.')
  const cents = Math.round(Number(dollars) * 100)
  const badTip = !Number.isFinite(cents) || cents < 100 || cents > 1_000_000
  const run = (body: Doing) => {
    if (!off && !act.isPending) act.mutate(body)
  }
  const busy = (what: Doing['do']) => act.isPending && act.variables?.do === what
  return (
    <Card title="Act as a fan" hint="Actions happen on the sandbox platform and come back as events">
      <div className="space-y-4">
        <form
          className="flex flex-wrap items-end gap-2"
          onSubmit={(e: FormEvent) => {
            e.preventDefault()
            run({ do: 'message', text: text.trim() })
          }}
        >
          <Field label="Message" className="min-w-40 flex-1">
            {(p) => <Input {...p} value={text} maxLength={4000} onChange={(e) => setText(e.target.value)} />}
          </Field>
          <Button
            type="submit"
            variant="primary"
            icon={<MessageCircle className="size-4" aria-hidden />}
            why={off ?? (text.trim() ? null : 'Enter a message first.')}
            busy={busy('message')}
          >
            Send a message
          </Button>
        </form>
        <form
          className="flex flex-wrap items-end gap-2"
          onSubmit={(e: FormEvent) => {
            e.preventDefault()
            if (!badTip) run({ do: 'tip', amountCents: cents, text: 'For you' })
          }}
        >
          <Field
            label="Tip, in dollars"
            className="w-36"
            error={dollars !== '' && badTip ? 'Enter 1 to 10,000.' : undefined}
          >
            {(p) => <Input {...p} inputMode="decimal" value={dollars} onChange={(e) => setDollars(e.target.value)} />}
          </Field>
          <Button
            type="submit"
            icon={<Heart className="size-4" aria-hidden />}
            why={off}
            disabled={badTip}
            busy={busy('tip')}
          >
            Send a tip
          </Button>
          <Button
            icon={<UserPlus className="size-4" aria-hidden />}
            why={off}
            busy={busy('subscribe')}
            onClick={() => run({ do: 'subscribe' })}
          >
            Subscribe
          </Button>
        </form>
        <p className="text-xs text-mute">
          Each action comes from a different fan of the creator. As on the real platform, a tip also books a transaction
          and notifies the creator.
        </p>
      </div>
    </Card>
  )
}
