"""`python -m benchmarks.simulations [TABLE ...]`: run, write tables, fail if a target is missed."""

import argparse
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

from benchmarks.results import spaced
from benchmarks.simulations import page, prediction_powered
from benchmarks.simulations.boards import (
    CROWD_RESAMPLES,
    RESAMPLES,
    simulate_coverage,
    simulate_crowd,
    simulate_leader,
    simulate_tiers,
)
from benchmarks.simulations.designs import COVERAGE, CROWDS, EFFECT, LEADERS, TIERED, TIES
from benchmarks.simulations.page import Figures, Row
from benchmarks.simulations.watching import (
    FAMILIES,
    LOOKS,
    WATCHED,
    simulate_family,
    simulate_watching,
)

PROCESSES = 2
SEED = 20_261
REPEATS = 4000  # the standard error of a share of 95 % is then 0.35 percentage points
FEWER = 1000  # for boards that take longer
TWO_ALONE = 2  # candidates; with two, errors occur at the allowed rate: reported, not a target


@dataclass(frozen=True)
class Job:
    """One design, simulated in its own process; `row` turns the results into a table row, which
    begins with `names`."""

    table: str
    simulate: Callable[..., Figures]
    arguments: tuple[Any, ...]
    names: tuple[str, ...]
    row: Callable[[Figures], Row]


TABLES = {
    "coverage": page.COVERAGE_HEAD,
    "crowds": page.CROWD_HEAD,
    "leaders": page.LEADER_HEAD,
    "tiers": page.TIERS_HEAD,
    "combined": page.COMBINED_HEAD,
    "watched": page.WATCHED_HEAD,
}


def jobs(repeats: int, fewer: int, seed: int = SEED) -> list[Job]:
    """All designs, in the order of the page."""
    planned = []
    for place, design in enumerate(COVERAGE):
        row = partial(page.coverage_row, design.name, cautious=design.these_prompts)
        arguments = (design, repeats, seed + place)
        planned.append(Job("coverage", simulate_coverage, arguments, (design.name,), row))
    for place, design in enumerate(CROWDS):
        row = partial(page.crowd_row, design.name)
        arguments = (design, fewer, seed + 400 + place)
        planned.append(Job("crowds", simulate_crowd, arguments, (design.name,), row))
    for place, design in enumerate(LEADERS):
        boards = fewer if design.n_raters else repeats
        row = partial(
            page.leader_row,
            design.name,
            repeats=boards,
            claimed=len(design.strengths) > TWO_ALONE,
            ranks=not design.n_raters,
        )
        arguments = (design, boards, seed + 100 + place)
        planned.append(Job("leaders", simulate_leader, arguments, (design.name,), row))
    for place, design in enumerate(TIERED):
        row = partial(page.tiers_row, design.name, n_groups=design.n_groups)
        arguments = (design, fewer, seed + 700 + place)
        planned.append(Job("tiers", simulate_tiers, arguments, (design.name,), row))
    for judge in prediction_powered.JUDGES:
        for of_people in prediction_powered.DESIGNS:
            row = partial(page.combined_row, judge, of_people)
            names = (page.JUDGES[judge], page.DESIGNS[of_people])
            # Not seed + 200: its draws served to choose the level of the test for prompts of
            # another kind.
            arguments = (judge, fewer, seed + 500, of_people)
            planned.append(Job("combined", prediction_powered.simulate, arguments, names, row))
    for place, design in enumerate(WATCHED):
        row = partial(page.watched_row, design.name)
        arguments = (design, fewer, seed + 300 + place)
        planned.append(Job("watched", simulate_watching, arguments, (design.name,), row))
    for place, design in enumerate(FAMILIES):
        row = partial(page.watched_row, design.name)
        arguments = (design, fewer, seed + 600 + place)
        planned.append(Job("watched", simulate_family, arguments, (design.name,), row))
    return planned


def run(
    tables: Collection[str], repeats: int = REPEATS, fewer: int = FEWER, seed: int = SEED
) -> dict[Job, Row]:
    """Simulate the designs of these tables, and print each row as soon as it is known.

    The same seed gives the same rows on any number of processes. Those of the page's own seed are
    written to it.
    """
    finished: dict[Job, Row] = {}
    planned = [job for job in jobs(repeats, fewer, seed) if job.table in tables]
    with ProcessPoolExecutor(PROCESSES) as pool:
        futures = {pool.submit(job.simulate, *job.arguments): job for job in planned}
        for future in as_completed(futures):
            job = futures[future]
            finished[job] = job.row(future.result())
            print(finished[job], file=sys.stderr, flush=True)
            if seed == SEED:
                page.keep(text(finished, repeats, fewer))
    return finished


def text(finished: Mapping[Job, Row], repeats: int, fewer: int) -> str:
    """The six tables, with the explanations needed to read them; other rows stay as stored."""
    known = {(job.table, job.names): str(row) for job, row in finished.items()}
    rows: dict[str, list[str]] = {name: [] for name in TABLES}
    for job in jobs(repeats, fewer):
        row = known.get((job.table, job.names)) or page.stored(TABLES[job.table], job.names)
        rows[job.table] += [row] if row else []
    tables = {name: page.table(head, rows[name]) for name, head in TABLES.items()}
    coverage, people, leader, tiered, together, watched = tables.values()
    return f"""\
Seed {SEED}; NumPy {version("numpy")}. Each simulated leaderboard has {COVERAGE[0].n_votes:,} votes,
{TIES:.0%} of them ties; effects have a standard deviation of {EFFECT:g} in natural log-odds. There
are {repeats:,} leaderboards per row in the first table, with {RESAMPLES:,} bootstrap replicates
each, {repeats:,} in those rows of the third that do not name raters, and {fewer:,} in all others.
The truth for each design is the Bradley-Terry fit to an unlimited number of such votes.

**95 % intervals.** Targets: bootstrap and sandwich intervals contain the truth in 93 % to 97 % of
cases; the simultaneous rank intervals contain all true ranks of a leaderboard at once in at least
95 %. The marginal ones, which the leaderboard shows, make no such promise. "Assuming independence"
shows intervals that ignore that votes are dependent. In the last row the prompts are fixed: the
differences between prompts are then not due to chance, but the clusters count them as chance, so
the intervals are wider than necessary and may contain the truth more often.

{coverage}

**People who differ.** Leaderboards of {CROWDS[0].n_votes:,} votes by raters whose taste for each
candidate has a standard deviation of {CROWDS[0].taste:g} (half of it where a newcomer is measured),
on prompts whose effects have one of {CROWDS[0].prompt_effect:g}; {CROWD_RESAMPLES} replicates. The
targets: intervals of scores and of differences contain the truth in {page.COVERS[0]:.0%} to
{page.WIDE:.0%} of cases, and at most {page.REFUSED:.0%} of the leaderboards are refused, because
fewer than 5 effective raters or prompts say nothing about others. "By prompt alone" shows intervals
that ignore that raters differ.

{people}

**Clear number one among equals**, where naming any candidate is an error. Targets, with five or
more candidates: at most 5 % errors, and the simultaneous rank intervals contain all true ranks in
at least 95 %. Six equal candidates are the hardest case for ranks, where the error rate is exactly
the one allowed, so two standard errors of this simulation are tolerated. Where raters differ, the
ranks are reported only: few groups measure the covariance too roughly for a statement about all
ranks at once. Two alone are compared
just once, with errors in 5 % of cases by design: they are reported only.

{leader}

**Tiers** of six candidates, two of each strength, so far apart that a tier ends about once on a
leaderboard if the true covariance of the scores (that of all leaderboards of the row) is known.
Targets: at most 5 % of leaderboards, and of 1,000 at most 64, place a candidate above one that is
equally good or better; with at least {page.MANY_GROUPS} groups of votes, tiers end at least
{page.TIERS:.0%} as often as with the true covariance. Fewer groups measure the covariance too
roughly: the intervals allow for that, at the price of tiers.

{tiered}

**The combined leaderboard.** The judge sees {prediction_powered.PROMPTS} prompts that people saw
too, and as many others. In some rows one candidate ("that candidate") does better on the latter, by
as much in natural log-odds. The level of the test that looks for such prompts was chosen on other
draws than these. Targets: intervals contain the truth in 93 % to 97 % of cases, those of
that candidate in at least 93 %, and none is ever wider than with human votes alone.

{together}

**Conclusive results for two equal candidates**, where calling either one better is an error. They
are checked {LOOKS} times, after every {WATCHED[0].n_votes // LOOKS} votes up to
{WATCHED[0].n_votes:,}, and the team stops at the first check that separates them. Target: at most
5 % of leaderboards, and of 1,000 at most 64: two standard errors of the simulation are tolerated.
In the last rows nine equal candidates are compared with an equal baseline as one family, as the
decision page does it; any of them called different is a false discovery.

{watched}"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the simulations; return 0 if all targets are met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, "all"], default="all")
    parser.add_argument(
        "--seed", type=int, default=SEED, help="another one leaves the page as it is"
    )
    options = parser.parse_args(arguments)
    started = time.monotonic()
    finished = run(TABLES if "all" in options.tables else options.tables, seed=options.seed)
    print(
        spaced(text(finished, REPEATS, FEWER))
        if options.seed == SEED
        else "\n".join(map(str, finished.values()))
    )
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    missed = [row for row in finished.values() if row.missed]
    for row in missed:
        print(f"Missed: {row}", file=sys.stderr)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
