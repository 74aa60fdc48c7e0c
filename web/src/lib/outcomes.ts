import type { Series } from '@/ui/Chart'

interface Outcome {
  succeeded: number
  limited: number
  clientErrors: number
  failed: number
}

/** Calls over time by outcome, with the same names and colours on every page. */
export function outcomes(points: readonly Outcome[], { failures = false } = {}): Series[] {
  const all: Series[] = [
    { name: 'Succeeded', color: 'var(--accent)', values: points.map((p) => p.succeeded) },
    { name: 'Rate limited', color: 'var(--warn)', values: points.map((p) => p.limited) },
    { name: 'Refused', color: 'var(--mute)', values: points.map((p) => p.clientErrors) },
    { name: 'Failed', color: 'var(--bad)', values: points.map((p) => p.failed) },
  ]
  return failures ? all.slice(1) : all
}
