import { useState } from 'react'
import { useNavigate, useParams } from '@tanstack/react-router'
import { useQuery } from '@tanstack/react-query'
import { ListTree, Unplug } from 'lucide-react'
import { api, call, isProblem } from '@/api/client'
import { keys } from '@/api/hooks'
import type { Account } from '@/api/types'
import { useFilters } from '@/lib/filters'
import { useDialogs } from '@/shell/dialogs'
import { useSession } from '@/shell/session'
import { AccountPicker, Button, Card, Empty, Failed, Id, PageHead, Sheet, Skeleton, SkeletonRows } from '@/ui'
import { useCatalog, useResource } from './catalog'
import { adopt, Panel } from './Panel'
import { History } from './History'
import { Tree } from './Tree'

/** Every SDK method: its arguments, the code that calls it, and a form to run it on an account. */
export default function Explorer() {
  const { org } = useSession()
  const params = useParams({ strict: false }) as { method?: string }
  const navigate = useNavigate()
  const f = useFilters({ account: '', method: '' })
  const [search, setSearch] = useState('')
  const [picking, setPicking] = useState(false)
  const catalog = useCatalog()
  const account = useChosenAccount(f.values.account)
  const methods = catalog.data ?? []
  const first =
    (org.environment === 'sandbox' && methods.find((m) => m.resource === 'messages' && m.method === 'send')) ||
    methods.find((m) => m.access === 'read') ||
    methods[0]
  const name = params.method ?? (f.values.method || (first ? `${first.resource}.${first.method}` : ''))
  const entry = methods.find((m) => `${m.resource}.${m.method}` === name)
  const resource = useResource(entry?.resource ?? null)
  const full = resource.data?.methods?.find((m) => `${m.resource}.${m.method}` === name)
  const query = { account: f.values.account || undefined }
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
        hint={`Every SDK method, runnable against ${org.environment === 'sandbox' ? 'a sandbox' : 'an'} account`}
        actions={
          <>
            <Button
              className="xl:hidden"
              icon={<ListTree className="size-4" aria-hidden />}
              onClick={() => setPicking(true)}
            >
              Methods
            </Button>
            <AccountPicker
              label="Account"
              className="w-60 max-w-full"
              value={account.id}
              onChange={(id) => f.set({ account: id ?? '' })}
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
            {account.none ? <NoAccount /> : null}
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
                  It may have a different name in this version of the catalogue. Search for it in the list.
                </Empty>
              </Card>
            ) : resource.isError ? (
              <Card>
                <Failed what={name} error={resource.error} retry={() => void resource.refetch()} />
              </Card>
            ) : full ? (
              <Panel
                key={`${org.id} ${name}`}
                method={full}
                types={resource.data?.types ?? {}}
                account={account.account}
              />
            ) : (
              <Card>
                <SkeletonRows rows={5} label={`Loading ${name}`} />
              </Card>
            )}
            <History
              onOpen={(run) => {
                adopt(org.id, run.name, run.body)
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

function NoAccount() {
  const { connect } = useDialogs()
  return (
    <Card>
      <Empty
        title="Connect an account to run methods"
        className="!py-6"
        action={
          <Button variant="primary" onClick={() => connect()}>
            Connect account
          </Button>
        }
      >
        You can browse every method and copy its code without one.
      </Empty>
    </Card>
  )
}

/** The account in the URL, or else the first one that is connected. */
function useChosenAccount(wanted: string): { id: string | null; account: Account | null; none: boolean } {
  const any = useQuery({
    queryKey: keys.accounts({ explorer: true }),
    queryFn: async ({ signal }) => {
      const list = async (state?: 'active') =>
        (await call<{ accounts: Account[] | null }>('GET', '/v1/accounts', { query: { state, limit: 1 }, signal }))
          .accounts?.[0] ?? null
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
  return { id: account?.id ?? (wanted || null), account, none: !wanted && any.isSuccess && !any.data }
}
