import { memo, useCallback, useEffect, useRef, useState } from 'react'
import { useMutation, useQuery } from '@tanstack/react-query'
import { Pause, Play } from 'lucide-react'
import { api, call } from '@/api/client'
import { useKinds } from '@/api/hooks'
import { useAccountNames, useAccountPlaces } from '@/api/names'
import { orgStream } from '@/api/stream'
import type { Account, Event } from '@/api/types'
import { useFilters } from '@/lib/filters'
import { number } from '@/lib/format'
import { commonKinds, kindsOf } from '@/lib/platforms'
import { useDialogs } from '@/shell/dialogs'
import { useSession, useWhyNot } from '@/shell/session'
import { useShortcut } from '@/shell/shortcuts'
import { StreamBadge } from '@/shell/StreamBadge'
import { AccountPicker } from '@/ui/AccountPicker'
import {
  Boundary,
  Button,
  ButtonLink,
  Card,
  Chips,
  Code,
  Empty,
  Failed,
  NoMatch,
  PageHead,
  Select,
  Sheet,
  SkeletonRows,
  toast,
} from '@/ui'
import { Pane, useReplay } from './Pane'
import { Tape, type TapeHandle } from './Tape'
import { useDeliveries, useHooked } from './useDeliveries'
import { useTail } from './useTail'

function useWide(): boolean {
  const [wide, setWide] = useState(() => matchMedia('(min-width: 1024px)').matches)
  useEffect(() => {
    const media = matchMedia('(min-width: 1024px)')
    const change = () => setWide(media.matches)
    media.addEventListener('change', change)
    return () => media.removeEventListener('change', change)
  }, [])
  return wide
}

/** The live tail of all events. */
export default function Events() {
  const f = useFilters({ account: '', kind: '', delivery: '' })
  const { account, kind, delivery } = f.values
  const live = useTail(account, kind)
  const name = useAccountNames()
  const place = useAccountPlaces()
  const hooked = useHooked()
  const wide = useWide()
  const tape = useRef<TapeHandle>(null)
  const [selected, setSelected] = useState<Event | null>(null)
  const [sheet, setSheet] = useState(false)

  // The delivery filter needs the deliveries of all rows, not only of those on the screen.
  const rowsRef = useRef(live.rows)
  rowsRef.current = live.rows
  const want = useCallback(() => (delivery ? rowsRef.current : (tape.current?.visible() ?? [])), [delivery])
  const known = useDeliveries(want, hooked)
  const deliveryOf = useCallback(
    (e: Event) =>
      !e.accountId || !hooked?.has(e.accountId) || e.meta.class === 'ephemeral'
        ? ('none' as const)
        : (known.get(e.id) ?? ('unknown' as const)),
    [hooked, known],
  )
  const rows = delivery
    ? live.rows.filter((e) => {
        const d = deliveryOf(e)
        return delivery === 'none' ? d === 'none' : typeof d === 'object' && d.state === delivery
      })
    : live.rows

  const replay = useReplay(selected)
  const step = (by: number) => {
    const at = selected ? rows.findIndex((e) => e.id === selected.id) : -1
    const next = rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))]
    if (next) setSelected(next)
  }
  useShortcut('j', 'Next event', () => step(1))
  useShortcut('k', 'Previous event', () => step(-1))
  useShortcut('Space', live.paused ? 'Resume' : 'Pause', live.toggle)
  useShortcut('r', 'Replay the selected event', () => {
    if (replay.why) toast.bad(replay.why)
    else replay.run()
  })
  const select = (e: Event, open: boolean) => {
    setSelected(e)
    if (open && !wide) setSheet(true)
  }
  const detail = selected ? <Detail event={selected} /> : null

  return (
    <>
      <PageHead
        title="Live events"
        hint="Everything the platform sent for your accounts, as it happens"
        actions={
          <>
            <StreamBadge paused={live.paused} held={live.held} />
            <Button
              icon={live.paused ? <Play className="size-4" aria-hidden /> : <Pause className="size-4" aria-hidden />}
              onClick={live.toggle}
              aria-keyshortcuts="Space"
            >
              {live.paused ? (live.held > 0 ? `Show ${number(live.held)} held` : 'Resume') : 'Pause'}
            </Button>
          </>
        }
      />
      <div className="grid gap-3 lg:grid-cols-[minmax(0,1fr)_380px]">
        <Card
          flush
          className="h-[max(420px,calc(100dvh-210px))] overflow-hidden [&>div]:flex [&>div]:min-h-0 [&>div]:flex-col"
        >
          <Toolbar
            account={account}
            platform={place(account)?.platform ?? null}
            kind={kind}
            delivery={delivery}
            set={f.set}
          />
          {rows.length === 0 ? (
            <div className="min-h-0 flex-1 overflow-y-auto">
              {live.stored.isError ? (
                <Failed what="the events" error={live.stored.error} retry={() => void live.stored.refetch()} />
              ) : live.stored.isPending ? (
                <SkeletonRows rows={10} />
              ) : f.active ? (
                <NoMatch
                  title={delivery ? 'No events with this delivery' : 'No events of this kind'}
                  onClear={f.clear}
                />
              ) : (
                <Nothing />
              )}
            </div>
          ) : (
            <>
              {live.stored.isError ? (
                <div
                  role="alert"
                  className="flex shrink-0 flex-wrap items-center gap-2 border-b bg-warn-soft px-3 py-1.5 text-xs text-warn-text"
                >
                  We could not load earlier events.
                  <button type="button" className="underline" onClick={() => void live.stored.refetch()}>
                    Retry
                  </button>
                </div>
              ) : null}
              <Tape
                handle={tape}
                rows={rows}
                selected={selected?.id ?? null}
                onSelect={select}
                onSpace={live.toggle}
                name={name}
                place={place}
                delivery={hooked ? deliveryOf : null}
              />
            </>
          )}
          <Foot live={live} shown={rows.length} />
        </Card>
        {wide ? (
          <Card className="h-[max(420px,calc(100dvh-210px))] overflow-hidden [&>div]:relative [&>div]:overflow-y-auto">
            {detail ?? <Empty title="Select an event">Click one, or use j and k. Space pauses, r replays.</Empty>}
          </Card>
        ) : (
          <Sheet open={sheet && selected !== null} onOpenChange={setSheet} title="Event">
            <div className="p-4">{detail}</div>
          </Sheet>
        )}
      </div>
    </>
  )
}

// Rendered when a filter changes, not for every event.
const Toolbar = memo(function Toolbar({
  account,
  platform,
  kind,
  delivery,
  set,
}: {
  account: string
  /** The platform of the chosen account; null for all. */
  platform: string | null
  kind: string
  delivery: string
  set: (patch: { account?: string; kind?: string; delivery?: string }) => void
}) {
  const all = useKinds()
  const kinds = kindsOf(all, platform)
  const common = commonKinds(kinds)
  return (
    <div className="flex shrink-0 flex-col gap-2 border-b px-2 py-2">
      <Chips
        label="Kind"
        mono
        items={[{ value: '', label: 'all' }, ...common.map((k) => ({ value: k, label: k }))]}
        value={kind}
        onChange={(k) => set({ kind: k })}
      />
      <div className="grid grid-cols-2 gap-2 sm:grid-cols-3">
        <Select
          aria-label="Other kinds"
          value={common.includes(kind) ? '' : kind}
          onChange={(e) => set({ kind: e.target.value })}
        >
          <option value="">Other kinds</option>
          {!common.includes(kind) && kind && !kinds.includes(kind) ? <option>{kind}</option> : null}
          {kinds.map((k) => (
            <option key={k}>{k}</option>
          ))}
        </Select>
        <AccountPicker
          label="Account"
          none="All accounts"
          className="max-sm:order-first max-sm:col-span-2"
          value={account || null}
          onChange={(id) => set({ account: id ?? '' })}
        />
        <Select aria-label="Delivery" value={delivery} onChange={(e) => set({ delivery: e.target.value })}>
          <option value="">Any delivery</option>
          <option value="delivered">Delivered</option>
          <option value="failed">Failed</option>
          <option value="none">Stream only</option>
        </Select>
      </div>
    </div>
  )
})

const Detail = memo(function Detail({ event }: { event: Event }) {
  return (
    <Boundary key={event.id} what="the event">
      <Pane event={event} />
      <div className="mt-4">
        <ButtonLink size="sm" to="/events/$id" params={{ id: event.id }}>
          Open event page
        </ButtonLink>
      </div>
    </Boundary>
  )
})

function Foot({ live, shown }: { live: ReturnType<typeof useTail>; shown: number }) {
  const busy = live.oneOf > 1
  return (
    <div className="flex shrink-0 flex-wrap items-center justify-between gap-x-3 gap-y-1 border-t px-3 py-1.5 text-xs text-mute">
      <span>
        {busy ? <strong className="font-medium text-warn-text">Showing 1 of {number(live.oneOf)} · </strong> : null}
        {live.rate > 0 ? `${number(live.rate)}/s · ` : ''}
        {number(shown)} {shown === 1 ? 'event' : 'events'}
        {live.cut ? ' (newest only)' : ''}
        {live.skipped > 0 ? ` · ${number(live.skipped)} skipped; pause or filter to see all` : ''}
        {orgStream().gap ? ' · some events are missing after an interruption' : ''}
      </span>
      {live.hasOlder ? (
        <Button size="sm" busy={live.loadingOlder} onClick={() => void live.older().catch(toast.problem)}>
          {live.cut || live.skipped > 0 ? 'Load all from the log' : 'Load older events'}
        </Button>
      ) : null}
    </div>
  )
}

// Shown while the stream is open and empty. In the sandbox, it can send a test message.
function Nothing() {
  const { org } = useSession()
  const { connect } = useDialogs()
  const why = useWhyNot('accounts:write', 'send test messages')
  const first = useQuery({
    queryKey: ['accounts', 'first'],
    queryFn: async ({ signal }) =>
      (await call<{ accounts: Account[] | null }>('GET', '/v1/accounts', { query: { limit: 1 }, signal }))
        .accounts?.[0] ?? null,
  })
  const fire = useMutation({
    mutationFn: (id: string) =>
      api.post('/v1/sandbox/accounts/{id}/fire_event', {
        path: { id },
        body: { event: 'message', data: { text: 'Hello from the dashboard' } },
      }),
    onSuccess: () => toast.ok('Test message sent'),
    onError: toast.problem,
  })
  const account = first.data
  return (
    <Empty
      title="Listening…"
      action={
        account === null ? (
          <Button variant="primary" why={why} onClick={() => connect()}>
            Connect account
          </Button>
        ) : account?.platform === 'sandbox' && org.environment === 'sandbox' ? (
          <Button variant="primary" why={why} busy={fire.isPending} onClick={() => fire.mutate(account.id)}>
            Send a test message
          </Button>
        ) : undefined
      }
    >
      Events appear here as they happen.
      <div className="mx-auto mt-3 max-w-sm text-left">
        <Code code="stagedoor listen --forward-to localhost:3000" label="command" wrap />
      </div>
    </Empty>
  )
}
