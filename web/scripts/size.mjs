// Fails if the scripts that a browser loads before the first page exceed their budget.
import { readFileSync, statSync } from 'node:fs'
import { gzipSync } from 'node:zlib'

const budget = 180 * 1024
const dist = new URL('../dist/', import.meta.url)
for (const page of ['index.html', 'ops.html']) {
  const html = readFileSync(new URL(page, dist), 'utf8')
  const files = [...html.matchAll(/(?:src|href)="\/app\/(assets\/[^"]+\.js)"/g)].map((m) => m[1])
  const total = files.reduce((sum, f) => sum + gzipSync(readFileSync(new URL(f, dist)), { level: 9 }).length, 0)
  console.log(`${page}: ${(total / 1024).toFixed(1)} KB of ${budget / 1024} KB gzip in ${files.length} files`)
  if (total > budget) process.exitCode = 1
  const foreign = /(?:src|href)="(?:https?:)?\/\//.exec(html)
  if (foreign) {
    console.log(`${page} loads from another host: ${foreign[0]}`)
    process.exitCode = 1
  }
}
statSync(new URL('placeholder.html', dist))
