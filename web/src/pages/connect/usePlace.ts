import { useState } from 'react'
import { useQuery } from '@tanstack/react-query'
import { api, type ProblemError } from '@/api/client'
import { keys, usePlatforms } from '@/api/hooks'
import type { Platform } from '@/api/types'
import { siteProblem, typedSite } from '@/lib/platforms'

/** Where an account is connected: the platform, and the creator's site if the platform has sites. */
export interface PlaceInput {
  /** The platforms to choose from; empty if there is no choice. */
  choices: readonly Platform[]
  /** Null while it is not known. */
  platform: Platform | null
  choose: (id: string) => void
  /** What was typed as the site. */
  site: string
  setSite: (text: string) => void
  needsSite: boolean
  /** The part of the request that says where. A reconnect needs none: the account stays where it is. */
  body: { platform?: string; site?: string }
  /** What is wrong with the typed site; null if nothing is. */
  problem: string | null
}

export function usePlace({
  accountId,
  ...first
}: {
  accountId?: string
  platform?: string
  site?: string | null
}): PlaceInput {
  const { list, several } = usePlatforms()
  const [chosen, choose] = useState(first.platform ?? '')
  const [site, setSite] = useState(first.site ?? '')
  const account = useQuery({
    queryKey: keys.account(accountId ?? ''),
    queryFn: async ({ signal }) =>
      (await api.get('/v1/accounts/{id}', { path: { id: accountId ?? '' }, signal })).account,
    enabled: Boolean(accountId),
    staleTime: 60_000,
  })
  const platform = accountId
    ? (list.find((p) => p.id === account.data?.platform) ?? null)
    : (list.find((p) => p.id === chosen) ?? list[0] ?? null)
  const needsSite = !accountId && Boolean(platform?.siteRequired)
  return {
    choices: several && !accountId ? list : [],
    platform,
    choose,
    site,
    setSite,
    needsSite,
    body: {
      ...(several && !accountId && platform ? { platform: platform.id } : {}),
      ...(needsSite && site.trim() ? { site: typedSite(site) } : {}),
    },
    problem: needsSite ? siteProblem(site, platform?.siteExample ?? null) : null,
  }
}

/** What the server says about the site; undefined if nothing. The address check has a code of its own. */
export function siteError(error: ProblemError | null): string | undefined {
  return error?.field('site') ?? (error?.code === 'unsafe-url' ? error.detail : undefined)
}
