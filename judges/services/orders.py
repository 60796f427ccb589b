"""Judge orders before they are written: which judges, which comparisons, which calls."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from django.db.models import Count, Exists, OuterRef, Prefetch, Q, QuerySet

from arena.models import Arena, Run
from judges.core.spec import JudgeSpec
from judges.models import Epoch, Judgement, JuryVerdict, RunJudge
from judges.models.judges import SCRIPTED
from judges.services import subjects
from judges.services.planning import (
    OrderOptions,
    PlannedComparison,
    PlanOptions,
    RunPlan,
    exclude_family,
    families_in,
    plan_run,
    shares_of,
)
from judges.services.registry import JudgeError, NothingToJudgeError, default_quorum, jury_digest
from judges.services.subjects import criteria_suffix

MOST_JUDGES = 9


@dataclass(frozen=True)
class Member:
    """A judge of an order and the comparisons it makes.

    `epoch` is None before the judge is registered. `calls` maps the subject of each call to the
    subject of the call whose reply it needs first. `criteria_suffix` is that of the arena.
    """

    spec: JudgeSpec
    epoch: Epoch | None
    own_family: bool
    picks: list[PlannedComparison]
    calls: dict[str, str | None]
    criteria_suffix: str = ""


@dataclass(frozen=True)
class JudgeOrder:
    """An order that can be quoted and written. Two or more members form a jury with `quorum`.

    `shares` maps each pair's id to its share of the comparisons.
    """

    arena: Arena
    options: OrderOptions
    members: list[Member]
    picks: list[PlannedComparison]
    shares: Mapping[int, float]
    quorum: int | None = None
    left_out: list[str] = field(default_factory=list)

    @property
    def is_jury(self) -> bool:
        return len(self.members) > 1

    @property
    def calls(self) -> int:
        return sum(len(member.calls) for member in self.members)


def prepare_order(
    *,
    arena: Arena,
    specs: Sequence[JudgeSpec],
    options: OrderOptions,
    own_family: bool = False,
    quorum: int | None = None,
    max_calls: int | None = None,
) -> JudgeOrder:
    """Work out what an order takes; nothing is written.

    Raises JudgeError with a sentence when there is nothing to judge.
    """
    _check_judges(specs)
    if options.like_run is not None and any(spec.protocol == "listwise" for spec in specs):
        raise JudgeError("That run compared two answers at a time; a listwise judge needs three.")
    registered = Epoch.objects.open().select_related("judge", "rater")
    epochs = [registered.filter(judge__digest=spec.digest).first() for spec in specs]
    plan = plan_run(
        arena=arena,
        options=options,
        judges=_plan_options(specs),
        asked=_already_asked(arena, epochs, quorum),
    )
    if not plan.picks:
        raise _nothing_to_judge(arena, plan, specs)
    families, suffix = families_in(arena), criteria_suffix(arena.criteria)
    all_members = []
    for spec, epoch in zip(specs, epochs, strict=True):
        picks = plan.picks if own_family else exclude_family(plan.picks, spec.family, families)
        calls = calls_for(spec, picks, suffix)
        all_members.append(Member(spec, epoch, own_family, list(picks), calls, suffix))
    left_out = plan.left_out + _family_notes(all_members, plan) + _scripts_note(arena, specs)
    count = _picks_within(all_members, plan.picks, max_calls)
    picks = plan.picks[:count]
    affordable = {pick.responses for pick in picks}
    members = [_limit(member, affordable) for member in all_members]
    if not any(member.calls for member in members):
        raise JudgeError(_why_no_calls(max_calls))
    return JudgeOrder(arena, options, members, picks, shares_of(picks), quorum, left_out)


def _check_judges(specs: Sequence[JudgeSpec]) -> None:
    if not specs:
        raise JudgeError("Name at least one judge.")
    if len(specs) > MOST_JUDGES:
        raise JudgeError(f"A jury has at most {MOST_JUDGES} judges.")
    if len({spec.digest for spec in specs}) < len(specs):
        raise JudgeError("A judge is named twice.")


def _plan_options(specs: Sequence[JudgeSpec]) -> PlanOptions:
    return PlanOptions(
        seed=specs[0].digest,
        listwise=any(spec.protocol == "listwise" for spec in specs),
        need_reference=any(spec.rubric.reference == "required" for spec in specs),
        raters="juries" if len(specs) > 1 else "judges",
    )


def _already_asked(arena: Arena, epochs: Sequence[Epoch | None], quorum: int | None) -> set[str]:
    """Return the pairs of responses that this judge, or this very jury, was asked about before."""
    if len(epochs) == 1:
        if epochs[0] is None:
            return set()
        asked = Judgement.objects.filter(epoch=epochs[0], run__arena=arena).not_free()
        return set(asked.values_list("responses", flat=True))
    askers = [epoch.asker for epoch in epochs if epoch is not None]
    digest = jury_digest(askers, quorum or default_quorum(len(epochs)))
    verdicts = JuryVerdict.objects.filter(run__arena=arena, epoch__judge__digest=digest)
    decided = verdicts.exclude(state=JuryVerdict.State.WAITING, run__state="cancelled")
    return set(decided.values_list("responses", flat=True))


def _nothing_to_judge(arena: Arena, plan: RunPlan, specs: Sequence[JudgeSpec]) -> JudgeError:
    """Explain why a plan is empty."""
    candidates = arena.candidates.filter(retired_at=None).count()
    if candidates < 2:
        count = "only one candidate" if candidates else "no candidates"
        return JudgeError(f"This arena has {count}: there is nothing to compare.")
    if not arena.pairs.filter(weight__gt=0, shared_prompts__gt=0).exists():
        return JudgeError("No two candidates in this arena answer the same prompt.")
    if not plan.pairs:
        return NothingToJudgeError(" ".join(["This order includes no pairs.", *plan.left_out]))
    judge = specs[0].label if len(specs) == 1 else "This jury"
    reason = f"{judge} has already judged every prompt of every pair that can be judged here."
    return NothingToJudgeError(" ".join([reason, *plan.left_out]))


def _family_notes(members: Sequence[Member], plan: RunPlan) -> list[str]:
    return [
        f"{member.spec.label} skips {skipped} comparisons with an answer from its own model "
        f"family ({member.spec.family})."
        for member in members
        if (skipped := len(plan.picks) - len(member.picks))
    ]


def _scripts_note(arena: Arena, specs: Sequence[JudgeSpec]) -> list[str]:
    """Warn when real judges are asked where scripts have voted: they share a leaderboard."""
    if all(spec.endpoint == SCRIPTED for spec in specs):
        return []
    votes = arena.votes.live().filter(rater__epoch__judge__endpoint=SCRIPTED)
    raters = sorted(set(votes.values_list("rater", flat=True)))
    if not raters:
        return []
    ids = ", ".join(str(pk) for pk in raters[:5])
    return [
        f"The LLM-judge leaderboard of this arena counts {votes.count()} votes by scripted judges, "
        "which judge nothing real. An administrator removes them with manage.py void_rater ID "
        f'--reason "a script" (ID: {ids}).'
    ]


def _why_no_calls(max_calls: int | None) -> str:
    if max_calls is not None and max_calls < 2:
        return "A comparison needs two calls, one in each order: --max-calls must be at least 2."
    return "Every remaining comparison has an answer from the judge's own model family."


# -- Calls -----------------------------------------------------------------------------------------


def _limit(member: Member, responses: Collection[str]) -> Member:
    """Keep the comparisons of these pairs of responses."""
    picks = [pick for pick in member.picks if pick.responses in responses]
    calls = calls_for(member.spec, picks, member.criteria_suffix)
    return replace(member, picks=picks, calls=calls)


def calls_for(
    spec: JudgeSpec, picks: Iterable[PlannedComparison], criteria_suffix: str = ""
) -> dict[str, str | None]:
    """Map the subject of each call for these comparisons to the subject of the one it needs first.

    `criteria_suffix` is that of the arena.
    """
    calls: dict[str, str | None] = {}
    for pick in picks:
        note = subjects.of_note(pick.prompt_id, criteria_suffix) if spec.rubric.note else None
        if note is not None:
            calls[note] = None
        for order in answer_orders(spec, pick):
            calls[subjects.of_responses(order, criteria_suffix)] = note
    return calls


def answer_orders(spec: JudgeSpec, pick: PlannedComparison) -> list[tuple[int, ...]]:
    """Return the answers that each call of a comparison shows, in order."""
    low, high = pick.low_response, pick.high_response
    if spec.protocol == "direct":
        return [(low,), (high,)]
    if spec.protocol == "listwise" and pick.shown:
        return [pick.shown, pick.shown[::-1]]
    return [(low, high), (high, low)]


def _picks_within(
    members: Sequence[Member], picks: Sequence[PlannedComparison], max_calls: int | None
) -> int:
    """Return how many of the first picks all members together judge in `max_calls` calls."""
    if max_calls is None:
        return len(picks)
    judged = [{pick.responses for pick in member.picks} for member in members]
    calls: set[tuple[int, str]] = set()
    for count, pick in enumerate(picks):
        for number, member in enumerate(members):
            if pick.responses in judged[number]:
                calls |= {(number, subject) for subject in calls_for(member.spec, [pick])}
        if len(calls) > max_calls:
            return count
    return len(picks)


def runs_of_judges() -> "QuerySet[Run]":
    """Runs that judges were ordered for; imported ones and those of people are not."""
    judged = RunJudge.objects.filter(run=OuterRef("pk"))
    return Run.objects.filter(Exists(judged), kind=Run.Kind.JUDGE)


def runs_in(arena: Arena | None) -> "QuerySet[Run]":
    """The runs of an arena, newest first, with how far they are; trials where there is none."""
    waiting = Q(judgements__state=Judgement.State.WAITING)
    members = RunJudge.objects.select_related("epoch__judge").order_by("pk")
    return (
        runs_of_judges()
        .filter(arena=arena)
        .select_related("arena")
        .prefetch_related(Prefetch("run_judges", queryset=members, to_attr="members"))
        .annotate(total=Count("judgements"), settled_count=Count("judgements", filter=~waiting))
        .order_by("-pk")
    )
