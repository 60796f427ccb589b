"""A team's decision: is this candidate better than that one, and how many more votes are needed?"""

import re
from dataclasses import replace
from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.actors import TeamPermission
from arena.api.core.errors import BadParameter
from arena.api.core.schema import operation
from arena.api.core.serializers import Dollars
from arena.api.core.views import ArenaEndpoint
from arena.models import Run, Team
from arena.validation import join_names, quoted
from judges.decision_report import (
    NO_BOARD,
    DecisionQuery,
    NamedCandidate,
    decision_context,
    read_candidates,
)
from judges.models import Decision
from judges.services.decisions import numbers_of
from judges.wording import headline
from ranking.comparison import CandidateDifference
from ranking.models import ArenaRefresh, Counted
from ranking.stats.claim import Scope, Unit

MOST_NAMED = 10
RUN_ID = re.compile(r"[0-9]{1,18}", re.ASCII)
DECIDED = ("better", "worse")
# Older servers gave the others.
LEADS = ("ahead", "behind", "open", "few_clusters", "no_variation", "not_comparable")
UNKNOWN = "unknown"
ID_OR_NAME = "A candidate's id, or its name if that is unique; by default"
NAMED = {"id": 17, "name": "short-answers v2"}
CLAIM: dict[str, Any] = {
    "verdict": "better",
    "scope": "raters",
    "win_rate": 0.58,
    "low": 0.54,
    "high": 0.62,
    "e_better": 312.4,
    "e_worse": 0.02,
    "votes": 320,
    "prompts": 96,
    "documents": 0,
    "raters": 24,
    "look": None,
    "missing": None,
    "kept": False,
    "no_votes_settle": False,
    "parts": {"votes": 0.7, "prompts": 0.2, "raters": 0.1},
    "wider": None,
}
SHOWN: dict[str, Any] = {
    "team": "search",
    "arena": "search-answers",
    "candidate": NAMED,
    "baseline": {"id": 12, "name": "short-answers"},
    "raters": "people",
    "category": "",
    "verdict": "better",
    "sentence": "short-answers v2 is better than short-answers for raters and prompts like these: "
    "it wins 58% of the time (54 to 62).",
    "scripted": False,
    "lead": "ahead",
    "elo": 56.1,
    "low": 27.9,
    "high": 85.0,
    "wins": 0.58,
    "wins_low": 0.54,
    "wins_high": 0.62,
    "style_elo": 41.0,
    "style_low": -32.5,
    "style_high": 114.5,
    "chance": 0.9997,
    "votes": 640,
    "between": 320,
    "these_raters": 0,
    "family": 1,
    "family_holds": True,
    "scope": "raters",
    "missing": None,
    "claim": CLAIM,
    "votes_to_go": None,
    "groups_to_go": 0,
    "cost_to_go": None,
    "known_since": "2026-11-21T17:30:00Z",
    "snapshot": 91,
    "computed_at": "2026-11-22T09:00:00Z",
    "up_to_date": True,
    "counted": None,
    "page": "https://arena.example/teams/search/arenas/search-answers/?candidate=17&baseline=12",
}


class CandidateNamed(serializers.Serializer[NamedCandidate]):
    """A candidate by the name that the team may see."""

    id = serializers.IntegerField(source="pk")
    name = serializers.CharField()


class MissingShown(serializers.Serializer[Any]):
    unit = serializers.ChoiceField(choices=[unit.value for unit in Unit])
    number = serializers.IntegerField(
        allow_null=True, help_text="The median; null if no number is known to settle it."
    )


class DecisionShown(serializers.Serializer[Any]):
    """The decision as the team's page shows it; what is unknown is null.

    `verdict` is unknown until it is decided.
    """

    team = serializers.CharField()
    arena = serializers.CharField()
    candidate = CandidateNamed(allow_null=True)
    baseline = CandidateNamed(allow_null=True)
    raters = serializers.CharField(allow_blank=True)
    category = serializers.CharField(allow_blank=True)
    verdict = serializers.ChoiceField(choices=[*DECIDED, UNKNOWN])
    sentence = serializers.CharField()
    scripted = serializers.BooleanField(
        help_text="Whether the votes come from a script, as those of the sample arena do."
    )
    lead = serializers.ChoiceField(choices=LEADS)
    elo = serializers.FloatField(
        allow_null=True, help_text="The win rate of the votes between the two, in Elo."
    )
    low = serializers.FloatField(
        allow_null=True,
        help_text="The 95% interval, which holds at every look: it excludes 0 exactly when it is"
        " decided.",
    )
    high = serializers.FloatField(allow_null=True)
    wins = serializers.FloatField(allow_null=True, help_text="How often it is preferred, 0 to 1.")
    wins_low = serializers.FloatField(allow_null=True)
    wins_high = serializers.FloatField(allow_null=True)
    style_elo = serializers.FloatField(
        allow_null=True, help_text="The style-controlled difference."
    )
    style_low = serializers.FloatField(
        allow_null=True,
        help_text="Its interval at this count of votes. It is wider than necessary.",
    )
    style_high = serializers.FloatField(allow_null=True)
    chance = serializers.FloatField(
        allow_null=True,
        help_text="The probability that the candidate is better, with a flat prior of its win rate."
        " If you wait until it is high, you will be wrong more often than it says.",
    )
    votes = serializers.IntegerField(help_text="The candidate's votes on the board.")
    between = serializers.IntegerField(help_text="The votes between the two.")
    these_raters = serializers.IntegerField(
        help_text="The number of raters, if the result holds only for those who voted; otherwise 0."
    )
    family = serializers.IntegerField(
        help_text="How many candidates are compared with the baseline at once. 1 if the request "
        "names the candidate."
    )
    family_holds = serializers.BooleanField(
        help_text="Whether a decided verdict also holds with all of these taken together."
    )
    scope = serializers.ChoiceField(
        choices=[scope.value for scope in Scope],
        help_text="Whom the verdict is about, besides prompts like these: this judge, these raters,"
        " or raters like these.",
    )
    missing = MissingShown(
        allow_null=True, help_text="What would decide it if the difference stays the same."
    )
    claim = serializers.DictField(
        help_text="All that is said of the two, with e-values: 40 decides. `verdict` is better, "
        "worse, no_worse, open or cannot_tell; `wider` is about raters like these, where the rest "
        "is about these raters; `parts` are shares of the uncertainty; `kept` says that newer "
        "votes no longer support what was decided."
    )
    votes_to_go = serializers.IntegerField(
        allow_null=True,
        help_text="Votes still needed if the difference stays the same; null for none or unknown,"
        " and where no number settles it.",
    )
    groups_to_go = serializers.IntegerField(
        help_text="Further prompts with votes before anything can be decided, even if one of the "
        "two wins them all; 0 if there are enough."
    )
    cost_to_go = Dollars(
        allow_null=True,
        help_text="What that many votes by the judges of the newest run would cost.",
    )
    known_since = serializers.DateTimeField(
        allow_null=True, help_text="When it was first decided on this board."
    )
    snapshot = serializers.IntegerField(allow_null=True)
    computed_at = serializers.DateTimeField(
        allow_null=True, help_text="When the votes were read; all votes cast by then are counted."
    )
    up_to_date = serializers.BooleanField(help_text="Whether every vote has been counted.")
    counted = serializers.BooleanField(
        allow_null=True,
        help_text="Whether the judge run that `run` names is done and all its votes are counted.",
    )
    page = serializers.CharField()


class OneDecision(ArenaEndpoint):
    tag = "Decisions"

    @operation(
        "retrieve_decision",
        "Retrieve a decision: is a candidate better than a baseline?",
        answer=DecisionShown,
        shown=SHOWN,
        description="The same as the team's decision page. `verdict` is better, worse or unknown. "
        "Poll with the ETag to see it change.",
        parameters=[
            OpenApiParameter("candidate", description=f"{ID_OR_NAME} the team's newest."),
            OpenApiParameter("baseline", description=f"{ID_OR_NAME} the team's baseline."),
            OpenApiParameter("raters", enum=Counted.values, description="Whose votes count."),
            OpenApiParameter("category", description="Only prompts of this category."),
            OpenApiParameter(
                "run", int, description="A judge run: `counted` says whether its votes are counted."
            ),
            OpenApiParameter("team", description="The team's slug. By default, the token's team."),
        ],
    )
    def get(self, request: Request, slug: str) -> Response:
        parameters = request.query_params.dict()
        team = self._team(parameters.get("team", ""))
        if parameters.get("raters") and parameters["raters"] not in Counted.values:
            raise BadParameter("raters", f"Must be one of: {', '.join(Counted.values)}.")
        # Read before the board: a refresh in between must not make the board that it replaces look
        # current.
        behind = ArenaRefresh.objects.behind(timezone.now()).filter(arena=self.arena)
        run = self._run(parameters.get("run", ""))
        is_up_to_date = not behind.exists()
        query = DecisionQuery.of(parameters | self._pair(team, parameters))
        context = decision_context(team, self.arena, query, alone="candidate" in parameters)
        if (category := parameters.get("category", "")) != context["query"].category:
            context = self._without_votes(context, category)
        decision = self._decision(team, context, is_up_to_date)
        if run is not None:
            ended = run.state == Run.State.DONE
            decision["counted"] = ended and (run.counted_at is not None or is_up_to_date)
        return Response(DecisionShown(decision).data)

    def _without_votes(self, context: dict[str, Any], category: str) -> dict[str, Any]:
        """The same, also for a category without a board, for which the page shows all prompts."""
        if category not in self.arena.prompts.values_list("category", flat=True).distinct():
            raise BadParameter("category", f"There is no category {quoted(category)} here.")
        query, candidates = replace(context["query"], category=category), context["candidates"]
        changes = {
            "query": query,
            "board": None,
            "difference": NO_BOARD,
            "needed": None,
            "last_decision": None,
        }
        if candidates.focus and candidates.baseline:
            names = (candidates.focus.name, candidates.baseline.name)
            changes["sentence"] = headline(*names, NO_BOARD, raters=query.raters, category=category)
        return context | changes

    def _run(self, number: str) -> Run | None:
        """The judge run named in the query, in its current state; raises BadParameter."""
        if not number:
            return None
        runs = Run.objects.filter(arena=self.arena, kind=Run.Kind.JUDGE)
        run = runs.filter(pk=int(number)).first() if RUN_ID.fullmatch(number) else None
        if run is None:
            raise BadParameter("run", f"There is no judge run {quoted(number)} here.")
        return run

    def _team(self, slug: str) -> Team:
        """The named team, or else the token's, the arena's, or the only one with candidates."""
        actor, arena = self.actor, self.arena
        readable = actor.teams_with(TeamPermission.READ)
        teams = Team.objects.all() if actor.is_operator else readable
        if slug:
            return get_object_or_404(teams, slug=slug)
        default = actor.token.team if actor.token else arena.team
        if default is not None and teams.filter(pk=default.pk).exists():
            return default
        entered = teams.filter(candidates__arena=arena).distinct().order_by("pk")[:2]
        if len(entered) != 1:
            self.require(TeamPermission.READ, arena.team_id)
            raise BadParameter("team", "Specify a team by its slug.")
        return entered[0]

    def _pair(self, team: Team, parameters: dict[str, str]) -> dict[str, str]:
        """The ids of the candidate and the baseline that are named; raises BadParameter."""
        if not parameters.keys() & {"candidate", "baseline"}:
            return {}
        candidates = read_candidates(team, self.arena, DecisionQuery())
        baseline = _find_named("baseline", parameters, candidates.in_arena)
        candidate = _find_named("candidate", parameters, candidates.own)
        against = baseline or candidates.baseline
        if candidate and against and candidate.pk == against.pk:
            raise BadParameter("candidate", f"{against.name} is the baseline itself.")
        pair = {"candidate": candidate, "baseline": baseline}
        return {parameter: str(entry.pk) for parameter, entry in pair.items() if entry}

    def _decision(self, team: Team, context: dict[str, Any], is_up_to_date: bool) -> dict[str, Any]:
        candidates, query, board = context["candidates"], context["query"], context["board"]
        difference: CandidateDifference = context.get("difference", NO_BOARD)
        snapshot = board.snapshot if board else None
        needed = context.get("needed")
        if needed and needed.is_too_many:
            needed = None
        last: Decision | None = context.get("last_decision")
        lead = difference.lead if difference.is_decided else None
        path = reverse("decision", args=[team.slug, self.arena.slug])
        return {
            "team": team.slug,
            "arena": self.arena.slug,
            "candidate": candidates.focus,
            "baseline": candidates.baseline,
            "raters": query.raters,
            "category": query.category,
            "verdict": difference.claim.verdict.value if difference.is_decided else UNKNOWN,
            "sentence": context.get("sentence", context["heading"]),
            "scripted": bool(context.get("demo")),
            **numbers_of(difference),
            **{f"style_{n}": getattr(difference.style, n, None) for n in ("elo", "low", "high")},
            "votes_to_go": needed.votes if needed else None,
            "groups_to_go": difference.groups_to_go,
            "cost_to_go": needed.cost if needed else None,
            "known_since": last.known_at if last and last.lead == lead else None,
            "snapshot": snapshot.pk if snapshot else None,
            "computed_at": snapshot.published_at if snapshot else None,
            "up_to_date": is_up_to_date,
            "counted": None,
            "page": self.request.build_absolute_uri(path + query.link()),
        }


def _find_named(
    parameter: str, parameters: dict[str, str], candidates: list[NamedCandidate]
) -> NamedCandidate | None:
    """The candidate that a parameter names; None without the parameter. Raises BadParameter."""
    if parameter not in parameters:
        return None
    name = parameters[parameter].strip()
    if not name:  # perhaps an unset variable of a script, so no default
        raise BadParameter(parameter, "Must not be empty. Leave it out for the default.")
    matches = [entry for entry in candidates if str(entry.pk) == name] or [
        entry for entry in candidates if entry.name in (name, f"{name} v{entry.candidate.version}")
    ]
    matches = [entry for entry in matches if not entry.is_retired] or matches
    if len(matches) == 1:
        return matches[0]
    names = join_names(
        [f"{entry.pk} ({entry.name})" for entry in matches or candidates], MOST_NAMED
    )
    if matches:
        raise BadParameter(
            parameter, f"Several candidates are called {quoted(name)}: {names}. Use an id."
        )
    choices = f"Choose from: {names}." if names else "There are none."
    raise BadParameter(parameter, f"There is no {parameter} {quoted(name)} here. {choices}")
