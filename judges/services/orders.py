"""Orders of judge runs: which judges make which comparisons, by which calls."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from arena.models import Arena, Run
from judges.core.spec import JudgeSpec
from judges.models import Epoch, Judgement, JuryVerdict
from judges.models.judges import SCRIPTED
from judges.services import subjects
from judges.services.planning import (
    OrderOptions,
    PlannedComparison,
    PlanOptions,
    RunPlan,
    exclude_family,
    plan_run,
    shares_of,
)
from judges.services.registry import (
    JudgeError,
    NothingToJudgeError,
    StillJudgingError,
    default_quorum,
    jury_digest,
    jury_weights,
)
from judges.services.subjects import criteria_suffix, families_in

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

    def limited_to(self, responses: Collection[str]) -> "Member":
        """Keep the comparisons of these pairs of responses."""
        picks = [pick for pick in self.picks if pick.responses in responses]
        return replace(self, picks=picks, calls=calls_for(self.spec, picks, self.criteria_suffix))


@dataclass(frozen=True)
class JudgeOrder:
    """An order that can be quoted and written. Two or more members form a jury with `quorum`.

    `shares` maps each pair's id to its share of the comparisons; `weights` are those of a jury that
    weighs its members.
    """

    kind = Run.Kind.JUDGE
    arena: Arena
    options: OrderOptions
    members: list[Member]
    picks: list[PlannedComparison]
    shares: Mapping[int, float]
    quorum: int | None = None
    left_out: list[str] = field(default_factory=list)
    weights: Mapping[str, Any] | None = None

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
    weigh: bool = False,
    max_calls: int | None = None,
) -> JudgeOrder:
    """Work out what an order takes; nothing is written.

    Raises JudgeError with a sentence when there is nothing to judge.
    """
    _check_judges(specs)
    if options.like_run is not None and any(spec.protocol == "listwise" for spec in specs):
        raise JudgeError("That run compared pairs; a listwise judge needs at least three answers.")
    families, suffix = families_in(arena), criteria_suffix(arena.criteria)
    if not own_family and _are_all_judges_partial(specs, options, families):
        raise JudgeError(_why_no_calls(max_calls))  # known before the two have answered anything
    registered = Epoch.objects.open().select_related("judge", "rater")
    epochs = [registered.filter(judge__digest=spec.digest).first() for spec in specs]
    weights = jury_weights(arena=arena, members=epochs) if weigh else None
    plan = plan_run(
        arena=arena,
        options=options,
        judges=_plan_options(specs),
        asked=_pairs_already_asked(arena, epochs, quorum, weights),
    )
    if not plan.picks:
        raise _nothing_to_judge(arena, plan, specs, _unfinished_run(arena, epochs, options))
    all_members = []
    for spec, epoch in zip(specs, epochs, strict=True):
        picks = plan.picks if own_family else exclude_family(plan.picks, spec.family, families)
        calls = calls_for(spec, picks, suffix)
        all_members.append(Member(spec, epoch, own_family, list(picks), calls, suffix))
    left_out = plan.left_out + _family_notes(all_members, plan) + _scripts_note(arena, specs)
    count = _count_affordable_picks(all_members, plan.picks, max_calls)
    picks = plan.picks[:count]
    affordable = {pick.responses for pick in picks}
    members = [member.limited_to(affordable) for member in all_members]
    if not any(member.calls for member in members):
        raise JudgeError(_why_no_calls(max_calls))
    return JudgeOrder(arena, options, members, picks, shares_of(picks), quorum, left_out, weights)


def _are_all_judges_partial(
    specs: Sequence[JudgeSpec], options: OrderOptions, families: Mapping[int, str]
) -> bool:
    """Whether the order is for two candidates, and one is of the family of every judge."""
    two = [families.get(pk, "") for pk in options.candidates]
    return len(two) == 2 and all(two.count(spec.family) == 1 for spec in specs)


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


def _pairs_already_asked(
    arena: Arena,
    epochs: Sequence[Epoch | None],
    quorum: int | None,
    weights: Mapping[str, Any] | None,
) -> set[str]:
    """Return the pairs of responses that this judge or jury was asked about before."""
    if len(epochs) == 1:
        if epochs[0] is None:
            return set()
        asked = Judgement.objects.filter(epoch=epochs[0], run__arena=arena).asked()
        return set(asked.values_list("responses", flat=True))
    requesters = [epoch.requester for epoch in epochs if epoch is not None]
    digest = jury_digest(requesters, quorum or default_quorum(len(epochs)), weights)
    verdicts = JuryVerdict.objects.filter(run__arena=arena, epoch__judge__digest=digest)
    decided = verdicts.exclude(state=JuryVerdict.State.CANCELLED)
    return set(decided.values_list("responses", flat=True))


def _unfinished_run(
    arena: Arena, epochs: Sequence[Epoch | None], options: OrderOptions
) -> Run | None:
    """Return a run in which one of the judges has such pairs yet to judge."""
    waiting = Judgement.objects.waiting().filter(epoch__in=[e for e in epochs if e is not None])
    if options.candidates:
        waiting = waiting.filter(
            comparison__left__in=options.candidates, comparison__right__in=options.candidates
        )
    runs = Run.objects.not_over().filter(arena=arena, pk__in=waiting.values("run"))
    return runs.order_by("pk").first()


def _nothing_to_judge(
    arena: Arena, plan: RunPlan, specs: Sequence[JudgeSpec], unfinished: Run | None
) -> JudgeError:
    """Explain why a plan is empty."""
    candidates = arena.candidates.filter(retired_at=None).count()
    if candidates < 2:
        count = "only one candidate" if candidates else "no candidates"
        return JudgeError(f"This arena has {count}: there is nothing to compare.")
    if not arena.pairs.filter(weight__gt=0, shared_prompts__gt=0).exists():
        return NothingToJudgeError(
            "No two candidates in this arena have different answers to the same prompt."
        )
    if not plan.pairs:
        return NothingToJudgeError(" ".join(["This run would include no pairs.", *plan.left_out]))
    if unfinished is not None:
        is_paused = unfinished.state == Run.State.PAUSED
        return StillJudgingError(
            f"Run {unfinished.pk} still has these pairs and is paused. Resume or cancel it first."
            if is_paused
            else f"Run {unfinished.pk} is still judging these pairs."
        )
    judge = specs[0].label if len(specs) == 1 else "This jury"
    reason = f"{judge} has already judged every prompt of every pair that can be judged here."
    return NothingToJudgeError(" ".join([reason, *plan.left_out]))


def _family_notes(members: Sequence[Member], plan: RunPlan) -> list[str]:
    return [
        f"{member.spec.label} skips {skipped} comparisons in which only one answer is by its own "
        f"model family ({member.spec.family}); --own-family, or own_family, allows them."
        for member in members
        if (skipped := len(plan.picks) - len(member.picks))
    ]


def _scripts_note(arena: Arena, specs: Sequence[JudgeSpec]) -> list[str]:
    """Warn if real judges would share a leaderboard with scripts that have voted."""
    if all(spec.endpoint == SCRIPTED for spec in specs):
        return []
    votes = arena.votes.live().filter(rater__epoch__judge__endpoint=SCRIPTED)
    raters = sorted(set(votes.values_list("rater", flat=True)))
    if not raters:
        return []
    ids = ", ".join(str(pk) for pk in raters[:5])
    return [
        f"The LLM-judge leaderboard of this arena counts {votes.count()} votes by scripted judges, "
        "which do not really judge. An administrator can remove them with manage.py void_rater ID "
        f'--reason "a script" (ID: {ids}).'
    ]


def _why_no_calls(max_calls: int | None) -> str:
    if max_calls is not None and max_calls < 2:
        return "A comparison needs two calls, one in each order: --max-calls must be at least 2."
    return (
        "In every remaining comparison, exactly one answer is by the judge's own model family."
        " Use another judge, or allow it: --own-family, or own_family in the API."
    )


def calls_for(
    spec: JudgeSpec, picks: Iterable[PlannedComparison], criteria_suffix: str = ""
) -> dict[str, str | None]:
    """Map the subject of each call for these comparisons to the subject of the one it needs first.

    `criteria_suffix` is that of the arena. Calls about one prompt, and of these those that show the
    same answer first, follow each other, because servers' caches keep what requests begin with.
    """
    calls: dict[str, str | None] = {}
    orders = {(pick.prompt_id, order) for pick in picks for order in answer_orders(spec, pick)}
    for prompt_id, order in sorted(orders):
        note = subjects.of_note(prompt_id, criteria_suffix) if spec.rubric.note else None
        if note is not None:
            calls[note] = None
        subject = subjects.of_responses(order, criteria_suffix)
        for number in range(1, spec.readings + 1):
            calls[subjects.of_reading(subject, number)] = note
    return calls


def answer_orders(spec: JudgeSpec, pick: PlannedComparison) -> list[tuple[int, ...]]:
    """Return the answers that each call of a comparison shows, in order."""
    low, high = pick.low_response, pick.high_response
    if spec.protocol == "direct":
        return [(low,), (high,)]
    if spec.protocol == "listwise" and pick.shown:
        return [pick.shown, pick.shown[::-1]]
    return [(low, high), (high, low)]


def _count_affordable_picks(
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
