"""Two candidates of a board: how far apart, how sure, from what, and the votes they share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import Http404

from arena.models import Candidate
from ranking.models import Snapshot, Standing
from ranking.pages import record
from ranking.pages.head_to_head import HeadToHead, head_to_head
from ranking.pages.published import (
    Published,
    category_links,
    comparisons_url,
    page_links,
    raters_links,
    read_pairs,
)
from ranking.pages.record import Filters
from ranking.stats import Difference, Lead

LARGEST_ID = 2**63 - 1


@dataclass(frozen=True)
class Pick:
    """The two ids that the address names; None where it names none."""

    a: int | None
    b: int | None

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> "Pick":
        """Raises Http404 for what is no id."""
        return cls(_id(parameters.get("a", "")), _id(parameters.get("b", "")))


def _id(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > LARGEST_ID:
        raise Http404("There is no such candidate.")
    return int(text)


@dataclass(frozen=True)
class Side:
    """One of the two, and its row on the board, where it has one."""

    candidate: Candidate
    standing: Standing | None
    url: str

    @property
    def why(self) -> str:
        """Why it has no score; empty where it has one."""
        if self.standing is None:
            return "It is not on this board yet."
        return self.standing.reason if self.standing.score is None else ""


def compare_context(board: Published, pick: Pick, page: str) -> dict[str, Any]:
    """Everything that `ranking/compare.html` prints. Raises Http404 for unknown candidates."""
    sides = [_side(board, pk) for pk in (pick.a, pick.b) if pk is not None]
    kept = {"a": str(pick.a or ""), "b": str(pick.b or "")}
    context = {
        "arena": board.arena,
        "board": board,
        "snapshot": board.snapshot,
        "a_chosen": pick.a or _next(board, pick.b),
        "b_chosen": pick.b or _next(board, pick.a or _next(board, None)),
        "same": len(sides) == 2 and pick.a == pick.b,
        "page_links": page_links(board, "compare"),
        "raters_links": raters_links(board, "compare", **kept),
        "category_links": category_links(board, "compare", **kept),
    }
    if len(sides) < 2 or pick.a == pick.b or board.snapshot is None:
        return context
    return context | _compared(board, board.snapshot, sides) | _listed(board, sides, page)


def _side(board: Published, pk: int) -> Side:
    """A candidate of the arena, on the board or not; it costs a query where it is not."""
    url = comparisons_url(board, pk)
    for standing in board.standings:
        if standing.candidate_id == pk:
            return Side(standing.candidate, standing, url)
    found = Candidate.objects.revealed().filter(arena=board.arena, pk=pk).first()
    if found is None:
        raise Http404("There is no such candidate.")
    return Side(found, None, url)


def _next(board: Published, other: int | None) -> int | None:
    """What a select without a choice offers first: the best that is not the other one."""
    ids = [standing.candidate_id for standing in board.standings]
    return next((pk for pk in ids if pk != other), None)


def _compared(board: Published, snapshot: Snapshot, sides: list[Side]) -> dict[str, Any]:
    a, b = sides
    pairs = read_pairs(board)
    told = head_to_head(pairs, snapshot, a.candidate.pk, b.candidate.pk) if pairs else None
    return {
        "a": a,
        "b": b,
        "told": told,
        "confidence": f"{100 * snapshot.settings['confidence']:g} %",
        "seen_fewer": 0 < snapshot.measured_votes < snapshot.n_votes,
        "verdict": _verdict(told.difference, sides) if told else "",
        "more_votes": _more_votes(told) if told else "",
        "source": _source(told) if told and not board.is_combined else "",
    }


def _verdict(difference: Difference | None, sides: list[Side]) -> str:
    """Separated or not, in words; empty where the two cannot be compared at all."""
    if difference is None or difference.lead is Lead.NOT_COMPARABLE:
        return ""
    a, b = (side.candidate for side in sides)
    if difference.lead in (Lead.AHEAD, Lead.BEHIND):
        ahead, behind = (a, b) if difference.lead is Lead.AHEAD else (b, a)
        return f"Separated: {ahead} is ahead of {behind} by more than chance explains."
    if difference.lead is Lead.OPEN:
        return "Not separated: chance explains a difference like this."
    return f"Whether they are separated cannot be told. {difference.lead.reason}"


def _more_votes(told: HeadToHead) -> str:
    if told.difference is None or told.difference.lead is not Lead.OPEN:
        return ""
    if told.more_votes == "cannot be told":
        return "How many more votes would tell them apart cannot be told."
    return f"To tell them apart takes {told.more_votes} between the two, if they stay this far off."


def _source(told: HeadToHead) -> str:
    """Where the knowledge comes from: their own votes, or comparisons with others."""
    if told.own_part is None:
        return ""
    if not told.counted:
        return "They have no votes of their own: all of this comes from comparisons with others."
    votes = f"{told.counted:,} vote{'s' if told.counted > 1 else ''}"
    if told.own_part > 0.995:
        return f"All of this comes from their own {votes}."
    share = f"{max(told.own_part, 0.01):.0%}"
    if told.own_part < 0.5:
        return (
            f"Most of this comes from comparisons with others: their own {votes} carry about"
            f" {share} of what is known about the difference."
        )
    return (
        f"Their own {votes} carry about {share} of what is known about the difference; the rest"
        " comes from comparisons with others."
    )


def _listed(board: Published, sides: list[Side], page: str) -> dict[str, Any]:
    """A page of the votes that the two share, seen from the first."""
    a, b = sides
    filters = Filters(board.voters, "", b.candidate.pk, board.asked.category)
    found = record.listed(a.candidate, filters, page)
    return {
        "page": found,
        "newer_url": _page_url(board, sides, found.number - 1) if found.has_previous() else "",
        "older_url": _page_url(board, sides, found.number + 1) if found.has_next() else "",
    }


def _page_url(board: Published, sides: list[Side], number: int) -> str:
    a, b = (str(side.candidate.pk) for side in sides)
    address = board.asked.address(board.arena.slug, "compare", a=a, b=b)
    return f"{address}&page={number}#comparisons"
