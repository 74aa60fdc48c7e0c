import { useId, type ReactNode } from 'react'

export interface FieldProps {
  label: ReactNode
  hint?: ReactNode
  error?: ReactNode
  /** Small text next to the label: a type, "optional". */
  note?: ReactNode
  required?: boolean
  className?: string
  /** Receives the attributes that tie the control to its label, hint and error. */
  children: (props: {
    id: string
    'aria-describedby': string | undefined
    'aria-invalid': true | undefined
    required: boolean | undefined
  }) => ReactNode
}

/** A control with its label, hint and error. */
export function Field({ label, hint, error, note, required, className, children }: FieldProps) {
  const id = useId()
  const described = [hint ? id + 'h' : '', error ? id + 'e' : ''].filter(Boolean).join(' ') || undefined
  return (
    <div className={className}>
      <label htmlFor={id} className="mb-1 flex items-baseline gap-2 font-medium">
        {label}
        {note ? <span className="font-mono text-xs font-normal text-mute">{note}</span> : null}
      </label>
      {children({
        id,
        'aria-describedby': described,
        'aria-invalid': error ? true : undefined,
        required: required || undefined,
      })}
      {hint ? (
        <p id={id + 'h'} className="mt-1 text-xs text-mute">
          {hint}
        </p>
      ) : null}
      {error ? (
        <p id={id + 'e'} className="mt-1 text-xs text-bad-text">
          {error}
        </p>
      ) : null}
    </div>
  )
}
