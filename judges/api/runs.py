"""Judge runs in an arena: listed, quoted, ordered and controlled."""

from datetime import datetime
from functools import cached_property
from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiRequest,
    OpenApiResponse,
    extend_schema,
    extend_schema_field,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.actors import Actor, TeamPermission
from arena.api.core.errors import Unprocessable
from arena.api.core.schema import operation
from arena.api.core.serializers import Dollars, StrictSerializer
from arena.api.core.views import BY_LINK, ArenaEndpoint, ListEndpoint
from arena.api.runs import ErrorsShown, OfRun, ResumeGiven, RunFilters
from arena.models import Arena, Candidate, Run
from arena.permissions import FieldVisibility, can_read_spending
from arena.services.runs import order_run, rehearse_payment
from arena.tasks import enqueue_on_commit
from judges.api.judges import JUDGE
from judges.api.quotes import QUOTE, QuoteShown
from judges.core.spec import EFFORTS, LEAST_OUTPUT, MOST_OUTPUT, MOST_READINGS, JudgeSpec
from judges.forms import ORDER_POLICIES, PAIRS
from judges.models import Judgement
from judges.run_reports import CandidateCount, JudgeReport, count_by_candidate, errors_in, report_on
from judges.services.orders import MOST_JUDGES, JudgeOrder, prepare_order
from judges.services.planning import MOST_PER_PAIR, PER_PAIR, OrderOptions
from judges.services.quotes import prepare_measured, quote_for, smallest_quote
from judges.services.registry import Switches, spec_named
from judges.services.runs import runs_in, runs_of_judges
from judges.wording import QUORUM_TOO_HIGH, REASON_HIDDEN
from ranking.board_data import LARGEST_ID

TAG = "Judges"
MOST_CANDIDATES = 1000
SENT = {"judges": [JUDGE], "candidates": [17, 12], "per_pair": 5, "cap": 2.0}
MONEY = ("cap", "expected_cost", "worst_cost", "spent", "uncertain", "reserved")
RUN: dict[str, Any] = {
    "id": 5,
    "arena": "search-answers",
    "state": "open",
    "pause_reason": "",
    "judges": [JUDGE],
    "per_pair": 5,
    "wanted": 15,
    "done": 6,
    "cap": 2.0,
    "expected_cost": 0.31,
    "worst_cost": 1.4,
    "spent": 0.12,
    "uncertain": 0.0,
    "created_at": "2026-11-22T09:00:00Z",
    "closed_at": None,
    "failed": 0,
    "errors": [],
}
BY_JUDGE: dict[str, Any] = {
    "name": JUDGE,
    "wanted": 15,
    "done": 6,
    "verdicts": {"waiting": 9, "voted": 5, "abstained": 1},
    "flip_rate": 0.1667,
    "first_position_rate": 0.5,
    "spent": 0.12,
    "paused_at": None,
    "pause_reason": "",
}
REPORT: dict[str, Any] = RUN | {
    "candidates": [
        {"id": 17, "name": "new-draft", "won": 3, "lost": 1, "tied": 1, "no_verdict": 1},
        {"id": 12, "name": "in-production", "won": 1, "lost": 3, "tied": 1, "no_verdict": 1},
    ],
    "reserved": 0.02,
    "failures": 0,
    "verdicts": {"waiting": 9, "voted": 5, "abstained": 1},
    "by_judge": [BY_JUDGE],
}


class RunShown(ErrorsShown):
    """A judge run. `wanted` and `done` count verdicts by single judges; so does `failed`, and
    `errors` has the five most frequent reasons.

    Money is null for everybody but the arena's team, and the reasons for a pause and for failures
    are hidden.
    """

    arena = serializers.SlugRelatedField[Arena](slug_field="slug", read_only=True)
    state = serializers.ChoiceField(choices=Run.State.choices)
    judges = serializers.SerializerMethodField()
    wanted = serializers.IntegerField(source="total")
    done = serializers.IntegerField(source="settled_count")
    cap = Dollars(allow_null=True)
    expected_cost = Dollars(allow_null=True)
    worst_cost = Dollars(allow_null=True)
    spent = Dollars(source="settled", allow_null=True, help_text="What servers billed.")
    uncertain = Dollars(
        allow_null=True,
        help_text="The most that they may have billed for requests that got no answer.",
    )

    count_errors = staticmethod(errors_in)

    class Meta:
        model = Run
        fields = list(RUN)

    def get_judges(self, run: Any) -> list[str]:
        return [str(member.epoch) for member in run.members if not member.epoch.judge.is_jury]

    def to_representation(self, run: Run) -> dict[str, Any]:
        data: dict[str, Any] = super().to_representation(run)
        if self.context["sees_money"]:
            return data
        hidden = [{"reason": REASON_HIDDEN, "count": data["failed"]}] if data["failed"] else []
        return _without_money(data) | {"errors": hidden}


class JudgePartShown(serializers.Serializer[JudgeReport]):
    """One judge's part of a run; a rate is null without verdicts to compute it from."""

    name = serializers.CharField(source="epoch")
    wanted = serializers.IntegerField(source="total")
    done = serializers.IntegerField(source="settled")
    verdicts = serializers.DictField(child=serializers.IntegerField(), source="states")
    flip_rate = serializers.FloatField(allow_null=True)
    first_position_rate = serializers.FloatField(allow_null=True)
    spent = Dollars(source="cost", allow_null=True)
    paused_at = serializers.DateTimeField(allow_null=True)
    pause_reason = serializers.CharField()

    def to_representation(self, judge: JudgeReport) -> dict[str, Any]:
        data: dict[str, Any] = super().to_representation(judge)
        return data if self.context["sees_money"] else _without_money(data)


class CandidateCountShown(serializers.Serializer[CandidateCount]):
    """The verdicts about one candidate in a run, by all of its judges."""

    id = serializers.IntegerField(source="candidate.pk")
    name = serializers.SerializerMethodField()
    won = serializers.IntegerField()
    lost = serializers.IntegerField()
    tied = serializers.IntegerField()
    no_verdict = serializers.IntegerField(
        help_text="Comparisons that ended without one: inconsistent when swapped, or failed."
    )

    def get_name(self, row: CandidateCount) -> str:
        reader: FieldVisibility = self.context["reader"]
        return reader.name_of(row.candidate)


class RunReportShown(RunShown):
    """A judge run as it is now, with the verdicts about each candidate and each judge's part;
    `verdicts` counts them by state."""

    candidates = serializers.SerializerMethodField()
    reserved = Dollars(allow_null=True, help_text="Reserved for calls in progress.")
    failures = serializers.SerializerMethodField()
    verdicts = serializers.SerializerMethodField()
    by_judge = serializers.SerializerMethodField()

    class Meta(RunShown.Meta):
        fields = list(REPORT)

    def get_failures(self, run: Run) -> int:
        failures: int = self.context["report"].failures
        return failures

    def get_verdicts(self, run: Run) -> dict[Judgement.State, int]:
        states: dict[Judgement.State, int] = self.context["report"].states
        return states

    @extend_schema_field(CandidateCountShown(many=True))
    def get_candidates(self, run: Run) -> Any:
        rows: Any = count_by_candidate(run)
        return CandidateCountShown(rows, many=True, context=self.context).data

    @extend_schema_field(JudgePartShown(many=True))
    def get_by_judge(self, run: Run) -> Any:
        return JudgePartShown(self.context["report"].judges, many=True, context=self.context).data


def _without_money(data: dict[str, Any]) -> dict[str, Any]:
    """The same without amounts, and without a server's words, which may name accounts."""
    reason = REASON_HIDDEN if data["pause_reason"] else ""
    return data | {name: None for name in MONEY if name in data} | {"pause_reason": reason}


def report_of(run: Run, now: datetime, actor: Actor) -> Any:
    """Return a run of an arena as it is now, with what `actor` may see."""
    context = {
        "report": report_on(run.pk, now),
        "reader": FieldVisibility(actor, run.in_arena),
        "sees_money": can_read_spending(actor, run.arena),
    }
    return RunReportShown(runs_in(run.in_arena).get(pk=run.pk), context=context).data


class JudgingGiven(StrictSerializer):
    """The order of a judge run. Several judges form a jury."""

    judges = serializers.ListField(
        child=serializers.CharField(max_length=300),
        min_length=1,
        max_length=MOST_JUDGES,
        help_text="Each a registered judge's name, or endpoint:model@rubric.",
    )
    candidates = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=LARGEST_ID),
        min_length=2,
        max_length=MOST_CANDIDATES,
        required=False,
        help_text="Ids of candidates: only pairs of these are judged. By default, all.",
    )
    pairs = serializers.ChoiceField(choices=PAIRS, default="all")
    again = serializers.BooleanField(
        default=False,
        help_text="Include pairs that these judges have already decided.",
    )
    per_pair = serializers.IntegerField(min_value=1, max_value=MOST_PER_PAIR, default=PER_PAIR)
    quorum = serializers.IntegerField(
        min_value=1,
        max_value=MOST_JUDGES,
        required=False,
        allow_null=True,
        help_text="How many verdicts a jury needs; by default, more than half.",
    )
    weigh = serializers.BooleanField(
        default=False,
        help_text="Weigh the members of a jury by their accuracy in this arena; possible if they "
        "were measured together.",
    )
    own_family = serializers.BooleanField(
        default=False, help_text="Let judges judge answers by their own model family."
    )
    order_policy = serializers.ChoiceField(choices=ORDER_POLICIES, default="abstain")
    length_neutral = serializers.BooleanField(required=False, allow_null=True)
    soft = serializers.BooleanField(
        default=False, help_text="Record probabilities where the endpoint returns them."
    )
    samples = serializers.IntegerField(
        min_value=1,
        max_value=MOST_READINGS,
        default=1,
        help_text="How often to ask each judge for one verdict: scores are averaged, otherwise "
        "more than half must agree.",
    )
    output_limit = serializers.IntegerField(
        min_value=LEAST_OUTPUT,
        max_value=MOST_OUTPUT,
        required=False,
        allow_null=True,
        help_text="The most tokens of a reply, including what a model thinks first; by default the "
        "rubric's limit, or what the model needed when it was measured.",
    )
    effort = serializers.ChoiceField(
        choices=EFFORTS,
        allow_blank=True,
        default="",
        help_text="How much a model that thinks shall think; by default the model decides.",
    )
    schema = serializers.BooleanField(
        default=False,
        help_text="Hold judges of an earlier release to a JSON schema in every reply; judges that "
        "are new are held to one anyway, where the server can.",
    )
    unpinned = serializers.BooleanField(
        default=False, help_text="Allow a model name that may point to a different model later."
    )
    cap = Dollars(required=False, allow_null=True)
    dry_run = serializers.BooleanField(default=False, help_text="Return a quote and start nothing.")


class JudgeRuns(ArenaEndpoint, ListEndpoint):
    tag = TAG
    permissions = {"POST": TeamPermission.JUDGE}
    newest_first = True
    filterset_class = RunFilters

    def get_serializer_context(self) -> dict[str, Any]:
        sees_money = can_read_spending(self.actor, self.arena)
        return {**super().get_serializer_context(), "sees_money": sees_money}

    @operation(
        "list_judge_runs",
        "List an arena's judge runs, newest first",
        answer=RunShown(many=True),
        shown=RUN,
    )
    def get(self, request: Request, slug: str) -> Response:
        return self.page(runs_in(self.arena), RunShown)

    @extend_schema(
        operation_id="order_judges",
        summary="Start a judge run, or get a quote for one",
        description="With `dry_run`, returns a quote and saves nothing; if `cap` is given as "
        "well, even as null, a cap that the run could not have is refused. Otherwise the run "
        "starts in the background and never spends more than `cap`, which comes out of the team's "
        "budget. If there is nothing left to judge, the problem's type ends in `nothing-to-do`; "
        "if an unfinished run has these pairs, in `still-judging`.",
        request={
            "application/json": OpenApiRequest(
                JudgingGiven, examples=[OpenApiExample("A body", value=SENT)]
            )
        },
        responses={
            200: OpenApiResponse(
                QuoteShown,
                description="The quote; no run was started.",
                examples=[OpenApiExample("A quote", value=QUOTE)],
            ),
            201: OpenApiResponse(
                RunReportShown,
                description="The run that was started.",
                examples=[OpenApiExample("A run", value=REPORT)],
            ),
        },
    )
    def post(self, request: Request, slug: str) -> Response:
        arena = self.arena
        self.require(TeamPermission.JUDGE, arena.team_id)
        body = self.validated(JudgingGiven)
        specs = _specs_of_judges(body, self.actor)
        if "cap" in body or not body["dry_run"]:  # before a model is measured, which costs money
            rehearse_payment(team=arena.team, quote=smallest_quote(specs), cap=body.get("cap"))
        candidates = _check_candidates(arena, body.get("candidates", []))

        def prepare() -> JudgeOrder:
            return prepare_order(
                arena=arena,
                specs=_specs_of_judges(body, self.actor),
                options=OrderOptions(
                    body["per_pair"], body["pairs"], body["again"], candidates=candidates
                ),
                own_family=body["own_family"],
                quorum=body.get("quorum"),
                weigh=body["weigh"],
            )

        now = timezone.now()
        order = prepare_measured(prepare, cap=body.get("cap"), now=now)
        if body["dry_run"]:
            return Response(QuoteShown(quote_for(order)).data)
        run = order_run(order=order, cap=body.get("cap"), now=now, by=self.actor)
        enqueue_on_commit()
        place = reverse("api_judge_run", args=[run.pk])
        return Response(report_of(run, now, self.actor), status=201, headers={"Location": place})


def _specs_of_judges(body: dict[str, Any], by: Actor) -> list[JudgeSpec]:
    """Raises JudgeError and Unprocessable."""
    names, quorum = body["judges"], body.get("quorum")
    if quorum and quorum > len(names):
        raise _field_error("quorum", QUORUM_TOO_HIGH)
    switches = Switches(
        swap_policy=body["order_policy"],
        unpinned=body["unpinned"],
        length_neutral=body.get("length_neutral"),
        soft=body["soft"],
        readings=body["samples"],
        output_limit=body.get("output_limit"),
        effort=body["effort"],
        schema=True if body["schema"] else None,
    )
    return [spec_named(name, switches, by) for name in names]


def _check_candidates(arena: Arena, ids: list[int]) -> frozenset[int]:
    """Each must be a candidate that can still be judged here."""
    candidates = frozenset(ids)
    active = Candidate.objects.active().filter(arena=arena, pk__in=candidates)
    if unknown := candidates - set(active.values_list("pk", flat=True)):
        unknown_ids = ", ".join(map(str, sorted(unknown)))
        raise _field_error("candidates", f"Not active candidates of this arena: {unknown_ids}.")
    if len(candidates) == 1:
        raise _field_error("candidates", "Name at least two different candidates.")
    return candidates


def _field_error(field: str, sentence: str) -> Unprocessable:
    return Unprocessable(sentence, [{"pointer": f"#/{field}", "detail": sentence}])


class OfJudgeRun(OfRun):
    """One judge run in an arena that the actor may see.

    Anyone who may start judge runs for the arena's team controls it.
    """

    tag = TAG

    @cached_property
    def run(self) -> Run:
        runs = runs_of_judges().filter(arena__in=self.arenas()).select_related("arena", "team")
        run: Run = get_object_or_404(runs, pk=self.kwargs["pk"])
        return run

    def shown(self) -> Response:
        return Response(report_of(self.run, timezone.now(), self.actor))

    def require_steering(self) -> None:
        self.require(TeamPermission.JUDGE, self.run.in_arena.team_id)


class OneRun(OfJudgeRun):
    @operation(
        "retrieve_judge_run",
        "Retrieve a judge run",
        answer=RunReportShown,
        shown=REPORT,
        description="Poll with the ETag until `state` is done, cancelled or paused.",
    )
    def get(self, request: Request, pk: int, slug: str = "") -> Response:
        return self.shown()


class RunOfArena(OneRun):
    @operation(
        "retrieve_judge_run_of_arena",
        "Retrieve a judge run of an arena",
        answer=RunReportShown,
        shown=REPORT,
        description=BY_LINK,
    )
    def get(self, request: Request, pk: int, slug: str = "") -> Response:
        return super().get(request, pk, slug)


class JudgeRunAction(OfJudgeRun):
    permissions = {"POST": TeamPermission.JUDGE}


class PauseJudgeRun(JudgeRunAction):
    @operation(
        "pause_judge_run",
        "Pause a judge run",
        answer=RunReportShown,
        shown=REPORT | {"state": "paused", "pause_reason": "Paused by the team."},
        description="Calls in progress will finish.",
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.pause()


class ResumeJudgeRun(JudgeRunAction):
    @operation(
        "resume_judge_run",
        "Resume a paused judge run",
        body=ResumeGiven,
        sent={"cap": 4.0},
        answer=RunReportShown,
        shown=REPORT | {"cap": 4.0},
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.resume()


class CancelJudgeRun(JudgeRunAction):
    @operation(
        "cancel_judge_run",
        "Cancel a judge run",
        answer=RunReportShown,
        shown=REPORT | {"state": "cancelled", "closed_at": "2026-11-22T10:00:00Z"},
        description="Verdicts so far are kept.",
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.cancel()


class RetryJudgeRun(JudgeRunAction):
    @operation(
        "retry_judge_run",
        "Retry the failures of a judge run that is done",
        answer=RunReportShown,
        shown=REPORT,
    )
    def post(self, request: Request, pk: int) -> Response:
        return self.retry()
