import type { ProblemError } from '@/api/client'
import { matchesKinds } from '@/lib/events'
import { Field, Segments, Select, Textarea } from '@/ui'
import { eventList } from './hook'

const families = ['message*', 'member*', 'subscri*', 'tips', 'post*', 'payout*', 'account.*', 'connect.*', 'webhook.*']

/** Chooses which events are sent: all, or those in a text with names and patterns. */
export function EventsField({
  some,
  onSome,
  value,
  onChange,
  kinds,
  error,
}: {
  some: boolean
  onSome: (some: boolean) => void
  value: string
  onChange: (value: string) => void
  kinds: readonly string[]
  error: ProblemError | null
}) {
  const list = eventList(value)
  const add = (name: string) => onChange([...list, name].join('\n'))
  return (
    <div>
      <div className="mb-1 flex flex-wrap items-center gap-3">
        <span className="font-medium">Events</span>
        <Segments
          label="Events"
          items={[
            { value: 'all', label: 'All' },
            { value: 'some', label: 'Only some' },
          ]}
          value={some ? 'some' : 'all'}
          onChange={(v) => onSome(v === 'some')}
        />
      </div>
      {some ? (
        <>
          <Field
            label={<span className="sr-only">Event names</span>}
            hint="Names, wildcards such as message*, and !name to exclude events"
            error={error?.field('events') ?? (error?.code === 'unknown-event' ? error.detail : undefined)}
          >
            {(p) => (
              <Textarea
                {...p}
                mono
                rows={3}
                spellCheck={false}
                placeholder={'message*\ntips\n!messageRead'}
                value={value}
                onChange={(e) => onChange(e.target.value)}
              />
            )}
          </Field>
          <div className="mt-1.5 flex flex-wrap items-center gap-1 text-xs" role="group" aria-label="Add events">
            <span className="text-mute">Add:</span>
            {families
              .filter((f) => kinds.some((k) => matchesKinds(f, k)))
              .map((k) => (
                <button
                  key={k}
                  type="button"
                  disabled={list.includes(k)}
                  className="rounded-full bg-subtle px-2 py-0.5 font-mono text-soft hover:bg-line hover:text-fg disabled:opacity-60"
                  onClick={() => add(k)}
                >
                  {k}
                </button>
              ))}
            <Select
              aria-label="Add one event"
              className="w-40"
              value=""
              onChange={(e) => e.target.value && add(e.target.value)}
            >
              <option value="">One event…</option>
              {kinds
                .filter((k) => !list.includes(k))
                .map((k) => (
                  <option key={k}>{k}</option>
                ))}
            </Select>
          </div>
        </>
      ) : null}
    </div>
  )
}
