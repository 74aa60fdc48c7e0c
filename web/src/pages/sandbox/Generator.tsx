import { useEffect, useRef, useState } from 'react'
import { useMutation } from '@tanstack/react-query'
import { Play, Square } from 'lucide-react'
import { call, isProblem } from '@/api/client'
import { useEvents } from '@/api/hooks'
import type { Account } from '@/api/types'
import { useNow } from '@/lib/clock'
import { duration, number } from '@/lib/format'
import { Badge, Button, Card, Field, Select, Spark, toast } from '@/ui'

// Not equal steps: low rates would take up almost none of the slider.
const rates = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
const times: [number, string][] = [
  [10, '10 seconds'],
  [60, '1 minute'],
  [300, '5 minutes'],
  [600, '10 minutes'],
]
const shown = 60

/** Generates events at a steady rate, to see the charts and the tail move. */
export function Generator({ account, why }: { account: Account | null; why: string | null }) {
  const now = useNow(1)
  const [step, setStep] = useState(2)
  const [seconds, setSeconds] = useState(60)
  const [running, setRunning] = useState<{ account: string; until: number; rate: number } | null>(null)
  const { total, perSecond } = useArrivals(account?.id ?? null)
  const rate = rates[step] ?? 5
  const path = `/v1/sandbox/accounts/${encodeURIComponent(account?.id ?? '')}/generator`
  const problem = (e: unknown) =>
    isProblem(e) && e.code === 'route-not-found'
      ? toast.bad('This server does not have a generator yet.')
      : toast.problem(e)
  const start = useMutation({
    mutationFn: () => call<{ until?: string }>('POST', path, { body: { perSecond: rate, seconds } }),
    onSuccess: (got) =>
      setRunning({
        account: account?.id ?? '',
        rate,
        until: got?.until ? new Date(got.until).getTime() : Date.now() + seconds * 1000,
      }),
    onError: problem,
  })
  const stop = useMutation({
    mutationFn: () => call('DELETE', path),
    onSuccess: () => setRunning(null),
    onError: problem,
  })
  const left = running && running.account === account?.id ? Math.ceil((running.until - now) / 1000) : 0
  const on = left > 0
  const off = why ?? (account ? null : 'Choose an account first.')
  return (
    <Card
      title="Event generator"
      hint="Mostly messages, some tips, likes and new fans"
      actions={
        on ? (
          <Badge tone="ok" dot>
            {number(running?.rate)} a second · {duration(left)} left
          </Badge>
        ) : null
      }
    >
      <div className="space-y-4">
        <div className="grid gap-4 sm:grid-cols-[minmax(0,1fr)_150px]">
          <Field label="Rate" note={`${number(rate)} a second`}>
            {(p) => (
              <input
                id={p.id}
                type="range"
                min={0}
                max={rates.length - 1}
                step={1}
                value={step}
                aria-valuetext={`${rate} events a second`}
                onChange={(e) => setStep(Number(e.target.value))}
                className="h-8 w-full accent-accent"
              />
            )}
          </Field>
          <Field label="Duration">
            {(p) => (
              <Select {...p} className="w-full" value={seconds} onChange={(e) => setSeconds(Number(e.target.value))}>
                {times.map(([n, text]) => (
                  <option key={n} value={n}>
                    {text}
                  </option>
                ))}
              </Select>
            )}
          </Field>
        </div>
        <div className="flex flex-wrap items-center gap-2">
          <Button
            variant="primary"
            icon={<Play className="size-4" aria-hidden />}
            why={off}
            busy={start.isPending}
            onClick={() => start.mutate()}
          >
            {on ? 'Restart' : 'Start'}
          </Button>
          <Button
            icon={<Square className="size-4" aria-hidden />}
            why={off}
            busy={stop.isPending}
            onClick={() => stop.mutate()}
          >
            Stop
          </Button>
          <span className="text-xs text-mute">
            about {number(rate * seconds)} events; they only count towards storage
          </span>
        </div>
        <div className="flex items-end gap-4">
          <div className="shrink-0">
            <div className="text-xs text-mute">Received here</div>
            <div className="text-lg font-semibold">{number(total)}</div>
            <div className="text-xs text-mute">{number(perSecond[perSecond.length - 1] ?? 0)} in the last second</div>
          </div>
          <Spark
            values={perSecond}
            label={`Events a second, last minute; now ${perSecond[perSecond.length - 1] ?? 0}`}
            className="h-12 !w-auto min-w-0 flex-1"
          />
        </div>
      </div>
    </Card>
  )
}

/** Counts the events of an account that reached this tab: in total, and per second for the last minute. */
function useArrivals(account: string | null): { total: number; perSecond: number[] } {
  const seen = useRef({ total: 0, current: 0 })
  const [state, setState] = useState({ total: 0, perSecond: new Array<number>(shown).fill(0) })
  useEvents(
    (batch) => {
      seen.current.total += batch.length
      seen.current.current += batch.length
    },
    { enabled: Boolean(account), ...(account ? { accountId: account } : {}) },
  )
  useEffect(() => {
    seen.current = { total: 0, current: 0 }
    setState({ total: 0, perSecond: new Array<number>(shown).fill(0) })
    const timer = setInterval(() => {
      const { total, current } = seen.current
      seen.current.current = 0
      setState((old) => ({ total, perSecond: [...old.perSecond.slice(1), current] }))
    }, 1000)
    return () => clearInterval(timer)
  }, [account])
  return state
}
