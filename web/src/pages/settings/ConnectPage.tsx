import { useEffect, useRef, useState } from 'react'
import { CircleCheck, TriangleAlert } from 'lucide-react'
import { isProblem } from '@/api/client'
import { useWhyNot } from '@/shell/session'
import { Button, Card, Field, Input, Notice, Segments, Select, Skeleton, toast } from '@/ui'
import { Boxed } from './Boxed'
import { brandDefault, judge, parseColour, type Scheme } from './colour'
import { useSaveLogo, usePageLook, useSavePage, type ConnectPageLook } from './page'
import { Drawing, RealPage } from './Preview'

/** The largest file that the API accepts as a logo. */
const maxLogo = 512 * 1024

/** The colours of the pages that creators see, with a WCAG contrast check and a preview. */
export function ConnectPage() {
  const page = usePageLook()
  return (
    <Boxed
      query={page}
      what="the connect page"
      skeleton={
        <Card>
          <div className="space-y-4">
            <Skeleton className="h-8 w-full" />
            <Skeleton className="h-8 w-full" />
            <Skeleton className="h-40 w-full" />
          </div>
        </Card>
      }
    >
      {(p) => <Editor page={p} />}
    </Boxed>
  )
}

function Editor({ page }: { page: ConnectPageLook }) {
  const why = useWhyNot('me:write', 'change the connect page')
  const save = useSavePage()
  const [light, setLight] = useState(page.brand_light)
  const [dark, setDark] = useState(page.brand_dark)
  const [scheme, setScheme] = useState(page.scheme)
  const [help, setHelp] = useState(page.help_url)
  const [view, setView] = useState<'drawing' | 'real'>('drawing')
  const reset = () => {
    setLight(page.brand_light)
    setDark(page.brand_dark)
    setScheme(page.scheme)
    setHelp(page.help_url)
  }
  useEffect(reset, [page.brand_light, page.brand_dark, page.scheme, page.help_url])
  const problem = isProblem(save.error) ? save.error : null
  const same =
    light === page.brand_light && dark === page.brand_dark && scheme === page.scheme && help === page.help_url
  const badLight = light !== '' && !parseColour(light)
  const badDark = dark !== '' && !parseColour(dark)
  return (
    <div className="grid min-w-0 items-start gap-3 lg:grid-cols-2">
      <div className="space-y-3">
        <Card title="Look" hint="Applies to every page that a creator sees">
          <form
            className="space-y-4"
            onSubmit={(e) => {
              e.preventDefault()
              if (!why && !same && !badLight && !badDark)
                save.mutate({ brand_light: light, brand_dark: dark, scheme, help_url: help.trim() })
            }}
          >
            <Colour
              label="Brand colour"
              hint="For buttons and accents on a light background."
              value={light}
              fallback={brandDefault}
              scheme="light"
              disabled={Boolean(why)}
              error={badLight ? 'Use the format #rrggbb.' : problem?.field('brand_light')}
              onChange={setLight}
            />
            <Colour
              label="Brand colour, dark"
              hint="Leave empty to use the brand colour above."
              value={dark}
              fallback={light || brandDefault}
              scheme="dark"
              disabled={Boolean(why)}
              error={badDark ? 'Use the format #rrggbb.' : problem?.field('brand_dark')}
              onChange={setDark}
            />
            <Field label="Colour scheme" hint="In a frame, System follows the creator’s setting, not your page.">
              {(p) => (
                <Select
                  {...p}
                  className="w-full"
                  value={scheme}
                  disabled={Boolean(why)}
                  onChange={(e) => setScheme(e.target.value as ConnectPageLook['scheme'])}
                >
                  <option value="system">System</option>
                  <option value="light">Light</option>
                  <option value="dark">Dark</option>
                </Select>
              )}
            </Field>
            <Field label="Help URL" hint="Where “Get help” leads after a failure." error={problem?.field('help_url')}>
              {(p) => (
                <Input
                  {...p}
                  type="url"
                  value={help}
                  maxLength={2048}
                  disabled={Boolean(why)}
                  placeholder="https://example.com/help"
                  onChange={(e) => setHelp(e.target.value)}
                />
              )}
            </Field>
            {problem && !problem.problem.errors?.length ? <Notice tone="bad">{problem.detail}</Notice> : null}
            <div className="flex flex-wrap gap-2">
              <Button
                type="submit"
                variant="primary"
                why={why}
                busy={save.isPending}
                disabled={same || badLight || badDark}
              >
                Save
              </Button>
              {same ? null : <Button onClick={reset}>Undo</Button>}
            </div>
            {why ? <p className="text-xs text-mute">{why}</p> : null}
          </form>
        </Card>
        <Logo path={page.logo} why={why} />
        <Card title="Languages">
          <p className="text-soft">
            The pages are available in English, Spanish, Portuguese, French and German. The link’s <code>locale</code>{' '}
            sets the language; without one, the creator’s browser does. The creator can change it at the bottom of every
            page.
          </p>
        </Card>
      </div>
      <Card
        title="Preview"
        className="min-w-0"
        actions={
          <Segments
            label="Preview"
            value={view}
            onChange={(v) => setView(v as typeof view)}
            items={[
              { value: 'drawing', label: 'Mock-up' },
              { value: 'real', label: 'Real page' },
            ]}
          />
        }
      >
        {view === 'drawing' ? (
          <Drawing light={badLight ? '' : light} dark={badDark ? '' : dark} scheme={scheme} logo={page.logo} />
        ) : (
          <RealPage unsaved={!same} />
        )}
      </Card>
    </div>
  )
}

/** The logo next to the organisation's name: uploaded, replaced and deleted. */
function Logo({ path, why }: { path: string | null; why: string | null }) {
  const save = useSaveLogo()
  const picker = useRef<HTMLInputElement>(null)
  const problem = isProblem(save.error) ? save.error : null
  return (
    <Card title="Logo" hint="Next to the organisation’s name on every page">
      <div className="space-y-3">
        <div className="flex flex-wrap items-center gap-3">
          {path ? <img src={path} alt="The current logo" className="size-10 rounded-lg border object-contain" /> : null}
          <Button why={why} busy={save.isPending} onClick={() => picker.current?.click()}>
            {path ? 'Replace' : 'Upload a logo'}
          </Button>
          <input
            ref={picker}
            type="file"
            accept="image/png,image/jpeg,image/gif"
            className="hidden"
            aria-label="File with the logo"
            tabIndex={-1}
            onChange={(e) => {
              const file = e.target.files?.[0]
              e.target.value = ''
              if (!file) return
              if (file.size > maxLogo) toast.bad('The file is larger than 512 KB.')
              else save.mutate(file)
            }}
          />
          {path ? (
            <Button why={why} disabled={save.isPending} onClick={() => save.mutate(null)}>
              Delete
            </Button>
          ) : null}
        </div>
        {problem ? (
          <Notice tone="bad">{problem.field('image') ? `The file ${problem.field('image')}.` : problem.detail}</Notice>
        ) : null}
        <p className="text-xs text-mute">
          A PNG, JPEG or GIF file of at most 512 KB and 2048 pixels on each side; square works best. Without a logo, the
          pages show the first letter of the name in the brand colour.
        </p>
      </div>
    </Card>
  )
}

function Colour({
  label,
  hint,
  value,
  fallback,
  scheme,
  error,
  disabled,
  onChange,
}: {
  label: string
  hint: string
  value: string
  fallback: string
  scheme: Scheme
  error: string | undefined
  disabled: boolean
  onChange: (v: string) => void
}) {
  const shown = parseColour(value) ? value : fallback
  const verdict = judge(shown, scheme)
  return (
    <div>
      <Field label={label} hint={hint} error={error}>
        {(p) => (
          <div className="flex items-center gap-2">
            <input
              type="color"
              aria-label={`Pick ${label}`}
              className="h-8 w-11 shrink-0 cursor-pointer rounded-lg border border-line-strong bg-panel p-0.5 disabled:cursor-not-allowed"
              value={shown}
              disabled={disabled}
              onChange={(e) => onChange(e.target.value)}
            />
            <Input
              {...p}
              mono
              value={value}
              maxLength={7}
              disabled={disabled}
              placeholder={fallback}
              onChange={(e) => onChange(e.target.value.trim())}
              spellCheck={false}
              autoComplete="off"
            />
          </div>
        )}
      </Field>
      {verdict && !error ? (
        <p
          role="status"
          className={`mt-1 flex items-start gap-1.5 text-xs ${verdict.enough ? 'text-ok-text' : 'text-warn-text'}`}
        >
          {verdict.enough ? (
            <CircleCheck className="mt-px size-3.5 shrink-0" aria-hidden />
          ) : (
            <TriangleAlert className="mt-px size-3.5 shrink-0" aria-hidden />
          )}
          <span>
            {verdict.ratio.toFixed(2)}:1{' '}
            {verdict.enough
              ? '– enough contrast (WCAG AA requires 4.5:1), used unchanged.'
              : `is below the 4.5:1 that WCAG AA requires, so ${scheme === 'light' ? 'a darker' : 'a lighter'} colour is used: `}
            {verdict.enough ? null : (
              <span className="inline-flex items-center gap-1 font-mono">
                <span
                  className="inline-block size-3 rounded-sm border"
                  style={{ background: verdict.used }}
                  aria-hidden
                />
                {verdict.used}
              </span>
            )}
          </span>
        </p>
      ) : null}
    </div>
  )
}
