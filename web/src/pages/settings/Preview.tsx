import { useEffect, useRef, useState, type CSSProperties, type ReactNode } from 'react'
import { useMutation } from '@tanstack/react-query'
import { Check, ExternalLink, RotateCw } from 'lucide-react'
import { call, isProblem } from '@/api/client'
import { useSession, useWhyNot } from '@/shell/session'
import { Button, Chips, Notice, Segments } from '@/ui'
import { palette, type Scheme } from './colour'

type StateName = 'start' | 'pending' | 'code' | 'scan' | 'done' | 'failed'
const states: { value: StateName; label: string }[] = [
  { value: 'start', label: 'Start' },
  { value: 'pending', label: 'Signing in' },
  { value: 'code', label: 'Code' },
  { value: 'scan', label: 'Scan' },
  { value: 'done', label: 'Connected' },
  { value: 'failed', label: 'Failed' },
]

/** A mock-up of the creators' page, with colours that are not saved yet. */
export function Drawing({
  light,
  dark,
  scheme,
  logo,
}: {
  light: string
  dark: string
  scheme: 'system' | Scheme
  logo: string | null
}) {
  const { org } = useSession()
  const [state, setState] = useState<StateName>('start')
  const [chosen, setChosen] = useState<Scheme>('light')
  const shown: Scheme = scheme === 'system' ? chosen : scheme
  const p = palette(shown === 'dark' ? dark || light : light, shown)
  const at = state === 'start' ? 1 : state === 'done' ? 3 : state === 'failed' ? 0 : 2
  return (
    <div className="space-y-3">
      <div className="flex flex-wrap items-center gap-2">
        <Chips label="State" items={states} value={state} onChange={(v) => setState(v as StateName)} />
        {scheme === 'system' ? (
          <span className="ml-auto">
            <Segments
              label="Preview scheme"
              value={chosen}
              onChange={(v) => setChosen(v as Scheme)}
              items={[
                { value: 'light', label: 'Light' },
                { value: 'dark', label: 'Dark' },
              ]}
            />
          </span>
        ) : null}
      </div>
      <div
        role="img"
        aria-label={`The ${states.find((s) => s.value === state)?.label} page in the ${shown} scheme`}
        className="rounded-xl p-4 sm:p-6"
        style={{ background: p['page'], color: p['ink'], fontFamily: 'system-ui, sans-serif' }}
      >
        <div
          className="mx-auto w-full max-w-[360px] rounded-2xl border p-5 text-[15px]"
          style={{ background: p['card'], borderColor: p['line'] }}
          aria-hidden
          inert
        >
          <div className="mb-4 flex items-center gap-2.5 text-sm" style={{ color: p['soft'] }}>
            {logo ? (
              <img src={logo} alt="" className="size-8 shrink-0 rounded-lg object-contain" />
            ) : (
              <span
                className="grid size-8 shrink-0 place-items-center rounded-lg font-bold"
                style={{ background: p['brand'], color: p['on'] }}
              >
                {(org.name[0] ?? '?').toUpperCase()}
              </span>
            )}
            <span className="min-w-0 truncate">{org.name}</span>
          </div>
          {at > 0 ? (
            <div className="mb-4 flex gap-1.5">
              {[1, 2, 3].map((n) => (
                <span key={n} className="h-1 flex-1 rounded" style={{ background: n <= at ? p['brand'] : p['line'] }} />
              ))}
            </div>
          ) : null}
          <Content state={state} org={org.name} p={p} />
          <div className="mt-4 space-y-1 border-t pt-3 text-xs" style={{ borderColor: p['line'], color: p['soft'] }}>
            <p>Stagedoor operates this page for {org.name} · Is it genuine? · Privacy</p>
            <p>English Español Português Français Deutsch</p>
          </div>
        </div>
      </div>
      <p className="text-xs text-mute">This is a mock-up. The real page uses the saved settings.</p>
    </div>
  )
}

type Palette = Record<string, string>

function Content({ state, org, p }: { state: StateName; org: string; p: Palette }): ReactNode {
  const title = (t: string) => <div className="mb-1 text-[20px] leading-tight font-bold tracking-tight">{t}</div>
  const lead = (t: ReactNode) => (
    <p className="mb-3 break-words" style={{ color: p['soft'] }}>
      {t}
    </p>
  )
  const main: CSSProperties = { background: p['brand'] ?? '', color: p['on'] ?? '' }
  const button = (t: string) => (
    <div className="my-3 grid h-11 place-items-center rounded-[10px] font-bold" style={main}>
      {t}
    </div>
  )
  const field = (t: string, h = 'h-11') => (
    <div className="mt-3">
      <div className="mb-1 text-sm font-bold">{t}</div>
      <div className={`${h} rounded-[10px] border`} style={{ borderColor: p['edge'] }} />
    </div>
  )
  switch (state) {
    case 'start':
      return (
        <>
          {title('Connect your account')}
          {lead(`Sign in once so ${org} can manage your account for you.`)}
          <ul className="space-y-1.5">
            {[
              `${org} never sees your password`,
              'You can disconnect at any time',
              'Your session is encrypted at rest',
            ].map((t) => (
              <li key={t} className="flex gap-2">
                <Check className="mt-1 size-4 shrink-0" style={{ color: p['good'] }} />
                <span className="min-w-0 break-words">{t}</span>
              </li>
            ))}
          </ul>
          {field('Email')}
          {field('Password')}
          {button('Continue')}
          <span className="underline">Use the app on my phone instead</span>
        </>
      )
    case 'pending':
      return (
        <>
          {title('Signing you in')}
          <ul className="my-3 space-y-2">
            <li className="flex items-center gap-2.5" style={{ color: p['soft'] }}>
              <Check className="size-4" style={{ color: p['good'] }} /> Contacting the platform
            </li>
            <li className="flex items-center gap-2.5 font-bold">
              <span
                className="size-3.5 rounded-full border-2"
                style={{ borderColor: p['brand'], borderRightColor: 'transparent' }}
              />{' '}
              Checking your details
            </li>
            <li className="flex items-center gap-2.5" style={{ color: p['soft'] }}>
              <span className="size-3.5 rounded-full border-2" style={{ borderColor: p['line'] }} /> Securing your
              session
            </li>
          </ul>
          <span className="underline" style={{ color: p['soft'] }}>
            Cancel
          </span>
        </>
      )
    case 'code':
      return (
        <>
          {title('Check your phone')}
          {lead(
            <>
              We asked the platform to text a 6-digit code to the number ending <b style={{ color: p['ink'] }}>··42</b>.
            </>,
          )}
          {field('Security code', 'h-14')}
          {button('Continue')}
          <p style={{ color: p['soft'] }}>Send a new code in 0:37</p>
          <p className="mt-3 rounded-[10px] px-3 py-2.5 text-sm" style={{ background: p['tint'] }}>
            We will never ask for this code by phone or chat.
          </p>
        </>
      )
    case 'scan':
      return (
        <>
          {title('Scan to approve')}
          {lead('Open your phone’s camera and point it here. Then tap Approve in the app.')}
          <div className="mx-auto my-3 grid size-40 grid-cols-5 gap-1 rounded-[10px] bg-white p-3">
            {Array.from({ length: 25 }, (_, i) => (
              <span
                key={i}
                className="rounded-[2px]"
                style={{
                  background: [0, 1, 3, 4, 5, 7, 9, 12, 14, 15, 18, 20, 21, 23, 24].includes(i)
                    ? '#18181b'
                    : 'transparent',
                }}
              />
            ))}
          </div>
          <p className="flex items-center justify-center gap-2" style={{ color: p['soft'] }}>
            <span className="size-2.5 rounded-full" style={{ background: p['brand'] }} /> Waiting for your phone…
          </p>
        </>
      )
    case 'done':
      return (
        <>
          <Check className="mb-2 size-10" style={{ color: p['good'] }} />
          {title('You are connected')}
          {lead(`${org} can now manage your account. You can close this window.`)}
          {button(`Continue to ${org}`)}
        </>
      )
    case 'failed':
      return (
        <>
          {title('We could not connect your account')}
          <p
            className="my-2 rounded border-l-4 px-3 py-2"
            style={{ borderColor: p['bad'], background: p['wash'], color: p['bad'] }}
          >
            The platform did not accept this email and password. Check them and try again.
          </p>
          {lead('Nothing was saved.')}
          {button('Try again')}
          <span className="underline">Get help</span>
        </>
      )
  }
}

interface Made {
  session: { id: string; url: string | null; expires_at: string }
}

/** The real page in a frame, through a link that works for five minutes and that only this dashboard may embed. */
export function RealPage({ unsaved }: { unsaved?: boolean }) {
  const why = useWhyNot('accounts:write', 'create links')
  const [lang, setLang] = useState('en')
  const [height, setHeight] = useState(560)
  const frame = useRef<HTMLIFrameElement>(null)
  const make = useMutation({
    mutationFn: () =>
      call<Made>('POST', '/v1/connect/sessions', {
        body: {
          label: 'Preview',
          reference_id: 'dashboard-preview',
          expires_in_sec: 300,
          allowed_origins: [location.origin],
        },
      }),
  })
  useEffect(() => {
    const onMessage = (e: MessageEvent) => {
      // Accept heights only from our own frame.
      if (e.origin !== location.origin || e.source !== frame.current?.contentWindow) return
      const m = e.data as { source?: string; type?: string; height?: number } | null
      if (m?.source === 'connect' && m.type === 'connect.resize' && typeof m.height === 'number')
        setHeight(Math.min(1200, Math.max(200, m.height)))
    }
    window.addEventListener('message', onMessage)
    return () => window.removeEventListener('message', onMessage)
  }, [])
  const token = make.data?.session.url
    ? /\/s\/([\w-]+)$/.exec(new URL(make.data.session.url, location.origin).pathname)?.[1]
    : undefined
  const problem = isProblem(make.error) ? make.error : null
  return (
    <div className="space-y-3">
      {unsaved ? (
        <Notice tone="warn">Your changes are not saved, so the real page does not have them yet.</Notice>
      ) : null}
      <div className="flex flex-wrap items-center gap-2">
        <Button
          icon={<RotateCw className="size-4" aria-hidden />}
          why={why}
          busy={make.isPending}
          onClick={() => make.mutate()}
        >
          {token ? 'Reload' : 'Load the real page'}
        </Button>
        {token ? (
          <>
            <Segments
              label="Language"
              value={lang}
              onChange={setLang}
              items={[
                { value: 'en', label: 'English' },
                { value: 'es', label: 'Español' },
                { value: 'pt', label: 'Português' },
                { value: 'fr', label: 'Français' },
                { value: 'de', label: 'Deutsch' },
              ]}
            />
            <a
              href={`/s/${token}?lang=${lang}`}
              target="_blank"
              rel="noopener"
              className="link ml-auto inline-flex items-center gap-1 text-xs"
            >
              Full page <ExternalLink className="size-3" aria-hidden />
            </a>
          </>
        ) : null}
      </div>
      {problem ? (
        <Notice tone="bad">
          {problem.field('allowed_origins')
            ? `This dashboard’s address (${location.origin}) cannot embed pages: it must use https. Use the mock-up, or open a link.`
            : problem.detail}
        </Notice>
      ) : null}
      {token ? (
        <>
          <iframe
            ref={frame}
            key={token + lang}
            src={`/s/${token}/embed?lang=${lang}`}
            title="The connect page as creators see it"
            referrerPolicy="no-referrer"
            className="w-full rounded-xl border bg-panel"
            style={{ height }}
          />
          <p className="text-xs text-mute">
            This link works for five minutes. Signing in here really connects an account.
          </p>
        </>
      ) : (
        <p className="text-mute">
          This creates a link that works for five minutes and that only this dashboard may embed. It appears in your
          links and in the audit log.
        </p>
      )}
    </div>
  )
}
