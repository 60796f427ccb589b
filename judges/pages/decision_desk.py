"""Whom a team's decision is about: what the address asks for, and which candidates there are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.db.models import OuterRef, Subquery
from django.http import Http404
from django.urls import reverse

from arena.models import Arena, Candidate, Team
from judges.models import Baseline
from judges.services.decisions import name_for, usual_baseline
from ranking.pages.compare import Pick
from ranking.pages.published import LONG_TEXTS
from ranking.pages.reading import Question

MOST_PAGES = 10_000


@dataclass(frozen=True)
class Asked:
    """What the address asks for; None and '' are what is usual."""

    raters: str = ""
    category: str = ""
    candidate: int | None = None
    baseline: int | None = None
    page: int = 1

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> "Asked":
        """Raises Http404 for what is no id."""
        question = Question.unsorted(parameters)
        named = {"a": parameters.get("candidate", ""), "b": parameters.get("baseline", "")}
        pick, page = Pick.of(named), parameters.get("page", "")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 6 else 1
        pages = max(1, min(number, MOST_PAGES))
        return cls(question.raters, question.category, pick.a, pick.b, pages)

    @property
    def question(self) -> Question:
        return Question(self.raters, self.category)

    def query(self, **changes: Any) -> str:
        """The query of this page, or of one that differs from it by `changes`, from its start."""
        asked = vars(replace(self, **{"page": 1} | changes)).items()
        kept = {name: value for name, value in asked if value and (name, value) != ("page", 1)}
        return f"?{urlencode(kept)}"


@dataclass(frozen=True)
class Entry:
    """A candidate as its team knows it."""

    candidate: Candidate
    name: str

    @property
    def pk(self) -> int:
        return self.candidate.pk

    @property
    def is_retired(self) -> bool:
        return self.candidate.retired_at is not None

    @property
    def url(self) -> str:
        return reverse("candidate", args=[self.candidate.arena.slug, self.candidate.pk])


@dataclass(frozen=True)
class Desk:
    """A team in an arena: its candidates, the baseline and the one in focus, None where there is
    no such."""

    team: Team
    arena: Arena
    entries: list[Entry]
    own: list[Entry]
    chosen: Entry | None
    baseline: Entry | None
    focus: Entry | None

    @property
    def others(self) -> list[Entry]:
        """The team's candidates beside the baseline: active ones first, the newest first."""
        beside = [one for one in self.own if self.baseline and one.pk != self.baseline.pk]
        return sorted(beside, key=lambda one: (one.is_retired, -one.pk))


def read_desk(team: Team, arena: Arena, asked: Asked) -> Desk:
    """Read the arena's candidates, and which of them the team has chosen, in one query."""
    chosen = Baseline.objects.filter(team=team, arena=OuterRef("arena"))
    rows = Candidate.objects.revealed().filter(arena=arena).defer(*LONG_TEXTS).order_by("pk")
    rows = rows.annotate(baseline=Subquery(chosen.values("candidate")[:1]))
    entries = []
    for row in rows:
        row.arena = arena
        entries.append(Entry(row, name_for(team, arena, row)))
    own = [one for one in entries if (one.candidate.team_id or arena.team_id) == team.pk]
    chosen_pk = rows[0].baseline if entries else None
    usual = usual_baseline(one.candidate for one in own)
    kept = _find(entries, chosen_pk or (usual.pk if usual else None))
    baseline = _asked_for(entries, asked.baseline) or kept
    desk = Desk(team, arena, entries, own, kept, baseline, None)
    return replace(desk, focus=_asked_for(desk.others, asked.candidate) or _first(desk.others))


def _find(entries: list[Entry], pk: int | None) -> Entry | None:
    return next((one for one in entries if one.pk == pk), None)


def _first(entries: list[Entry]) -> Entry | None:
    return entries[0] if entries else None


def _asked_for(entries: list[Entry], pk: int | None) -> Entry | None:
    found = _find(entries, pk)
    if pk is not None and found is None:
        raise Http404("There is no such candidate to compare.")
    return found


def why_no_two(desk: Desk) -> str:
    """Why there is nothing to compare; '' where there is."""
    if not desk.own:
        return f"{desk.team} has no candidate in this arena yet."
    if desk.baseline is None:
        return f"All candidates of {desk.team} are retired. Choose one to measure them against."
    if desk.focus is None:
        return f"There is only {desk.baseline.name} so far, and nothing to compare it with."
    return ""
