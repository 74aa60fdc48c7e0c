import type { ReactNode } from 'react'
import { scopes as allScopes } from '@/api/facts'
import { AccountList } from '@/ui/AccountList'
import { Checkbox, Field, Textarea } from '@/ui'
import { lines } from './scopes'

/** The limits of a key in a form. A list applies only while its box is ticked. */
export interface Limits {
  narrow: boolean
  methods: string
  limited: boolean
  accounts: string[]
  bound: boolean
  networks: string
}

export const noLimits: Limits = {
  narrow: false,
  methods: '',
  limited: false,
  accounts: [],
  bound: false,
  networks: '',
}

/** The limits as the API takes them; null for no limit. */
export function listsOf(l: Limits): {
  methods: string[] | null
  accountIds: string[] | null
  allowedIps: string[] | null
} {
  return {
    methods: l.narrow && lines(l.methods).length > 0 ? lines(l.methods) : null,
    accountIds: l.limited ? l.accounts : null,
    allowedIps: l.bound && lines(l.networks).length > 0 ? lines(l.networks) : null,
  }
}

/** Why limits are incomplete; null if they are not. */
export function missingIn(l: Limits): string | null {
  if (l.limited && l.accounts.length === 0) return 'Choose at least one account.'
  if (l.bound && lines(l.networks).length === 0) return 'Enter at least one network.'
  return null
}

/** The methods, accounts and networks that a key is limited to. */
export function LimitFields({
  value: l,
  onChange,
  at,
}: {
  value: Limits
  onChange: (limits: Limits) => void
  /** The message of the API for a member. */
  at: (name: string) => string | undefined
}) {
  const set = (patch: Partial<Limits>) => onChange({ ...l, ...patch })
  return (
    <div className="space-y-3">
      <Checkbox
        label="Only some methods"
        hint="Limits which methods the key can call, regardless of its scopes."
        checked={l.narrow}
        onChange={(e) => set({ narrow: e.target.checked })}
      />
      {l.narrow ? (
        <Field
          label="Methods"
          className="pl-6"
          error={at('methods')}
          hint={
            <>
              One per line: <code>messages.send</code>, <code>chats.*</code>, <code>*</code>, or <code>sensitive</code>{' '}
              for money and legal data. A leading <code>!</code> denies a method, and denials win.
            </>
          }
        >
          {(p) => (
            <Textarea
              {...p}
              mono
              rows={4}
              spellCheck={false}
              placeholder={'chats.*\nmessages.*\n!sensitive'}
              value={l.methods}
              onChange={(e) => set({ methods: e.target.value })}
            />
          )}
        </Field>
      ) : null}
      <Checkbox
        label="Only some accounts"
        hint="The key cannot see or use other accounts, or connect new ones."
        checked={l.limited}
        onChange={(e) => set({ limited: e.target.checked })}
      />
      {l.limited ? (
        <AccountList
          className="pl-6"
          value={l.accounts}
          onChange={(accounts) => set({ accounts })}
          most={100}
          error={at('accountIds')}
        />
      ) : null}
      <Checkbox
        label="Only from some networks"
        hint="Calls from other addresses are refused."
        checked={l.bound}
        onChange={(e) => set({ bound: e.target.checked })}
      />
      {l.bound ? (
        <Field
          label="Networks"
          className="pl-6"
          error={at('allowedIps')}
          hint={
            <>
              One per line, in CIDR notation, at most 50: <code>203.0.113.7/32</code>, <code>2001:db8::/48</code>.
            </>
          }
        >
          {(p) => (
            <Textarea
              {...p}
              mono
              rows={3}
              spellCheck={false}
              placeholder="203.0.113.0/24"
              value={l.networks}
              onChange={(e) => set({ networks: e.target.value })}
            />
          )}
        </Field>
      ) : null}
    </div>
  )
}

/** The scopes of a key, each with a box. `whyNot` gives the reason if a scope cannot be chosen. */
export function ScopeFields({
  value,
  onChange,
  whyNot,
  presets,
  error,
}: {
  value: ReadonlySet<string>
  onChange: (scopes: ReadonlySet<string>) => void
  whyNot: (scope: string) => string | null
  presets?: ReactNode
  error?: string | undefined
}) {
  return (
    <fieldset>
      <legend className="mb-1 flex w-full flex-wrap items-center gap-x-3 gap-y-1">
        <span className="font-medium">Scopes</span>
        {presets}
      </legend>
      <div className="relative overflow-hidden rounded-lg border">
        <table className="w-full text-left">
          <caption className="sr-only">Permissions of the key</caption>
          <tbody className="divide-y">
            {allScopes.map((s) => {
              const why = whyNot(s.name)
              const id = 'scope-' + s.name
              return (
                <tr key={s.name} className={why ? 'bg-subtle' : ''}>
                  <td className="w-9 py-1.5 pl-3 align-top">
                    <input
                      id={id}
                      type="checkbox"
                      className="mt-0.5 size-4 accent-accent"
                      checked={value.has(s.name)}
                      disabled={why !== null}
                      aria-describedby={id + 'h'}
                      onChange={(e) => {
                        const next = new Set(value)
                        if (e.target.checked) next.add(s.name)
                        else next.delete(s.name)
                        onChange(next)
                      }}
                    />
                  </td>
                  <td className="py-1.5 pr-3">
                    <label htmlFor={id}>{s.title}</label>
                    <span id={id + 'h'} className="block text-xs text-mute">
                      {why ?? s.description}
                    </span>
                  </td>
                  <td className="py-1.5 pr-3 text-right align-top font-mono text-xs text-mute max-sm:hidden">
                    {s.name}
                  </td>
                </tr>
              )
            })}
          </tbody>
        </table>
      </div>
      {error ? <p className="mt-1 text-xs text-bad-text">{error}</p> : null}
    </fieldset>
  )
}
