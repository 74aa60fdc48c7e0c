import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { keys } from './hooks'

// Queries with the same key share their cached data. If two of them returned different shapes, a page would work or fail
// depending on which page was open before.
it('reads each shared key by one query only', () => {
  const root = join(import.meta.dirname, '..')
  const uses = new Map<string, string[]>()
  for (const file of readdirSync(root, { recursive: true, encoding: 'utf8' })) {
    if (!/\.tsx?$/.test(file) || file.includes('.test.')) continue
    for (const found of readFileSync(join(root, file), 'utf8').matchAll(/queryKey: keys\.(\w+),\s+queryFn/g))
      uses.set(found[1]!, [...(uses.get(found[1]!) ?? []), file])
  }
  const shared = Object.entries(keys).filter(([, key]) => typeof key !== 'function')
  expect(shared.length).toBeGreaterThan(5)
  expect(uses.size).toBeGreaterThan(3)
  for (const [name] of shared) expect(uses.get(name) ?? [], name).toHaveLength(Math.min(1, uses.get(name)?.length ?? 0))
})
