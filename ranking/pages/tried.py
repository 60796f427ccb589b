"""What was tried in an arena: by whom, how often each is drawn, and what is not named yet."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, OuterRef, Subquery, Sum
from django.db.models.functions import Coalesce

from arena.models import Candidate, Pair, Team
from arena.services.disclosure import votes_so_far
from ranking.models import BothBad, Raters, Snapshot, Tally
from ranking.tallies import Cells

NOT_SHOWN = ("system_prompt", "user_template", "parameters", "notes")
AT = "%-d %B %Y, %H:%M UTC"


@dataclass(frozen=True)
class Entry:
    """A candidate, and its part of people's comparisons: of all, of those since it was entered,
    and of those that are drawn now. None where there are none."""

    candidate: Candidate
    ever: float | None
    since: float | None
    now: float | None

    @property
    def undisclosed_until(self) -> str:
        return disclosure_rule(self.candidate)


@dataclass(frozen=True)
class Entrant:
    """A team, or the operators in place of one, with all that it has entered."""

    team: Team | None
    entries: list[Entry]

    @property
    def names(self) -> int:
        """How many different candidates; their versions are `entries`."""
        return len({entry.candidate.name for entry in self.entries})

    @property
    def undisclosed(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.candidate.disclosed_at is None]

    @property
    def retired(self) -> int:
        return sum(entry.candidate.retired_at is not None for entry in self.entries)


def tried(arena: Any, snapshots: Iterable[Snapshot]) -> list[Entrant]:
    """Every team's entries, read in two queries; `snapshots` are the arena's current ones."""
    candidates = list(_candidates(arena, _total_of(snapshots)))
    cells = _peoples_cells(arena)
    seen, all_votes = _seen(cells), int(cells.votes.sum())
    weights = sum(candidate.weight for candidate in candidates) / 2
    entries = [
        Entry(
            candidate,
            _share(seen[candidate.pk], all_votes),
            _share(seen[candidate.pk], all_votes - min(candidate.votes_before, all_votes)),
            _share(candidate.weight, weights),
        )
        for candidate in candidates
    ]
    return _by_team(entries)


def _share(part: float, whole: float) -> float | None:
    return min(part / whole, 1.0) if whole else None


def _by_team(entries: Sequence[Entry]) -> list[Entrant]:
    """Teams by name, the operators' own last; within them by the name that is shown."""
    ordered = sorted(
        entries, key=lambda entry: (str(entry.candidate).casefold(), entry.candidate.pk)
    )
    teams = {entry.candidate.team_id: entry.candidate.team for entry in ordered}
    found = [
        Entrant(team, [entry for entry in ordered if entry.candidate.team_id == pk])
        for pk, team in teams.items()
    ]
    return sorted(found, key=lambda one: (one.team is None, str(one.team or "").casefold()))


# -- Reading ---------------------------------------------------------------------------------------


def _candidates(arena: Any, total: Any) -> Any:
    """With the weight of its pairs, and how many votes there were before it was entered."""
    board = {"board__arena": arena, "board__raters": Raters.PEOPLE, "board__category": ""}
    earlier = Snapshot.objects.filter(**board, published_at__lte=OuterRef("created_at"))
    before = earlier.order_by("-published_at").annotate(total=total).values("total")[:1]
    found = Candidate.objects.revealed().filter(arena=arena).select_related("team")
    return found.defer(*NOT_SHOWN).annotate(
        weight=_weight("low") + _weight("high"),
        votes_before=Coalesce(Subquery(before), 0),
        so_far=votes_so_far(),
    )


def _weight(end: str) -> Coalesce:
    """The weight of the pairs in which a candidate stands at one end, as far as they are drawn."""
    active = Pair.objects.filter(low__retired_at=None, high__retired_at=None)
    drawn = active.filter(**{end: OuterRef("pk")}, shared_prompts__gt=0)
    summed = drawn.order_by().values(end).annotate(sum=Sum("weight")).values("sum")
    return Coalesce(Subquery(summed), 0.0)


def _total_of(snapshots: Iterable[Snapshot]) -> Any:
    """All votes of a snapshot; its own number leaves out “both bad”, unless that is a tie."""
    ties = any(one.settings.get("both_bad") == BothBad.TIE for one in snapshots)
    return F("n_votes") if ties else F("n_votes") + F("n_both_bad")


def _peoples_cells(arena: Any) -> Cells:
    tally = Tally.objects.filter(arena=arena, raters=Raters.PEOPLE, category="").first()
    return Cells.of_bytes(tally.cells) if tally else Cells.none()


def _seen(cells: Cells) -> Mapping[int, int]:
    """How many votes of people each candidate took part in, those that found both bad too."""
    seen: Counter[int] = Counter()
    for end in ("first", "second"):
        for pk, votes in zip(cells.key(end).tolist(), cells.votes.tolist(), strict=True):
            seen[pk] += votes
    return seen


# -- Words -----------------------------------------------------------------------------------------


def disclosure_rule(candidate: Candidate) -> str:
    """What has to come before a candidate is disclosed: votes, a date, or whichever is first."""
    parts = []
    if candidate.private_until_votes is not None:
        so_far = getattr(candidate, "so_far", None)
        told = "" if so_far is None else f" ({so_far:,} so far)"
        parts.append(f"it has {candidate.private_until_votes:,} votes{told}")
    if candidate.private_until is not None:
        parts.append(_moment(candidate.private_until))
    return ", or ".join(parts) + (", whichever is first" if len(parts) > 1 else "")


def _moment(at: datetime) -> str:
    return at.strftime(AT)
