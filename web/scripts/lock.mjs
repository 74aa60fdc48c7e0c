// Completes package-lock.json after `npm install`: a registry mirror that has the packages of only
// some platforms omits the others, and `npm ci` refuses such a file. Each gets an entry with the
// version that its parent requires; npm skips the entries of other platforms.
import { readFileSync, writeFileSync } from 'node:fs'

const file = new URL('../package-lock.json', import.meta.url)
const lock = JSON.parse(readFileSync(file, 'utf8'))
for (const parent of Object.values(lock.packages)) {
  for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
    const key = 'node_modules/' + name
    if (lock.packages[key]) continue
    const [os, cpu, abi] = (
      /(aix|android|darwin|freebsd|linux|netbsd|openbsd|openharmony|sunos|win32|wasm32)-([a-z0-9]+)-?(\w+)?$/.exec(
        name,
      ) ?? []
    ).slice(1)
    if (!os) continue
    lock.packages[key] = {
      version,
      cpu: [os === 'wasm32' ? 'wasm32' : cpu === 'arm' ? 'arm' : cpu],
      dev: true,
      optional: true,
    }
    if (os !== 'wasm32') lock.packages[key].os = [os]
    if (abi === 'musl') lock.packages[key].libc = ['musl']
    else if (abi === 'gnu') lock.packages[key].libc = ['glibc']
  }
}
const [root, ...rest] = Object.keys(lock.packages)
lock.packages = Object.fromEntries(
  [root, ...rest.sort((a, b) => a.localeCompare(b, 'en'))].map((k) => [k, lock.packages[k]]),
)
writeFileSync(file, JSON.stringify(lock, null, 2) + '\n')
