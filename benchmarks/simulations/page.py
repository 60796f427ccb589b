"""The tables of the simulations, their targets, and their part of the reference of statistics."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "statistics.md"
BEGIN = "<!-- written by `make simulate`: begin -->"
END = "<!-- written by `make simulate`: end -->"
COVERS = (0.93, 0.97)
ENDS = (0.92, 1.0)  # the first and the last candidate
WIDE = 0.98  # people: what the second grouping adds is never below 0
REFUSED = 0.05
ALL_RANKS = 0.95
WRONG_LEADER = 0.05
TIERS = 0.8
MANY_GROUPS = 40
FAILED, FAILED_IN_ALL = 0.06, 0.052  # 5 %, and two standard errors of 2,000 runs, or of 8,000
APART = 0.03
WRONG_RESULT = 0.064  # 5 %, and two standard errors of 1,000 leaderboards
Figures = dict[str, float]


@dataclass(frozen=True)
class Row:
    """One design: its name, its results, and the names of the targets it missed."""

    cells: tuple[str, ...]
    missed: tuple[str, ...] = ()

    def __str__(self) -> str:
        verdict = f"NO: {', '.join(self.missed)}" if self.missed else "yes"
        return f"| {' | '.join(self.cells)} | {verdict} |"


def table(head: str, rows: list[str]) -> str:
    """Markdown; the last column says whether the targets are met."""
    titles = [*head.split(" | "), "met"]
    return "\n".join([f"| {' | '.join(titles)} |", "|---" * len(titles) + "|", *rows])


COVERAGE_HEAD = (
    "votes | bootstrap (worst candidate) | sandwich (worst candidate) | assuming independence |"
    " all true ranks covered, simultaneous | all true ranks covered, marginal"
)


def coverage_row(name: str, figures: Figures, *, cautious: bool) -> Row:
    """Targets: coverage by both methods and by the simultaneous ranks.

    `cautious` intervals are wider than necessary and may cover more often.
    """
    most = 1.0 if cautious else COVERS[1]
    missed = [way for way in ("bootstrap", "sandwich") if not COVERS[0] <= figures[way] <= most]
    if figures["simultaneous"] < ALL_RANKS:
        missed.append("ranks")
    methods = [
        f"{_percent(figures[way])} ({_percent(figures[f'least_{way}'])})"
        for way in ("bootstrap", "sandwich")
    ]
    others = [_percent(figures[key]) for key in ("independent", "simultaneous", "marginal")]
    return Row((name, *methods, *others), tuple(missed))


CROWD_HEAD = (
    "votes by people | scores (worst candidate) | differences (worst pair) |"
    " by prompt alone | refused"
)


def crowd_row(name: str, figures: Figures) -> Row:
    """Targets: coverage of scores and differences, and few boards refused."""
    ways = ("bootstrap", "difference")
    missed = [way for way in ways if not COVERS[0] <= figures[way] <= WIDE]
    if figures["refused"] > REFUSED:
        missed.append("refused")
    cells = [f"{_percent(figures[way])} ({_percent(figures[f'least_{way}'])})" for way in ways]
    return Row(
        (name, *cells, _percent(figures["by_prompt"]), _percent(figures["refused"])), tuple(missed)
    )


LEADER_HEAD = (
    "equal candidates | clear number one named | number one by marginal ranks |"
    " all true ranks covered, simultaneous"
)


def leader_row(
    name: str, figures: Figures, *, repeats: int, claimed: bool, ranks: bool = True
) -> Row:
    """Targets, if `claimed`: few leaders named in error, and (`ranks`) all true ranks covered.

    Among equals the ranks err exactly at the allowed rate, so about half of all simulations would
    show slightly more: two standard errors of the simulation are tolerated.
    """
    cells = [_percent(figures[key]) for key in ("wrong", "marginal", "simultaneous")]
    allowed = 2 * math.sqrt(ALL_RANKS * (1 - ALL_RANKS) / repeats)
    missed = []
    if claimed and figures["wrong"] > WRONG_LEADER:
        missed.append("number one")
    if claimed and ranks and figures["simultaneous"] < ALL_RANKS - allowed:
        missed.append("ranks")
    return Row((name, *cells), tuple(missed))


TIERS_HEAD = (
    "six candidates | tiers end, per leaderboard | with the true covariance | share |"
    " leaderboards with a false statement"
)


def tiers_row(name: str, figures: Figures, *, n_groups: int) -> Row:
    """Targets: few false statements, and, from `MANY_GROUPS` groups of votes on, most of the tiers
    that the true covariance would draw."""
    missed = ["share"] if n_groups >= MANY_GROUPS and figures["share"] < TIERS else []
    if figures["wrong"] > WRONG_RESULT:
        missed.append("statements")
    counts = [f"{figures[key]:.2f}" for key in ("drawn", "known")]
    return Row(
        (name, *counts, _percent(figures["share"]), _percent(figures["wrong"])), tuple(missed)
    )


CLAIMS_HEAD = "claim about | called better at some look, equal | 100 Elo apart | 200 Elo apart"
REGISTERED_HEAD = "votes by people | called better, equal | 100 Elo apart | 200 Elo apart"
GATES_HEAD = (
    "scores | equals fail, 20 prompts | 50 | 100 | 200 | all sizes | fails, loses 60 % of 100 |"
    " fails, loses 70 % of 50 | off the stated power by at most | at the margin, no worse"
)
ADDED_HEAD = (
    "added for B | claims about these raters | of them lost if nothing is kept |"
    " claims about raters like these | of them lost if nothing is kept | lost, as kept"
)
FORECASTS_HEAD = (
    "undecided after | undecided | with a forecast | decided after exactly as many | median |"
    " no number of votes by these raters settles it"
)
FAMILIES_HEAD = (
    "ten candidates | any called better or worse, all equal | one 200 Elo ahead is found"
)
WATCHED_HEAD = (
    "candidates | clear leader among equals, at any look | found, 100 Elo ahead, at any look |"
    " ahead for now, at the last one"
)
SPARSE_HEAD = (
    "leaderboard | scores | first candidate | last candidate | candidates with an interval"
)
DRAWS_HEAD = (
    "leaderboard | most frequent candidate of a session | most frequent pair |"
    " pairs among the best four | pairs in settled order | error of first against second |"
    " errors of all scores | coverage | worst of the best five | wrong clear leader |"
    " newcomer’s error"
)
COUNTS = ("made", "made_wide", "median")  # that are no shares
Targets = Mapping[str, tuple[float, float]]


def targets_row(
    names: tuple[str, ...], columns: Sequence[str], targets: Targets, figures: Figures
) -> Row:
    """These figures; the targets are the least and the most of each."""
    cells = [
        "-"
        if math.isnan(figures.get(key, math.nan))
        else f"{figures[key]:,.0f}"
        if key in COUNTS
        else _percent(figures[key])
        for key in columns
    ]
    missed = [key for key, (least, most) in targets.items() if not least <= figures[key] <= most]
    return Row((*names, *cells), tuple(missed))


JUDGES = {
    "good": "good: sees what people see",
    "abstains": "good, but abstains on close pairs",
    "prefers_longer": "biased towards the longer answer",
    "prefers_left": "biased towards the left side",
    "prefers_one": "biased towards one candidate",
    "useless": "useless: random verdicts",
}
DESIGNS = {
    "votes": "independent",
    "prompts": "prompt effects, 60 prompts",
    "weighted": "weighted by the draw probabilities",
    "shifted": "the judge’s own prompts shifted by 0.5 in one candidate",
    "far": "the judge’s own prompts shifted by 1.0 in one candidate",
    "strata": "half of the judge’s own prompts of another category, shifted by 1.0",
}
COMBINED_HEAD = (
    "judge | human votes | coverage, combined | of that candidate | coverage, human votes only |"
    " width, combined / human votes only | largest in one repeat | any interval wider |"
    " that candidate left out | mean weight of the judge, lambda"
)


def combined_row(judge: str, design: str, figures: Figures) -> Row:
    """Targets: coverage by the combined intervals, of all candidates and of the one that may be
    shifted, and no interval wider than with human votes alone."""
    missed = [] if COVERS[0] <= figures["coverage"] <= COVERS[1] else ["coverage"]
    if figures["shifted"] < COVERS[0]:
        missed.append("coverage of that candidate")
    if figures["wider"]:
        missed.append("width")
    shares = [_percent(figures[key]) for key in ("coverage", "shifted", "people_coverage")]
    ratios = [f"{figures[key]:.3f}" for key in ("width_ratio", "widest_ratio")]
    others = (
        _percent(figures["wider"]),
        _percent(figures["left_out"]),
        f"{figures['mean_lambda']:.3f}",
    )
    return Row((JUDGES[judge], DESIGNS[design], *shares, *ratios, *others), tuple(missed))


def stored(head: str, names: tuple[str, ...], page: Path | None = None) -> str:
    """A row of an earlier run, of the table with this head; empty if there is none."""
    rows = (
        (page or PAGE).read_text().partition(f"\n| {head} |")[2].partition("\n\n")[0].splitlines()
    )
    return next((row for row in rows if row.startswith(f"| {' | '.join(names)} | ")), "")


def keep(text: str, page: Path | None = None) -> None:
    """Write the text between the page's two markers. Raises ValueError if they are missing."""
    page = page or PAGE
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} must hold the lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{spaced(text.strip())}\n\n{END}{after}")


def _percent(share: float) -> str:
    return f"{share:.1%}"


def spaced(text: str) -> str:
    """With a space before each percent sign, as on all pages."""
    return re.sub(r"(?<=\d)%", " %", text)
