import {
  Activity,
  BookOpen,
  Bug,
  FlaskConical,
  Gauge,
  KeyRound,
  LayoutDashboard,
  Link2,
  ListChecks,
  Radio,
  ScrollText,
  Settings,
  SquareTerminal,
  Users,
  Webhook,
  type LucideIcon,
} from 'lucide-react'
import type { Scope } from '@/api/types'

export interface NavItem {
  to: string
  label: string
  icon: LucideIcon
  /** Search terms for the palette. */
  words?: string
  scope?: Scope
  sandboxOnly?: boolean
  /** The key after g. */
  key?: string
  /** Opens outside the dashboard. */
  external?: boolean
}

export const nav: { label: string | null; items: NavItem[] }[] = [
  {
    label: null,
    items: [
      { to: '/', label: 'Overview', icon: LayoutDashboard, words: 'home start', key: 'o' },
      { to: '/accounts', label: 'Accounts', icon: Users, words: 'creators reconnect', key: 'a' },
      { to: '/connect', label: 'Connect', icon: Link2, words: 'links attempts funnel wizard qr', key: 'c' },
    ],
  },
  {
    label: 'Observe',
    items: [
      { to: '/events', label: 'Live events', icon: Radio, words: 'stream tail replay', key: 'e' },
      { to: '/logs', label: 'API logs', icon: ScrollText, words: 'requests calls', key: 'l' },
      { to: '/errors', label: 'Errors', icon: Bug, words: 'problems failures', key: 'r' },
      { to: '/webhooks', label: 'Webhooks', icon: Webhook, words: 'deliveries signature secret', key: 'w' },
    ],
  },
  {
    label: 'Build',
    items: [
      { to: '/explorer', label: 'API explorer', icon: SquareTerminal, words: 'methods sdk try run', key: 'x' },
      { to: '/jobs', label: 'Jobs', icon: ListChecks, words: 'export bulk download progress ndjson', key: 'j' },
      { to: '/keys', label: 'API keys', icon: KeyRound, words: 'secret scopes token', key: 'k' },
      {
        to: '/sandbox',
        label: 'Sandbox',
        icon: FlaskConical,
        words: 'personas test fake',
        sandboxOnly: true,
        key: 's',
      },
      { to: '/problems', label: 'Docs', icon: BookOpen, words: 'documentation problems help', external: true },
    ],
  },
  {
    label: 'Manage',
    items: [
      { to: '/usage', label: 'Limits & usage', icon: Gauge, words: 'quota plan meters', key: 'u' },
      { to: '/audit', label: 'Audit log', icon: Activity, words: 'history who', key: 'h' },
      {
        to: '/settings',
        label: 'Team & settings',
        icon: Settings,
        words: 'members branding origins sessions org',
        key: ',',
      },
    ],
  },
]
