import type { ReactNode } from 'react'
import * as D from '@radix-ui/react-dialog'
import { X } from 'lucide-react'
import { cx } from '@/lib/cx'

export interface DialogProps {
  open: boolean
  onOpenChange: (open: boolean) => void
  title: ReactNode
  description?: ReactNode
  children?: ReactNode
  /** Buttons at the bottom right. */
  footer?: ReactNode
  size?: 'sm' | 'md' | 'lg'
  /** Keeps the dialog open on a click outside or Escape: for content that is shown only once. */
  sticky?: boolean
}

const widths = { sm: 'max-w-md', md: 'max-w-xl', lg: 'max-w-3xl' }

export function Dialog({ open, onOpenChange, title, description, children, footer, size = 'md', sticky }: DialogProps) {
  const hold = (e: Event) => {
    if (sticky) e.preventDefault()
  }
  return (
    <D.Root open={open} onOpenChange={onOpenChange}>
      <D.Portal>
        <D.Overlay className="fixed inset-0 z-40 bg-overlay backdrop-blur-[2px]" />
        <D.Content
          onEscapeKeyDown={hold}
          onInteractOutside={hold}
          {...(description ? {} : { 'aria-describedby': undefined })}
          className={cx(
            'fixed inset-x-3 top-1/2 z-50 mx-auto flex max-h-[calc(100dvh-24px)] -translate-y-1/2 animate-[rise_.12s_ease-out] flex-col rounded-2xl border bg-panel shadow-xl focus:outline-none',
            widths[size],
          )}
        >
          <div className="flex items-start gap-4 px-5 pt-5 pb-3">
            <div className="min-w-0 flex-1">
              <D.Title className="text-base font-semibold">{title}</D.Title>
              {description ? <D.Description className="mt-0.5 text-mute">{description}</D.Description> : null}
            </div>
            {sticky ? null : (
              <D.Close
                className="grid size-8 shrink-0 place-items-center rounded-lg text-mute hover:bg-subtle hover:text-fg"
                aria-label="Close"
              >
                <X className="size-4" aria-hidden />
              </D.Close>
            )}
          </div>
          <div className="min-h-0 flex-1 overflow-y-auto px-5 pb-5">{children}</div>
          {footer ? (
            <div className="flex flex-wrap items-center justify-end gap-2 border-t px-5 py-3">{footer}</div>
          ) : null}
        </D.Content>
      </D.Portal>
    </D.Root>
  )
}

export interface SheetProps {
  open: boolean
  onOpenChange: (open: boolean) => void
  title: ReactNode
  description?: ReactNode
  /** Next to the title. */
  actions?: ReactNode
  side?: 'right' | 'left'
  children?: ReactNode
  className?: string
}

/** A panel that slides over the page: details on narrow screens, and the menu. */
export function Sheet({
  open,
  onOpenChange,
  title,
  description,
  actions,
  side = 'right',
  children,
  className,
}: SheetProps) {
  return (
    <D.Root open={open} onOpenChange={onOpenChange}>
      <D.Portal>
        <D.Overlay className="fixed inset-0 z-40 bg-overlay" />
        <D.Content
          {...(description ? {} : { 'aria-describedby': undefined })}
          className={cx(
            'fixed inset-y-0 z-50 flex w-[min(560px,calc(100vw-32px))] flex-col border bg-panel shadow-xl focus:outline-none',
            side === 'right' ? 'right-0' : 'left-0',
            className,
          )}
        >
          <div className="flex items-center gap-2 border-b px-4 py-3">
            <div className="min-w-0 flex-1">
              <D.Title className="truncate font-semibold">{title}</D.Title>
              {description ? <D.Description className="text-xs text-mute">{description}</D.Description> : null}
            </div>
            {actions}
            <D.Close
              className="grid size-8 shrink-0 place-items-center rounded-lg text-mute hover:bg-subtle hover:text-fg"
              aria-label="Close"
            >
              <X className="size-4" aria-hidden />
            </D.Close>
          </div>
          <div className="relative min-h-0 flex-1 overflow-y-auto">{children}</div>
        </D.Content>
      </D.Portal>
    </D.Root>
  )
}
