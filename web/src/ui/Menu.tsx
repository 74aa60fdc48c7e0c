import type { ReactNode } from 'react'
import * as M from '@radix-ui/react-dropdown-menu'
import { Check } from 'lucide-react'
import { cx } from '@/lib/cx'

/** A dropdown menu; `trigger` is its button. */
export function Menu({
  trigger,
  children,
  align = 'end',
  width = 'w-56',
}: {
  trigger: ReactNode
  children: ReactNode
  align?: 'start' | 'end'
  width?: string
}) {
  return (
    <M.Root modal={false}>
      <M.Trigger asChild>{trigger}</M.Trigger>
      <M.Portal>
        <M.Content
          align={align}
          sideOffset={6}
          collisionPadding={8}
          className={cx(
            'z-50 max-h-[min(480px,80dvh)] overflow-y-auto rounded-xl border bg-panel p-1 shadow-lg',
            width,
          )}
        >
          {children}
        </M.Content>
      </M.Portal>
    </M.Root>
  )
}

const row =
  'flex w-full items-center gap-2 rounded-lg px-2 py-1.5 outline-none select-none data-[highlighted]:bg-subtle data-[disabled]:opacity-50'

export function MenuItem({
  icon,
  children,
  onSelect,
  danger,
  disabled,
  checked,
  hint,
}: {
  icon?: ReactNode
  children: ReactNode
  onSelect?: () => void
  danger?: boolean
  disabled?: boolean
  checked?: boolean
  hint?: ReactNode
}) {
  return (
    <M.Item className={cx(row, danger && 'text-bad-text')} disabled={disabled ?? false} onSelect={() => onSelect?.()}>
      {icon}
      <span className="min-w-0 flex-1">
        <span className="block truncate">{children}</span>
        {hint ? <span className="block truncate text-xs text-mute">{hint}</span> : null}
      </span>
      {checked ? <Check className="size-4 text-accent-text" aria-label="selected" /> : null}
    </M.Item>
  )
}

export function MenuLabel({ children }: { children: ReactNode }) {
  return <M.Label className="px-2 pt-1.5 pb-1 text-xs text-mute">{children}</M.Label>
}
export function MenuLine() {
  return <M.Separator className="my-1 h-px bg-line" />
}
