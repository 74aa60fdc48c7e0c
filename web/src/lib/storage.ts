// A browser may refuse storage (private windows, settings). Nothing we keep there is
// essential, so a refusal is not an error.
export function recall(key: string): string | null {
  try {
    return localStorage.getItem('sd.' + key)
  } catch {
    return null
  }
}

export function remember(key: string, value: string | null): void {
  try {
    if (value === null) localStorage.removeItem('sd.' + key)
    else localStorage.setItem('sd.' + key, value)
  } catch {
    // as above
  }
}
