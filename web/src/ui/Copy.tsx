import { useEffect, useState, type ReactNode } from 'react'
import { Check, Copy as CopyIcon } from 'lucide-react'
import { cx } from '@/lib/cx'
import { shortId } from '@/lib/format'
import { Button, type Size, type Variant } from './Button'
import { toast } from './Toast'

/** Copies text to the clipboard, even where the clipboard API is not available (plain http). */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    const area = document.createElement('textarea')
    area.value = text
    area.setAttribute('readonly', '')
    area.className = 'fixed opacity-0 pointer-events-none'
    document.body.append(area)
    area.select()
    const ok = document.execCommand('copy')
    area.remove()
    return ok
  }
}

function useCopied(): [boolean, (text: string) => void] {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = setTimeout(() => setCopied(false), 1500)
    return () => clearTimeout(timer)
  }, [copied])
  return [
    copied,
    (text) => {
      void copyText(text).then((ok) => {
        setCopied(ok)
        if (!ok) toast.bad('The browser blocked the copy. Select the text and copy it yourself.')
      })
    },
  ]
}

/** The small copy button next to an id. */
export function Copy({ text, label = 'Copy', className }: { text: string; label?: string; className?: string }) {
  const [copied, copy] = useCopied()
  return (
    <button
      type="button"
      aria-label={copied ? 'Copied' : label}
      title={copied ? 'Copied' : label}
      className={cx(
        'inline-grid size-6 shrink-0 place-items-center rounded text-mute hover:bg-subtle hover:text-fg',
        className,
      )}
      onClick={(e) => {
        e.preventDefault()
        e.stopPropagation()
        copy(text)
      }}
    >
      {copied ? <Check className="size-3.5 text-ok" aria-hidden /> : <CopyIcon className="size-3.5" aria-hidden />}
    </button>
  )
}

/** A copy button with text: "Copy as curl". */
export function CopyButton({
  text,
  children,
  variant,
  size,
}: {
  text: string | (() => string)
  children: ReactNode
  variant?: Variant
  size?: Size
}) {
  const [copied, copy] = useCopied()
  return (
    <Button
      {...(variant ? { variant } : {})}
      {...(size ? { size } : {})}
      icon={copied ? <Check className="size-4 text-ok" aria-hidden /> : <CopyIcon className="size-4" aria-hidden />}
      onClick={() => copy(typeof text === 'string' ? text : text())}
    >
      {copied ? 'Copied' : children}
    </Button>
  )
}

/** An id in monospace with a copy button. `short` elides the middle. */
export function Id({ id, short, className }: { id: string; short?: boolean; className?: string }) {
  return (
    <span className={cx('inline-flex max-w-full min-w-0 items-center gap-1 font-mono text-xs text-mute', className)}>
      <span className="truncate" title={id}>
        {short ? shortId(id) : id}
      </span>
      <Copy text={id} label={`Copy ${id}`} />
    </span>
  )
}
