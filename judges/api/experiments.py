"""Experiments in the API: drafts against a baseline, from the quote to the promotion."""

from functools import cached_property
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.actors import TeamPermission
from arena.api.core.errors import Unprocessable
from arena.api.core.schema import operation
from arena.api.core.serializers import Dollars, StrictSerializer, Text
from arena.api.core.views import ArenaEndpoint, ListEndpoint
from arena.calls.money import dollars
from arena.models import Candidate, Prompt
from arena.tasks import enqueue_on_commit
from judges.api.judges import JUDGE
from judges.experiment_report import (
    CheckRow,
    DraftReport,
    ExperimentReport,
    Figures,
    check_promotable,
    report_on,
)
from judges.models import Experiment
from judges.models.experiments import MARGIN, MOST_DRAFTS, MOST_PROMPTS, SIDES
from judges.services.decisions import baseline_of, baselines_in
from judges.services.experiments import (
    LEAST_PROMPTS,
    MOST_PEOPLE,
    TRIED,
    ExperimentQuote,
    MeasurementPlan,
    PlannedMeasurement,
    check_differences,
    create_experiment,
    enter_draft,
    find_experiment,
    promote_draft,
    quote_try,
    start_experiment,
    start_twin,
    stop_experiment,
    suggested_prompts,
    touch,
    try_drafts,
)
from judges.services.orders import MOST_JUDGES
from ranking.board_data import LARGEST_ID
from ranking.stats.claim import Verdict

TAG = "Experiments"
DRAFT: dict[str, Any] = {
    "id": 214,
    "name": "Greet by name",
    "verdict": "better",
    "sentence": "Greet by name is better than concise v3 for this judge and prompts like these: it "
    "wins 72% of the time (58% to 86%).",
    "win_rate": 0.72,
    "low": 0.58,
    "high": 0.86,
    "better": 42,
    "same": 13,
    "worse": 16,
    "equal": 6,
    "no_verdict": 0,
    "looked_at": 71,
    "answered": 100,
    "failed": 0,
    "errors": [],
    "cost": 0.0013,
    "seconds": 1.5,
    "checks": [
        {
            "name": "At most 120 words",
            "baseline": {"passed": 99, "failed": 1, "unknown": 0},
            "draft": {"passed": 97, "failed": 3, "unknown": 0},
            "broken": [{"prompt_id": "p4", "title": "A late parcel", "reason": "131 words"}],
            "fixed": 0,
            "allowed": 3,
            "is_guard": False,
            "passed": True,
        }
    ],
    "lost": [
        {
            "prompt_id": "p13",
            "title": "Chat: customer locked out before a webinar",
            "by": "both judges",
            "page": "https://arena.example/a/x-k3v9q2fd/runs/81/verdicts/13/",
        }
    ],
    "claim": None,
    "people": None,
}
SHOWN: dict[str, Any] = {
    "slug": "x-k3v9q2fd",
    "name": "Greet by name",
    "arena": "support-answers",
    "team": "acme",
    "state": "done",
    "reason": "",
    "baseline": {"id": 12, "name": "concise v3"},
    "twin_of_baseline": False,
    "judges": [JUDGE],
    "size": 100,
    "settled": 71,
    "looked_at": 71,
    "looks": [20, 40, 60, 80, 100],
    "side": "both",
    "margin": 0.45,
    "detect": None,
    "finds": 0.65,
    "baseline_figures": {"answered": 100, "failed": 0, "cost": 0.001, "seconds": 1.2},
    "drafts": [DRAFT],
    "people": None,
    "twin": None,
    "at_most": 1.1,
    "expected": 0.84,
    "cap": 1.1,
    "spent": 0.6,
    "promoted": None,
    "created_at": "2026-11-29T09:00:00Z",
    "registered_at": "2026-11-29T09:02:00Z",
    "finished_at": "2026-11-29T09:06:00Z",
    "expires_at": "2026-12-29T09:06:00Z",
    "page": "https://arena.example/experiments/x-k3v9q2fd/",
}
LISTED = {
    name: SHOWN[name]
    for name in ("slug", "name", "state", "reason", "created_at", "finished_at", "page")
}
QUOTE: dict[str, Any] = {
    "size": 100,
    "available": 120,
    "calls": 500,
    "expected": 0.84,
    "at_most": 1.1,
    "expected_size": 79.3,
    "finds": 0.65,
    "finds_words": "100 prompts: a 65:35 difference in 4 of 5 cases.",
    "detect": None,
    "needed": None,
}
SENT_DRAFT = {"name": "Greet by name", "system_prompt": "Greet people who wrote to us by name."}
TO_RUN = (TeamPermission.READ, TeamPermission.SUBMIT, TeamPermission.JUDGE)


class DraftGiven(StrictSerializer):
    """A draft; what is left out is as in the baseline."""

    name = serializers.CharField(required=False, max_length=200)
    system_prompt = Text(required=False)
    user_template = Text(required=False)
    messages = serializers.JSONField(required=False, allow_null=True)
    endpoint = serializers.CharField(required=False, allow_blank=True, max_length=100)
    model = serializers.CharField(required=False, allow_blank=True, max_length=200)
    parameters = serializers.DictField(required=False)


class PlanGiven(StrictSerializer):
    """How to measure: by judges, people, or both."""

    judges = serializers.ListField(
        child=serializers.CharField(max_length=300),
        default=list,
        max_length=MOST_JUDGES,
        help_text="Each a registered judge's name, or endpoint:model@rubric.",
    )
    size = serializers.IntegerField(
        required=False,
        min_value=LEAST_PROMPTS,
        max_value=MOST_PROMPTS,
        help_text="How many prompts, drawn at random; by default all, or as many as find `detect`.",
    )
    people = serializers.IntegerField(
        default=0, min_value=0, max_value=MOST_PEOPLE, help_text="Human votes on each draft."
    )
    side = serializers.ChoiceField(
        choices=list(SIDES),
        default="both",
        help_text="`worse` tests only whether a draft is worse, at 5 %: what a gate needs.",
    )
    margin = serializers.FloatField(
        default=MARGIN,
        min_value=0.01,
        max_value=0.49,
        help_text="Above this win rate a draft is no worse.",
    )
    detect = serializers.FloatField(
        required=False,
        allow_null=True,
        min_value=0.51,
        max_value=1.0,
        help_text="The share of decisive verdicts that matters: it sizes the run to find it in 4 "
        "of 5 cases.",
    )
    cap = Dollars(
        required=False, allow_null=True, help_text="A hard limit; by default what it costs at most."
    )
    own_family = serializers.BooleanField(
        default=False, help_text="Let judges judge answers by their own model family."
    )
    counts_votes = serializers.BooleanField(
        default=False,
        help_text="Count human votes on a draft on the leaderboard once it is entered.",
    )

    def validate(self, attrs: Any) -> Any:
        return attrs | {"side": SIDES[attrs["side"]]}


class ExperimentGiven(StrictSerializer):
    name = serializers.CharField(required=False, max_length=100)
    baseline = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=LARGEST_ID,
        help_text="A candidate's id; by default the team's baseline.",
    )
    drafts = serializers.ListField(
        child=DraftGiven(), min_length=1, max_length=MOST_DRAFTS, help_text="One to four."
    )
    category = serializers.CharField(
        required=False, max_length=200, help_text="Only prompts of this category."
    )
    prompts = serializers.ListField(
        child=serializers.CharField(max_length=200),
        required=False,
        max_length=MOST_PROMPTS,
        help_text="Only these prompts, by their external ids.",
    )
    reuse = serializers.BooleanField(
        default=False,
        help_text="Return the experiment with the same baseline, drafts and prompts, if there is "
        "one.",
    )
    plan = PlanGiven(
        required=False, help_text="With `reuse`: only one that is measured like this, or not yet."
    )


class TryGiven(StrictSerializer):
    prompts = serializers.ListField(
        child=serializers.CharField(max_length=200),
        required=False,
        max_length=TRIED,
        help_text="Up to three external ids; by default three that are spread over all.",
    )
    cap = Dollars(
        required=False, allow_null=True, help_text="Refuse if the answers may cost more than this."
    )


class TwinGiven(StrictSerializer):
    cap = Dollars(required=False, allow_null=True)


class PromoteGiven(StrictSerializer):
    why = serializers.CharField(default="", allow_blank=True, max_length=2000)


class EnterGiven(StrictSerializer):
    name = serializers.CharField(
        default="", allow_blank=True, max_length=200, help_text="By default the baseline's."
    )


class CandidateOfExperiment(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField()


class FiguresShown(serializers.Serializer[Figures]):
    """Means of an answer, in dollars and seconds."""

    answered = serializers.IntegerField(source="answers")
    failed = serializers.IntegerField(source="errors.failed")
    cost = Dollars(allow_null=True)
    seconds = serializers.FloatField(allow_null=True)


class LostShown(serializers.Serializer[Any]):
    prompt_id = serializers.CharField(source="prompt.external_id")
    title = serializers.CharField()
    by = serializers.CharField()
    page = serializers.SerializerMethodField()

    def get_page(self, lost: Any) -> str:
        page: str = self.context["request"].build_absolute_uri(lost.page) if lost.page else ""
        return page


class FailureShown(serializers.Serializer[Any]):
    reason = serializers.CharField()
    count = serializers.IntegerField()


class CheckCountShown(serializers.Serializer[Any]):
    passed = serializers.IntegerField()
    failed = serializers.IntegerField()
    unknown = serializers.IntegerField()


class BrokenShown(serializers.Serializer[Any]):
    prompt_id = serializers.CharField(source="prompt.external_id")
    title = serializers.CharField()
    reason = serializers.CharField()


class CheckOfDraft(serializers.Serializer[CheckRow]):
    """A check, a guard or an item of a judge's checklist; `broken` and `fixed` are against the
    baseline. `passed` is null where that is not known; items are only shown."""

    name = serializers.CharField()
    baseline = CheckCountShown()
    draft = CheckCountShown()
    broken = BrokenShown(many=True)
    fixed = serializers.IntegerField()
    allowed = serializers.IntegerField(help_text="How many of the draft's answers may fail it.")
    is_guard = serializers.BooleanField()
    passed = serializers.BooleanField(allow_null=True)


class DraftShown(serializers.Serializer[DraftReport]):
    """A draft against the baseline; `better`, `same` and `worse` count prompts. `people` is the
    claim by human votes, and `claim` the judges'."""

    id = serializers.IntegerField(source="candidate.pk")
    name = serializers.CharField(source="candidate.name")
    verdict = serializers.ChoiceField(choices=[verdict.value for verdict in Verdict])
    sentence = serializers.CharField()
    win_rate = serializers.FloatField(source="claim.win_rate", allow_null=True)
    low = serializers.FloatField(
        source="claim.low",
        allow_null=True,
        help_text="The interval excludes 0.5 exactly where it is better or worse. Where only "
        "`worse` is tested it is a 90 % interval, else one of 95 %.",
    )
    high = serializers.FloatField(source="claim.high", allow_null=True)
    better = serializers.IntegerField(source="measured.tally.better")
    same = serializers.IntegerField(source="measured.tally.same")
    worse = serializers.IntegerField(source="measured.tally.worse")
    equal = serializers.IntegerField(
        source="measured.tally.equal", help_text="Ties of the same answers, which cost nothing."
    )
    no_verdict = serializers.IntegerField(source="measured.tally.none")
    looked_at = serializers.IntegerField(
        source="measured.looked_at", help_text="The prompts of the look that the verdict is from."
    )
    answered = serializers.IntegerField(source="figures.answers")
    failed = serializers.IntegerField(source="figures.errors.failed")
    # A serializer has `errors` of its own, which stay: fields are taken out of the class.
    errors = serializers.SerializerMethodField()  # type: ignore[assignment]
    cost = Dollars(source="figures.cost", allow_null=True)
    seconds = serializers.FloatField(source="figures.seconds", allow_null=True)
    checks = CheckOfDraft(many=True)
    lost = LostShown(many=True)
    claim = serializers.SerializerMethodField()
    people = serializers.SerializerMethodField()

    @extend_schema_field(FailureShown(many=True))
    def get_errors(self, draft: DraftReport) -> Any:
        return [{"reason": reason, "count": n} for reason, n in draft.figures.errors.reasons]

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_claim(self, draft: DraftReport) -> Any:
        return draft.measured.claim.json if draft.experiment.judges else None

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_people(self, draft: DraftReport) -> Any:
        return draft.measured.people.json if draft.experiment.people else None


class ListedExperiment(serializers.ModelSerializer[Experiment]):
    slug = serializers.CharField(source="arena.slug")
    name = serializers.CharField(source="arena.name")
    state = serializers.ChoiceField(choices=Experiment.State.choices)
    page = serializers.SerializerMethodField()

    class Meta:
        model = Experiment
        fields = list(LISTED)

    def get_page(self, experiment: Experiment) -> str:
        page: str = self.context["request"].build_absolute_uri(experiment.get_absolute_url())
        return page


class PeopleShown(serializers.Serializer[Any]):
    done = serializers.IntegerField()
    wanted = serializers.IntegerField()
    link = serializers.CharField(help_text="Whoever opens it votes on this experiment alone.")


class TwinShown(serializers.Serializer[Any]):
    """The baseline against a second generation of itself: on how many prompts it won or lost."""

    state = serializers.CharField(source="experiment.state")
    prompts = serializers.IntegerField(source="judged")
    flips = serializers.IntegerField()
    sentence = serializers.CharField()


class PromotedShown(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    name = serializers.CharField()
    why = serializers.CharField()
    at = serializers.DateTimeField()


class ExperimentShown(serializers.Serializer[ExperimentReport]):
    """An experiment as it is now; amounts are in dollars."""

    slug = serializers.CharField(source="experiment.arena.slug")
    name = serializers.CharField(source="experiment.arena.name")
    arena = serializers.CharField(source="experiment.origin.slug")
    team = serializers.CharField(source="experiment.team.slug")
    state = serializers.ChoiceField(source="experiment.state", choices=Experiment.State.choices)
    reason = serializers.CharField(source="experiment.reason")
    baseline = serializers.SerializerMethodField()
    twin_of_baseline = serializers.BooleanField(source="experiment.twin")
    judges = serializers.ListField(child=serializers.CharField(), source="experiment.judges")
    size = serializers.IntegerField(source="experiment.size")
    settled = serializers.IntegerField(help_text="How many of them need nothing more.")
    looked_at = serializers.IntegerField()
    looks = serializers.SerializerMethodField()
    side = serializers.SerializerMethodField()
    margin = serializers.FloatField(source="experiment.margin")
    detect = serializers.FloatField(source="experiment.detect", allow_null=True)
    finds = serializers.FloatField(
        allow_null=True,
        help_text="The least share of decisive verdicts that is found in 4 of 5 cases.",
    )
    baseline_figures = FiguresShown(source="baseline")
    drafts = DraftShown(many=True)
    people = PeopleShown(allow_null=True)
    twin = TwinShown(allow_null=True)
    at_most = Dollars(source="experiment.at_most", allow_null=True)
    expected = Dollars(source="experiment.expected", allow_null=True)
    cap = Dollars(source="experiment.cap", allow_null=True)
    spent = Dollars()
    promoted = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField(source="experiment.created_at")
    registered_at = serializers.DateTimeField(source="experiment.registered_at", allow_null=True)
    finished_at = serializers.DateTimeField(source="experiment.finished_at", allow_null=True)
    expires_at = serializers.DateTimeField()
    page = serializers.SerializerMethodField()

    @extend_schema_field(CandidateOfExperiment(allow_null=True))
    def get_baseline(self, report: ExperimentReport) -> Any:
        baseline = report.experiment.baseline
        return baseline and {"id": baseline.pk, "name": baseline.own_name}

    @extend_schema_field(serializers.ListField(child=serializers.IntegerField()))
    def get_looks(self, report: ExperimentReport) -> Any:
        return report.experiment.registration.ends if report.experiment.size else []

    @extend_schema_field(serializers.ChoiceField(choices=list(SIDES)))
    def get_side(self, report: ExperimentReport) -> str:
        return next(name for name, side in SIDES.items() if side == report.experiment.side)

    @extend_schema_field(PromotedShown(allow_null=True))
    def get_promoted(self, report: ExperimentReport) -> Any:
        experiment = report.experiment
        entered = experiment.promoted
        if entered is None:
            return None
        facts = {"id": entered.pk, "name": entered.own_name, "why": experiment.why}
        return PromotedShown(facts | {"at": experiment.promoted_at}).data

    def get_page(self, report: ExperimentReport) -> str:
        path = report.experiment.get_absolute_url()
        page: str = self.context["request"].build_absolute_uri(path)
        return page


class ExperimentQuoteShown(serializers.Serializer[ExperimentQuote]):
    """What measuring would cost in dollars, and what it could find."""

    size = serializers.IntegerField()
    available = serializers.IntegerField()
    calls = serializers.IntegerField()
    expected = Dollars(allow_null=True, help_text="It counts on an early end.")
    at_most = Dollars(allow_null=True, help_text="A run that goes to its end costs about this.")
    expected_size = serializers.FloatField()
    finds = serializers.FloatField(allow_null=True)
    finds_words = serializers.CharField()
    detect = serializers.FloatField(allow_null=True)
    needed = serializers.IntegerField(
        allow_null=True, help_text="How many prompts find `detect` in 4 of 5 cases."
    )


def named_prompts(active: QuerySet[Prompt], names: list[str]) -> QuerySet[Prompt]:
    """Those of `active` with these external ids. Raises Unprocessable for an unknown one."""
    found = active.filter(external_id__in=names)
    missing = sorted(set(names) - set(found.values_list("external_id", flat=True)))
    if missing:
        raise Unprocessable(f"There is no active prompt “{missing[0]}” here.")
    return found


class Experiments(ArenaEndpoint, ListEndpoint):
    tag = TAG
    is_open = False
    permissions = {"POST": TeamPermission.SUBMIT}
    newest_first = True

    @operation(
        "list_experiments",
        "List an arena's experiments, newest first",
        answer=ListedExperiment(many=True),
        shown=LISTED,
    )
    def get(self, request: Request, slug: str) -> Response:
        self.require(TeamPermission.READ, self.arena.team_id)
        rows = Experiment.objects.filter(arena__origin=self.arena).select_related("arena")
        return self.page(rows, ListedExperiment)

    @operation(
        "create_experiment",
        "Create an experiment: drafts against a baseline",
        body=ExperimentGiven,
        sent={"drafts": [SENT_DRAFT]},
        answer=ExperimentShown,
        shown=SHOWN | {"state": "draft"},
        status=201,
        or_status=200,
        description="Nothing is generated or spent yet. It has a private arena of its own, with "
        "copies of the prompts and of the baseline: upload answers of drafts without an endpoint "
        "there, by the experiment's `slug` and the draft's `id`.",
    )
    def post(self, request: Request, slug: str) -> Response:
        for permission in (TeamPermission.READ, TeamPermission.SUBMIT):
            self.require(permission, self.arena.team_id)
        body = self.validated(ExperimentGiven)
        content: dict[str, Any] = {
            "origin": self.arena,
            "baseline": self._baseline(body.get("baseline")),
            "drafts": body["drafts"],
            "prompts": self._prompts(body),
        }
        plan = MeasurementPlan(**body["plan"]) if "plan" in body else None
        found = find_experiment(**content, plan=plan) if body["reuse"] else None
        if found is not None:
            touch(found, timezone.now())
            return Response(self._shown(found), status=200)
        with transaction.atomic():
            made = create_experiment(
                **content, by=self.actor, now=timezone.now(), name=body.get("name", "")
            )
            check_differences(made)
        place = reverse("api_experiment", args=[made.arena.slug])
        return Response(self._shown(made), status=201, headers={"Location": place})

    def _shown(self, experiment: Experiment) -> Any:
        context = self.get_serializer_context()
        return ExperimentShown(report_on(experiment), context=context).data

    def _baseline(self, pk: int | None) -> Candidate:
        if pk is not None:
            named: Candidate | None = baselines_in(self.arena).filter(pk=pk).first()
            if named is None:
                raise Unprocessable("There is no active candidate with this id here.")
            return named
        found = baseline_of(self.arena)
        if found is None:
            raise Unprocessable("This arena has no candidate to compare drafts with.")
        return found

    def _prompts(self, body: dict[str, Any]) -> QuerySet[Prompt] | None:
        active = self.arena.prompts.active()
        if "prompts" in body:
            return named_prompts(active, body["prompts"])
        return active.filter(category=body["category"]) if "category" in body else None


class OfExperiment(ArenaEndpoint):
    """The base of the endpoints of one experiment, by the slug of its own arena."""

    tag = TAG
    is_open = False

    @cached_property
    def experiment(self) -> Experiment:
        rows = Experiment.objects.select_related(
            "arena__team", "arena__origin", "baseline", "copy", "promoted"
        )
        found: Experiment = get_object_or_404(rows, arena=self.arena)
        return found

    def answer(self) -> Response:
        self.experiment.refresh_from_db()
        context = self.get_serializer_context()
        return Response(ExperimentShown(report_on(self.experiment), context=context).data)

    def require_of_team(self, *permissions: TeamPermission) -> None:
        for permission in permissions:
            self.require(permission, self.experiment.arena.team_id)

    @property
    def draft(self) -> Candidate:
        draft: Candidate = get_object_or_404(self.experiment.drafts, pk=self.kwargs["pk"])
        return draft


class OneExperiment(OfExperiment):
    @operation(
        "retrieve_experiment",
        "Retrieve an experiment",
        answer=ExperimentShown,
        shown=SHOWN,
        description="The same as the experiment's page. Poll with the ETag until `state` is done "
        "or stopped.",
    )
    def get(self, request: Request, slug: str) -> Response:
        self.require_of_team(TeamPermission.READ)
        return self.answer()


class QuoteExperiment(OfExperiment):
    permissions = {"POST": TeamPermission.SUBMIT}

    @operation(
        "quote_experiment",
        "Quote measuring an experiment",
        body=PlanGiven,
        sent={"judges": [JUDGE], "detect": 0.65, "side": "worse"},
        answer=ExperimentQuoteShown,
        shown=QUOTE,
        description="Nothing is started.",
    )
    def post(self, request: Request, slug: str) -> Response:
        self.require_of_team(TeamPermission.SUBMIT)
        planned = PlannedMeasurement(
            self.experiment, MeasurementPlan(**self.validated(PlanGiven)), self.actor
        )
        planned.check()
        return Response(ExperimentQuoteShown(planned.quote()).data)


class RunExperiment(OfExperiment):
    permissions = {"POST": TeamPermission.JUDGE}

    @operation(
        "run_experiment",
        "Run an experiment",
        body=PlanGiven,
        sent={"judges": [JUDGE], "detect": 0.65, "side": "worse", "cap": 2.0},
        answer=ExperimentShown,
        shown=SHOWN | {"state": "running"},
        description="Registers the measurement, and begins it: missing answers are generated, "
        "judges are asked in a random order of prompts and looked at after each fifth, and people "
        "get a link. It ends as soon as nothing more can be learnt. A stopped experiment goes on "
        "as registered.",
    )
    def post(self, request: Request, slug: str) -> Response:
        self.require_of_team(*TO_RUN)
        plan = MeasurementPlan(**self.validated(PlanGiven))
        start_experiment(experiment=self.experiment, plan=plan, by=self.actor, now=timezone.now())
        enqueue_on_commit()
        return self.answer()


class TryExperiment(OfExperiment):
    permissions = {"POST": TeamPermission.SUBMIT}

    @operation(
        "try_experiment",
        "Generate the answers to three prompts",
        body=TryGiven,
        sent={},
        answer=ExperimentShown,
        shown=SHOWN | {"state": "draft"},
        description="Of the baseline and the drafts; read them as responses of the experiment's "
        "arena.",
    )
    def post(self, request: Request, slug: str) -> Response:
        self.require_of_team(TeamPermission.READ, TeamPermission.SUBMIT)
        given = self.validated(TryGiven)
        prompts = suggested_prompts(self.experiment)
        if names := given.get("prompts"):
            prompts = list(named_prompts(self.arena.prompts.active(), names))
        cap, most = given.get("cap"), quote_try(experiment=self.experiment, prompts=prompts).worst
        if cap is not None and most is not None and most > cap:
            raise Unprocessable(f"The answers may cost up to {dollars(most)}: more than the cap.")
        try_drafts(experiment=self.experiment, prompts=prompts, by=self.actor, now=timezone.now())
        enqueue_on_commit()
        return self.answer()


class StopExperiment(OfExperiment):
    permissions = {"POST": TeamPermission.SUBMIT}

    @operation(
        "stop_experiment",
        "Stop an experiment",
        answer=ExperimentShown,
        shown=SHOWN | {"state": "stopped", "reason": "The team stopped it."},
        description="What is known stays. Running it again goes on as registered.",
    )
    def post(self, request: Request, slug: str) -> Response:
        self.require_of_team(TeamPermission.READ, TeamPermission.SUBMIT)
        stop_experiment(experiment=self.experiment, by=self.actor, now=timezone.now())
        return self.answer()


class TwinOfExperiment(OfExperiment):
    permissions = {"POST": TeamPermission.JUDGE}

    @operation(
        "test_baseline",
        "Compare the baseline with a second generation of itself",
        body=TwinGiven,
        sent={"cap": 1.0},
        answer=ExperimentShown,
        shown=SHOWN,
        description="By the same judges on the same prompts; done before, it costs nothing.",
    )
    def post(self, request: Request, slug: str) -> Response:
        self.require_of_team(*TO_RUN)
        cap = self.validated(TwinGiven).get("cap")
        start_twin(experiment=self.experiment, cap=cap, by=self.actor, now=timezone.now())
        enqueue_on_commit()
        return self.answer()


class PromoteDraft(OfExperiment):
    permissions = {"POST": TeamPermission.SUBMIT}

    @operation(
        "promote_draft",
        "Make a draft the team's baseline",
        body=PromoteGiven,
        sent={"why": "It greets people by name and loses nothing."},
        answer=ExperimentShown,
        shown=SHOWN,
        description="It is entered in the arena as the baseline's next version, with its answers. "
        "Only a measured draft that is better, or no worse, and passes its checks.",
    )
    def post(self, request: Request, slug: str, pk: int) -> Response:
        self.require_of_team(TeamPermission.READ, TeamPermission.SUBMIT)
        why = self.validated(PromoteGiven)["why"]
        check_promotable(self.experiment, self.draft)
        promote_draft(
            experiment=self.experiment,
            draft=self.draft,
            by=self.actor,
            now=timezone.now(),
            why=why,
        )
        return self.answer()


class EnterDraft(OfExperiment):
    permissions = {"POST": TeamPermission.SUBMIT}

    @operation(
        "enter_draft",
        "Enter a draft in the arena",
        body=EnterGiven,
        sent={"name": "Greet by name"},
        answer=CandidateOfExperiment,
        shown={"id": 31, "name": "Greet by name"},
        status=201,
        description="As a candidate with its answers; the baseline stays.",
    )
    def post(self, request: Request, slug: str, pk: int) -> Response:
        self.require_of_team(TeamPermission.SUBMIT)
        entered = enter_draft(
            experiment=self.experiment,
            draft=self.draft,
            by=self.actor,
            now=timezone.now(),
            name=self.validated(EnterGiven)["name"],
        )
        facts = {"id": entered.pk, "name": entered.own_name}
        return Response(CandidateOfExperiment(facts).data, status=201)
