import { Fragment, type ReactNode } from 'react'
import { cx } from '@/lib/cx'
import { isWebLink } from '@/lib/format'
import { Code } from './CodeBlock'

// Renders the subset of Markdown that our own documents use as elements. The text never becomes HTML.

type Block =
  | { kind: 'heading'; depth: number; text: string }
  | { kind: 'code'; text: string }
  | { kind: 'list'; ordered: boolean; items: string[] }
  | { kind: 'table'; head: string[]; rows: string[][] }
  | { kind: 'text'; text: string }

const cells = (line: string) =>
  line
    .trim()
    .replace(/^\||\|$/g, '')
    .split('|')
    .map((c) => c.trim())

/** Splits a document into its blocks. */
export function blocks(source: string): Block[] {
  const lines = source.replace(/\r\n/g, '\n').split('\n')
  const out: Block[] = []
  for (let i = 0; i < lines.length; ) {
    const line = lines[i] ?? ''
    const fence = /^```/.test(line)
    const heading = /^(#{1,6})\s+(.*)$/.exec(line)
    const item = /^(?:[-*]|(\d+)\.)\s+(.*)$/.exec(line)
    if (fence) {
      const body: string[] = []
      for (i++; i < lines.length && !/^```/.test(lines[i] ?? ''); i++) body.push(lines[i] ?? '')
      i++
      out.push({ kind: 'code', text: body.join('\n') })
    } else if (heading) {
      out.push({ kind: 'heading', depth: heading[1]!.length, text: heading[2]! })
      i++
    } else if (item) {
      const ordered = item[1] !== undefined
      const items: string[] = []
      for (; i < lines.length; i++) {
        const next = /^(?:[-*]|\d+\.)\s+(.*)$/.exec(lines[i] ?? '')
        if (next) items.push(next[1]!)
        else if (/^\s+\S/.test(lines[i] ?? '') && items.length > 0) items[items.length - 1] += ' ' + lines[i]!.trim()
        else break
      }
      out.push({ kind: 'list', ordered, items })
    } else if (line.startsWith('|') && /^\|?[\s:|-]+\|?$/.test(lines[i + 1] ?? '')) {
      const head = cells(line)
      const rows: string[][] = []
      for (i += 2; i < lines.length && (lines[i] ?? '').startsWith('|'); i++) rows.push(cells(lines[i]!))
      out.push({ kind: 'table', head, rows })
    } else if (line.trim() === '') {
      i++
    } else {
      const body: string[] = []
      for (
        ;
        i < lines.length && (lines[i] ?? '').trim() !== '' && !/^(```|#{1,6}\s|[-*]\s|\d+\.\s|\|)/.test(lines[i] ?? '');
        i++
      )
        body.push(lines[i]!.trim())
      if (body.length === 0) {
        // A line that looks like the start of a block but is not.
        body.push(line.trim())
        i++
      }
      out.push({ kind: 'text', text: body.join(' ') })
    }
  }
  return out
}

function inline(text: string): ReactNode {
  const parts = text.split(/(`[^`]+`|\*\*[^*]+\*\*|\[[^\]]+\]\([^)\s]+\))/)
  return parts.map((p, i) => {
    if (i % 2 === 0) return <Fragment key={i}>{p}</Fragment>
    if (p.startsWith('`'))
      return (
        <code key={i} className="rounded bg-subtle px-1 py-px text-[0.92em] break-words">
          {p.slice(1, -1)}
        </code>
      )
    if (p.startsWith('**')) return <strong key={i}>{inline(p.slice(2, -2))}</strong>
    const found = /^\[([^\]]+)\]\(([^)\s]+)\)$/.exec(p)
    const href = found?.[2] ?? ''
    const ours = href.startsWith('/') && !href.startsWith('//')
    if (!found || (!ours && !isWebLink(href))) return <Fragment key={i}>{found?.[1] ?? p}</Fragment>
    return (
      <a key={i} href={href} target="_blank" rel="noopener" className="link underline">
        {inline(found[1]!)}
      </a>
    )
  })
}

/** One of our documents. Its top headings are one level below `under`, the level of the heading above it. */
export function Markdown({ text, under = 2, className }: { text: string; under?: number; className?: string }) {
  const all = blocks(text)
  const top = Math.min(6, ...all.flatMap((b) => (b.kind === 'heading' ? [b.depth] : [])))
  return (
    <div className={cx('min-w-0 space-y-3 break-words', className ?? 'text-soft')}>
      {all.map((b, i) => {
        switch (b.kind) {
          case 'heading': {
            const H = `h${Math.min(6, under + 1 + b.depth - top)}` as 'h3'
            return (
              <H key={i} className={b.depth === top ? 'font-semibold text-fg' : 'pt-1 font-medium text-fg'}>
                {inline(b.text)}
              </H>
            )
          }
          case 'code':
            return <Code key={i} code={b.text} label="example" />
          case 'list': {
            const L = b.ordered ? 'ol' : 'ul'
            return (
              <L key={i} className={`space-y-1 pl-5 ${b.ordered ? 'list-decimal' : 'list-disc'}`}>
                {b.items.map((t, j) => (
                  <li key={j}>{inline(t)}</li>
                ))}
              </L>
            )
          }
          case 'table':
            return (
              <div key={i} className="overflow-x-auto" tabIndex={0} role="group" aria-label="Table">
                <table className="w-full text-left text-xs">
                  <thead>
                    <tr className="border-b">
                      {b.head.map((h, j) => (
                        <th key={j} scope="col" className="px-2 py-1 font-medium">
                          {inline(h)}
                        </th>
                      ))}
                    </tr>
                  </thead>
                  <tbody className="divide-y">
                    {b.rows.map((r, j) => (
                      <tr key={j}>
                        {r.map((c, k) => (
                          <td key={k} className="px-2 py-1 align-top">
                            {inline(c)}
                          </td>
                        ))}
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )
          default:
            return <p key={i}>{inline(b.text)}</p>
        }
      })}
    </div>
  )
}
