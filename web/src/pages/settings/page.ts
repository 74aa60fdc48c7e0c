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
}

export function usePageLook() {
  return useQuery({
    queryKey: keys.page,
    queryFn: async ({ signal }): Promise<ConnectPageLook> => {
      const { page } = await api.get('/v1/connect/page', { signal })
      return { ...page, allowed_origins: page.allowed_origins ?? [] }
    },
  })
}

/** Saves some fields. The operation replaces all of them, so the others are sent as they were read. */
export function useSavePage() {
  const client = useQueryClient()
  return useMutation({
    mutationFn: async (part: Partial<ConnectPageLook>) => {
      // Another member may have changed the other fields since.
      const { page } = await api.get('/v1/connect/page')
      return api.put('/v1/connect/page', { body: { ...page, allowed_origins: page.allowed_origins ?? [], ...part } })
    },
    onSuccess: ({ page }) => {
      client.setQueryData(keys.page, { ...page, allowed_origins: page.allowed_origins ?? [] })
      toast.ok('Saved')
    },
  })
}
