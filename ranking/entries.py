"""The log of entries: who entered which candidates, and how often each is shown."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import (
    Case,
    ExpressionWrapper,
    F,
    FloatField,
    Func,
    IntegerField,
    OuterRef,
    Q,
    Subquery,
    When,
)
from django.db.models.functions import Coalesce

from arena.models import Candidate, Pair, Team
from arena.services.candidates import votes_so_far
from arena.services.pairs import PARTS
from arena.validation import percent
from ranking.models import BothBad, Raters, Snapshot, SnapshotMatrices
from ranking.votes import PairCounts

DATE_FORMAT = "%-d %B %Y, %H:%M UTC"
PURPOSES = {"first": "first place", "order": "undecided pairs", "newcomers": "newcomers"}
LEAST_SHOWN = 0.005  # of all new pairs


def _total(part: str) -> Coalesce:
    """The sum of this part of the weights of all drawn pairs with the candidate."""
    drawn = Pair.objects.filter(
        Q(low=OuterRef("pk")) | Q(high=OuterRef("pk")),
        low__retired_at=None,
        high__retired_at=None,
        shared_prompts__gt=0,
    )
    # Not Sum(), which would group by pairs.
    total = drawn.annotate(total=Func(part, function="SUM", output_field=FloatField()))
    return Coalesce(Subquery(total.values("total")), 0.0)


def _votes_before() -> Coalesce:
    """How many votes people had cast when a candidate was entered."""
    board = {"board__raters": Raters.PEOPLE, "board__category": ""}
    earlier = Snapshot.objects.filter(
        **board, board__arena=OuterRef("arena"), published_at__lte=OuterRef("created_at")
    ).exclude(digest="")  # computed afterwards: candidates that were imported had these votes
    # A snapshot's own number of votes leaves out "both bad", unless that is a tie.
    separate = Case(
        When(settings__both_bad=BothBad.TIE.value, then=0),
        default=F("n_both_bad"),
        output_field=IntegerField(),
    )
    before = earlier.order_by("-published_at").annotate(
        total=ExpressionWrapper(F("n_votes") + separate, IntegerField())
    )
    return Coalesce(Subquery(before.values("total")[:1]), 0)


# What `list_entrants` reads from candidates and snapshots (people's votes per pair).
CANDIDATE_COLUMNS = {
    **{part: _total(part) for part in ("weight", *PARTS)},
    "votes_before": _votes_before(),
    "so_far": votes_so_far(),
}
SNAPSHOT_COLUMNS = {
    "cells": Subquery(
        SnapshotMatrices.objects.filter(
            snapshot=OuterRef("pk"),
            snapshot__board__raters=Raters.PEOPLE,
            snapshot__board__category="",
        ).values("cells")
    )
}


@dataclass(frozen=True)
class CandidateEntry:
    """A candidate, and its share of human comparisons: of all, of those since it was entered, and
    of those drawn now, with what they are for. None if there are none."""

    candidate: Candidate
    ever: float | None
    since: float | None
    now: float | None
    purposes: str

    @property
    def undisclosed_until(self) -> str:
        return disclosure_rule(self.candidate)


@dataclass(frozen=True)
class Entrant:
    """A team, or None for the site's administrators, with all candidates that it has entered."""

    team: Team | None
    entries: list[CandidateEntry]

    @property
    def names(self) -> int:
        """The number of different candidates; each version of a candidate is an entry."""
        return len({entry.candidate.name for entry in self.entries})

    @property
    def undisclosed(self) -> list[CandidateEntry]:
        return [entry for entry in self.entries if entry.candidate.disclosed_at is None]

    @property
    def retired(self) -> int:
        return sum(entry.candidate.retired_at is not None for entry in self.entries)


def list_entrants(candidates: Sequence[Any], snapshots: Iterable[Any]) -> list[Entrant]:
    """Every team's entries, by the team's name, the administrators' own last.

    The candidates must have `CANDIDATE_COLUMNS`, the arena's current snapshots `SNAPSHOT_COLUMNS`.
    """
    cells = next((snapshot.cells for snapshot in snapshots if snapshot.cells), None)
    counts = PairCounts.of_bytes(cells) if cells else PairCounts.none()
    votes: Counter[int] = Counter()  # "both bad" included
    for end in (counts.first, counts.second):
        for pk, n in zip(end.tolist(), counts.votes.tolist(), strict=True):
            votes[pk] += n
    all_votes = int(counts.votes.sum())
    weights = sum(candidate.weight for candidate in candidates) / 2
    entries = [
        CandidateEntry(
            candidate,
            _share(votes[candidate.pk], all_votes),
            _share(votes[candidate.pk], all_votes - min(candidate.votes_before, all_votes)),
            _share(candidate.weight, weights),
            _purposes(candidate, weights),
        )
        for candidate in candidates
    ]
    ordered = sorted(
        entries, key=lambda entry: (str(entry.candidate).casefold(), entry.candidate.pk)
    )
    teams = {entry.candidate.team_id: entry.candidate.team for entry in ordered}
    entrants = [
        Entrant(team, [entry for entry in ordered if entry.candidate.team_id == pk])
        for pk, team in teams.items()
    ]
    return sorted(entrants, key=lambda row: (row.team is None, str(row.team or "").casefold()))


def _share(part: float, whole: float) -> float | None:
    return min(part / whole, 1.0) if whole else None


def _purposes(candidate: Any, weights: float) -> str:
    """What the current rate is for: "9% first place, 5% even share"; '' if there is none."""
    parts = {name: getattr(candidate, name) for name in PURPOSES}
    named = [(parts[name], words) for name, words in PURPOSES.items()]
    named.append((candidate.weight - sum(parts.values()), "even share"))
    shares = [(_share(part, weights) or 0.0, words) for part, words in named]
    return ", ".join(f"{percent(share)} {words}" for share, words in shares if share >= LEAST_SHOWN)


def disclosure_rule(candidate: Candidate) -> str:
    """When a candidate is disclosed: after a number of votes, at a date, or whichever is first."""
    parts = []
    if candidate.private_until_votes is not None:
        so_far = getattr(candidate, "so_far", None)
        progress = "" if so_far is None else f" ({so_far:,} so far)"
        parts.append(f"it has {candidate.private_until_votes:,} votes{progress}")
    if candidate.private_until is not None:
        parts.append(candidate.private_until.strftime(DATE_FORMAT))
    return ", or ".join(parts) + (", whichever is first" if len(parts) > 1 else "")
