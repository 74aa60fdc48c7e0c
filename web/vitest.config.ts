import { defineConfig } from 'vitest/config'
import { join } from 'node:path'

export default defineConfig({
  resolve: { alias: { '@': join(import.meta.dirname, 'src') } },
  test: { include: ['src/**/*.test.ts'], environment: 'node', pool: 'threads' },
})
