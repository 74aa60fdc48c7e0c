import { useId, useState, type ReactNode } from 'react'
import { Plus, Trash2 } from 'lucide-react'
import { cx } from '@/lib/cx'
import { Button, IconButton, Input, Select, Textarea } from '@/ui'
import { fieldsOf, rangeWords, shapeOf, typeWords, type Schema, type Types } from './schema'

interface Common {
  types: Types
  /** Error messages by JSON pointer. */
  errors: Record<string, string>
  disabled?: boolean
}

/** All fields of an object: the arguments of a method, or a nested object. */
export function Fields({
  schema,
  value,
  onChange,
  at = '',
  example,
  ...common
}: Common & {
  schema: Schema
  value: Record<string, unknown>
  onChange: (value: Record<string, unknown>) => void
  at?: string
  example?: unknown
}) {
  const samples = (typeof example === 'object' && example !== null ? example : {}) as Record<string, unknown>
  return (
    <div className="space-y-3.5">
      {fieldsOf(schema).map((f) => (
        <Arg
          key={f.name}
          name={f.name}
          schema={f.schema}
          required={f.required}
          value={value[f.name]}
          example={samples[f.name]}
          at={`${at}/${f.name}`}
          onChange={(v) => onChange({ ...value, [f.name]: v })}
          {...common}
        />
      ))}
    </div>
  )
}

interface ArgProps extends Common {
  name: string
  schema: Schema
  required: boolean
  value: unknown
  example: unknown
  at: string
  onChange: (value: unknown) => void
}

function Arg({ name, schema, required, value, example, at, onChange, types, errors, disabled }: ArgProps) {
  const id = useId()
  const shape = shapeOf(schema, types)
  const error = errors[at]
  const hint = [schema.description ?? shape.schema.description, rangeWords(shape.schema)].filter(Boolean).join(' · ')
  const described = [hint ? id + 'h' : '', error ? id + 'e' : ''].filter(Boolean).join(' ') || undefined
  const group = shape.kind === 'array' || shape.kind === 'object'
  const head = (
    <>
      <span className="font-mono text-[13px] font-medium">{name}</span>
      <span className="font-mono text-xs font-normal text-mute">{typeWords(schema, types)}</span>
      {required ? <span className="text-xs font-normal text-bad-text">required</span> : null}
    </>
  )
  const foot = (
    <>
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
    </>
  )
  const nullBox = shape.nullable ? (
    <label className="ml-auto flex items-center gap-1 text-xs font-normal text-mute">
      <input
        type="checkbox"
        className="size-3.5 accent-accent"
        checked={value === null}
        disabled={disabled}
        onChange={(e) => onChange(e.target.checked ? null : undefined)}
      />{' '}
      null
    </label>
  ) : null
  const control = (
    <Control
      id={id}
      name={name}
      described={described}
      invalid={Boolean(error)}
      shape={shape}
      required={required}
      value={value}
      example={example}
      at={at}
      onChange={onChange}
      types={types}
      errors={errors}
      disabled={disabled || value === null}
    />
  )
  if (group)
    return (
      <fieldset aria-describedby={described} className="min-w-0">
        <legend className="mb-1 flex w-full flex-wrap items-baseline gap-x-2">
          {head}
          {nullBox}
        </legend>
        {value === null ? null : control}
        {foot}
      </fieldset>
    )
  return (
    <div>
      <div className="mb-1 flex flex-wrap items-baseline gap-x-2">
        <label htmlFor={id} className="flex flex-wrap items-baseline gap-x-2">
          {head}
        </label>
        {nullBox}
      </div>
      {control}
      {foot}
    </div>
  )
}

interface ControlProps extends Common {
  id: string
  name: string
  described: string | undefined
  invalid: boolean
  shape: ReturnType<typeof shapeOf>
  required: boolean
  value: unknown
  example: unknown
  at: string
  onChange: (value: unknown) => void
}

function sample(example: unknown): string | undefined {
  return example === undefined ? undefined : typeof example === 'object' ? JSON.stringify(example) : String(example)
}

function Control({
  id,
  name,
  described,
  invalid,
  shape,
  required,
  value,
  example,
  at,
  onChange,
  types,
  errors,
  disabled,
}: ControlProps): ReactNode {
  const { kind, schema } = shape
  const props = {
    id,
    'aria-describedby': described,
    'aria-invalid': invalid || undefined,
    'aria-required': required || undefined,
    disabled,
  }
  const placeholder = sample(example ?? schema.default)
  switch (kind) {
    case 'enum':
    case 'boolean': {
      const options = kind === 'boolean' ? [true, false] : (schema.enum ?? [])
      const at = options.indexOf(value)
      return (
        <Select
          {...props}
          className="w-full"
          value={at < 0 ? '' : String(at)}
          onChange={(e) => onChange(e.target.value === '' ? undefined : options[Number(e.target.value)])}
        >
          <option value="">
            {required ? 'Choose…' : `not sent${schema.default !== undefined ? ` (${String(schema.default)})` : ''}`}
          </option>
          {options.map((o, i) => (
            <option key={i} value={i}>
              {String(o)}
            </option>
          ))}
        </Select>
      )
    }
    case 'number':
      return <NumberInput {...props} value={value} placeholder={placeholder} onChange={onChange} />
    case 'text':
      return (
        <Textarea
          {...props}
          mono
          rows={2}
          className="min-h-16"
          placeholder={placeholder}
          value={typeof value === 'string' ? value : ''}
          onChange={(e) => onChange(e.target.value === '' ? undefined : e.target.value)}
        />
      )
    case 'string':
      return (
        <Input
          {...props}
          mono
          type={schema.format === 'date' ? 'date' : 'text'}
          placeholder={placeholder ?? (schema.format === 'date-time' ? '2026-12-01T09:00:00Z' : undefined)}
          value={typeof value === 'string' ? value : ''}
          onChange={(e) => onChange(e.target.value === '' ? undefined : e.target.value)}
          autoComplete="off"
          spellCheck={false}
        />
      )
    case 'object':
      return (
        <div className="rounded-lg border p-3">
          {value === undefined && !required ? (
            <Button
              size="sm"
              icon={<Plus className="size-3.5" aria-hidden />}
              disabled={disabled}
              onClick={() => onChange({})}
            >
              Add {name}
            </Button>
          ) : (
            <>
              <Fields
                schema={schema}
                value={(value ?? {}) as Record<string, unknown>}
                onChange={onChange}
                at={at}
                example={example}
                types={types}
                errors={errors}
                {...(disabled ? { disabled } : {})}
              />
              {required ? null : (
                <Button
                  size="sm"
                  variant="ghost"
                  className="mt-2"
                  icon={<Trash2 className="size-3.5" aria-hidden />}
                  onClick={() => onChange(undefined)}
                >
                  Remove {name}
                </Button>
              )}
            </>
          )}
        </div>
      )
    case 'array':
      return (
        <Items
          name={name}
          schema={schema}
          value={value}
          at={at}
          onChange={onChange}
          types={types}
          errors={errors}
          example={example}
          {...(disabled ? { disabled } : {})}
        />
      )
    default:
      return <JsonInput {...props} value={value} placeholder={placeholder} onChange={onChange} />
  }
}

/** A list: one control per entry, and a button to add one. */
function Items({
  name,
  schema,
  value,
  at,
  onChange,
  example,
  types,
  errors,
  disabled,
}: Common & {
  name: string
  schema: Schema
  value: unknown
  at: string
  onChange: (value: unknown) => void
  example: unknown
}) {
  const list = Array.isArray(value) ? (value as unknown[]) : []
  const shape = shapeOf(schema.items, types)
  const set = (i: number, v: unknown) => onChange(list.map((old, n) => (n === i ? v : old)))
  const add = () =>
    onChange([
      ...list,
      shape.kind === 'object' ? {} : shape.kind === 'array' ? [] : shape.kind === 'boolean' ? false : '',
    ])
  const samples = Array.isArray(example) ? (example as unknown[]) : []
  return (
    <div className="space-y-1.5">
      {list.map((v, i) => (
        <div key={i} className="flex items-start gap-1.5">
          <div className="min-w-0 flex-1">
            <Entry
              name={`${name} ${i + 1}`}
              shape={shape}
              value={v === '' ? undefined : v}
              example={samples[i]}
              at={`${at}/${i}`}
              onChange={(x) => set(i, x === undefined ? '' : x)}
              types={types}
              errors={errors}
              {...(disabled ? { disabled } : {})}
            />
          </div>
          <IconButton
            label={`Remove ${name} ${i + 1}`}
            disabled={disabled}
            onClick={() => {
              const rest = list.filter((_, n) => n !== i)
              onChange(rest.length === 0 ? undefined : rest)
            }}
          >
            <Trash2 className="size-4" aria-hidden />
          </IconButton>
        </div>
      ))}
      <Button
        size="sm"
        icon={<Plus className="size-3.5" aria-hidden />}
        disabled={disabled || (schema.maxItems !== undefined && list.length >= schema.maxItems)}
        onClick={add}
        aria-label={`Add to ${name}`}
      >
        Add
      </Button>
    </div>
  )
}

function Entry({
  name,
  shape,
  value,
  example,
  at,
  onChange,
  types,
  errors,
  disabled,
}: Common & {
  name: string
  shape: ReturnType<typeof shapeOf>
  value: unknown
  example: unknown
  at: string
  onChange: (value: unknown) => void
}) {
  const id = useId()
  const error = errors[at]
  return (
    <div>
      <label htmlFor={id} className="sr-only">
        {name}
      </label>
      <Control
        id={id}
        name={name}
        described={error ? id + 'e' : undefined}
        invalid={Boolean(error)}
        shape={shape}
        required
        value={value}
        example={example}
        at={at}
        onChange={onChange}
        types={types}
        errors={errors}
        {...(disabled ? { disabled } : {})}
      />
      {error ? (
        <p id={id + 'e'} className="mt-1 text-xs text-bad-text">
          {error}
        </p>
      ) : null}
    </div>
  )
}

interface Bound {
  id: string
  'aria-describedby': string | undefined
  'aria-invalid': boolean | undefined
  'aria-required': boolean | undefined
  disabled: boolean | undefined
  placeholder: string | undefined
  value: unknown
  onChange: (value: unknown) => void
}

// Keeps the typed text. The value is its number, or the text itself if it is not a number, so that check can report it.
function NumberInput({ value, onChange, ...rest }: Bound) {
  const [text, setText] = useState(value === undefined ? '' : String(value))
  const [seen, setSeen] = useState(value)
  if (seen !== value) {
    setSeen(value)
    const now = text.trim() === '' ? undefined : Number(text)
    if (now !== value && text !== value) setText(value === undefined ? '' : String(value))
  }
  return (
    <Input
      {...rest}
      mono
      inputMode="decimal"
      value={text}
      autoComplete="off"
      onChange={(e) => {
        setText(e.target.value)
        const trimmed = e.target.value.trim()
        const n = Number(trimmed)
        onChange(trimmed === '' ? undefined : Number.isFinite(n) ? n : e.target.value)
      }}
    />
  )
}

/** Any value, as JSON. Keeps the last valid value. */
function JsonInput({ value, onChange, ...rest }: Bound) {
  const [text, setText] = useState(value === undefined ? '' : JSON.stringify(value))
  const [bad, setBad] = useState(false)
  return (
    <>
      <Textarea
        {...rest}
        mono
        rows={2}
        className={cx('min-h-16', bad && '!border-bad')}
        value={text}
        spellCheck={false}
        onChange={(e) => {
          setText(e.target.value)
          if (e.target.value.trim() === '') {
            setBad(false)
            return onChange(undefined)
          }
          try {
            onChange(JSON.parse(e.target.value))
            setBad(false)
          } catch {
            setBad(true)
          }
        }}
      />
      {bad ? <p className="mt-1 text-xs text-bad-text">This is not valid JSON yet.</p> : null}
    </>
  )
}
