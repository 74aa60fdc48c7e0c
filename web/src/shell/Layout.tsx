import { useEffect, useRef, useState } from 'react'
import { Link, Outlet, useLocation, useNavigate } from '@tanstack/react-router'
import {
  ChevronsUpDown,
  Clock,
  Keyboard,
  LogOut,
  Menu as MenuIcon,
  Monitor,
  Moon,
  Search,
  Settings as SettingsIcon,
  Sun,
} from 'lucide-react'
import { setUTC, useUTC } from '@/lib/clock'
import { cx } from '@/lib/cx'
import { isWebLink, number, plural } from '@/lib/format'
import { recall, remember } from '@/lib/storage'
import { setTheme, useTheme } from '@/lib/theme'
import { Dot } from '@/ui/Badge'
import { IconButton } from '@/ui/Button'
import { Segments } from '@/ui/Chips'
import { Sheet } from '@/ui/Dialog'
import { Menu, MenuItem, MenuLabel, MenuLine } from '@/ui/Menu'
import { Boundary } from '@/ui/States'
import { toast, Toaster } from '@/ui/Toast'
import { useAttention } from './attention'
import { DeletionBanner } from './Deletion'
import { DialogsProvider, useDialogs } from './dialogs'
import { nav, type NavItem } from './nav'
import { Palette } from './Palette'
import { useSession } from './session'
import { Shortcuts, useShortcut } from './shortcuts'

export function Layout() {
  return (
    <DialogsProvider>
      <Frame />
    </DialogsProvider>
  )
}

function Frame() {
  const { org, banner, support } = useSession()
  const [palette, setPalette] = useState(false)
  const [menu, setMenu] = useState(false)
  const main = useRef<HTMLElement>(null)
  const path = useLocation({ select: (l) => l.pathname })
  const first = useRef(true)

  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      if ((e.ctrlKey || e.metaKey) && !e.shiftKey && !e.altKey && e.key.toLowerCase() === 'k') {
        e.preventDefault()
        setPalette(true)
      }
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [])
  useEffect(() => {
    setMenu(false)
    // Move the focus to the new page, as a full page load would.
    if (first.current) first.current = false
    else main.current?.focus({ preventScroll: true })
  }, [path])

  return (
    <div className="min-h-dvh md:grid md:grid-cols-[222px_minmax(0,1fr)]">
      <a
        href="#main"
        className="sr-only z-50 rounded-lg bg-accent px-3 py-2 text-accent-fg focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
      >
        Skip to content
      </a>
      <aside className="sticky top-0 hidden h-dvh flex-col overflow-y-auto border-r bg-panel p-3 md:flex">
        <Sidebar />
      </aside>
      <Sheet open={menu} onOpenChange={setMenu} side="left" title="Menu" className="!w-[260px]">
        <div className="flex min-h-full flex-col p-3">
          <Sidebar />
        </div>
      </Sheet>
      <div className="flex min-w-0 flex-col">
        <header className="sticky top-0 z-30 flex h-12 items-center gap-2 border-b bg-panel px-3 md:px-5">
          <IconButton label="Menu" className="md:hidden" onClick={() => setMenu(true)}>
            <MenuIcon className="size-4" aria-hidden />
          </IconButton>
          <button
            type="button"
            onClick={() => setPalette(true)}
            aria-keyshortcuts="Control+K Meta+K"
            className="flex h-8 min-w-0 flex-1 items-center gap-2 rounded-lg border border-line-strong/80 bg-bg px-2.5 text-mute hover:border-control sm:max-w-[288px]"
          >
            <Search className="size-4 shrink-0" aria-hidden />
            <span className="truncate">Search accounts, ids, pages…</span>
            <kbd className="ml-auto hidden rounded border bg-subtle px-1 text-[11px] sm:block">
              {navigator.platform.startsWith('Mac') ? '⌘K' : 'Ctrl K'}
            </kbd>
          </button>
          <div className="ml-auto flex shrink-0 items-center gap-2">
            <EnvSwitch />
            <ThemeButton />
            <PersonMenu />
          </div>
        </header>
        {banner ? (
          <div
            role="region"
            aria-label="Notice"
            className={cx(
              'border-b px-3 py-1.5 md:px-5',
              banner.level === 'critical'
                ? 'bg-bad-soft text-bad-text'
                : banner.level === 'warning'
                  ? 'bg-warn-soft text-warn-text'
                  : 'bg-info-soft text-info-text',
            )}
          >
            {banner.text}{' '}
            {banner.url && isWebLink(banner.url) ? (
              <a href={banner.url} target="_blank" rel="noopener noreferrer" className="underline">
                More
              </a>
            ) : null}
          </div>
        ) : null}
        {support !== null ? (
          <div
            role="region"
            aria-label="Support access"
            className="border-b bg-info-soft px-3 py-1.5 text-info-text md:px-5"
          >
            <strong className="font-semibold">Operator access, read-only.</strong> {support} · This visit is recorded in
            the organisation’s audit log.
          </div>
        ) : null}
        {org.purgeAt ? (
          <DeletionBanner purgeAt={org.purgeAt} />
        ) : org.suspended ? (
          <div role="region" aria-label="Suspended" className="border-b bg-bad-soft px-3 py-1.5 text-bad-text md:px-5">
            <strong className="font-semibold">This organisation is suspended.</strong> Calls are refused until an
            operator of this service lifts the suspension.
          </div>
        ) : null}
        {org.environment === 'sandbox' ? (
          <div
            role="region"
            aria-label="Environment"
            className="border-b bg-warn-soft px-3 py-1 text-xs leading-5 text-warn-text md:px-5"
          >
            <strong className="font-semibold">Sandbox.</strong> No real creators are contacted. Test logins:{' '}
            <code>sms@sandbox.test</code>, <code>face@sandbox.test</code>, code 123456.
          </div>
        ) : null}
        <main
          id="main"
          ref={main}
          tabIndex={-1}
          className="mx-auto w-full max-w-[1400px] min-w-0 flex-1 px-3 py-5 outline-none md:px-5"
        >
          <Boundary key={path} what="this page">
            <Outlet />
          </Boundary>
        </main>
      </div>
      <Palette open={palette} onOpenChange={setPalette} />
      <Keys onSearch={() => setPalette(true)} />
      <Shortcuts />
      <Toaster />
    </div>
  )
}

// Shortcuts of the shell: g and a letter open a page.
function Keys({ onSearch }: { onSearch: () => void }) {
  const { connect } = useDialogs()
  useShortcut('/', 'Search', onSearch)
  useShortcut('c', 'Connect an account', () => connect())
  return nav.flatMap((g) => g.items.filter((i) => i.key && !i.external).map((i) => <GoKey key={i.to} item={i} />))
}
function GoKey({ item }: { item: NavItem }) {
  const navigate = useNavigate()
  useShortcut(`g ${item.key}`, item.label, () => void navigate({ to: item.to }))
  return null
}

function Sidebar() {
  const { org } = useSession()
  const attention = useAttention()
  // One meaning for every count: how much needs attention.
  const counts: Record<string, number> = {
    '/': attention.total,
    '/accounts': attention.accounts,
    '/webhooks': attention.receivers,
  }
  return (
    <>
      <OrgSwitch />
      <nav aria-label="Main" className="mt-2 flex flex-1 flex-col gap-0.5">
        {nav.map((group, i) => (
          <div
            key={i}
            role={group.label ? 'group' : undefined}
            aria-label={group.label ?? undefined}
            className="flex flex-col gap-0.5"
          >
            {group.label ? (
              <div className="mt-2.5 mb-0.5 px-2 text-[11px] tracking-wide text-mute uppercase">{group.label}</div>
            ) : null}
            {group.items
              .filter((n) => !n.sandboxOnly || org.environment === 'sandbox')
              .map((n) => (
                <NavLink key={n.to} item={n} count={counts[n.to]} />
              ))}
          </div>
        ))}
      </nav>
      <StatusFoot />
    </>
  )
}

const row = 'flex h-8 items-center gap-2 rounded-lg px-2 text-soft hover:bg-subtle hover:text-fg'

function NavLink({ item, count }: { item: NavItem; count: number | undefined }) {
  const Icon = item.icon
  const inside = (
    <>
      <Icon className="size-4 shrink-0" aria-hidden />
      <span className="truncate">{item.label}</span>
      {count ? (
        <span className="ml-auto rounded-full bg-bad-soft px-1.5 text-xs font-medium text-bad-text">
          {number(count)}
          <span className="sr-only"> {count === 1 ? 'needs' : 'need'} attention</span>
        </span>
      ) : null}
    </>
  )
  if (item.external)
    return (
      <a href={item.to} target="_blank" rel="noopener" className={row}>
        {inside}
      </a>
    )
  return (
    <Link
      to={item.to}
      activeOptions={{ exact: item.to === '/', includeSearch: false }}
      className={row}
      activeProps={{ className: cx(row, '!bg-accent-soft font-medium !text-accent-text') }}
    >
      {inside}
    </Link>
  )
}

function OrgSwitch() {
  const { org, orgs, switchOrg } = useSession()
  const navigate = useNavigate()
  const go = (id: string) =>
    void switchOrg(id).then(
      () => navigate({ to: '/' }),
      (e: unknown) => toast.problem(e),
    )
  return (
    <Menu
      align="start"
      width="w-60"
      trigger={
        <button
          type="button"
          className="flex w-full items-center gap-2 rounded-lg border border-line-strong/80 p-2 text-left hover:bg-subtle"
        >
          <span
            className="grid size-6 shrink-0 place-items-center rounded-md bg-accent text-xs font-semibold text-accent-fg"
            aria-hidden
          >
            {(org.name[0] ?? '?').toUpperCase()}
          </span>
          <span className="min-w-0 flex-1 leading-4">
            <span className="block truncate font-semibold">{org.name}</span>
            <span className="block truncate text-xs text-mute">
              {org.plan ? `${org.plan.charAt(0).toUpperCase()}${org.plan.slice(1)} plan` : org.role}
            </span>
          </span>
          <ChevronsUpDown className="size-4 shrink-0 text-mute" aria-label="Switch organisation" />
        </button>
      }
    >
      <MenuLabel>Organisations</MenuLabel>
      {orgs.map((o) => (
        <MenuItem
          key={o.id}
          checked={o.id === org.id}
          hint={`${o.environment} · ${o.role}`}
          onSelect={() => o.id !== org.id && go(o.id)}
        >
          {o.name}
        </MenuItem>
      ))}
    </Menu>
  )
}

// Sandbox and live are separate orgs; the switch opens the one used last in that environment.
function EnvSwitch() {
  const { org, orgs, switchOrg } = useSession()
  const navigate = useNavigate()
  useEffect(() => remember('org.' + org.environment, org.id), [org])
  const other = (env: string) =>
    orgs.find((o) => o.environment === env && o.id === recall('org.' + env)) ?? orgs.find((o) => o.environment === env)
  const go = (env: string) => {
    if (env === org.environment) return
    const next = other(env)
    if (!next) {
      toast.bad(`You are not a member of a ${env} organisation.`)
      return
    }
    void switchOrg(next.id).then(
      () => navigate({ to: '/' }),
      (e: unknown) => toast.problem(e),
    )
  }
  return (
    <span className="max-[420px]:hidden">
      <Segments
        label="Environment"
        items={[
          { value: 'sandbox', label: 'Sandbox' },
          { value: 'live', label: 'Live' },
        ]}
        value={org.environment}
        onChange={go}
      />
    </span>
  )
}

function ThemeButton() {
  const { shown } = useTheme()
  return (
    <IconButton
      label={shown === 'dark' ? 'Use the light theme' : 'Use the dark theme'}
      onClick={() => setTheme(shown === 'dark' ? 'light' : 'dark')}
    >
      {shown === 'dark' ? <Sun className="size-4" aria-hidden /> : <Moon className="size-4" aria-hidden />}
    </IconButton>
  )
}

function PersonMenu() {
  const { person, org } = useSession()
  const { theme } = useTheme()
  const utc = useUTC()
  const navigate = useNavigate()
  const initials = (person.name || person.email)
    .split(/[\s@.]+/)
    .slice(0, 2)
    .map((w) => w[0]?.toUpperCase() ?? '')
    .join('')
  return (
    <Menu
      trigger={
        <button
          type="button"
          className="relative grid size-8 place-items-center rounded-full bg-subtle text-xs font-semibold hover:bg-line"
        >
          <span aria-hidden>{initials}</span>
          <span className="sr-only">You, {person.email}</span>
        </button>
      }
    >
      <MenuLabel>
        <span className="block truncate font-medium text-fg">{person.name || person.email}</span>
        <span className="block truncate">
          {person.email} · {org.role}
        </span>
      </MenuLabel>
      <MenuLine />
      <MenuItem icon={<Clock className="size-4 text-mute" aria-hidden />} onSelect={() => setUTC(!utc)}>
        {utc ? 'Show local times' : 'Show times in UTC'}
      </MenuItem>
      <MenuItem
        icon={<Monitor className="size-4 text-mute" aria-hidden />}
        checked={theme === 'system'}
        onSelect={() => setTheme('system')}
      >
        Use the system theme
      </MenuItem>
      <MenuItem
        icon={<Keyboard className="size-4 text-mute" aria-hidden />}
        onSelect={() =>
          setTimeout(() => document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '?', bubbles: true })), 0)
        }
      >
        Keyboard shortcuts
      </MenuItem>
      <MenuItem
        icon={<SettingsIcon className="size-4 text-mute" aria-hidden />}
        onSelect={() => void navigate({ to: '/settings' })}
      >
        Settings
      </MenuItem>
      <MenuLine />
      <MenuItem icon={<LogOut className="size-4 text-mute" aria-hidden />} onSelect={signOut}>
        Sign out
      </MenuItem>
    </Menu>
  )
}

// Signs out with a form, as on the pages without JavaScript, so that the browser follows the server's redirect.
function signOut() {
  const form = document.createElement('form')
  form.method = 'post'
  form.action = '/app/sign-out'
  document.body.append(form)
  form.submit()
}

function StatusFoot() {
  const attention = useAttention()
  const data = attention.status.data
  if (!data) return null
  // A region that is down is in the message of the service.
  const own = attention.accounts + attention.receivers
  const fine = data.status === 'normal'
  return (
    <div role="status" className="mt-3 rounded-lg bg-subtle px-2.5 py-2 text-xs">
      {!fine || own === 0 ? (
        <div className="flex items-center gap-2 font-medium">
          <Dot tone={fine ? 'ok' : 'warn'} />
          {fine ? 'All systems normal' : data.message || 'Some systems are slow'}
        </div>
      ) : null}
      {own > 0 ? (
        <Link to="/" className="flex items-center gap-2 font-medium hover:underline">
          <Dot tone="bad" />
          {plural(own, 'needs', 'need')} attention
        </Link>
      ) : null}
      <div className="mt-0.5 flex flex-wrap gap-x-3 text-mute">
        {data.regions.map((r) => (
          <span key={r.region}>
            {r.region} · {r.ok ? (r.latencyMs !== null ? `${Math.round(r.latencyMs)} ms` : 'ok') : 'down'}
          </span>
        ))}
      </div>
    </div>
  )
}
