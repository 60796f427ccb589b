"""`python -m benchmarks.simulations [TABLE ...]`: run, write tables, fail if a target is missed."""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

from benchmarks.simulations import claims, draws, experiments, page, prediction_powered
from benchmarks.simulations.boards import (
    CROWD_RESAMPLES,
    RESAMPLES,
    simulate_coverage,
    simulate_crowd,
    simulate_leader,
    simulate_sparse,
    simulate_tiers,
)
from benchmarks.simulations.designs import COVERAGE, CROWDS, EFFECT, LEADERS, SPARSE, TIERED, TIES
from benchmarks.simulations.page import Figures, Row, Targets, spaced
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
PAIRS = 500  # arenas of two candidates
BOARDS = 300  # watched at each look
RUNS = 2000  # of an experiment
DRAWS = 100  # boards whose pairs are drawn by weights that are published again and again
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
    "claims": page.CLAIMS_HEAD,
    "registered": page.REGISTERED_HEAD,
    "gates": page.GATES_HEAD,
    "added": page.ADDED_HEAD,
    "forecasts": page.FORECASTS_HEAD,
    "families": page.FAMILIES_HEAD,
    "watched": page.WATCHED_HEAD,
    "sparse": page.SPARSE_HEAD,
    "draws": page.DRAWS_HEAD,
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
    return [
        *planned,
        *claim_jobs(fewer, seed),
        *gate_jobs(min(repeats, RUNS), seed),
        *watched_jobs(min(fewer, BOARDS), fewer, seed),
        *draw_jobs(min(fewer, DRAWS), seed),
    ]


def claim_jobs(repeats: int, seed: int) -> list[Job]:
    """Those of two candidates."""
    planned = []

    def add(
        table: str,
        simulate: Callable[..., Figures],
        arguments: tuple[Any, ...],
        columns: Sequence[str],
        targets: Targets,
    ) -> None:
        names = (arguments[0].name if isinstance(arguments[0], claims.Pair) else "",)
        if table == "added":
            names = (claims.ADDED[arguments[0]],)
        row = partial(page.targets_row, names, columns, targets)
        n_arenas = repeats if table == "registered" else min(repeats, PAIRS)
        numbers = (n_arenas, seed + 1000 + 10 * len(planned))
        planned.append(Job(table, simulate, (*arguments, *numbers), names, row))

    leads = ("equal", "100 Elo", "200 Elo")
    for pair in (*claims.PEOPLE, *claims.THESE, *claims.JUDGES, *claims.DOCUMENTS, *claims.POWER):
        most = 0.03 if pair.scope is claims.Scope.RATERS else 0.05
        is_claimed = pair.are_grouped
        targets = {"equal": (0.0, most)} if is_claimed else {}
        targets |= {lead: (least, 1.0) for lead, least in claims.POWER.get(pair, {}).items()}
        add("claims", claims.simulate_claims, (pair, claims.LEADS), leads, targets)
    for pair in claims.REGISTERED:
        is_asked = pair.taste == claims.TASTE
        asked = claims.REGISTERED_POWER.get(pair.n_raters, {}) if is_asked else {}
        targets = {"equal": (0.0, 0.065)} | {lead: (least, 1.0) for lead, least in asked.items()}
        add("registered", claims.simulate_registered, (pair, claims.LEADS), leads, targets)
    for more in claims.ADDED:
        columns = ("made", "lost", "made_wide", "lost_wide", "gone")
        targets = {"lost": (0.0, 0.0), "gone": (0.0, 0.0)}
        add("added", claims.simulate_added, (more,), columns, targets)
    for pair in (*claims.FORECASTS, *claims.REPORTED_FORECASTS):
        columns = ("open", "said", "came", "median", "no_votes")
        targets = {"came": (0.4, 0.65)} if pair in claims.FORECASTS else {}
        if pair.n_raters == 6:
            targets["no_votes"] = (0.8, 1.0)
        add("forecasts", claims.simulate_forecast, (pair,), columns, targets)
    return planned


def gate_jobs(repeats: int, seed: int) -> list[Job]:
    """Those of registered runs by judges."""
    sizes = [str(size) for size in experiments.SIZES]
    powers = {f"lost {percent}": least for percent, (_, least) in experiments.LOSERS.items()}
    planned = []
    for place, gate in enumerate(experiments.GATES):
        targets = dict.fromkeys(sizes, (0.0, page.FAILED)) | {"all": (0.0, page.FAILED_IN_ALL)}
        if gate.kind == "verdict":
            targets["margin"] = (0.0, page.FAILED)
        if gate.kind == "verdict" and not gate.ties:
            targets |= {name: (least, 1.0) for name, least in powers.items()}
            targets["apart"] = (0.0, page.APART)
        columns = (*sizes, "all", *powers, "apart", "margin")
        row = partial(page.targets_row, (gate.name,), columns, targets)
        arguments = (gate, repeats, seed + 2000 + place)
        planned.append(Job("gates", experiments.simulate_gate, arguments, (gate.name,), row))
    return planned


def watched_jobs(boards: int, repeats: int, seed: int) -> list[Job]:
    """Those of leaderboards that are looked at often, or have few votes."""
    planned = []
    for place, (equal, apart) in enumerate(FAMILIES):
        targets = {"false": (0.0, page.WRONG_LEADER)}
        row = partial(page.targets_row, (equal.name,), ("false", "found"), targets)
        arguments = (equal, apart, boards, seed + 600 + 2 * place)
        planned.append(Job("families", simulate_family, arguments, (equal.name,), row))
    for place, (equal, apart, least) in enumerate(WATCHED):
        targets = {"false": (0.0, page.WRONG_LEADER), "found": (least, 1.0)}
        row = partial(page.targets_row, (equal.name,), ("false", "found", "ahead"), targets)
        arguments = (equal, apart, boards, seed + 300 + 2 * place)
        planned.append(Job("watched", simulate_watching, arguments, (equal.name,), row))
    for place, design in enumerate(SPARSE):
        targets = {"scores": page.COVERS, "first": page.ENDS, "last": page.ENDS}
        columns = ("scores", "first", "last", "shown")
        row = partial(page.targets_row, (design.name,), columns, targets)
        arguments = (design, repeats, seed + 800 + place)
        planned.append(Job("sparse", simulate_sparse, arguments, (design.name,), row))
    return planned


def draw_jobs(repeats: int, seed: int) -> list[Job]:
    """Those of what raters are shown."""
    columns = (
        *("candidate", "pair", "top", "settled", "first", "widths", "coverage", "least", "wrong"),
        "newcomer",
    )
    planned = []
    for place, (design, asked) in enumerate(draws.DRAWN.items()):
        row = partial(page.targets_row, (design.name,), columns, draws.TARGETS | asked)
        arguments = (design, repeats, seed + 900 + place)
        planned.append(Job("draws", draws.simulate_draw, arguments, (design.name,), row))
    names = ("a newcomer to the first one",)
    row = partial(page.targets_row, names, columns, {"newcomer": (0.0, 1.5)})
    arguments = (next(iter(draws.DRAWN)), repeats, seed + 950)
    return [*planned, Job("draws", draws.simulate_newcomer, arguments, names, row)]


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
    """The tables, with the explanations needed to read them; other rows stay as stored."""
    known = {(job.table, job.names): str(row) for job, row in finished.items()}
    rows: dict[str, list[str]] = {name: [] for name in TABLES}
    for job in jobs(repeats, fewer):
        row = known.get((job.table, job.names)) or page.stored(TABLES[job.table], job.names)
        rows[job.table] += [row] if row else []
    tables = {name: page.table(head, rows[name]) for name, head in TABLES.items()}
    coverage, people, leader, tiered, together, *others = tables.values()
    called, registered, gates, added, forecasts, families, watched, few, shown = others
    return f"""\
Commit {commit()}, seed {SEED}; NumPy {version("numpy")}. Leaderboards of {COVERAGE[0].n_votes:,}
votes, {TIES:.0%} of them ties; effects have a standard deviation of {EFFECT:g} in natural log-odds.
Rows of the first table are {repeats:,} leaderboards with {RESAMPLES:,} bootstrap replicates each,
rows of the third without raters {repeats:,}, others {fewer:,} where nothing else is said. The truth
is the fit to an unlimited number of such votes.

**95 % intervals.** Targets: 93 % to 97 % contain the truth; the simultaneous rank intervals, which
leaderboards show, contain all true ranks at once in at least 95 %. "Assuming independence" ignores
that votes are dependent. In the last row prompts are fixed but count as chance: intervals are wider
than necessary.

{coverage}

**People who differ.** {CROWDS[0].n_votes:,} votes; raters' tastes have a standard deviation of
{CROWDS[0].taste:g} (half of it where a newcomer is measured), prompts' effects one of
{CROWDS[0].prompt_effect:g}; {CROWD_RESAMPLES} replicates. Targets: {page.COVERS[0]:.0%} to
{page.WIDE:.0%} contain the truth; at most {page.REFUSED:.0%} of the leaderboards are refused, for
fewer than 5 effective raters or prompts. "By prompt alone" ignores that raters differ.

{people}

**Clear number one among equals**: naming anybody is an error. Targets, with five or more
candidates: at most 5 % errors; all true ranks covered in at least 95 %, less two standard errors of
the simulation. Only reported: ranks where raters differ, as few groups measure the covariance too
roughly, and two candidates alone, who are compared once and err in 5 % of cases by design.

{leader}

**Tiers** of six candidates, two of each strength; with the true covariance (that of all
leaderboards of the row), about two tiers end per leaderboard. Targets: a tier begins with a
candidate that is as good as the first of the tier above, or better, on at most 5 % of leaderboards
(64 of 1,000: two standard errors are tolerated); with at least {page.MANY_GROUPS} groups of votes,
tiers end at least {page.TIERS:.0%} as often as with the true covariance.

{tiered}

**The combined leaderboard.** The judge sees {prediction_powered.PROMPTS} prompts that people saw
too, and as many others, on which in some rows "that candidate" does better (in natural log-odds).
Targets: 93 % to 97 % of intervals contain the truth, at least 93 % of that candidate's, and none is
wider than with human votes alone. The test for such prompts was tuned on other draws.

{together}

**Claims about two candidates.** One looks {LOOKS} times while an arena grows to 1,000 votes (where
no other number stands); rows are {PAIRS} arenas for each lead, in this table and in those on added
votes and forecasts. {TIES:.0%} of the votes are ties; prompts' effects on each candidate have a
standard deviation of {claims.PROMPT_EFFECT:g}, raters' tastes one of {claims.TASTE:g} or as named.
Targets: two equal candidates are called different, at any look, in at most 3 % where the claim is
about raters like these, in at most 5 % where it is about a judge or these raters (who, taken
together, find both alike). Where documents are not known, nothing is promised. Beside it stands
how often a lead is found; in the last rows, at least as often as was asked for.

{called}

**Registered runs by people** look five times at a number of votes that was fixed before (300 where
no other number stands). Target: at most 6.5 % errors, which leaves room for chance.

{registered}

**Registered runs by judges** that test a draft for "worse" alone, with five looks and stops for
futility, {RUNS:,} runs a cell. Targets: a draft that is as good as the baseline fails in at most
6 % of each cell and 5.2 % of each row; one that loses 60 (70) of 100 prompts, without ties, fails
in at least 60 % (84 %) of runs of 100 (50), within 3 points of the stated power; one that wins
45 %, which is the margin, is found no worse in at most 6 %. Where there are ties, runs are
longer, so that as many prompts are decided on average; the power is then only reported, as the
number of tosses at each look is by chance.

{gates}

**Votes for B that are added** to arenas of 3 to 20 raters and 60 to 600 votes, in which B is 200
Elo ahead. Targets: none takes back a claim for B about these raters, and none takes back what was
decided for a team and kept.

{added}

**Forecasts.** Leads have a standard deviation of {claims.SPREAD:g} Elo. Targets: of the arenas that
are not decided, 40 % to 65 % are once exactly as many prompts, raters or votes as were said to be
missing have come; of six raters, four fifths are told that their own votes settle nothing. The last
two rows are only reported.

{forecasts}

**Several candidates against one baseline**, looked at {LOOKS} times. Target: at most 5 % errors.

{families}

**Clear leaders at any of {LOOKS} looks**, on {BOARDS} leaderboards each. Targets: one is named
among equals on at most 5 %; of two candidates by a judge that are 100 Elo apart the better one is
found on 95 %, with 20 raters on 55 %, of six by a judge on 80 %.

{watched}

**Few votes.** Targets: 93 % to 97 % of intervals contain the truth, and at least 92 % of the first
and of the last candidate's.

{few}

**The draw**, on {DRAWS} leaderboards each of 2,100 votes by 40 raters on 40 prompts, whose tastes
and effects have a standard deviation of 0.3, and in {draws.SESSIONS} sessions of {draws.SESSION}
pairs after each. Targets: in 99 % of sessions no candidate is in more than 50 % of the pairs, and
the most frequent pair is on average 15 % of them at most; at least 40 % of the pairs are among the
best four of eight, and at most 45 % (32 % of 20 candidates) are of candidates whose order is
settled. Beside what the same number of votes on uniformly drawn pairs gives, the standard error of
first against second is at most 90 % (85 %), and those of all scores are at most 106 %; 93 % to
98.5 % of the intervals contain the truth, of each of the best five at least 92 %; a wrong clear
leader is named on at most 2 %. After {draws.NEWCOMER_VOTES} votes, a newcomer’s standard error is
at most 1.5 times the median one.

{shown}"""


def commit() -> str:
    """Of the code that runs, abbreviated."""
    found = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True
    )
    return found.stdout.strip()


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
