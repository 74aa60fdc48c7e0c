import { describe, expect, it } from 'vitest'
import { check, clean, fieldsOf, positional, rangeWords, shapeOf, translate, typeWords, type Schema } from './schema'
import { callCommand } from './code'

const id: Schema = { type: 'string', pattern: '^(0|[1-9][0-9]{0,19})$' }
const send: Schema = {
  type: 'object',
  required: ['chatId'],
  properties: {
    text: { type: 'string', maxLength: 5000 },
    chatId: id,
    mediaIds: { type: 'array', maxItems: 2, items: id },
    priceCents: { type: 'integer', minimum: 0, maximum: 20000 },
    lockText: { type: 'boolean', default: false },
    poll: {
      type: 'object',
      required: ['options'],
      properties: { question: { type: 'string' }, options: { type: 'array', minItems: 2, items: { type: 'string' } } },
    },
  },
}

describe('shapes', () => {
  it('map schemas to form controls', () => {
    expect(shapeOf({ type: ['string', 'null'] })).toMatchObject({ kind: 'string', nullable: true })
    expect(shapeOf({ anyOf: [{ type: 'integer' }, { type: 'null' }] })).toMatchObject({
      kind: 'number',
      nullable: true,
    })
    expect(shapeOf({ type: 'integer', enum: [3, 6] })).toMatchObject({ kind: 'enum' })
    expect(shapeOf({ $ref: '#/types/Chat' }, { Chat: { type: 'object', properties: {} } })).toMatchObject({
      kind: 'object',
    })
    expect(shapeOf({ $ref: '#/types/Nobody' })).toMatchObject({ kind: 'json' })
    expect(shapeOf({ anyOf: [{ type: 'string' }, { type: 'number' }] }).kind).toBe('json')
    const loop: Record<string, Schema> = { A: { $ref: '#/types/A' } }
    expect(shapeOf({ $ref: '#/types/A' }, loop).kind).toBe('json')
  })
  it('are described in a few words', () => {
    expect(typeWords(send.properties?.['mediaIds'])).toBe('string[]')
    expect(typeWords({ type: ['integer', 'null'] })).toBe('integer | null')
    expect(typeWords({ type: 'array', items: { type: ['string', 'null'] } })).toBe('(string | null)[]')
    expect(typeWords({ type: 'string', format: 'date-time' })).toBe('date-time')
    expect(rangeWords({ type: 'integer', minimum: 0, maximum: 20000 })).toBe('0 to 20,000')
    expect(rangeWords({ type: 'string', maxLength: 5000 })).toBe('at most 5,000 characters')
  })
  it('have required fields first', () => {
    expect(fieldsOf(send).map((f) => f.name)).toEqual(['chatId', 'text', 'mediaIds', 'priceCents', 'lockText', 'poll'])
  })
})

describe('check', () => {
  it('finds what the server would refuse, by JSON pointer', () => {
    expect(check(send, {})).toEqual({ '/chatId': 'Fill this in.' })
    expect(check(send, undefined)).toEqual({ '/chatId': 'Fill this in.' })
    expect(
      Object.keys(
        check(send, { chatId: '12x', priceCents: 1.5, mediaIds: ['1', 'b', '3'], poll: { options: ['a'] } }),
      ).sort(),
    ).toEqual(['/chatId', '/mediaIds', '/mediaIds/1', '/poll/options', '/priceCents'])
    expect(check(send, { chatId: '1', priceCents: 'abc' })).toEqual({ '/priceCents': 'Enter a number.' })
    expect(check(send, { chatId: null })).toEqual({ '/chatId': 'This cannot be null.' })
  })
  it('accepts valid values', () => {
    expect(check(send, { chatId: '1', text: '', mediaIds: [], lockText: true, poll: { options: ['a', 'b'] } })).toEqual(
      {},
    )
    expect(check({ type: 'string', pattern: '(?<broken' }, 'x')).toEqual({})
  })
})

describe('bodies', () => {
  it('omit missing values', () => {
    expect(clean({ a: undefined, b: [1, undefined], c: { d: undefined } })).toEqual({ b: [1], c: {} })
  })
  it('by position', () => {
    const order = ['chatId', 'text', 'mediaIds', 'poll']
    expect(positional(order, { chatId: '1', text: 'hi' })).toEqual(['1', 'hi'])
    expect(positional(order, { chatId: '1', mediaIds: ['9'] })).toEqual(['1', { mediaIds: ['9'] }])
    expect(positional(order, {})).toEqual([])
    expect(positional(['poll', 'text'], { poll: { options: [] } })).toEqual([{ options: [] }, {}])
  })
  it('translate examples to another creator', () => {
    expect(
      translate({ a: '3438267820000000001', b: ['343826782', 'x'], c: 5, d: '343826782000000000' }, '343826782', '77'),
    ).toEqual({ a: '770000000001', b: ['77', 'x'], c: 5, d: '343826782000000000' })
  })
  it('as a command', () => {
    expect(callCommand('messages.send', 'acct_1', { chatId: '1', text: "it's", mediaIds: ['9'], lockText: true })).toBe(
      `stagedoor call messages.send -a acct_1 \\\n  chatId=1 text='it'\\''s' mediaIds:='["9"]' lockText:=true`,
    )
    expect(callCommand('me.get', 'acct_1', {})).toBe('stagedoor call me.get -a acct_1')
    expect(callCommand('me.get', 'acct_1', ['a'])).toBe(`echo '["a"]' | stagedoor call me.get -a acct_1 -`)
  })
})
