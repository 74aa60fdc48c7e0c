import type { ButtonHTMLAttributes, ReactNode, Ref } from 'react'
import { Link, type LinkProps } from '@tanstack/react-router'
import { LoaderCircle } from 'lucide-react'
import { cx } from '@/lib/cx'
import { toast } from './Toast'

export type Variant = 'primary' | 'secondary' | 'ghost' | 'danger'
export type Size = 'sm' | 'md'

const base =
  'inline-flex shrink-0 items-center justify-center gap-2 rounded-lg border font-medium whitespace-nowrap select-none transition-colors disabled:cursor-not-allowed disabled:opacity-55 aria-disabled:cursor-not-allowed aria-disabled:opacity-55'
const variants: Record<Variant, string> = {
  primary: 'border-transparent bg-accent text-accent-fg hover:bg-accent-hover',
  secondary: 'border-line-strong/80 bg-panel text-fg hover:bg-subtle',
  ghost: 'border-transparent bg-transparent text-soft hover:bg-subtle hover:text-fg',
  danger: 'border-transparent bg-bad-soft text-bad-text hover:brightness-95 dark:hover:brightness-110',
}
const sizes: Record<Size, string> = { sm: 'h-7 px-2.5 text-sm', md: 'h-8 px-3 text-sm' }

function classes(variant: Variant, size: Size, icon: boolean, extra?: string) {
  return cx(base, variants[variant], sizes[size], icon && (size === 'sm' ? 'w-7 !px-0' : 'w-8 !px-0'), extra)
}

export interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  variant?: Variant
  size?: Size
  /** Shown before the text. */
  icon?: ReactNode
  /** Shows a spinner and ignores clicks. */
  busy?: boolean
  /** Disables the button and gives the reason, on hover and to screen readers. */
  why?: string | null | undefined
  ref?: Ref<HTMLButtonElement>
}

/** A button. With `why` it stays focusable, so that the reason can be read. */
export function Button({
  variant = 'secondary',
  size = 'md',
  icon,
  busy,
  why,
  className,
  children,
  disabled,
  onClick,
  type = 'button',
  ...rest
}: ButtonProps) {
  const blocked = Boolean(why) || Boolean(busy)
  return (
    <button
      type={type}
      className={classes(variant, size, false, className)}
      disabled={disabled}
      aria-disabled={blocked || undefined}
      aria-busy={busy || undefined}
      title={why ?? rest.title}
      onClick={(e) => {
        if (!blocked) return onClick?.(e)
        e.preventDefault()
        // Phones have no hover.
        if (why) toast.bad(why)
      }}
      {...rest}
    >
      {busy ? <LoaderCircle className="size-4 animate-spin" aria-hidden /> : icon}
      {children}
      {why ? <span className="sr-only"> ({why})</span> : null}
    </button>
  )
}

export interface IconButtonProps extends Omit<ButtonProps, 'children' | 'icon'> {
  label: string
  children: ReactNode
}

/** A button with only an icon; `label` is its name. */
export function IconButton({
  label,
  variant = 'ghost',
  size = 'md',
  className,
  children,
  busy,
  why: _why,
  type = 'button',
  ...rest
}: IconButtonProps) {
  return (
    <button
      type={type}
      aria-label={label}
      title={label}
      aria-busy={busy || undefined}
      className={classes(variant, size, true, className)}
      {...rest}
    >
      {children}
    </button>
  )
}

export interface ButtonLinkProps {
  to: LinkProps['to']
  params?: Record<string, string>
  search?: Record<string, unknown>
  variant?: Variant
  size?: Size
  icon?: ReactNode
  className?: string
  children: ReactNode
  'aria-label'?: string
}

/** A link that looks like a button. */
export function ButtonLink({
  to,
  params,
  search,
  variant = 'secondary',
  size = 'md',
  icon,
  className,
  children,
  ...rest
}: ButtonLinkProps) {
  return (
    <Link
      to={to}
      params={params as never}
      search={search as never}
      className={classes(variant, size, false, className)}
      {...rest}
    >
      {icon}
      {children}
    </Link>
  )
}
