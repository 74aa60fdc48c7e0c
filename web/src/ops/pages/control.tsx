import { useState } from 'react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { call, isProblem } from '@/api/client'
import {
  Badge,
  Button,
  Card,
  Confirm,
  Field,
  Input,
  Notice,
  PageHead,
  Query,
  Select,
  Skeleton,
  Textarea,
  Time,
  toast,
} from '@/ui'
import { isWebLink, words } from '@/lib/format'
import { useBanner, useCan, useSwitches } from '../hooks'
import { WithReason } from '../parts'
import type { Banner, Switch } from '../types'

export default function Control() {
  return (
    <>
      <PageHead title="Switches & banner" hint="Changes take effect on every node within seconds" />
      <div className="grid gap-3 lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]">
        <Switches />
        <BannerCard />
      </div>
    </>
  )
}

function title(s: Switch): string {
  return s.name.startsWith('region/') ? `Region ${s.name.slice(7)}` : words(s.name)
}

function Switches() {
  const query = useSwitches()
  const client = useQueryClient()
  const can = useCan('operator')
  const [off, setOff] = useState<Switch | null>(null)
  const [on, setOn] = useState<Switch | null>(null)
  const turn = async (s: Switch, to: boolean, reason?: string) => {
    const now = await call<{ switches: Switch[] }>('PUT', '/admin/v1/switches', {
      body: { switches: { [s.name]: to }, ...(reason ? { reason } : {}) },
    })
    client.setQueryData(['switches'], now.switches)
    void client.invalidateQueries({ queryKey: ['egress'] })
    toast.ok(`${title(s)} ${to ? 'is on again' : 'is off'}`)
  }
  return (
    <Card
      flush
      title="Kill switches"
      hint="Switched-off features are refused with 503. Customers do not see the reason; inform them with the banner."
    >
      <Query query={query} what="the switches">
        {(list) => (
          <ul className="divide-y">
            {list.map((s) => (
              <li key={s.name} className="flex flex-wrap items-center gap-x-4 gap-y-2 px-4 py-3">
                <div className="min-w-0 flex-1 basis-64">
                  <div className="flex flex-wrap items-center gap-2 font-medium">
                    {title(s)}{' '}
                    {s.on ? (
                      <Badge tone="ok" dot>
                        On
                      </Badge>
                    ) : (
                      <Badge tone="bad" dot>
                        Off
                      </Badge>
                    )}
                  </div>
                  <p className="text-mute">{s.about}</p>
                  {!s.on ? (
                    <p className="mt-1 break-words text-bad-text">
                      Off <Time at={s.since} /> by {s.by}: {s.reason}
                    </p>
                  ) : null}
                </div>
                {!can ? null : s.on ? (
                  <Button variant="danger" size="sm" aria-label={`Switch off ${title(s)}`} onClick={() => setOff(s)}>
                    Switch off
                  </Button>
                ) : (
                  <Button size="sm" aria-label={`Switch on ${title(s)}`} onClick={() => setOn(s)}>
                    Switch on
                  </Button>
                )}
              </li>
            ))}
          </ul>
        )}
      </Query>
      <WithReason
        open={off !== null}
        onOpenChange={(o) => !o && setOff(null)}
        title={`Switch ${off ? title(off) : ''} off?`}
        action="Switch off"
        danger
        hint="Recorded in the operators' log. Customers do not see it."
        run={(reason) => turn(off!, false, reason)}
      >
        <p>{off?.about}</p>
        <p>This affects every customer, on every node, within seconds.</p>
      </WithReason>
      <Confirm
        open={on !== null}
        onOpenChange={(o) => !o && setOn(null)}
        title={`Switch ${on ? title(on) : ''} on?`}
        action="Switch on"
        run={() => turn(on!, true)}
      >
        <p>Normal operation resumes on every node within seconds.</p>
      </Confirm>
    </Card>
  )
}

function BannerCard() {
  const query = useBanner()
  const can = useCan('operator')
  return (
    <Card title="Banner" hint="A message that all customers see at the top of the dashboard" className="content-start">
      {query.isPending ? (
        <Skeleton className="h-32 w-full" />
      ) : (
        <Query query={query} what="the banner">
          {(b) =>
            can ? (
              <BannerForm key={b?.since ?? 'none'} now={b} />
            ) : b ? (
              <Shown banner={b} />
            ) : (
              <p className="text-mute">There is no banner.</p>
            )
          }
        </Query>
      )}
    </Card>
  )
}

const tones = { info: 'info', warning: 'warn', critical: 'bad' } as const

function Shown({ banner }: { banner: Banner }) {
  return (
    <div>
      <Notice tone={tones[banner.level]}>
        {banner.text}{' '}
        {banner.url && isWebLink(banner.url) ? (
          <a className="underline" href={banner.url} target="_blank" rel="noopener noreferrer">
            More
          </a>
        ) : null}
      </Notice>
      <p className="mt-1 text-xs text-mute">
        Since <Time at={banner.since} /> by {banner.by}
        {banner.until ? (
          <>
            , until <Time at={banner.until} as="exact" />
          </>
        ) : null}
      </p>
    </div>
  )
}

function BannerForm({ now }: { now: Banner | null }) {
  const client = useQueryClient()
  const [text, setText] = useState(now?.text ?? '')
  const [level, setLevel] = useState<Banner['level']>(now?.level ?? 'info')
  const [url, setURL] = useState(now?.url ?? '')
  const [hours, setHours] = useState('')
  const m = useMutation({
    mutationFn: (body: object) => call<{ banner: Banner | null }>('PUT', '/admin/v1/banner', { body }),
    onSuccess: (done) => {
      client.setQueryData(['banner'], done.banner)
      toast.ok(done.banner ? 'All customers now see the banner' : 'Banner removed')
    },
  })
  const problem = isProblem(m.error) ? m.error : null
  const publish = () =>
    m.mutate({
      text,
      level,
      ...(url ? { url } : {}),
      ...(hours ? { until: new Date(Date.now() + Number(hours) * 3_600_000).toISOString() } : {}),
    })
  return (
    <form
      className="space-y-4"
      onSubmit={(e) => {
        e.preventDefault()
        if (text.trim()) publish()
      }}
    >
      {now ? <Shown banner={now} /> : <p className="text-mute">There is no banner.</p>}
      <Field label="Text" error={problem?.field('text')} note={`${text.length} / 280`}>
        {(p) => (
          <Textarea
            {...p}
            value={text}
            maxLength={280}
            onChange={(e) => setText(e.target.value)}
            placeholder="Connecting accounts is slow right now. We are on it."
          />
        )}
      </Field>
      <div className="grid gap-4 sm:grid-cols-2">
        <Field label="Level">
          {(p) => (
            <Select
              {...p}
              className="w-full"
              value={level}
              onChange={(e) => setLevel(e.target.value as Banner['level'])}
            >
              <option value="info">Info</option>
              <option value="warning">Warning</option>
              <option value="critical">Critical</option>
            </Select>
          )}
        </Field>
        <Field label="Remove after" error={problem?.field('until')}>
          {(p) => (
            <Select {...p} className="w-full" value={hours} onChange={(e) => setHours(e.target.value)}>
              <option value="">Never</option>
              <option value="1">1 hour</option>
              <option value="6">6 hours</option>
              <option value="24">1 day</option>
              <option value="168">1 week</option>
            </Select>
          )}
        </Field>
      </div>
      <Field label="Link" hint="Optional. A page with more details." error={problem?.field('url')}>
        {(p) => (
          <Input
            {...p}
            type="url"
            value={url}
            maxLength={2048}
            onChange={(e) => setURL(e.target.value)}
            placeholder="https://status.example"
          />
        )}
      </Field>
      {problem && !problem.problem.errors?.length ? <Notice tone="bad">{problem.detail}</Notice> : null}
      <div className="flex flex-wrap gap-2">
        <Button type="submit" variant="primary" busy={m.isPending} disabled={!text.trim()}>
          Publish
        </Button>
        {now ? (
          <Button busy={m.isPending} onClick={() => m.mutate({ text: '' })}>
            Remove
          </Button>
        ) : null}
      </div>
    </form>
  )
}
