"""Writes a report of the earnings of connected accounts: one HTML file with a chart and no external resources.

    STAGEDOOR_URL=… STAGEDOOR_API_KEY=… python3 report.py --days 30 --out report.html

It only reads. Amounts are in cents until they are displayed, so that nothing is rounded twice.
"""

from __future__ import annotations

import argparse
import datetime
import html
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from chart import bars
from stagedoor import Problem, Stagedoor, is_problem
from stagedoor.types import ListedAccount

STYLE = """
:root { color-scheme: light dark; --ink: #1c1917; --paper: #fff; --line: #d6d3d1; --bar: #b45309; }
@media (prefers-color-scheme: dark) { :root { --ink: #f5f5f4; --paper: #1c1917; --line: #57534e; --bar: #fbbf24; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; } th, td { padding: .4rem .6rem; border-bottom: 1px solid var(--line); text-align: left; }
td.money, th.money { text-align: right; font-variant-numeric: tabular-nums; } svg { width: 100%; height: auto; }
.scroll { overflow-x: auto; }
"""


@dataclass
class Earnings:
    """The earnings of one account, in cents."""

    label: str
    currency: str
    available: int
    pending: int
    days: dict[datetime.date, int] = field(default_factory=dict)
    fans: list[tuple[str, int]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.days.values())


def read(client: Stagedoor, first: datetime.date, last: datetime.date) -> Iterator[Earnings]:
    """Yields the earnings of each account. It reports and skips an account that must be reconnected."""
    for listed in client.accounts.list_all(limit=100):
        try:
            yield read_account(client, listed, first, last)
        except Problem as problem:
            if not is_problem(problem, "account-disconnected", "account-paused", "upstream/account-restricted"):
                raise
            print(f"skipping {name_of(listed)}: {problem.title}", file=sys.stderr)


def read_account(client: Stagedoor, listed: ListedAccount, first: datetime.date, last: datetime.date) -> Earnings:
    account = client.account(listed["id"])
    balance = account.earnings.get_balance()
    chart = account.earnings.chart(from_=first.isoformat(), to=last.isoformat(), by="day")
    days = {datetime.date.fromisoformat(point["at"][:10]): point["value"] for point in chart["points"]}
    if sum(days.values()) != chart["total"]:
        raise ValueError(f"the days of {name_of(listed)} do not add up to its total")
    top = account.fans.list(order="spend", limit=5)["items"]
    return Earnings(
        label=name_of(listed),
        currency=balance["currency"],
        available=balance["availableCents"],
        pending=balance["pendingCents"],
        days=days,
        fans=[(fan["user"]["name"], fan["totalSpentCents"]) for fan in top],
    )


def name_of(listed: ListedAccount) -> str:
    return listed["label"] or listed["displayName"] or listed["id"]


def money(cents: int, currency: str) -> str:
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100:,}.{abs(cents) % 100:02d} {currency}"


def page(accounts: list[Earnings], first: datetime.date, last: datetime.date) -> str:
    """Returns the whole document. Names are user input, so they are escaped."""
    title = f"Earnings, {first} to {last}"
    parts = [
        "<!doctype html>",
        f'<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>',
        f"<style>{STYLE}</style><h1>{title}</h1>",
    ]
    by_currency: dict[str, list[Earnings]] = defaultdict(list)
    for account in accounts:
        by_currency[account.currency].append(account)
    for currency, group in sorted(by_currency.items()):
        days = {first + datetime.timedelta(n): 0 for n in range((last - first).days + 1)}
        for account in group:
            for day, cents in account.days.items():
                days[day] = days.get(day, 0) + cents
        total = sum(days.values())
        parts.append(f"<h2>{money(total, html.escape(currency))}</h2>")
        parts.append(bars(sorted(days.items()), f"Earnings per day in {html.escape(currency)}"))
        parts.append('<div class="scroll"><table><thead><tr><th>Account<th class="money">Earned<th class="money">Available<th class="money">Pending<th>Top fans<tbody>')
        for account in sorted(group, key=lambda one: -one.total):
            fans = ", ".join(f"{html.escape(fan)} ({money(cents, currency)})" for fan, cents in account.fans)
            cells = "".join(f'<td class="money">{money(cents, currency)}' for cents in (account.total, account.available, account.pending))
            parts.append(f"<tr><td>{html.escape(account.label)}{cells}<td>{fans}")
        parts.append("</table></div>")
    if not accounts:
        parts.append("<p>No accounts are connected.</p>")
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a report of the earnings of connected accounts.")
    parser.add_argument("--days", type=int, default=30, choices=range(1, 366), metavar="N", help="number of days (default: 30)")
    parser.add_argument("--out", type=Path, default=Path("report.html"), help="output file (default: report.html)")
    arguments = parser.parse_args()
    last = datetime.datetime.now(datetime.timezone.utc).date()
    first = last - datetime.timedelta(arguments.days - 1)
    with Stagedoor() as client:
        accounts = list(read(client, first, last))
    arguments.out.write_text(page(accounts, first, last), encoding="utf-8")
    for account in accounts:
        print(f"{account.label}\t{account.total}\t{account.currency}")


if __name__ == "__main__":
    main()
