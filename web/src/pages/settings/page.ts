import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { api } from '@/api/client'
import { keys } from '@/api/hooks'
import { toast } from '@/ui'

/** The look of the creators' pages. */
export interface ConnectPageLook {
  brand_light: string
  brand_dark: string
  scheme: 'system' | 'light' | 'dark'
  allowed_origins: string[]
  help_url: string
  /** The path of the logo on this host; null for none. Setting the look does not change it. */
  logo: string | null
}

interface Answer {
  page: Omit<ConnectPageLook, 'allowed_origins' | 'logo'> & { allowed_origins: string[] | null }
  logo_url: string | null
}

function lookOf({ page, logo_url }: Answer): ConnectPageLook {
  const at = logo_url ? new URL(logo_url) : null
  return { ...page, allowed_origins: page.allowed_origins ?? [], logo: at ? at.pathname + at.search : null }
}

export function usePageLook() {
  return useQuery({
    queryKey: keys.page,
    queryFn: async ({ signal }) => lookOf(await api.get('/v1/connect/page', { signal })),
  })
}

/** Saves some fields. The operation replaces all of them, so the others are sent as they were read. */
export function useSavePage() {
  const client = useQueryClient()
  return useMutation({
    mutationFn: async (part: Partial<Omit<ConnectPageLook, 'logo'>>) => {
      // Another member may have changed the other fields since.
      const { page } = await api.get('/v1/connect/page')
      return api.put('/v1/connect/page', { body: { ...page, allowed_origins: page.allowed_origins ?? [], ...part } })
    },
    onSuccess: (answer) => {
      client.setQueryData(keys.page, lookOf(answer))
      toast.ok('Saved')
    },
  })
}

/** Uploads a logo, or deletes it with null. */
export function useSaveLogo() {
  const client = useQueryClient()
  return useMutation({
    mutationFn: async (file: File | null) => {
      if (!file) return api.delete('/v1/org/logo')
      const bytes = new Uint8Array(await file.arrayBuffer())
      return api.put('/v1/org/logo', {
        body: { image: btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join('')) },
      })
    },
    onSuccess: (answer, file) => {
      client.setQueryData(keys.page, lookOf(answer))
      toast.ok(file ? 'Logo saved' : 'Logo deleted')
    },
  })
}
