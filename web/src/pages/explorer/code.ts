// The call that the form describes, in every language.
import { shell, snippets, type Snippet } from '@/lib/snippets'

/** stagedoor call messages.send -a acct_… chatId=1 mediaIds:='["9"]'. */
export function callCommand(name: string, account: string, body: unknown): string {
  const head = `stagedoor call ${shell(name)} -a ${shell(account)}`
  if (body === undefined) return head
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    return `echo ${shell(JSON.stringify(body))} | ${head} -`
  const words = Object.entries(body).map(([k, v]) =>
    typeof v === 'string' ? `${shell(k)}=${v === '' ? "''" : shell(v)}` : `${shell(k)}:=${shell(JSON.stringify(v))}`,
  )
  return words.length === 0 ? head : `${head} \\\n  ${words.join(' ')}`
}

export interface Made {
  method: 'GET' | 'POST'
  path: string
  body?: unknown
}

/** The request of a call: a read without arguments is a plain GET. */
export function requestOf(resource: string, method: string, account: string, access: string, body: unknown): Made {
  const path = `/v1/accounts/${encodeURIComponent(account)}/${resource}/${method}`
  const empty = typeof body === 'object' && body !== null && !Array.isArray(body) && Object.keys(body).length === 0
  if (empty && access === 'read') return { method: 'GET', path }
  return { method: 'POST', path, body: body ?? {} }
}

export function codeOf(name: string, account: string, made: Made): Snippet[] {
  return snippets(made).map((s) =>
    s.name === 'CLI' ? { name: 'CLI', code: callCommand(name, account, made.body) } : s,
  )
}
