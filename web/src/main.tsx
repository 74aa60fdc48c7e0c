import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { setNonce } from 'get-nonce'
import { setSignedOut, setStale } from './api/client'
import { shouldRetry } from './api/hooks'
import { startTheme } from './lib/theme'
import { router } from './routes'
import { PagePending } from './shell/PagePending'
import { SessionProvider, signIn, signInAgain } from './shell/session'
import { Plain } from './shell/Plain'
import './styles.css'

// Dialogs add a style tag to the page; the content security policy allows it by its nonce.
const nonce = document.querySelector<HTMLElement>('meta[property=csp-nonce]')?.nonce
if (nonce) setNonce(nonce)

startTheme()
setSignedOut(signIn)
setStale(signInAgain)

const client = new QueryClient({
  // Without retryOnMount: false, a section that appears when a query fails would refetch it and disappear.
  defaultOptions: {
    queries: { retry: shouldRetry, retryOnMount: false, staleTime: 10_000, refetchOnWindowFocus: true },
  },
})

const loading = (
  <div className="p-6" role="status" aria-label="Loading">
    <PagePending />
  </div>
)

createRoot(document.getElementById('root')!).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <SessionProvider loading={loading} failed={(error, retry) => <Plain error={error} retry={retry} />}>
        <RouterProvider router={router} />
      </SessionProvider>
    </QueryClientProvider>
  </StrictMode>,
)
