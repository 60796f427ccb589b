"""`python -m benchmarks.statistics PART`: run its contests, write its section of RESULTS.md.

The part `names` has the contests in which all packages get the same names or file, `statistics` all
others. Fails if a target is missed.
"""

import sys
from importlib import import_module
from importlib.metadata import version
from pkgutil import iter_modules
from statistics import median

from benchmarks import results
from benchmarks.results import Line
from benchmarks.statistics import contests, imports
from benchmarks.statistics.contest import Contest, Measured, compete, lines
from benchmarks.statistics.votes import N_CANDIDATES, N_VOTES, TIES

PACKAGES = ("numpy", "scipy", "arena-rank", "evalica", "choix", "jax")
LARGEST_FIT = 100.0  # megabytes above the arrays


IN_NAMES = ("b_names", "h_files")


def main(part: str) -> int:
    """Run the contests of a part; return 0 if all targets are met."""
    measured = {}
    for module in modules(part):
        for contest in import_module(module).CONTESTS:
            print(contest.what, file=sys.stderr, flush=True)
            measured[contest] = compete(module, contest)
    all_lines = [line for contest, rounds in measured.items() for line in lines(contest, rounds)]
    if part == "statistics":
        all_lines += [memory(next(iter(measured.values()))[0]), imports.line()]
    text = section(all_lines, measured)
    results.keep(part, text)
    print(text)
    print(missed := results.missed(all_lines), file=sys.stderr)
    return bool(missed)


def modules(part: str) -> list[str]:
    """The modules of a part's contests, in the order of their names."""
    names = [module.name for module in iter_modules(contests.__path__)]
    chosen = [name for name in names if (name in IN_NAMES) == (part == "names")]
    return [f"{contests.__name__}.{name}" for name in chosen]


def memory(fit: Measured) -> Line:
    """The target for the fit's memory beyond its input arrays."""
    target, value = f"at most {LARGEST_FIT:g} MB", f"{fit.megabytes:.0f} MB"
    what = "One fit from integer arrays: peak memory above the input"
    return Line(what, target, value, fit.megabytes <= LARGEST_FIT)


def section(all_lines: list[Line], measured: dict[Contest, list[Measured]]) -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return "\n".join(
        [
            f"{results.machine()}; {packages}; one thread for linear algebra, JAX with its own"
            f" threads. {N_VOTES:,} votes x {N_CANDIDATES} candidates, {TIES:.0%} ties, popularity"
            " skewed. Our call and theirs take turns in one process, after a first call that is not"
            " counted; short calls are repeated within a turn. Ratios: of the medians (smallest to"
            " largest of a round). Memory is measured by a first call in a fresh process: its peak"
            " resident size above the input, without that of the commands that it starts.",
            "",
            *results.targets(all_lines),
            "",
            "| | | median, s | peak, MB |",
            "|---|---|---:|---:|",
            *(row for item in measured.items() for row in rows(*item)),
        ]
    )


def rows(contest: Contest, measured: list[Measured]) -> list[str]:
    """The raw numbers of a contest; seconds are those of one call, or of 1,000 replicates."""
    scale = contest.ours.unit
    return [
        f"| {contest.what if place == 0 else ''} | {contestant.name}"
        f" | {scale * median(result.seconds):,.4g} | {result.megabytes:,.0f} |"
        for place, (contestant, result) in enumerate(
            zip(contest.contestants, measured, strict=True)
        )
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
