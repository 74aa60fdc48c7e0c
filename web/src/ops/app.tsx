// The operator console: the shell and its routes. Pages are in pages/, one file each, and call only the admin API.
import { StrictMode, useEffect, useRef, useState, type ComponentType } from 'react'
import { createRoot } from 'react-dom/client'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Link,
  Outlet,
  RouterProvider,
  useLocation,
  useNavigate,
} from '@tanstack/react-router'
import {
  Activity,
  Building2,
  Clock,
  HeartPulse,
  KeyRound,
  Layers,
  ListChecks,
  LogOut,
  Menu as MenuIcon,
  Moon,
  Network,
  Power,
  Server,
  ShieldUser,
  Sun,
  Users,
  Webhook,
  type LucideIcon,
} from 'lucide-react'
import { setNonce } from 'get-nonce'
import { setSignedOut } from '@/api/client'
import { shouldRetry } from '@/api/hooks'
import { setUTC, useUTC } from '@/lib/clock'
import { cx } from '@/lib/cx'
import { setTheme, startTheme, useTheme } from '@/lib/theme'
import { NotFound } from '@/shell/NotFound'
import { PagePending } from '@/shell/PagePending'
import { Shortcuts, useShortcut } from '@/shell/shortcuts'
import { Badge, Boundary, ButtonLink, Failed, IconButton, Sheet, Toaster } from '@/ui'
import { useCan, useMe, useSwitches } from './hooks'
import type { Role } from './types'

type Load = () => Promise<{ default: ComponentType }>
interface Item {
  to: string
  label: string
  icon: LucideIcon
  key: string
  /** The least role that can open it. Default: viewer. */
  least?: Role
}

const nav: { label: string; items: Item[] }[] = [
  {
    label: 'Service',
    items: [
      { to: '/', label: 'Home', icon: HeartPulse, key: 'h' },
      { to: '/fleet', label: 'Fleet', icon: Server, key: 'f' },
      { to: '/leases', label: 'Leases', icon: Layers, key: 'l' },
      { to: '/egress', label: 'Egress', icon: Network, key: 'e' },
      { to: '/jobs', label: 'Jobs', icon: ListChecks, key: 'j' },
      { to: '/keys', label: 'Keys', icon: KeyRound, key: 'k' },
    ],
  },
  {
    label: 'Customers',
    items: [
      { to: '/orgs', label: 'Organisations', icon: Building2, key: 'o' },
      { to: '/accounts', label: 'Accounts', icon: Users, key: 'a' },
      { to: '/webhooks', label: 'Webhook lanes', icon: Webhook, key: 'w' },
    ],
  },
  {
    label: 'Control',
    items: [
      { to: '/control', label: 'Switches & banner', icon: Power, key: 's' },
      { to: '/audit', label: 'Audit log', icon: Activity, key: 'u' },
      { to: '/operators', label: 'Operators', icon: ShieldUser, key: 'p', least: 'owner' },
    ],
  },
]

function signIn(): void {
  location.assign('/ops/sign-in?to=' + encodeURIComponent(location.pathname + location.search))
}

// Signs out with a form, so that the browser follows the server's redirect.
function signOut(): void {
  const form = document.createElement('form')
  form.method = 'post'
  form.action = '/ops/sign-out'
  document.body.append(form)
  form.submit()
}

function Layout() {
  const [menu, setMenu] = useState(false)
  const main = useRef<HTMLElement>(null)
  const path = useLocation({ select: (l) => l.pathname })
  const first = useRef(true)
  const { shown } = useTheme()
  const utc = useUTC()
  useEffect(() => {
    setMenu(false)
    if (first.current) first.current = false
    else main.current?.focus({ preventScroll: true })
  }, [path])
  return (
    <div className="min-h-dvh md:grid md:grid-cols-[222px_minmax(0,1fr)]">
      <a
        href="#main"
        className="sr-only focus:not-sr-only focus:fixed focus:top-2 focus:left-2 focus:z-50 focus:rounded-lg focus:bg-panel focus:px-3 focus:py-2"
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
          <Who />
          <div className="ml-auto flex shrink-0 items-center gap-1">
            <IconButton
              label={utc ? 'Show local times' : 'Show times in UTC'}
              aria-pressed={utc}
              className={utc ? '!text-accent-text' : ''}
              onClick={() => setUTC(!utc)}
            >
              <Clock className="size-4" aria-hidden />
            </IconButton>
            <IconButton
              label={shown === 'dark' ? 'Use the light theme' : 'Use the dark theme'}
              onClick={() => setTheme(shown === 'dark' ? 'light' : 'dark')}
            >
              {shown === 'dark' ? <Sun className="size-4" aria-hidden /> : <Moon className="size-4" aria-hidden />}
            </IconButton>
            <IconButton label="Sign out" onClick={signOut}>
              <LogOut className="size-4" aria-hidden />
            </IconButton>
          </div>
        </header>
        <OffBar />
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
      {nav
        .flatMap((g) => g.items)
        .map((i) => (
          <GoKey key={i.to} item={i} />
        ))}
      <Shortcuts />
      <Toaster />
    </div>
  )
}

function GoKey({ item }: { item: Item }) {
  const navigate = useNavigate()
  useShortcut(`g ${item.key}`, item.label, () => void navigate({ to: item.to }))
  return null
}

function Who() {
  const me = useMe()
  if (!me.data) return <span className="text-mute">Operators</span>
  return (
    <span className="min-w-0 truncate text-soft">
      <strong className="font-semibold text-fg">{me.data.name}</strong> · {me.data.role}
      <span className="max-sm:hidden">
        {' '}
        on {me.data.node} · {me.data.version}
      </span>
    </span>
  )
}

// Every page shows what is switched off, because that is never the normal state.
function OffBar() {
  const off = useSwitches().data?.filter((s) => !s.on) ?? []
  if (off.length === 0) return null
  return (
    <div
      role="status"
      className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b bg-bad-soft px-3 py-1.5 text-bad-text md:px-5"
    >
      <span className="min-w-0 break-words">
        <strong className="font-semibold">Switched off:</strong> {off.map((s) => s.name).join(', ')}
      </span>
      <ButtonLink to="/control" size="sm" className="ml-auto">
        Switches
      </ButtonLink>
    </div>
  )
}

const row = 'flex h-8 items-center gap-2 rounded-lg px-2 text-soft hover:bg-subtle hover:text-fg'

function Sidebar() {
  const owner = useCan('owner')
  return (
    <>
      <div className="flex items-center gap-2 px-2 py-1.5">
        <span
          className="grid size-6 place-items-center rounded-md bg-accent text-xs font-semibold text-accent-fg"
          aria-hidden
        >
          S
        </span>
        <span className="font-semibold">Stagedoor</span>
        <Badge tone="warn">operators</Badge>
      </div>
      <nav aria-label="Main" className="mt-2 flex flex-1 flex-col gap-0.5">
        {nav.map((g) => (
          <div key={g.label} role="group" aria-label={g.label} className="flex flex-col gap-0.5">
            <div className="mt-2.5 mb-0.5 px-2 text-[11px] tracking-wide text-mute uppercase">{g.label}</div>
            {g.items
              .filter((i) => i.least !== 'owner' || owner)
              .map((i) => (
                <Link
                  key={i.to}
                  to={i.to}
                  activeOptions={{ exact: i.to === '/', includeSearch: false }}
                  className={row}
                  activeProps={{ className: cx(row, '!bg-accent-soft font-medium !text-accent-text') }}
                >
                  <i.icon className="size-4 shrink-0" aria-hidden />
                  <span className="truncate">{i.label}</span>
                </Link>
              ))}
          </div>
        ))}
      </nav>
      <p className="px-2 pt-3 text-xs text-mute">Your access and your changes are logged.</p>
    </>
  )
}

const root = createRootRoute({ component: Layout, notFoundComponent: NotFound })
const page = (path: string, load: Load) =>
  createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load) })

const router = createRouter({
  routeTree: root.addChildren([
    page('/', () => import('./pages/home')),
    page('/fleet', () => import('./pages/fleet')),
    page('/orgs', () => import('./pages/orgs')),
    page('/orgs/$id', () => import('./pages/org')),
    page('/accounts', () => import('./pages/accounts')),
    page('/leases', () => import('./pages/leases')),
    page('/egress', () => import('./pages/egress')),
    page('/webhooks', () => import('./pages/webhooks')),
    page('/jobs', () => import('./pages/jobs')),
    page('/keys', () => import('./pages/keys')),
    page('/control', () => import('./pages/control')),
    page('/audit', () => import('./pages/audit')),
    page('/operators', () => import('./pages/operators')),
  ]),
  basepath: '/ops',
  defaultPreload: 'intent',
  defaultPendingComponent: PagePending,
  defaultPendingMs: 200,
  defaultErrorComponent: ({ error, reset }) => <Failed what="this page" error={error} retry={reset} />,
  scrollRestoration: true,
  // Filters are plain words in the URL, as in the dashboard.
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const out = new URLSearchParams()
    for (const [name, value] of Object.entries(search))
      if (value !== undefined && value !== null && value !== '') out.set(name, String(value))
    const text = out.toString()
    return text ? '?' + text : ''
  },
})

export function start(): void {
  const nonce = document.querySelector<HTMLElement>('meta[property=csp-nonce]')?.nonce
  if (nonce) setNonce(nonce)
  startTheme()
  setSignedOut(signIn)
  const client = new QueryClient({
    defaultOptions: { queries: { retry: shouldRetry, staleTime: 5_000, refetchOnWindowFocus: true } },
  })
  createRoot(document.getElementById('root')!).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <RouterProvider router={router as never} />
      </QueryClientProvider>
    </StrictMode>,
  )
}
