// Filters of a page that a person has saved in this browser, by organisation.
import { recall, remember } from './storage'

export interface View {
  name: string
  filters: Record<string, string>
}

/** How many views a page keeps. */
export const mostViews = 20

const key = (org: string, page: string) => `views.${org}.${page}`

/** The saved views; anything that is not one is ignored, because other programs can write to the storage. */
export function savedViews(org: string, page: string): View[] {
  let list: unknown
  try {
    list = JSON.parse(recall(key(org, page)) ?? '[]')
  } catch {
    return []
  }
  return Array.isArray(list) ? list.filter(isView).slice(0, mostViews) : []
}

function isView(v: unknown): v is View {
  if (typeof v !== 'object' || v === null) return false
  const { name, filters } = v as Partial<View>
  return (
    typeof name === 'string' &&
    name !== '' &&
    typeof filters === 'object' &&
    filters !== null &&
    Object.values(filters).every((f) => typeof f === 'string')
  )
}

/** The list with a view added first, which replaces one of the same name. */
export function withView(list: readonly View[], view: View): View[] {
  return [view, ...withoutView(list, view.name)].slice(0, mostViews)
}

export function withoutView(list: readonly View[], name: string): View[] {
  return list.filter((v) => v.name !== name)
}

export function keepViews(org: string, page: string, list: readonly View[]): void {
  remember(key(org, page), list.length > 0 ? JSON.stringify(list) : null)
}
