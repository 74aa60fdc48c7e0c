import { defineConfig, type Plugin } from 'vite'
import react from '@vitejs/plugin-react'
import tailwindcss from '@tailwindcss/vite'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

// The server never compresses: it picks the .br or .gz beside a file. The old
// assets go first, because dist itself is not emptied (the committed
// placeholder lives there).
function assets(): Plugin {
  let dist = ''
  return {
    name: 'stagedoor-assets',
    apply: 'build',
    configResolved(config) {
      dist = resolve(config.root, config.build.outDir)
    },
    async buildStart() {
      await rm(join(dist, 'assets'), { recursive: true, force: true })
    },
    async closeBundle() {
      const dir = join(dist, 'assets')
      for (const name of await readdir(dir).catch(() => [] as string[])) {
        if (!/\.(js|css|svg|json|txt)$/.test(name)) continue
        const body = await readFile(join(dir, name))
        if (body.length < 1024) continue
        await writeFile(join(dir, name + '.gz'), gzipSync(body, { level: 9 }))
        await writeFile(
          join(dir, name + '.br'),
          brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }),
        )
      }
    },
  }
}

export default defineConfig({
  // Both entries load from /app/assets: the public listener serves it for
  // index.html, the internal one serves the same path for ops.html.
  base: '/app/',
  // Replaced with a fresh nonce by the server for every page it sends.
  html: { cspNonce: '__CSP_NONCE__' },
  plugins: [react(), tailwindcss(), assets()],
  resolve: { alias: { '@': join(import.meta.dirname, 'src') } },
  build: {
    outDir: 'dist',
    emptyOutDir: false,
    sourcemap: false,
    target: 'es2022',
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      input: { index: join(import.meta.dirname, 'index.html'), ops: join(import.meta.dirname, 'ops.html') },
    },
  },
})
