"""An order before it is written: which judges, which comparisons, which calls that takes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from arena.models import Arena
from judges.core.spec import JudgeSpec
from judges.models import Epoch, Judgement, JuryVerdict
from judges.models.judges import SCRIPTED
from judges.services import subjects
from judges.services.planning import (
    Askers,
    Pick,
    Plan,
    Wanted,
    families_in,
    plan_run,
    shares_of,
    without_family,
)
from judges.services.registering import (
    JudgeRefused,
    NothingToJudge,
    jury_digest,
    usual_quorum,
)
from judges.services.subjects import mark_of

MOST_JUDGES = 9


@dataclass(frozen=True)
class Member:
    """A judge and the comparisons that it is asked about. `epoch` is None before it is registered.

    `calls` maps the subject of each call to the subject of the call whose reply it needs.
    """

    spec: JudgeSpec
    epoch: Epoch | None
    own_family: bool
    picks: list[Pick]
    calls: dict[str, str | None]
    mark: str = ""


@dataclass(frozen=True)
class Order:
    """What somebody wants to buy. With two members or more there is a jury, with that quorum."""

    arena: Arena
    wanted: Wanted
    members: list[Member]
    picks: list[Pick]
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
    wanted: Wanted,
    own_family: bool = False,
    quorum: int | None = None,
    max_calls: int | None = None,
) -> Order:
    """Work out what an order takes; nothing is written.

    Raises JudgeRefused with a sentence when there is nothing to buy.
    """
    _check_judges(specs)
    if wanted.like_run is not None and any(spec.protocol == "listwise" for spec in specs):
        raise JudgeRefused("That run compared two answers at a time; a listwise judge needs three.")
    epochs = [_epoch_of(spec) for spec in specs]
    plan = plan_run(
        arena=arena, wanted=wanted, askers=_askers(specs), asked=_asked(arena, epochs, quorum)
    )
    if not plan.picks:
        raise _nothing_left(arena, plan, specs)
    families, mark = families_in(arena), mark_of(arena.criteria)
    drafts = [
        _member(spec, epoch, own_family, plan.picks, families, mark)
        for spec, epoch in zip(specs, epochs, strict=True)
    ]
    said = plan.left_out + [text for member in drafts if (text := _family_note(member, plan))]
    said += _scripts_note(arena, specs)
    count = _picks_within(drafts, plan.picks, max_calls)
    picks = plan.picks[:count]
    members = [_cut(member, frozenset(pick.responses for pick in picks)) for member in drafts]
    if not any(member.calls for member in members):
        raise JudgeRefused(_no_calls(max_calls, members))
    return Order(arena, wanted, members, picks, shares_of(picks), quorum, said)


def _check_judges(specs: Sequence[JudgeSpec]) -> None:
    if not specs:
        raise JudgeRefused("Name at least one judge.")
    if len(specs) > MOST_JUDGES:
        raise JudgeRefused(f"A jury has at most {MOST_JUDGES} judges.")
    if len({spec.digest for spec in specs}) < len(specs):
        raise JudgeRefused("A judge is named twice.")


def _epoch_of(spec: JudgeSpec) -> Epoch | None:
    epochs = Epoch.objects.open().select_related("judge", "rater")
    return epochs.filter(judge__digest=spec.digest).first()


def _askers(specs: Sequence[JudgeSpec]) -> Askers:
    return Askers(
        seed=specs[0].digest,
        listwise=any(spec.protocol == "listwise" for spec in specs),
        need_reference=any(spec.rubric.reference == "required" for spec in specs),
        raters="juries" if len(specs) > 1 else "judges",
    )


def _asked(arena: Arena, epochs: Sequence[Epoch | None], quorum: int | None) -> set[str]:
    """What needs no asking again: what this judge, or this very jury, was asked already."""
    if len(epochs) == 1:
        asked = Judgement.objects.filter(epoch=epochs[0], run__arena=arena).not_free()
        return set(asked.values_list("responses", flat=True)) if epochs[0] else set()
    askers = [epoch.asker for epoch in epochs if epoch is not None]
    digest = jury_digest(askers, quorum or usual_quorum(len(epochs)))
    verdicts = JuryVerdict.objects.filter(run__arena=arena, epoch__judge__digest=digest)
    decided = verdicts.exclude(state=JuryVerdict.State.WAITING, run__state="cancelled")
    return set(decided.values_list("responses", flat=True))


def _nothing_left(arena: Arena, plan: Plan, specs: Sequence[JudgeSpec]) -> JudgeRefused:
    """Say why a plan is empty."""
    candidates = arena.candidates.filter(retired_at=None).count()
    if candidates < 2:
        return JudgeRefused(
            f"This arena has {candidates or 'no'} candidate: there is nothing to compare."
        )
    if not arena.pairs.filter(weight__gt=0, shared_prompts__gt=0).exists():
        return JudgeRefused("This arena has no two candidates that answer the same prompt.")
    if not plan.pairs:
        return NothingToJudge(" ".join(["No pair is wanted by this order.", *plan.left_out]))
    who = specs[0].label if len(specs) == 1 else "This jury"
    why = f"{who} was already asked about every prompt of every pair that can be judged here."
    return NothingToJudge(" ".join([why, *plan.left_out]))


def _family_note(member: Member, plan: Plan) -> str:
    skipped = len(plan.picks) - len(member.picks)
    if member.own_family or not skipped:
        return ""
    return (
        f"{member.spec.label} does not judge {skipped} comparisons with an answer of its own "
        f"model family ({member.spec.family})."
    )


def _scripts_note(arena: Arena, specs: Sequence[JudgeSpec]) -> list[str]:
    """Warn whoever asks real judges where scripts have voted: they share the judges' board."""
    if all(spec.endpoint == SCRIPTED for spec in specs):
        return []
    votes = arena.votes.live().filter(rater__epoch__judge__endpoint=SCRIPTED)
    raters = sorted(set(votes.values_list("rater", flat=True)))
    if not raters:
        return []
    ids = ", ".join(str(pk) for pk in raters[:5])
    return [
        f"The judges' board of this arena counts {votes.count()} votes of scripted judges, which "
        "judge nothing real. An operator takes them out with manage.py void_rater ID "
        f'--reason "a script" (ID: {ids}).'
    ]


def _no_calls(max_calls: int | None, members: Sequence[Member]) -> str:
    if max_calls is not None and max_calls < 2:
        return "A comparison needs two calls, one in each order: --max-calls must be at least 2."
    return "Every comparison that is left has an answer of the judge's own model family."


# -- Members and their calls -----------------------------------------------------------------------


def _member(
    spec: JudgeSpec,
    epoch: Epoch | None,
    own_family: bool,
    picks: Sequence[Pick],
    families: Mapping[int, str],
    mark: str,
) -> Member:
    mine = list(picks) if own_family else without_family(picks, spec.family, families)
    return Member(spec, epoch, own_family, mine, calls_for(spec, mine, mark), mark)


def _cut(member: Member, responses: frozenset[str]) -> Member:
    mine = [pick for pick in member.picks if pick.responses in responses]
    return replace(member, picks=mine, calls=calls_for(member.spec, mine, member.mark))


def calls_for(spec: JudgeSpec, picks: Iterable[Pick], mark: str = "") -> dict[str, str | None]:
    """Map the subject of every call that these comparisons take to what it needs first.

    `mark` is that of the arena's criteria.
    """
    calls: dict[str, str | None] = {}
    for pick in picks:
        note = subjects.of_note(pick.prompt_id, mark) if spec.rubric.note else None
        if note is not None:
            calls[note] = None
        for shown in shown_in(spec, pick):
            calls[subjects.of_responses(shown, mark)] = note
    return calls


def shown_in(spec: JudgeSpec, pick: Pick) -> list[tuple[int, ...]]:
    """Return what each call of a comparison shows: the answers, in order."""
    low, high = pick.low_response, pick.high_response
    if spec.protocol == "direct":
        return [(low,), (high,)]
    if spec.protocol == "listwise" and pick.shown:
        return [pick.shown, pick.shown[::-1]]
    return [(low, high), (high, low)]


def _picks_within(members: Sequence[Member], picks: Sequence[Pick], most: int | None) -> int:
    """Return how many picks, from the first on, take at most `most` calls of all the members."""
    if most is None:
        return len(picks)
    wanted = [{pick.responses for pick in member.picks} for member in members]
    calls: set[tuple[int, str]] = set()
    for count, pick in enumerate(picks):
        for number, member in enumerate(members):
            if pick.responses in wanted[number]:
                calls |= {(number, subject) for subject in calls_for(member.spec, [pick])}
        if len(calls) > most:
            return count
    return len(picks)
