import type { ComponentType } from 'react'
import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router'
import { Layout } from './shell/Layout'
import { NotFound } from './shell/NotFound'
import { PagePending } from './shell/PagePending'
import { Failed } from './ui/States'

type Load = () => Promise<{ default: ComponentType }>

const root = createRootRoute({ component: Layout, notFoundComponent: NotFound })
const page = (path: string, load: Load) =>
  createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load) })

// All pages. Each is a separate file that is loaded when the page is first opened.
const routes = [
  page('/', () => import('./pages/overview')),
  page('/start', () => import('./pages/start')),
  page('/accounts', () => import('./pages/accounts')),
  page('/accounts/$id', () => import('./pages/accounts/detail')),
  page('/connect', () => import('./pages/connect')),
  page('/connect/attempts/$id', () => import('./pages/connect/attempt')),
  page('/connect/links/$id', () => import('./pages/connect/link')),
  page('/events', () => import('./pages/events')),
  page('/events/$id', () => import('./pages/events/detail')),
  page('/logs', () => import('./pages/logs')),
  page('/logs/$id', () => import('./pages/logs/detail')),
  page('/errors', () => import('./pages/errors')),
  page('/webhooks', () => import('./pages/webhooks')),
  page('/webhooks/signature', () => import('./pages/webhooks/signature')),
  page('/webhooks/deliveries/$id', () => import('./pages/webhooks/delivery')),
  page('/webhooks/endpoints/$id', () => import('./pages/webhooks/endpoint')),
  page('/webhooks/$account', () => import('./pages/webhooks/detail')),
  page('/explorer', () => import('./pages/explorer')),
  page('/explorer/$method', () => import('./pages/explorer')),
  page('/jobs', () => import('./pages/jobs')),
  page('/jobs/$id', () => import('./pages/jobs/detail')),
  page('/keys', () => import('./pages/keys')),
  page('/usage', () => import('./pages/usage')),
  page('/audit', () => import('./pages/audit')),
  page('/sandbox', () => import('./pages/sandbox')),
  page('/settings', () => import('./pages/settings')),
  page('/settings/$section', () => import('./pages/settings')),
]

export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: '/app',
  defaultPreload: 'intent',
  defaultPendingComponent: PagePending,
  defaultPendingMs: 200,
  defaultErrorComponent: ({ error, reset }) => <Failed what="this page" error={error} retry={reset} />,
  scrollRestoration: true,
  // Filters are plain words in the URL: ?state=failed, not JSON.
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const out = new URLSearchParams()
    for (const [name, value] of Object.entries(search))
      if (value !== undefined && value !== null && value !== '') out.set(name, String(value))
    const text = out.toString()
    return text ? '?' + text : ''
  },
})
