"""Two candidates of a board, for whoever has to decide between them: how far apart, how sure."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from ranking.models import Snapshot, SnapshotMatrices, Standing
from ranking.pages.findings import Findings
from ranking.pages.head_to_head import clusters_between, difference_between, record_between
from ranking.pages.published import Pairs, pairs_of
from ranking.pages.reading import Question, choose_snapshot
from ranking.stats import Difference, Lead, ShutOut, Watched
from ranking.stats.differences import MOST_VOTES

NOT_THERE = "It is not on this board yet."
COUNTING = "Who met whom is being counted; load the page again in a minute."
NOTHING_WATCHED = frozenset({Lead.FEW_CLUSTERS, Lead.NO_VARIATION, Lead.NOT_COMPARABLE})


class Blamed(StrEnum):
    """Whose fault it is that two cannot be compared."""

    NOBODY = ""
    CANDIDATE = "candidate"
    BASELINE = "baseline"


@dataclass(frozen=True)
class StyleGap:
    """The difference among answers of one style, in Elo. `low` to `high` is at most so wide: it
    takes the two intervals at their worst, since how they move together is not kept."""

    elo: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Gap:
    """How far a candidate is ahead of a baseline on one board; None is what is not known.

    Attributes
    ----------
    lead : what the 95 % interval says; where there is none, `reason` says why, of who is `blamed`
    is_known : whether the lead is known, however often somebody has looked
    elo, low, high : the difference, in Elo
    wins, wins_low, wins_high : how often the candidate is preferred, from 0 to 1
    chance : the probability that it is the better one, from 0 to 1
    votes, between : that count, of the candidate on the board, and between the two
    both_bad : votes between the two that found both answers bad, and do not count
    votes_to_go : how many more between the two until it is known, at this difference; MOST_VOTES
        for as many or more
    groups_to_go : in how many more groups (on prompts, where they go by prompt) at least
    n_groups : the groups that hold the votes of the one that has fewer; None where it is not told
    is_shut_out : whether one has won every vote between them: it has no score, and no interval
    style : the difference in style-controlled scores, where the board has them
    """

    lead: Lead
    is_known: bool = False
    elo: float | None = None
    low: float | None = None
    high: float | None = None
    wins: float | None = None
    wins_low: float | None = None
    wins_high: float | None = None
    chance: float | None = None
    votes: int = 0
    between: int = 0
    both_bad: int = 0
    votes_to_go: int | None = None
    groups_to_go: int = 0
    n_groups: int | None = None
    is_shut_out: bool = False
    reason: str = ""
    blamed: Blamed = Blamed.NOBODY
    style: StyleGap | None = None


@dataclass(frozen=True)
class GapBoard:
    """A board's current snapshot with what gaps are made from; `pairs` is None while it is made."""

    snapshot: Snapshot
    standings: Mapping[int, Standing]
    pairs: Pairs | None

    @property
    def raters(self) -> str:
        return self.snapshot.board.raters

    @property
    def category(self) -> str:
        return self.snapshot.board.category

    @cached_property
    def findings(self) -> Findings:
        return Findings.of(self.snapshot)

    def gap(self, candidate: int, baseline: int, *, forecast: bool = True) -> Gap:
        """Compare the candidates with these two different ids; `forecast` the votes to go."""
        if found := self._not_compared(candidate, baseline):
            counted, both_bad = self._between(candidate, baseline)
            votes = self.votes(candidate)
            return replace(found, votes=votes, between=counted, both_bad=both_bad)
        assert self.pairs is not None, "or they would not be compared"
        return self._compared(self.pairs, candidate, baseline, forecast)

    def _not_compared(self, candidate: int, baseline: int) -> Gap | None:
        """What is left to say where one has no score; None where both have one."""
        for pk, blamed in ((candidate, Blamed.CANDIDATE), (baseline, Blamed.BASELINE)):
            if why := self._why_unscored(pk):
                apart = Gap(Lead.NOT_COMPARABLE, reason=why, blamed=blamed)
                return self._shut_out(candidate, baseline) or apart
        return Gap(Lead.NOT_COMPARABLE, reason=COUNTING) if self.pairs is None else None

    def _shut_out(self, candidate: int, baseline: int) -> Gap | None:
        """Where one has won every vote between the two, and at least one; else None."""
        prompts = self._prompts_met.get((min(candidate, baseline), max(candidate, baseline)))
        if prompts is None or self.pairs is None:
            return None
        found = ShutOut(prompts, self.snapshot.settings["confidence"])
        won = self._record(candidate, baseline)[0] > 0
        beyond = Lead.AHEAD if won else Lead.BEHIND
        return Gap(
            beyond if found.is_beyond_chance else Lead.OPEN,
            found.is_known,
            wins=1.0 if won else 0.0,
            chance=found.chance if won else 1 - found.chance,
            votes_to_go=found.prompts_to_go,
            groups_to_go=found.prompts_to_go,
            is_shut_out=True,
        )

    @cached_property
    def _prompts_met(self) -> dict[tuple[int, int], int]:
        """Of every two of whom one has won all votes between them and one has no score."""
        found = self.snapshot.settings.get("prompts_met", [])
        return {(low, high): prompts for low, high, prompts in found}

    def _compared(self, pairs: Pairs, candidate: int, baseline: int, forecast: bool) -> Gap:
        i, j = np.searchsorted(pairs.candidates, [candidate, baseline]).tolist()
        difference = difference_between(pairs, self.snapshot, i, j)
        naive = _independent(pairs, i, j)
        watched = self._watched(difference, naive, clusters_between(pairs, self.snapshot, i, j))
        counted, both_bad = self._between(candidate, baseline)
        is_known = watched is not None and watched.is_known and difference.lead is not Lead.OPEN
        return Gap(
            difference.lead,
            is_known,
            **_numbers(difference),
            chance=watched.chance_ahead if watched else None,
            votes=self.votes(candidate),
            between=counted,
            both_bad=both_bad,
            votes_to_go=_votes_to_go(watched, naive) if watched and forecast else None,
            groups_to_go=watched.clusters_to_go if watched else 0,
            n_groups=watched.n_clusters if watched else None,
            reason=difference.lead.reason if difference.lead in NOTHING_WATCHED else "",
            style=self._style(candidate, baseline),
        )

    def _watched(
        self, difference: Difference, naive: float, n_clusters: int | None
    ) -> Watched | None:
        """The difference in natural log-odds; None where its error is not known."""
        if difference.lead in NOTHING_WATCHED:
            return None
        settings = self.snapshot.settings
        natural = math.log(10) / settings["scale"]
        return Watched.measured(
            difference.elo * natural,
            difference.standard_error * natural,
            naive,
            n_clusters,
            settings["confidence"],
        )

    def votes(self, pk: int) -> int:
        """The candidate's votes that count."""
        standing = self.standings.get(pk)
        return standing.votes if standing else 0

    def between(self, candidate: int, baseline: int) -> int:
        """The votes between the two that count."""
        return self._between(candidate, baseline)[0]

    def _record(self, candidate: int, baseline: int) -> tuple[int, int, int, int]:
        return record_between(self.pairs, candidate, baseline) if self.pairs else (0, 0, 0, 0)

    def _between(self, candidate: int, baseline: int) -> tuple[int, int]:
        """The votes between the two that count, and those that found both bad."""
        *counted, both_bad = self._record(candidate, baseline)
        if self.pairs and self.pairs.both_bad_is_tie:
            return sum(counted) + both_bad, 0
        return sum(counted), both_bad

    def _why_unscored(self, pk: int) -> str:
        standing = self.standings.get(pk)
        if standing is None:
            return NOT_THERE
        return standing.reason if standing.score is None else ""

    def _style(self, candidate: int, baseline: int) -> StyleGap | None:
        scores = self.findings.style_scores
        a, b = scores.get(candidate), scores.get(baseline)
        if a is None or b is None or a.score is None or b.score is None:
            return None
        if a.low is None or a.high is None or b.low is None or b.high is None:
            return StyleGap(a.score - b.score, None, None)
        return StyleGap(a.score - b.score, a.low - b.high, a.high - b.low)


def _numbers(difference: Difference) -> dict[str, Any]:
    named = {
        "elo": difference.elo,
        "low": difference.low,
        "high": difference.high,
        "wins": difference.probability,
        "wins_low": difference.probability_low,
        "wins_high": difference.probability_high,
    }
    return {name: None if math.isnan(value) else value for name, value in named.items()}


def _independent(pairs: Pairs, i: int, j: int) -> float:
    """The variance of the difference, votes taken as independent; 0 where it is not known."""
    two = pairs.independent[np.ix_([i, j], [i, j])]
    variance = float(two[0, 0] + two[1, 1] - 2 * two[0, 1])
    return variance if math.isfinite(variance) and variance > 0 else 0.0


def _votes_to_go(watched: Watched, naive: float) -> int | None:
    """None where the votes, taken as independent, have no variance to speak of."""
    if not naive:
        return None
    votes = watched.votes_to_go(naive)
    return MOST_VOTES if votes is None else votes


# -- Reading ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GapBoards:
    """The board that is asked about, None before the first, and all of the same raters, that of
    all prompts first; `snapshots` are all current ones of the arena."""

    asked: Question
    chosen: GapBoard | None
    boards: list[GapBoard]
    snapshots: list[Snapshot]


def read_gap_boards(arena: Any, asked: Question, again: bool = True) -> GapBoards:
    """Read in three queries. A category that nobody has voted in is taken as all prompts.

    A refresh may replace a snapshot before its rows are read: then it reads `again`, once.
    """
    snapshots = list(Snapshot.objects.current().of_arena(arena))
    chosen = choose_snapshot(snapshots, asked) or choose_snapshot(snapshots, Question(asked.raters))
    if chosen is None:
        return GapBoards(asked, None, [], snapshots)
    mine = [one for one in snapshots if one.board.raters == chosen.board.raters]
    boards = with_rows(mine)
    if again and not all(board.standings for board in boards.values()):
        return read_gap_boards(arena, asked, again=False)
    asked = Question(chosen.board.raters, chosen.board.category)
    return GapBoards(asked, boards[chosen.pk], list(boards.values()), snapshots)


def with_rows(snapshots: Iterable[Snapshot]) -> dict[int, GapBoard]:
    """Boards by the ids of their snapshots, in that order; two queries."""
    wanted = {snapshot.pk: snapshot for snapshot in snapshots}
    standings: dict[int, dict[int, Standing]] = {pk: {} for pk in wanted}
    for standing in Standing.objects.filter(snapshot__in=wanted):
        standings[standing.snapshot_id][standing.candidate_id] = standing
    found = SnapshotMatrices.objects.filter(snapshot__in=wanted)
    matrices = {one.snapshot_id: one for one in found}
    return {
        pk: GapBoard(snapshot, standings[pk], _pairs(snapshot, standings[pk], matrices.get(pk)))
        for pk, snapshot in wanted.items()
    }


def _pairs(
    snapshot: Snapshot, standings: Mapping[int, Standing], matrices: SnapshotMatrices | None
) -> Pairs | None:
    return pairs_of(snapshot, standings.values(), matrices) if matrices and standings else None
