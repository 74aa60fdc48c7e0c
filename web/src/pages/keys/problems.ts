import { isProblem } from '@/api/client'

/** Returns what the API says about a member of a key; for lists, about each line. */
export function messagesOf(error: unknown): (name: string) => string | undefined {
  const errors = isProblem(error) ? (error.problem.errors ?? []) : []
  return (name) => {
    const found = errors.filter((e) => e.pointer === '/' + name || e.pointer.startsWith(`/${name}/`))
    if (found.length === 0) return undefined
    return found
      .map((e) => {
        const n = Number(e.pointer.slice(name.length + 2))
        return Number.isInteger(n) && e.pointer !== '/' + name ? `Line ${n + 1} ${e.detail}` : e.detail
      })
      .join('. ')
  }
}
