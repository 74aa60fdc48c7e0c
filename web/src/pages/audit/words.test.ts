import { expect, it } from 'vitest'
import { actionWords, changesOf, plain, reasonOf } from './words'

it('entries are described in words, also those of a newer server', () => {
  expect([actionWords('key.mint'), actionWords('thing.new_kind')]).toEqual(['Created an API key', 'Thing new kind'])
})
it('changes become rows whatever their form', () => {
  expect(changesOf({ label: { from: 'a', to: 'b' }, reason: '#1423', list: [1] })).toEqual([
    { field: 'label', from: 'a', to: 'b' },
    { field: 'reason', from: undefined, to: '#1423' },
    { field: 'list', from: undefined, to: [1] },
  ])
  expect(changesOf({ label: { purged: true } })[0]?.to).toBe('Deleted with the account')
  expect([changesOf(null), changesOf('x')]).toEqual([[], [{ field: 'value', from: undefined, to: 'x' }]])
  expect([reasonOf({ reason: { from: '', to: '#1423' } }), reasonOf({ name: { to: 'x' } }), reasonOf(null)]).toEqual([
    '#1423',
    null,
    null,
  ])
  expect([plain(null), plain(['a']), plain('x')]).toEqual(['–', '["a"]', 'x'])
})
