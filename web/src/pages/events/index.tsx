import { memo, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { useMutation, useQuery } from '@tanstack/react-query'
import { Pause, Play, Radio } from 'lucide-react'
import { api, call } from '@/api/client'
import { useKinds } from '@/api/hooks'
import { useAccountNames, useAccountPlaces } from '@/api/names'
import { orgStream } from '@/api/stream'
import type { Account, Event } from '@/api/types'
import { useUTC } from '@/lib/clock'
import { foldRenewals } from '@/lib/events'
import { useFilters, useTyped } from '@/lib/filters'
import { number } from '@/lib/format'
import { fromField, toField } from '@/lib/range'
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
  Input,
  NoMatch,
  PageHead,
  SavedViews,
  SearchInput,
  Select,
  Sheet,
  SkeletonRows,
  toast,
} from '@/ui'
import { Pane, useReplay } from './Pane'
import { periodOf, ranges } from './period'
import { Tape, type TapeHandle } from './Tape'
import { useDeliveries, useHooked } from './useDeliveries'
import { useSearch } from './useSearch'
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
  const f = useFilters({ account: '', kind: '', delivery: '', q: '', range: '', from: '', to: '', qr: '' })
  const { account, kind, delivery, q, range, from, to, qr } = f.values
  // The period of a search stays the same until the filter changes.
  const period = useMemo(() => periodOf({ range, from, to, q }, Date.now()), [range, from, to, q])
  const live = useTail(account, kind)
  const found = useSearch({ account, kinds: kind, q, from: period?.from ?? '', to: period?.to ?? '' }, period !== null)
  const source = period ? found : live.stored
  const all = period ? (found.rows ?? []) : live.rows
  const fold = useMemo(() => (qr === 'all' ? { rows: all, folded: new Map() } : foldRenewals(all)), [all, qr])
  const name = useAccountNames()
  const place = useAccountPlaces()
  const hooked = useHooked()
  const wide = useWide()
  const tape = useRef<TapeHandle>(null)
  const [selected, setSelected] = useState<Event | null>(null)
  const [sheet, setSheet] = useState(false)

  // The delivery filter needs the deliveries of all rows, not only of those on the screen.
  const rowsRef = useRef(fold.rows)
  rowsRef.current = fold.rows
  const want = useCallback(() => (delivery ? rowsRef.current : (tape.current?.visible() ?? [])), [delivery])
  const known = useDeliveries(want, hooked)
  const deliveryOf = useCallback(
    (e: Event) =>
      !hooked?.has(e.accountId) || e.meta.class === 'ephemeral'
        ? ('none' as const)
        : (known.get(e.id) ?? ('unknown' as const)),
    [hooked, known],
  )
  const rows = delivery
    ? fold.rows.filter((e) => {
        const d = deliveryOf(e)
        return delivery === 'none' ? d === 'none' : typeof d === 'object' && d.state === delivery
      })
    : fold.rows

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
        hint={period ? 'Stored events, newest first' : 'Everything the platform sent for your accounts, as it happens'}
        actions={
          <>
            <SavedViews
              page="events"
              current={Object.fromEntries(Object.entries(f.values).filter(([, v]) => v !== ''))}
              onOpen={(filters) => f.set({ ...cleared, ...filters })}
            />
            {period ? (
              <Button
                variant="primary"
                icon={<Radio className="size-4" aria-hidden />}
                onClick={() => f.set({ q: '', range: '', from: '', to: '' })}
              >
                Back to live
              </Button>
            ) : (
              <>
                <StreamBadge paused={live.paused} held={live.held} />
                <Button
                  icon={
                    live.paused ? <Play className="size-4" aria-hidden /> : <Pause className="size-4" aria-hidden />
                  }
                  onClick={live.toggle}
                  aria-keyshortcuts="Space"
                >
                  {live.paused ? (live.held > 0 ? `Show ${number(live.held)} held` : 'Resume') : 'Pause'}
                </Button>
              </>
            )}
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
            q={q}
            range={range}
            from={from}
            to={to}
            set={f.set}
          />
          {rows.length === 0 ? (
            <div className="min-h-0 flex-1 overflow-y-auto">
              {source.isError ? (
                <Failed what="the events" error={source.error} retry={() => void source.refetch()} />
              ) : source.isPending ? (
                <SkeletonRows rows={10} />
              ) : period && found.hasNextPage ? (
                <Empty
                  title="No match so far"
                  action={
                    <Button busy={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>
                      Search older events
                    </Button>
                  }
                >
                  None of the newest {number(found.scanned)} events of this period matches.
                </Empty>
              ) : period ? (
                <NoMatch title="No events match" onClear={f.clear} />
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
              {!period && live.stored.isError ? (
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
                onSpace={period ? () => {} : live.toggle}
                name={name}
                place={place}
                delivery={hooked ? deliveryOf : null}
                folded={fold.folded}
                withDay={period !== null}
              />
            </>
          )}
          <Foot
            live={live}
            found={period ? found : null}
            shown={rows.length}
            folded={all.length - fold.rows.length}
            onUnfold={() => f.set({ qr: 'all' })}
          />
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

const cleared = { account: '', kind: '', delivery: '', q: '', range: '', from: '', to: '', qr: '' }

// Rendered when a filter changes, not for every event.
const Toolbar = memo(function Toolbar({
  account,
  platform,
  kind,
  delivery,
  q,
  range,
  from,
  to,
  set,
}: {
  account: string
  /** The platform of the chosen account; null for all. */
  platform: string | null
  kind: string
  delivery: string
  q: string
  range: string
  from: string
  to: string
  set: (patch: Partial<typeof cleared>) => void
}) {
  const utc = useUTC()
  const [text, setText] = useTyped(q, (next) => set({ q: next.trim() }), 400)
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
      <div className="flex flex-wrap gap-2">
        <SearchInput label="Text in events" value={text} onChange={setText} className="min-w-0 flex-1 basis-40" />
        <Select aria-label="Time" value={range} onChange={(e) => set({ range: e.target.value, from: '', to: '' })}>
          {ranges.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </Select>
        {range === 'between' ? (
          <Input
            type="datetime-local"
            aria-label={utc ? 'From (UTC)' : 'From'}
            className="!w-auto"
            value={from && toField(from, utc)}
            onChange={(e) => set({ from: fromField(e.target.value, utc) })}
          />
        ) : null}
        {range === 'between' || range === 'at' ? (
          <Input
            type="datetime-local"
            aria-label={(range === 'at' ? 'Until' : 'To') + (utc ? ' (UTC)' : '')}
            className="!w-auto"
            value={to && toField(to, utc)}
            onChange={(e) => set({ to: fromField(e.target.value, utc) })}
          />
        ) : null}
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

function Foot({
  live,
  found,
  shown,
  folded,
  onUnfold,
}: {
  live: ReturnType<typeof useTail>
  /** The search; null while the tail is live. */
  found: ReturnType<typeof useSearch> | null
  shown: number
  folded: number
  onUnfold: () => void
}) {
  const busy = !found && live.oneOf > 1
  return (
    <div className="flex shrink-0 flex-wrap items-center justify-between gap-x-3 gap-y-1 border-t px-3 py-1.5 text-xs text-mute">
      <span>
        {busy ? <strong className="font-medium text-warn-text">Showing 1 of {number(live.oneOf)} · </strong> : null}
        {!found && live.rate > 0 ? `${number(live.rate)}/s · ` : ''}
        {number(shown)} {shown === 1 ? 'event' : 'events'}
        {found ? ` of ${number(found.scanned)} searched` : ''}
        {!found && live.cut ? ' (newest only)' : ''}
        {!found && live.skipped > 0 ? ` · ${number(live.skipped)} skipped; pause or filter to see all` : ''}
        {!found && orgStream().gap ? ' · some events are missing after an interruption' : ''}
        {folded > 0 ? (
          <>
            {` · ${number(folded)} ${folded === 1 ? 'renewal' : 'renewals'} of QR codes folded `}
            <button type="button" className="link" onClick={onUnfold}>
              Show
            </button>
          </>
        ) : null}
      </span>
      {found ? (
        found.hasNextPage ? (
          <Button size="sm" busy={found.isFetchingNextPage} onClick={() => void found.fetchNextPage()}>
            Search older events
          </Button>
        ) : null
      ) : live.hasOlder ? (
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
