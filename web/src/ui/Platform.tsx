import { Link } from '@tanstack/react-router'
import { usePlatform } from '@/api/hooks'
import type { Place } from '@/api/names'
import type { Platform as PlatformType } from '@/api/types'
import { cx } from '@/lib/cx'
import { isWebLink } from '@/lib/format'
import { siteName } from '@/lib/platforms'

/** The mark of a platform: its logo, or the first letter of its name. It is an image, so that a logo cannot run scripts. */
export function PlatformMark({
  platform: p,
  className,
}: {
  platform: Pick<PlatformType, 'name' | 'logo'>
  className?: string
}) {
  const size = cx('size-4 shrink-0 rounded', className)
  if (p.logo?.startsWith('data:image/svg+xml')) return <img src={p.logo} alt="" className={size} />
  return (
    <span
      aria-hidden
      className={cx('inline-grid place-items-center bg-subtle text-[10px] leading-none font-semibold text-soft', size)}
    >
      {p.name.slice(0, 1).toUpperCase()}
    </span>
  )
}

/** The platform of an account: its mark, its name, and the creator's site if there is one; `stacked` for table cells. */
export function Platform({
  id,
  site,
  stacked,
  className,
}: {
  id: string
  site?: string | null
  stacked?: boolean
  className?: string
}) {
  const p = usePlatform(id)
  const host = siteName(site)
  return (
    <span className={cx('inline-flex max-w-full min-w-0 items-center gap-1.5', className)}>
      <PlatformMark platform={p} />
      <span className="min-w-0" title={host ? `${p.name} · ${host}` : undefined}>
        {stacked ? (
          <>
            <span className="block truncate">{p.name}</span>
            {host ? <span className="block truncate text-xs text-mute">{host}</span> : null}
          </>
        ) : (
          <span className="block truncate">
            {p.name}
            {host ? <span className="text-mute"> · {host}</span> : null}
          </span>
        )}
      </span>
    </span>
  )
}

/** A creator's site, as a link. */
export function SiteLink({ site }: { site: string }) {
  if (!isWebLink(site)) return <span className="break-all">{site}</span>
  return (
    <a href={site} target="_blank" rel="noopener noreferrer" className="link break-all">
      {siteName(site)}
    </a>
  )
}

/** The name of an account in a list, as a link, with the mark of its platform. The title has the platform and site. */
export function PlacedAccount({ id, name, place }: { id: string; name: string; place: Place | null }) {
  const p = usePlatform(place?.platform ?? '')
  return (
    <Link
      to="/accounts/$id"
      params={{ id }}
      title={place ? [p.name, siteName(place.site)].filter(Boolean).join(' · ') : undefined}
      className="flex max-w-44 items-center gap-1.5 hover:underline"
    >
      {place ? (
        <>
          <PlatformMark platform={p} />
          <span className="sr-only">{p.name}</span>
        </>
      ) : null}
      <span className="min-w-0 truncate">{name}</span>
    </Link>
  )
}
