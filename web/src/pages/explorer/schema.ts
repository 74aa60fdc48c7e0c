// Forms from JSON Schema: which control a schema needs, what is wrong with a value, and how values
// become the body of a call. Pure functions, so that they can be tested without a page.

export interface Schema {
  type?: string | string[]
  title?: string
  description?: string
  enum?: unknown[]
  const?: unknown
  default?: unknown
  format?: string
  pattern?: string
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  additionalProperties?: boolean | Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
  $ref?: string
  examples?: unknown[]
}
export type Types = Record<string, Schema>

export type Kind = 'string' | 'text' | 'number' | 'boolean' | 'enum' | 'array' | 'object' | 'json'

/** A resolved schema, ready for a control. */
export interface Shape {
  kind: Kind
  nullable: boolean
  schema: Schema
}

/** Follows references and takes null out of unions. A schema without a matching control is 'json'. */
export function shapeOf(schema: Schema | undefined, types: Types = {}, depth = 0): Shape {
  if (!schema || depth > 8) return { kind: 'json', nullable: false, schema: schema ?? {} }
  if (schema.$ref) {
    const name = /([A-Za-z0-9]+)$/.exec(schema.$ref)?.[1]
    return shapeOf(name ? types[name] : undefined, types, depth + 1)
  }
  const union = schema.anyOf ?? schema.oneOf
  if (union) {
    const rest = union.filter((s) => s.type !== 'null')
    const only = rest.length === 1 ? rest[0] : undefined
    if (!only) return { kind: 'json', nullable: rest.length < union.length, schema }
    const inner = shapeOf(
      { ...only, ...(schema.description ? { description: schema.description } : {}) },
      types,
      depth + 1,
    )
    return { ...inner, nullable: inner.nullable || rest.length < union.length }
  }
  const list = Array.isArray(schema.type) ? schema.type : schema.type ? [schema.type] : []
  const nullable = list.includes('null')
  const kinds = list.filter((t) => t !== 'null')
  const shape = (kind: Kind): Shape => ({ kind, nullable, schema })
  if (schema.enum) return shape('enum')
  if (kinds.length !== 1) return shape(schema.properties ? 'object' : 'json')
  switch (kinds[0]) {
    case 'string':
      return shape((schema.maxLength ?? 0) >= 500 ? 'text' : 'string')
    case 'integer':
    case 'number':
      return shape('number')
    case 'boolean':
      return shape('boolean')
    case 'array':
      return shape(schema.items ? 'array' : 'json')
    case 'object':
      return shape(schema.properties ? 'object' : 'json')
    default:
      return shape('json')
  }
}

export interface FieldOf {
  name: string
  schema: Schema
  required: boolean
}

/** The arguments of a method: required ones first, otherwise in the schema's order. */
export function fieldsOf(schema: Schema | undefined): FieldOf[] {
  const required = schema?.required ?? []
  const all = Object.entries(schema?.properties ?? {}).map(([name, s]) => ({
    name,
    schema: s,
    required: required.includes(name),
  }))
  return [...all.filter((f) => f.required), ...all.filter((f) => !f.required)]
}

/** The type in a few words, next to the name: string, integer, string[], date, "3 | 6 | 12". */
export function typeWords(schema: Schema | undefined, types: Types = {}): string {
  const { kind, nullable, schema: s } = shapeOf(schema, types)
  const tail = nullable ? ' | null' : ''
  switch (kind) {
    case 'enum': {
      const type = Array.isArray(s.type) ? s.type.find((t) => t !== 'null') : s.type
      return (type ?? 'enum') + tail
    }
    case 'array': {
      const inner = typeWords(s.items, types)
      return (inner.includes(' ') ? `(${inner})[]` : `${inner}[]`) + tail
    }
    case 'string':
    case 'text':
      return (s.format ?? 'string') + tail
    case 'number':
      return (Array.isArray(s.type) ? (s.type.find((t) => t !== 'null') ?? 'number') : (s.type ?? 'number')) + tail
    case 'json':
      return 'any' + tail
    default:
      return kind + tail
  }
}

/** The allowed range in words: "0 to 20,000", "at most 40". Empty if there is no limit. */
export function rangeWords(schema: Schema): string {
  const n = (x: number) => x.toLocaleString('en-US')
  const range = (from: number | undefined, to: number | undefined, what: string) =>
    from !== undefined && to !== undefined
      ? `${n(from)} to ${n(to)}${what}`
      : from !== undefined && from > 0
        ? `at least ${n(from)}${what}`
        : to !== undefined
          ? `at most ${n(to)}${what}`
          : ''
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type
  if (type === 'array') return range(schema.minItems, schema.maxItems, '')
  if (type === 'string') return range(schema.minLength || undefined, schema.maxLength, ' characters')
  return range(schema.minimum, schema.maximum, '')
}

function isObject(v: unknown): v is Record<string, unknown> {
  return typeof v === 'object' && v !== null && !Array.isArray(v)
}

/** Returns error messages by JSON pointer. Missing values are undefined. The server checks again. */
export function check(
  schema: Schema | undefined,
  value: unknown,
  types: Types = {},
  at = '',
  required = true,
): Record<string, string> {
  const out: Record<string, string> = {}
  const { kind, nullable, schema: s } = shapeOf(schema, types)
  if (value === undefined) {
    if (required && at !== '') out[at] = 'Fill this in.'
    else if (required && kind === 'object')
      for (const f of fieldsOf(s)) if (f.required) out[`${at}/${f.name}`] = 'Fill this in.'
    return out
  }
  if (value === null) {
    if (!nullable && kind !== 'json') out[at] = 'This cannot be null.'
    return out
  }
  switch (kind) {
    case 'number': {
      const whole = (Array.isArray(s.type) ? s.type : [s.type]).includes('integer')
      if (typeof value !== 'number' || Number.isNaN(value)) out[at] = 'Enter a number.'
      else if (whole && !Number.isInteger(value)) out[at] = 'Enter a whole number.'
      else if ((s.minimum !== undefined && value < s.minimum) || (s.maximum !== undefined && value > s.maximum))
        out[at] = `Must be ${rangeWords(s)}.`
      break
    }
    case 'string':
    case 'text':
      if (typeof value !== 'string') out[at] = 'Enter text.'
      else if (
        (s.maxLength !== undefined && [...value].length > s.maxLength) ||
        (s.minLength !== undefined && [...value].length < s.minLength)
      )
        out[at] = `Must have ${rangeWords(s)}.`
      else if (s.pattern && !safeTest(s.pattern, value))
        out[at] = /^\^\(0\|\[1-9\]/.test(s.pattern)
          ? 'An id has only digits.'
          : 'This does not have the expected format.'
      break
    case 'enum':
      if (!s.enum?.some((e) => e === value)) out[at] = 'Choose a value from the list.'
      break
    case 'boolean':
      if (typeof value !== 'boolean') out[at] = 'Choose true or false.'
      break
    case 'array':
      if (!Array.isArray(value)) out[at] = 'Must be a list.'
      else {
        if (
          (s.minItems !== undefined && value.length < s.minItems) ||
          (s.maxItems !== undefined && value.length > s.maxItems)
        )
          out[at] = `Must have ${rangeWords(s)} entries.`
        for (const [i, v] of value.entries()) Object.assign(out, check(s.items, v, types, `${at}/${i}`, true))
      }
      break
    case 'object':
      if (!isObject(value)) out[at] = 'Must be an object.'
      else
        for (const f of fieldsOf(s))
          Object.assign(out, check(f.schema, value[f.name], types, `${at}/${f.name}`, f.required))
      break
  }
  return out
}

// Patterns come from our own catalogue; the server checks those that this browser cannot compile.
function safeTest(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, 'u').test(value)
  } catch {
    return true
  }
}

/** Removes undefined members from a value, recursively. */
export function clean(value: unknown): unknown {
  if (Array.isArray(value)) return value.filter((v) => v !== undefined).map(clean)
  if (isObject(value))
    return Object.fromEntries(
      Object.entries(value)
        .filter(([, v]) => v !== undefined)
        .map(([k, v]) => [k, clean(v)]),
    )
  return value
}

/**
 * The positional form: the leading arguments without a gap, then one object with the rest. If the last
 * positional argument is itself an object, an object always follows: otherwise it would be taken for the rest.
 */
export function positional(order: readonly string[], values: Record<string, unknown>): unknown[] {
  const out: unknown[] = []
  let i = 0
  for (; i < order.length; i++) {
    const v = values[order[i] ?? '']
    if (v === undefined) break
    out.push(v)
  }
  const rest: Record<string, unknown> = {}
  for (const [name, v] of Object.entries(values))
    if (v !== undefined && !order.slice(0, i).includes(name)) rest[name] = v
  if (Object.keys(rest).length > 0 || isObject(out[out.length - 1])) out.push(rest)
  return out
}

/** Rewrites example ids, which start with the id of one creator, for another creator. */
export function translate(value: unknown, from: string, to: string): unknown {
  if (typeof value === 'string')
    return value.length === from.length + 10 && value.startsWith(from) && /^\d+$/.test(value)
      ? to + value.slice(from.length)
      : value === from
        ? to
        : value
  if (Array.isArray(value)) return value.map((v) => translate(v, from, to))
  if (isObject(value)) return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, translate(v, from, to)]))
  return value
}
