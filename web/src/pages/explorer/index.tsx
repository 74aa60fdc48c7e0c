import { useState } from 'react'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useQuery } from '@tanstack/react-query'
import { ListTree, Unplug } from 'lucide-react'
import { api, call, isProblem } from '@/api/client'
import { keys, usePlatforms } from '@/api/hooks'
import type { Account } from '@/api/types'
import { named } from '@/lib/platforms'
import { useFilters } from '@/lib/filters'
import { useDialogs } from '@/shell/dialogs'
import { useSession } from '@/shell/session'
import {
  AccountPicker,
  Button,
  Card,
  Empty,
  Failed,
  Id,
  PageHead,
  Platform,
  Select,
  Sheet,
  Skeleton,
  SkeletonRows,
} from '@/ui'
import { useCatalog, useResource } from './catalog'
import { adopt, Panel } from './Panel'
import { History } from './History'
import { Tree } from './Tree'

/** Every SDK method: its arguments, the code that calls it, and a form to run it on an account. */
export default function Explorer() {
  const { org } = useSession()
  const params = useParams({ strict: false }) as { method?: string }
  const navigate = useNavigate()
  const f = useFilters({ account: '', platform: '', method: '' })
  const [search, setSearch] = useState('')
  const [picking, setPicking] = useState(false)
  const platforms = usePlatforms()
  const account = useChosenAccount(f.values.account, f.values.platform)
  // The methods are those of the account's platform. With one platform, they do not have to wait for the account.
  const platform =
    !platforms.loading && !platforms.several
      ? ''
      : (account.account?.platform ??
        (account.loading || platforms.loading ? null : f.values.platform || (platforms.list[0]?.id ?? '')))
  const shown = named(platforms.list, platform || (platforms.list[0]?.id ?? ''))
  const catalog = useCatalog(platform)
  const methods = catalog.data ?? []
  const first =
    (org.environment === 'sandbox' && methods.find((m) => m.resource === 'messages' && m.method === 'send')) ||
    methods.find((m) => m.access === 'read') ||
    methods[0]
  const name = params.method ?? (f.values.method || (first ? `${first.resource}.${first.method}` : ''))
  const entry = methods.find((m) => `${m.resource}.${m.method}` === name)
  const resource = useResource(platform, entry?.resource ?? null)
  const full = resource.data?.methods?.find((m) => `${m.resource}.${m.method}` === name)
  const query = { account: f.values.account || undefined, platform: f.values.platform || undefined }
  const tree = (onPick?: () => void) => (
    <Tree
      methods={methods}
      current={name}
      search={search}
      onSearch={setSearch}
      query={query}
      {...(onPick ? { onPick } : {})}
    />
  )

  return (
    <>
      <PageHead
        title="API explorer"
        hint={
          <span className="flex flex-wrap items-center gap-x-3 gap-y-0.5">
            {`Every SDK method, runnable against ${org.environment === 'sandbox' ? 'a sandbox' : 'an'} account`}
            {account.account ? <Platform id={account.account.platform} site={account.account.site} /> : null}
          </span>
        }
        actions={
          <>
            <Button
              className="xl:hidden"
              icon={<ListTree className="size-4" aria-hidden />}
              onClick={() => setPicking(true)}
            >
              Methods
            </Button>
            {platforms.several ? (
              <Select
                aria-label="Platform"
                value={shown.id}
                onChange={(e) => f.set({ platform: e.target.value, account: '' })}
              >
                {platforms.list.map((p) => (
                  <option key={p.id} value={p.id}>
                    {p.name}
                  </option>
                ))}
              </Select>
            ) : null}
            <AccountPicker
              label="Account"
              className="w-60 max-w-full"
              value={account.id}
              onChange={(id) => f.set({ account: id ?? '', platform: '' })}
              placeholder={account.none ? 'No accounts yet' : 'Choose an account'}
            />
          </>
        }
      />
      {catalog.data === undefined ? (
        isProblem(catalog.error) && catalog.error.status === 503 ? (
          <Card>
            <Empty
              title={`This server has no ${org.environment} platform configured`}
              icon={<Unplug className="size-5" />}
              action={
                <>
                  <Button onClick={() => void catalog.refetch()} busy={catalog.isFetching}>
                    Retry
                  </Button>
                  {catalog.error.requestId ? <Id id={catalog.error.requestId} /> : null}
                </>
              }
            >
              {catalog.error.detail} The methods appear here once its operators have configured one
              {org.environment === 'live' ? '; a sandbox organisation already has them' : ''}.
            </Empty>
          </Card>
        ) : catalog.isError ? (
          <Card>
            <Failed what="the catalogue" error={catalog.error} retry={() => void catalog.refetch()} />
          </Card>
        ) : (
          <Loading />
        )
      ) : (
        <div className="grid min-w-0 items-start gap-3 xl:grid-cols-[228px_minmax(0,1fr)]">
          <Card flush className="sticky top-16 max-h-[calc(100dvh-80px)] max-xl:hidden">
            <div className="flex max-h-[calc(100dvh-82px)] flex-col">{tree()}</div>
          </Card>
          <div className="min-w-0 space-y-3">
            {account.none ? <NoAccount platform={platforms.several ? shown : null} /> : null}
            {methods.length === 0 ? (
              <Card>
                <Empty title="No methods">
                  The catalogue of this environment is empty, or you may not call any of its methods.
                </Empty>
              </Card>
            ) : !entry ? (
              <Card>
                <Empty
                  title={`Method ${name} not found`}
                  action={
                    <Button onClick={() => setPicking(true)} className="xl:hidden">
                      All methods
                    </Button>
                  }
                >
                  {platforms.several
                    ? `Accounts on ${shown.name} do not have it, or it has a different name in this version of the catalogue. Search for it in the list.`
                    : 'It may have a different name in this version of the catalogue. Search for it in the list.'}
                </Empty>
              </Card>
            ) : resource.isError ? (
              <Card>
                <Failed what={name} error={resource.error} retry={() => void resource.refetch()} />
              </Card>
            ) : full ? (
              <Panel
                key={`${org.id} ${platform} ${name}`}
                method={full}
                types={resource.data?.types ?? {}}
                account={account.account}
                platform={platform ?? ''}
              />
            ) : (
              <Card>
                <SkeletonRows rows={5} label={`Loading ${name}`} />
              </Card>
            )}
            <History
              onOpen={(run) => {
                adopt(org.id, platforms.several ? run.platform : '', run.name, run.body)
                void navigate({
                  to: '/explorer/$method',
                  params: { method: run.name },
                  search: { account: run.account } as never,
                })
                window.scrollTo({ top: 0 })
              }}
            />
          </div>
        </div>
      )}
      <Sheet
        open={picking}
        onOpenChange={setPicking}
        title="Methods"
        side="left"
        className="!w-[min(340px,calc(100vw-32px))]"
      >
        <div className="flex min-h-full flex-col">{picking ? tree(() => setPicking(false)) : null}</div>
      </Sheet>
    </>
  )
}

function Loading() {
  return (
    <div className="grid gap-3 xl:grid-cols-[228px_minmax(0,1fr)]" role="status" aria-label="Loading">
      <Card className="max-xl:hidden">
        <div className="space-y-3">
          {Array.from({ length: 12 }, (_, i) => (
            <Skeleton key={i} className="h-5 w-full" />
          ))}
        </div>
      </Card>
      <Card>
        <div className="space-y-4">
          {Array.from({ length: 4 }, (_, i) => (
            <Skeleton key={i} className="h-10 w-full" />
          ))}
        </div>
      </Card>
    </div>
  )
}

function NoAccount({ platform }: { platform: { id: string; name: string } | null }) {
  const { connect } = useDialogs()
  return (
    <Card>
      <Empty
        title={platform ? `Connect an account on ${platform.name} to run methods` : 'Connect an account to run methods'}
        className="!py-6"
        action={
          <Button variant="primary" onClick={() => connect(platform ? { platform: platform.id } : {})}>
            Connect account
          </Button>
        }
      >
        You can browse every method and copy its code without one.
      </Empty>
    </Card>
  )
}

/** The account in the URL, or else the first one that is connected, on a platform if one is given. */
function useChosenAccount(
  wanted: string,
  platform: string,
): { id: string | null; account: Account | null; none: boolean; loading: boolean } {
  const any = useQuery({
    queryKey: keys.accounts({ explorer: true, platform }),
    queryFn: async ({ signal }) => {
      const list = async (state?: 'active') =>
        (
          await call<{ accounts: Account[] | null }>('GET', '/v1/accounts', {
            query: { state, platform, limit: 1 },
            signal,
          })
        ).accounts?.[0] ?? null
      return (await list('active')) ?? (await list())
    },
    enabled: !wanted,
    staleTime: 30_000,
  })
  const one = useQuery({
    queryKey: keys.account(wanted),
    queryFn: async ({ signal }) => (await api.get('/v1/accounts/{id}', { path: { id: wanted }, signal })).account,
    enabled: Boolean(wanted),
    staleTime: 60_000,
  })
  const account = (wanted ? one.data : any.data) ?? null
  return {
    id: account?.id ?? (wanted || null),
    account,
    none: !wanted && any.isSuccess && !any.data,
    loading: (wanted ? one : any).isPending,
  }
}
