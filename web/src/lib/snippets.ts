// The same call in every language we show. Snippets never contain a key: they read
// STAGEDOOR_API_KEY.

export interface Snippet {
  name: string
  code: string
}

export interface Request {
  method: string
  /** Includes the query, if any: /v1/accounts?limit=5. */
  path: string
  body?: unknown
}

/** Quotes one word of a shell command if needed. */
export function shell(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

export function baseURL(): string {
  return typeof location === 'undefined' ? 'http://localhost:8080' : location.origin
}

export function curl({ method, path, body }: Request, base = baseURL()): string {
  const lines = [
    `curl ${method === 'GET' || (method === 'POST' && body !== undefined) ? '' : `-X ${method} `}${shell(base + path)}`,
    `  -H "Authorization: Bearer $STAGEDOOR_API_KEY"`,
  ]
  if (body !== undefined) {
    lines.push(`  -H 'Content-Type: application/json'`, `  -d ${shell(JSON.stringify(body))}`)
  }
  return lines.join(' \\\n')
}

export function cli({ method, path, body }: Request): string {
  const command = `stagedoor api ${method} ${shell(path)}`
  return body === undefined ? command : `${command} -d ${shell(JSON.stringify(body))}`
}

function indent(text: string, by: string): string {
  return text.replaceAll('\n', '\n' + by)
}

export function typescript({ method, path, body }: Request, base = baseURL()): string {
  const lines = [`const res = await fetch(${JSON.stringify(base + path)}, {`]
  if (method !== 'GET') lines.push(`  method: ${JSON.stringify(method)},`)
  lines.push('  headers: {', '    Authorization: `Bearer ${process.env.STAGEDOOR_API_KEY}`,')
  if (body !== undefined) lines.push(`    'Content-Type': 'application/json',`)
  lines.push('  },')
  if (body !== undefined) lines.push(`  body: JSON.stringify(${indent(JSON.stringify(body, null, 2), '  ')}),`)
  lines.push('})', 'console.log(await res.json())')
  return lines.join('\n')
}

export function go({ method, path, body }: Request, base = baseURL()): string {
  const text = body === undefined ? 'nil' : `strings.NewReader(${goString(JSON.stringify(body))})`
  return [
    `req, err := http.NewRequest(${JSON.stringify(method)}, ${JSON.stringify(base + path)}, ${text})`,
    'if err != nil {',
    '\treturn err',
    '}',
    'req.Header.Set("Authorization", "Bearer "+os.Getenv("STAGEDOOR_API_KEY"))',
    ...(body === undefined ? [] : ['req.Header.Set("Content-Type", "application/json")']),
    'res, err := http.DefaultClient.Do(req)',
  ].join('\n')
}

function goString(text: string): string {
  return text.includes('`') ? JSON.stringify(text) : '`' + text + '`'
}

export function python({ method, path, body }: Request, base = baseURL()): string {
  const lines = [
    'import json, os, urllib.request',
    '',
    'req = urllib.request.Request(',
    `    ${JSON.stringify(base + path)},`,
    `    method=${JSON.stringify(method)},`,
  ]
  lines.push(
    `    headers={"Authorization": "Bearer " + os.environ["STAGEDOOR_API_KEY"]${body === undefined ? '' : ', "Content-Type": "application/json"'}},`,
  )
  if (body !== undefined) lines.push(`    data=json.dumps(${indent(pythonValue(body), '    ')}).encode(),`)
  lines.push(')', 'print(json.load(urllib.request.urlopen(req)))')
  return lines.join('\n')
}

/** Formats a JSON value as a Python literal. */
export function pythonValue(v: unknown): string {
  if (v === null || v === undefined) return 'None'
  if (v === true) return 'True'
  if (v === false) return 'False'
  if (Array.isArray(v)) return `[${v.map(pythonValue).join(', ')}]`
  if (typeof v === 'object')
    return `{${Object.entries(v)
      .map(([k, x]) => `${JSON.stringify(k)}: ${pythonValue(x)}`)
      .join(', ')}}`
  return JSON.stringify(v)
}

/** The request in every language, for CodeBlock. */
export function snippets(req: Request, base = baseURL()): Snippet[] {
  return [
    { name: 'curl', code: curl(req, base) },
    { name: 'CLI', code: cli(req) },
    { name: 'TypeScript', code: typescript(req, base) },
    { name: 'Go', code: go(req, base) },
    { name: 'Python', code: python(req, base) },
  ]
}
