"""Draws a bar chart as SVG. It needs no library, prints well, and works with screen readers."""

from __future__ import annotations

import datetime
import html
from collections.abc import Sequence

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 960, 300, 70, 24, 10


def bars(days: Sequence[tuple[datetime.date, int]], title: str) -> str:
    """Returns a chart with one bar per day. Values are in cents; the title of each bar shows the day and the value."""
    highest = step_above(max((cents for _, cents in days), default=0))
    slot = (WIDTH - LEFT) / max(len(days), 1)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}" font-size="12" fill="currentColor">']
    for line in range(5):
        cents = highest * line // 4
        y = place(cents, highest)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--line)"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{cents // 100:,}</text>')
    every = max(1, len(days) // 8)
    for at, (day, cents) in enumerate(days):
        x, y = LEFT + at * slot, place(max(cents, 0), highest)
        tip = html.escape(f"{day}: {cents / 100:,.2f}")
        parts.append(f'<rect x="{x + slot * 0.1:.1f}" y="{y:.1f}" width="{slot * 0.8:.1f}" height="{HEIGHT - BOTTOM - y:.1f}" fill="var(--bar)"><title>{tip}</title></rect>')
        if at % every == 0:
            parts.append(f'<text x="{x + slot / 2:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{day:%d %b}</text>')
    return "\n".join([*parts, "</svg>"])


def place(cents: int, highest: int) -> float:
    """Returns the distance of a value from the top."""
    return TOP + (HEIGHT - BOTTOM - TOP) * (1 - cents / highest)


def step_above(cents: int) -> int:
    """Returns the top of the scale: the next round number, 1, 2 or 5 with zeros, in whole units of currency."""
    size = 400  # four lines of one unit each
    while True:
        for factor in (1, 2, 5):
            if size * factor >= cents:
                return size * factor
        size *= 10
