"""What a team's decision page says: its candidates in an arena against the one it has chosen."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from django.db.models import QuerySet

from arena.models import Arena, Candidate, Team, Vote
from judges.models import Decision
from judges.pages.decision_costs import JudgePrice, Needed, last_price, order_url, supply_for
from judges.pages.decision_desk import Asked, Desk, Entry, read_desk, why_no_two
from judges.pages.decision_words import (
    Share,
    chance_words,
    headline,
    more_votes,
    percents,
    share_words,
    uncapped,
    why,
)
from judges.services.decisions import TOLD
from ranking.models import Counted, Raters
from ranking.pages import record
from ranking.pages.board import Link
from ranking.pages.gap import Gap, GapBoard, GapBoards, read_gap_boards
from ranking.pages.scripted import SENTENCE, counts_scripts, is_people_alone
from ranking.stats import Lead
from ranking.stats.differences import rounded_up

PER_PAGE = 10
NO_BOARD = Gap(Lead.NOT_COMPARABLE)


@dataclass(frozen=True)
class Line:
    """One candidate, or the one in focus on one category, against the baseline."""

    title: str
    url: str
    gap: Gap
    chosen: bool
    why: str
    is_retired: bool = False
    is_closed: bool = False  # it or the baseline is retired, so no more votes will come

    @cached_property
    def interval(self) -> dict[str, str] | None:
        """Where the interval is drawn, in percent of the width; None where there is none."""
        gap = self.gap
        if gap.wins is None or gap.wins_low is None or gap.wins_high is None:
            return None
        ends = {"at": gap.wins, "low": gap.wins_low, "high": gap.wins_high}
        return {name: f"{100 * value:.1f}" for name, value in ends.items()}

    @property
    def share(self) -> Share:
        return share_words(self.gap)

    @property
    def chance(self) -> str:
        return chance_words(self.gap.chance)

    @property
    def state(self) -> str:
        """What is still missing, in a few words."""
        if self.gap.is_known:
            return "known"
        if self.is_closed:
            return "no more votes will come"
        if not self.gap.votes:
            return "no votes yet"
        if self.gap.chance is None:
            return f"not yet: {self.why}".removesuffix(".") if self.why else "not yet"
        return more_votes(self.gap)


@dataclass(frozen=True)
class Lost:
    """A page of the votes that the candidate lost to the baseline, newest first."""

    votes: list[Vote]
    newer: str
    older: str


def decision_context(team: Team, arena: Arena, asked: Asked) -> dict[str, Any]:
    """Everything that `judges/decision.html` prints, in a fixed number of queries. Raises
    Http404 for candidates that are not there."""
    desk = read_desk(team, arena, asked)
    found = read_gap_boards(arena, asked.question)
    asked = replace(asked, raters=found.asked.raters, category=found.asked.category)
    if asked.candidate is None and found.chosen:
        desk = _focused(desk, found.chosen)
    context = {
        "team": team,
        "arena": arena,
        "asked": asked,
        "desk": desk,
        "board": found.chosen,
        "heading": why_no_two(desk),
        "raters_links": _raters_links(asked, found),
        "category_links": _category_links(asked, found),
    }
    if desk.focus is None or desk.baseline is None:
        return context
    return context | _told(desk, desk.focus, desk.baseline, asked, found)


def _focused(desk: Desk, board: GapBoard) -> Desk:
    """In focus the newest active candidate that has met the baseline, or else that has votes: a
    draft says nothing yet."""
    baseline = desk.baseline.pk if desk.baseline else None
    active = [one for one in desk.others if not one.is_retired]
    met = [one for one in active if baseline and board.between(one.pk, baseline)]
    voted = [one for one in active if board.votes(one.pk)]
    return replace(desk, focus=next(iter(met or voted), desk.focus))


# -- What is known ---------------------------------------------------------------------------------


def _told(
    desk: Desk, focus: Entry, baseline: Entry, asked: Asked, found: GapBoards
) -> dict[str, Any]:
    board = found.chosen
    gap = board.gap(focus.pk, baseline.pk) if board else NO_BOARD
    said = _sentence(focus, baseline, gap, asked, board)
    scripted = counts_scripts(board.snapshot if board else None)
    price, two = last_price(desk.arena), (focus.candidate, baseline.candidate)
    is_closed = any(one.retired_at for one in two)
    needed = None if is_closed else _needed(gap, price, two, asked.category)
    return {
        # Beside figures in tables, which have no room for the space.
        "heading": said.replace(percents(gap), percents(gap).replace(" %", "%")),
        "sentence": f"{said} {SENTENCE}" if scripted else said,
        "scripted": SENTENCE if scripted else "",
        "focus": focus,
        "baseline": baseline,
        "gap": gap,
        "share": share_words(gap),
        "chance": chance_words(gap.chance),
        "needed": needed,
        "price": price,
        "counts_judges": asked.raters in (Raters.JUDGES, Raters.JURIES),
        "order_url": "" if is_closed else order_url(two, desk.arena, needed),
        "lines": [_line(one, baseline, focus, board, asked) for one in desk.others],
        "categories": [_of_category(focus, baseline, asked, one) for one in found.boards],
        "has_style": gap.style is not None,
        "known": _known(desk.team, focus, baseline, board),
        "lost": _lost(focus, baseline, asked),
        "confidence": f"{100 * board.snapshot.settings['confidence']:g}%" if board else "",
        "n_groups": gap.n_groups,
    }


def _sentence(focus: Entry, baseline: Entry, gap: Gap, asked: Asked, board: GapBoard | None) -> str:
    return headline(
        focus.name,
        baseline.name,
        gap,
        raters=asked.raters,
        category=asked.category,
        people_alone=is_people_alone(board.snapshot if board else None),
        retired=next((one.name for one in (focus, baseline) if one.is_retired), ""),
    )


def _needed(
    gap: Gap, price: JudgePrice | None, two: tuple[Candidate, Candidate], category: str
) -> Needed | None:
    if gap.is_known or gap.votes_to_go is None:
        return None
    return Needed(rounded_up(gap.votes_to_go), price, supply_for(two, price, category))


def _line(
    entry: Entry, baseline: Entry, focus: Entry, board: GapBoard | None, asked: Asked
) -> Line:
    gap = board.gap(entry.pk, baseline.pk) if board else NO_BOARD
    return Line(
        entry.name,
        asked.query(candidate=entry.pk),
        gap,
        entry.pk == focus.pk,
        _why(entry, baseline, gap),
        entry.is_retired,
        entry.is_retired or baseline.is_retired,
    )


def _of_category(focus: Entry, baseline: Entry, asked: Asked, board: GapBoard) -> Line:
    gap = board.gap(focus.pk, baseline.pk, forecast=False)
    return Line(
        board.category or "All prompts",
        asked.query(category=board.category),
        gap,
        board.category == asked.category,
        _why(focus, baseline, gap),
    )


def _why(entry: Entry, baseline: Entry, gap: Gap) -> str:
    said = why(entry.name, baseline.name, gap)
    return said if gap.blamed else uncapped(said)


def _known(team: Team, focus: Entry, baseline: Entry, board: GapBoard | None) -> Decision | None:
    """What the team was told last of the two on this board, whatever its votes say by now."""
    if board is None or board.raters not in TOLD or board.category:
        return None  # teams are told of boards of all prompts alone
    two = {"candidate": focus.candidate, "baseline": baseline.candidate}
    told = Decision.objects.filter(team=team, board=board.snapshot.board_id, **two)
    return told.order_by("-number").first()


def _lost(focus: Entry, baseline: Entry, asked: Asked) -> Lost:
    """One query: one vote more than a page tells whether there is another page."""
    raters = asked.raters or Raters.PEOPLE.value
    voters = Raters.PEOPLE.value if raters == Counted.COMBINED else raters
    filters = record.Filters(voters, "lost", baseline.pk, asked.category)
    start = (asked.page - 1) * PER_PAGE
    votes: QuerySet[Vote] = record.votes_of(focus.candidate, filters)
    found = list(votes[start : start + PER_PAGE + 1])
    newer = f"{asked.query(page=asked.page - 1)}#lost" if asked.page > 1 else ""
    older = f"{asked.query(page=asked.page + 1)}#lost" if len(found) > PER_PAGE else ""
    return Lost(found[:PER_PAGE], newer, older)


# -- Which votes -----------------------------------------------------------------------------------


def _raters_links(asked: Asked, found: GapBoards) -> list[Link]:
    """People, judges, juries and combined, where they have boards of all prompts here."""
    there = {one.board.raters for one in found.snapshots if not one.board.category}
    links = [
        Link(label, asked.query(raters=raters, category=""), raters == asked.raters)
        for raters, label in Counted.choices
        if raters in there
    ]
    return links if len(links) > 1 else []


def _category_links(asked: Asked, found: GapBoards) -> list[Link]:
    links = [
        Link(
            board.category or "All prompts",
            asked.query(category=board.category),
            board.category == asked.category,
        )
        for board in found.boards
    ]
    return links if len(links) > 1 else []
