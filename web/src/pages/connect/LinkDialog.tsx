import { useMemo, useState } from 'react'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { api, idempotent, isProblem } from '@/api/client'
import { useMe } from '@/api/hooks'
import type { ConnectSession } from '@/api/types'
import { isWebLink } from '@/lib/format'
import { snippets } from '@/lib/snippets'
import type { DialogProps, LinkOptions } from '@/shell/dialogs'
import { useSession, useWhyNot } from '@/shell/session'
import { PlatformChoice, SiteField } from './Place'
import { siteError, usePlace } from './usePlace'
import { hasMethod } from './words'
import { Button, Checkbox, CodeBlock, CopyButton, Dialog, Field, Id, Input, Notice, Select, Time } from '@/ui'

const lives: [string, string][] = [
  ['900', '15 minutes'],
  ['1800', '30 minutes'],
  ['3600', '1 hour'],
  ['86400', '1 day'],
  ['604800', '7 days'],
]

/** Creates a link for a creator, and shows the API call that does the same. */
export default function LinkDialog({ open, onOpenChange, options }: DialogProps<LinkOptions>) {
  const { org } = useSession()
  const me = useMe()
  const why = useWhyNot('accounts:write', 'create connect links')
  const client = useQueryClient()
  const [life, setLife] = useState('1800')
  const [password, setPassword] = useState(true)
  const [wantsPhone, setPhone] = useState(true)
  const place = usePlace(options)
  const hasPhone = hasMethod(place.platform, 'mobile')
  const phone = wantsPhone && hasPhone
  const [wantsKey, setKey] = useState(true)
  const hasKey = hasMethod(place.platform, 'token')
  const key = wantsKey && hasKey
  const [language, setLanguage] = useState('')
  const [back, setBack] = useState('')
  const [reference, setReference] = useState('')
  const [label, setLabel] = useState('')
  const [region, setRegion] = useState('')
  const [remember, setRemember] = useState('')
  const { platform, site } = place.body
  const body = useMemo(
    () => ({
      ...(options.accountId ? { account_id: options.accountId } : {}),
      ...(platform ? { platform } : {}),
      ...(site ? { site } : {}),
      ...(life !== '1800' ? { expires_in_sec: Number(life) } : {}),
      ...(password && phone === hasPhone && key === hasKey
        ? {}
        : {
            kinds: [...(key ? ['token'] : []), ...(password ? ['credentials'] : []), ...(phone ? ['mobile_app'] : [])],
          }),
      ...(language ? { locale: language } : {}),
      ...(back.trim() ? { return_url: back.trim() } : {}),
      ...(reference.trim() ? { reference_id: reference.trim() } : {}),
      ...(label.trim() ? { label: label.trim() } : {}),
      ...(region ? { proxy_country: region } : {}),
      ...(remember ? { remember_credentials: remember } : {}),
    }),
    [
      options.accountId,
      platform,
      site,
      life,
      password,
      phone,
      hasPhone,
      key,
      hasKey,
      language,
      back,
      reference,
      label,
      region,
      remember,
    ],
  )
  const make = useMutation({
    mutationFn: async () =>
      (await api.post('/v1/connect/sessions', { body: body as never, headers: idempotent() })).session,
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ['links'] })
      void client.invalidateQueries({ queryKey: ['funnel'] })
    },
  })
  const error = make.error && isProblem(make.error) ? make.error : null
  const none = !password && !phone && !key
  const regions = me.data?.limits?.proxyCountries ?? []
  const made = make.data
  return (
    <Dialog
      open={open}
      onOpenChange={onOpenChange}
      size="lg"
      title={options.accountId ? `Reconnect link for ${options.label ?? 'the account'}` : 'Create connect link'}
      description={`The creator signs in on a page that we host. ${org.name} never sees the password.`}
      footer={
        made ? (
          <>
            {options.accountId ? null : <Button onClick={() => make.reset()}>Create another</Button>}
            <Button variant="primary" onClick={() => onOpenChange(false)}>
              Done
            </Button>
          </>
        ) : (
          <>
            <Button onClick={() => onOpenChange(false)}>Cancel</Button>
            <Button
              variant="primary"
              why={
                why ??
                (none
                  ? 'Choose at least one sign-in method'
                  : place.site.trim() && place.problem
                    ? 'Correct the site'
                    : null)
              }
              busy={make.isPending}
              onClick={() => make.mutate()}
            >
              Create link
            </Button>
          </>
        )
      }
    >
      {made ? (
        <Made session={made} />
      ) : (
        <div className="space-y-4">
          <PlatformChoice place={place} />
          <SiteField place={place} error={(place.site.trim() ? place.problem : null) ?? siteError(error)} optional />
          <div className="grid gap-x-4 gap-y-3 sm:grid-cols-2">
            <Field
              label="Valid for"
              hint="Connects one account. Opening the link does not use it up"
              error={error?.field('expires_in_sec')}
            >
              {(p) => (
                <Select {...p} className="w-full" value={life} onChange={(e) => setLife(e.target.value)}>
                  {lives.map(([v, text]) => (
                    <option key={v} value={v}>
                      {text}
                    </option>
                  ))}
                </Select>
              )}
            </Field>
            <Field label="Language" error={error?.field('locale')}>
              {(p) => (
                <Select {...p} className="w-full" value={language} onChange={(e) => setLanguage(e.target.value)}>
                  <option value="">Same as the creator’s browser</option>
                  <option value="en">English</option>
                  <option value="es">Español</option>
                  <option value="pt">Português</option>
                  <option value="fr">Français</option>
                  <option value="de">Deutsch</option>
                </Select>
              )}
            </Field>
            <fieldset className="space-y-1">
              <legend className="mb-1 font-medium">Sign-in methods</legend>
              {hasKey ? (
                <Checkbox label="A key of the platform" checked={key} onChange={(e) => setKey(e.target.checked)} />
              ) : null}
              <Checkbox label="Email and password" checked={password} onChange={(e) => setPassword(e.target.checked)} />
              {hasPhone ? (
                <Checkbox label="The app on their phone" checked={phone} onChange={(e) => setPhone(e.target.checked)} />
              ) : null}
              {none ? <p className="text-xs text-bad-text">Choose at least one.</p> : null}
            </fieldset>
            <Field
              label="Stored password"
              error={error?.field('remember_credentials')}
              hint="To sign in again when the session ends"
            >
              {(p) => (
                <Select {...p} className="w-full" value={remember} onChange={(e) => setRemember(e.target.value)}>
                  <option value="">Ask the creator</option>
                  <option value="always">Always (the page says so)</option>
                  <option value="never">Never</option>
                </Select>
              )}
            </Field>
            <Field
              label="Return URL"
              note="optional"
              hint="Where the browser goes at the end, with the result"
              error={error?.field('return_url')}
            >
              {(p) => (
                <Input
                  {...p}
                  type="url"
                  placeholder="https://app.example/done"
                  value={back}
                  onChange={(e) => setBack(e.target.value)}
                />
              )}
            </Field>
            <Field
              label="Your reference"
              note="optional"
              hint="Your own id for the creator, stored with the account"
              error={error?.field('reference_id')}
            >
              {(p) => (
                <Input
                  {...p}
                  maxLength={255}
                  placeholder="user_456"
                  value={reference}
                  onChange={(e) => setReference(e.target.value)}
                />
              )}
            </Field>
            {options.accountId ? null : (
              <>
                <Field label="Label" note="optional" error={error?.field('label')}>
                  {(p) => (
                    <Input
                      {...p}
                      maxLength={120}
                      placeholder="Maya · main"
                      value={label}
                      onChange={(e) => setLabel(e.target.value)}
                    />
                  )}
                </Field>
                <Field label="Region" error={error?.field('proxy_country')}>
                  {(p) => (
                    <Select {...p} className="w-full" value={region} onChange={(e) => setRegion(e.target.value)}>
                      <option value="">{regions[0]} (default)</option>
                      {regions.slice(1).map((r) => (
                        <option key={r}>{r}</option>
                      ))}
                    </Select>
                  )}
                </Field>
              </>
            )}
          </div>
          {error ? (
            <Notice tone="bad">
              {error.detail} {error.requestId ? <code className="text-xs">{error.requestId}</code> : null}
            </Notice>
          ) : null}
          <div>
            <h3 className="mb-1 font-medium">The same with the API</h3>
            <CodeBlock snippets={snippets({ method: 'POST', path: '/v1/connect/sessions', body })} />
          </div>
        </div>
      )}
    </Dialog>
  )
}

function Made({ session: s }: { session: ConnectSession }) {
  const url = s.url ?? ''
  return (
    <div className="space-y-4">
      <Notice tone="ok">The link is ready. Copy it now: it is not shown again.</Notice>
      <div className="flex flex-wrap items-center gap-2">
        <Input
          aria-label="The link"
          mono
          readOnly
          className="min-w-0 flex-1 basis-64 text-xs"
          value={url}
          onFocus={(e) => e.target.select()}
        />
        <CopyButton variant="primary" text={url}>
          Copy link
        </CopyButton>
        {isWebLink(url) ? (
          <a
            href={url}
            target="_blank"
            rel="noopener noreferrer"
            className="inline-flex h-8 items-center rounded-lg border border-line-strong/80 bg-panel px-3 font-medium hover:bg-subtle"
          >
            Open
          </a>
        ) : null}
      </div>
      <p className="text-soft">
        Send it to the creator by email or chat. It expires <Time at={s.expires_at} /> and works for one account.
      </p>
      <div className="flex flex-wrap items-center gap-x-3 text-mute">
        Track it as <Id id={s.id} />
      </div>
    </div>
  )
}
