import type { InputHTMLAttributes, ReactNode, Ref, SelectHTMLAttributes, TextareaHTMLAttributes } from 'react'
import { ChevronDown, Search, X } from 'lucide-react'
import { cx } from '@/lib/cx'

export const control =
  'w-full min-w-0 rounded-lg border border-line-strong bg-panel px-2.5 text-sm text-fg transition-colors hover:border-control focus-visible:border-accent aria-invalid:border-bad disabled:cursor-not-allowed disabled:bg-subtle disabled:text-mute'

export interface InputProps extends InputHTMLAttributes<HTMLInputElement> {
  mono?: boolean
  ref?: Ref<HTMLInputElement>
}
export function Input({ className, mono, ...rest }: InputProps) {
  return <input className={cx(control, 'h-8', mono && 'font-mono', className)} {...rest} />
}

export interface TextareaProps extends TextareaHTMLAttributes<HTMLTextAreaElement> {
  mono?: boolean
  ref?: Ref<HTMLTextAreaElement>
}
export function Textarea({ className, mono, ...rest }: TextareaProps) {
  return <textarea className={cx(control, 'min-h-20 py-1.5', mono && 'font-mono text-xs', className)} {...rest} />
}

export interface SelectProps extends SelectHTMLAttributes<HTMLSelectElement> {
  ref?: Ref<HTMLSelectElement>
}
/** A native select, so that keyboards, phones and screen readers work as usual. */
export function Select({ className, children, ...rest }: SelectProps) {
  return (
    <span className={cx('relative inline-block min-w-0', className)}>
      <select className={cx(control, 'h-8 appearance-none pr-8')} {...rest}>
        {children}
      </select>
      <ChevronDown className="pointer-events-none absolute top-2 right-2.5 size-4 text-mute" aria-hidden />
    </span>
  )
}

export interface SearchInputProps extends Omit<InputProps, 'onChange' | 'value'> {
  label: string
  value: string
  onChange: (value: string) => void
}
/** A search field with a clear button. */
export function SearchInput({ label, value, onChange, className, ...rest }: SearchInputProps) {
  return (
    <span className={cx('relative inline-flex min-w-0 items-center', className)}>
      <Search className="pointer-events-none absolute left-2.5 size-4 text-mute" aria-hidden />
      <input
        type="text"
        role="searchbox"
        aria-label={label}
        placeholder={label}
        className={cx(control, 'h-8 pr-8 pl-8')}
        value={value}
        onChange={(e) => onChange(e.target.value)}
        autoComplete="off"
        spellCheck={false}
        {...rest}
      />
      {value ? (
        <button
          type="button"
          aria-label="Clear"
          className="absolute right-1.5 grid size-6 place-items-center rounded text-mute hover:text-fg"
          onClick={() => onChange('')}
        >
          <X className="size-4" aria-hidden />
        </button>
      ) : null}
    </span>
  )
}

export interface CheckboxProps extends Omit<InputHTMLAttributes<HTMLInputElement>, 'type'> {
  label: ReactNode
  hint?: ReactNode
}
export function Checkbox({ label, hint, className, ...rest }: CheckboxProps) {
  return (
    <label className={cx('flex items-start gap-2', rest.disabled && 'text-mute', className)}>
      <input type="checkbox" className="mt-0.5 size-4 shrink-0 accent-accent" {...rest} />
      <span className="min-w-0">
        {label}
        {hint ? <span className="block text-xs text-mute">{hint}</span> : null}
      </span>
    </label>
  )
}
