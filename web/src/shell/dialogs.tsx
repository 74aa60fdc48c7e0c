import { createContext, lazy, Suspense, use, useCallback, useMemo, useState, type ReactNode } from 'react'

// The two dialogs that any page can open. They are in pages/connect and are loaded when first used.
const Wizard = lazy(() => import('@/pages/connect/Wizard'))
const LinkDialog = lazy(() => import('@/pages/connect/LinkDialog'))

export interface ConnectOptions {
  /** Reconnect this account instead of adding one. */
  accountId?: string
  label?: string
  /** The initial platform and site. */
  platform?: string
  site?: string | null
  method?: 'token' | 'mobile' | 'login' | 'cookie' | 'curl'
  /** The initial email of the sign-in form, such as a sandbox persona. */
  email?: string
  onDone?: (accountId: string) => void
}
export interface LinkOptions {
  accountId?: string
  label?: string
}
/** Props of pages/connect/Wizard.tsx and LinkDialog.tsx. */
export interface DialogProps<O> {
  open: boolean
  onOpenChange: (open: boolean) => void
  options: O
}

interface Dialogs {
  connect: (o?: ConnectOptions) => void
  link: (o?: LinkOptions) => void
}
const Context = createContext<Dialogs>({ connect: () => {}, link: () => {} })

/** const { connect, link } = useDialogs(): opens the connect wizard or the dialog that creates a link. */
export function useDialogs(): Dialogs {
  return use(Context)
}

export function DialogsProvider({ children }: { children: ReactNode }) {
  const [connect, setConnect] = useState<{ open: boolean; options: ConnectOptions; n: number } | null>(null)
  const [link, setLink] = useState<{ open: boolean; options: LinkOptions; n: number } | null>(null)
  const openConnect = useCallback(
    (options: ConnectOptions = {}) => setConnect((c) => ({ open: true, options, n: (c?.n ?? 0) + 1 })),
    [],
  )
  const openLink = useCallback(
    (options: LinkOptions = {}) => setLink((c) => ({ open: true, options, n: (c?.n ?? 0) + 1 })),
    [],
  )
  const value = useMemo(() => ({ connect: openConnect, link: openLink }), [openConnect, openLink])
  return (
    <Context value={value}>
      {children}
      <Suspense fallback={null}>
        {connect ? (
          <Wizard
            key={'c' + connect.n}
            open={connect.open}
            options={connect.options}
            onOpenChange={(open) => setConnect({ ...connect, open })}
          />
        ) : null}
        {link ? (
          <LinkDialog
            key={'l' + link.n}
            open={link.open}
            options={link.options}
            onOpenChange={(open) => setLink({ ...link, open })}
          />
        ) : null}
      </Suspense>
    </Context>
  )
}
