"""The report on votes and pages: targets and measurements as Markdown tables."""

import sqlite3
from collections.abc import Callable, Iterable
from statistics import median

from django.db import connection

from benchmarks.contests import RATERS, SECONDS, Measure, Measures
from benchmarks.pages import Weight
from benchmarks.results import Line, machine, targets

LARGEST_LOAD = 60 * 1024


def rate_line(measures: Measures, name: str, beside: str, least: float) -> Line:
    """The target for requests per second, as a share of another contestant's in the same round."""
    shares = _ratios(measures, name, beside, lambda measure: measure.rate)
    value = f"{median(shares):.0%} ({min(shares):.0%} to {max(shares):.0%})"
    what = f"{name}: requests per second, as a share of {beside}"
    return Line(what, f"at least {least:.0%}", value, median(shares) >= least)


def p95_line(measures: Measures, name: str, beside: str, most: float) -> Line:
    """The target for the 95th percentile of response times, as a multiple of another's."""
    times = _ratios(measures, name, beside, lambda measure: measure.p95)
    value = f"{median(times):.2f} x ({min(times):.2f} to {max(times):.2f})"
    return Line(
        f"{name}: p95, compared with {beside}", f"at most {most:g} x", value, median(times) <= most
    )


def queries_line(what: str, value: int, most: int) -> Line:
    return Line(f"{what}: queries", f"at most {most}", str(value), value <= most)


def weight_line(weight: Weight) -> Line:
    """The target for the compressed size of a page's first load."""
    kib = [f"{size / 1024:.1f}" for size in (weight.total, weight.html, weight.linked)]
    value = "{} KB (page {}, styles and scripts {})".format(*kib)
    target = f"at most {LARGEST_LOAD // 1024} KB"
    return Line(
        f"{weight.page} first load, compressed", target, value, weight.total <= LARGEST_LOAD
    )


def table(lines: Iterable[Line], measures: Measures) -> str:
    """Everything as Markdown: where it was measured, the targets, and the raw numbers."""
    rounds = len(next(iter(measures.values())))
    return "\n".join(
        [
            f"{machine_and_database()}; granian in 2 processes of 4 threads, as in production;"
            f" {RATERS} concurrent connections, {rounds} rounds of {SECONDS:g} s each, in turn."
            " Ratios are taken within each round: median (smallest to largest).",
            "",
            *targets(lines),
            "",
            "Medians over the rounds:",
            "",
            "| | requests/s | p50, ms | p95, ms |",
            "|---|---:|---:|---:|",
            *(_raw(name, rounds) for name, rounds in measures.items()),
            "",
        ]
    )


def _ratios(
    measures: Measures, name: str, beside: str, of: Callable[[Measure], float]
) -> list[float]:
    pairs = zip(measures[name], measures[beside], strict=True)
    return [of(ours) / of(theirs) for ours, theirs in pairs]


def _raw(name: str, rounds: list[Measure]) -> str:
    rate, p50, p95 = (median(getattr(m, part) for m in rounds) for part in ("rate", "p50", "p95"))
    return f"| {name} | {rate:,.0f} | {p50:.1f} | {p95:.1f} |"


def machine_and_database() -> str:
    if connection.vendor == "sqlite":
        return f"{machine()}, SQLite {sqlite3.sqlite_version}"
    version = connection.pg_version
    return f"{machine()}, PostgreSQL {version // 10000}.{version % 10000}"
