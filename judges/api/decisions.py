"""A team's decision: is this candidate better than that one, and what is still missing?"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.access import Ability
from arena.api.core.endpoint import ArenaEndpoint
from arena.api.core.fields import Dollars
from arena.api.core.problems import BadParameter
from arena.api.core.schema import described
from arena.importers.base import shown
from arena.models import Arena, Team
from arena.words import listed
from judges.models import Decision
from judges.pages.decision import NO_BOARD, decision_context
from judges.pages.decision_desk import Asked, Entry, read_desk
from judges.pages.decision_words import headline
from judges.services.decisions import numbers_of
from ranking.models import Counted
from ranking.pages.gap import Gap
from ranking.stats import Lead

MOST_NAMED = 10
NAME_IT = "Name the team that asks, by its slug."
VERDICTS = {Lead.AHEAD: "better", Lead.BEHIND: "worse"}
UNKNOWN = "unknown"
ID_OR_NAME = "Its id, or its name where only one has it; unless said,"
NAMED = {"id": 17, "name": "short-answers v2"}
SHOWN: dict[str, Any] = {
    "team": "search",
    "arena": "search-answers",
    "candidate": NAMED,
    "baseline": {"id": 12, "name": "short-answers"},
    "raters": "people",
    "category": "",
    "verdict": "better",
    "sentence": "short-answers v2 beats short-answers: 58 % of the time, 54 to 62; "
    "enough votes to be sure.",
    "scripted": False,
    "lead": "ahead",
    "elo": 56.1,
    "low": 27.9,
    "high": 85.0,
    "wins": 0.58,
    "wins_low": 0.54,
    "wins_high": 0.62,
    "style_elo": 41.0,
    "style_low": 2.3,
    "style_high": 79.7,
    "chance": 0.9997,
    "votes": 640,
    "between": 320,
    "votes_to_go": None,
    "cost_to_go": None,
    "known_since": "2026-11-21T17:30:00Z",
    "snapshot": 91,
    "computed_at": "2026-11-22T09:00:00Z",
    "page": "https://arena.example/teams/search/arenas/search-answers/?candidate=17&baseline=12",
}


class CandidateNamed(serializers.Serializer[Entry]):
    """A candidate by the name that its team knows."""

    id = serializers.IntegerField(source="pk")
    name = serializers.CharField()


class DecisionShown(serializers.Serializer[Any]):
    """What is known, as the team's page says it. What is not known is null.

    The verdict is about the lead, and stays unknown until there are votes enough to be sure.
    """

    team = serializers.CharField()
    arena = serializers.CharField()
    candidate = CandidateNamed(allow_null=True)
    baseline = CandidateNamed(allow_null=True)
    raters = serializers.CharField(allow_blank=True)
    category = serializers.CharField(allow_blank=True)
    verdict = serializers.ChoiceField(choices=[*VERDICTS.values(), UNKNOWN])
    sentence = serializers.CharField()
    scripted = serializers.BooleanField(
        help_text="Do votes of scripted judges count, which judge nothing real?"
    )
    lead = serializers.ChoiceField(choices=[lead.value for lead in Lead])
    elo = serializers.FloatField(allow_null=True, help_text="How far ahead the candidate is.")
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    wins = serializers.FloatField(allow_null=True, help_text="How often it is preferred, 0 to 1.")
    wins_low = serializers.FloatField(allow_null=True)
    wins_high = serializers.FloatField(allow_null=True)
    style_elo = serializers.FloatField(
        allow_null=True, help_text="The difference if both answered in the same style."
    )
    style_low = serializers.FloatField(allow_null=True)
    style_high = serializers.FloatField(allow_null=True)
    chance = serializers.FloatField(allow_null=True, help_text="That it is the better one.")
    votes = serializers.IntegerField(help_text="Of the candidate on the board.")
    between = serializers.IntegerField(help_text="Of those, between the two.")
    votes_to_go = serializers.IntegerField(
        allow_null=True,
        help_text="At this difference; null where nothing is missing, or no number can be told.",
    )
    cost_to_go = Dollars(
        allow_null=True, help_text="What as many votes of the judges asked last cost, in dollars."
    )
    known_since = serializers.DateTimeField(
        allow_null=True, help_text="When this verdict was first known by this board's votes."
    )
    snapshot = serializers.IntegerField(allow_null=True)
    computed_at = serializers.DateTimeField(allow_null=True)
    page = serializers.CharField()


class OneDecision(ArenaEndpoint):
    tag = "Decisions"
    queryset = Team.objects.none()

    @described(
        "retrieve_decision",
        "Retrieve what is known of a candidate against a baseline",
        answer=DecisionShown,
        shown=SHOWN,
        description="As the team's page of the arena says it. `verdict` is better, worse or "
        "unknown. Ask again, with the ETag, until it is what you wait for.",
        parameters=[
            OpenApiParameter("candidate", description=f"{ID_OR_NAME} the team's newest."),
            OpenApiParameter("baseline", description=f"{ID_OR_NAME} the one the team has chosen."),
            OpenApiParameter("raters", enum=Counted.values, description="Whose votes."),
            OpenApiParameter("category", description="On prompts of this category alone."),
            OpenApiParameter("team", description="Its slug. A token's own unless said."),
        ],
    )
    def get(self, request: Request, slug: str) -> Response:
        said = request.query_params.dict()
        team = self._team(said.get("team", ""), self.arena)
        if said.get("raters") and said["raters"] not in Counted.values:
            raise BadParameter("raters", f"It is one of: {', '.join(Counted.values)}.")
        found = decision_context(team, self.arena, Asked.of(said | self._two(team, said)))
        if (category := said.get("category", "")) != found["asked"].category:
            found = self._nobody_voted(found, category)
        return Response(DecisionShown(self._facts(team, found)).data)

    def _nobody_voted(self, found: dict[str, Any], category: str) -> dict[str, Any]:
        """The same for a category without a board, of which the page would show all prompts."""
        if category not in self.arena.prompts.values_list("category", flat=True).distinct():
            raise BadParameter("category", f"There is no category {shown(category)} here.")
        asked, desk = replace(found["asked"], category=category), found["desk"]
        told = {"asked": asked, "board": None, "gap": NO_BOARD, "needed": None, "known": None}
        if desk.focus and desk.baseline:
            two = (desk.focus.name, desk.baseline.name)
            told["sentence"] = headline(*two, NO_BOARD, raters=asked.raters, category=category)
        return found | told

    def _team(self, named: str, arena: Arena) -> Team:
        """The team that is named, or else the one that whoever asks is here for."""
        mine = self._teams()
        if named:
            return get_object_or_404(mine, slug=named)
        team = self._usual_team(mine, arena)
        if team is None:
            self.require(Ability.READ, arena.team_id)
            raise BadParameter("team", NAME_IT)
        return team

    def _teams(self) -> QuerySet[Team]:
        actor = self.actor
        return Team.objects.all() if actor.is_operator else actor.teams_with(Ability.READ)

    def _usual_team(self, mine: QuerySet[Team], arena: Arena) -> Team | None:
        """A token's team, or the arena's; else the only one of theirs that has candidates here."""
        token = self.actor.token
        usual = token.team if token else arena.team
        if usual is not None and mine.filter(pk=usual.pk).exists():
            return usual
        entered = mine.filter(candidates__arena=arena).distinct().order_by("pk")[:2]
        return entered[0] if len(entered) == 1 else None

    def _two(self, team: Team, said: dict[str, str]) -> dict[str, str]:
        """The ids of the two that are named by ids or names; raises BadParameter."""
        if not said.keys() & {"candidate", "baseline"}:
            return {}
        desk = read_desk(team, self.arena, Asked())
        baseline = _named("baseline", said, desk.entries)
        candidate = _named("candidate", said, desk.own)
        against = baseline or desk.baseline
        if candidate and against and candidate.pk == against.pk:
            raise BadParameter("candidate", f"{against.name} is the baseline itself.")
        two = {"candidate": candidate, "baseline": baseline}
        return {parameter: str(entry.pk) for parameter, entry in two.items() if entry}

    def _facts(self, team: Team, found: dict[str, Any]) -> dict[str, Any]:
        desk, asked, board = found["desk"], found["asked"], found["board"]
        gap: Gap = found.get("gap", NO_BOARD)
        snapshot = board.snapshot if board else None
        return {
            "team": team.slug,
            "arena": self.arena.slug,
            "candidate": desk.focus,
            "baseline": desk.baseline,
            "raters": asked.raters,
            "category": asked.category,
            "verdict": VERDICTS.get(gap.lead, UNKNOWN) if gap.is_known else UNKNOWN,
            "sentence": found.get("sentence", found["heading"]),
            "scripted": bool(found.get("scripted")),
            **numbers_of(gap),
            **_style_of(gap),
            **_missing(found),
            "known_since": _known_since(gap, found.get("known")),
            "snapshot": snapshot.pk if snapshot else None,
            "computed_at": snapshot.published_at if snapshot else None,
            "page": self._page(team, asked),
        }

    def _page(self, team: Team, asked: Asked) -> str:
        path = reverse("decision", args=[team.slug, self.arena.slug])
        return self.request.build_absolute_uri(path + asked.query())


def _named(parameter: str, said: dict[str, str], entries: list[Entry]) -> Entry | None:
    """The entry that a parameter names; None where it says nothing. Raises BadParameter."""
    if parameter not in said:
        return None
    name = said[parameter].strip()
    if not name:  # of a script whose variable is empty: any answer would be about others
        raise BadParameter(parameter, "It is empty. Leave it out for the usual one.")
    found = [entry for entry in entries if str(entry.pk) == name]
    found = found or [entry for entry in entries if _is_called(entry, name)]
    if len(found) > 1:
        found = [entry for entry in found if not entry.is_retired] or found
    if len(found) == 1:
        return found[0]
    there = listed([f"{entry.pk} ({entry.name})" for entry in found or entries], MOST_NAMED)
    if found:
        raise BadParameter(parameter, f"Several are called {shown(name)}: {there}. Name its id.")
    there = f"There are: {there}." if there else "There are none."
    raise BadParameter(parameter, f"There is no {parameter} {shown(name)} here. {there}")


def _is_called(entry: Entry, name: str) -> bool:
    """By the name that the team may see, with its version or without."""
    return entry.name in (name, f"{name} v{entry.candidate.version}")


def _style_of(gap: Gap) -> dict[str, float | None]:
    return {f"style_{name}": getattr(gap.style, name, None) for name in ("elo", "low", "high")}


def _missing(found: dict[str, Any]) -> dict[str, int | None]:
    """How many more votes it takes, and what as many of judges cost, in nano-dollars."""
    needed = found.get("needed")
    if needed is None or needed.is_too_many:
        return {"votes_to_go": None, "cost_to_go": None}
    return {"votes_to_go": needed.votes, "cost_to_go": needed.cost}


def _known_since(gap: Gap, told: Decision | None) -> datetime | None:
    is_the_same = told is not None and gap.is_known and told.lead == gap.lead
    return told.known_at if told and is_the_same else None
