"""The registry of judges and juries: looking them up by name, and registering them."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from arena.actors import ANONYMOUS, Actor
from arena.calls.capabilities import capability_of
from arena.calls.money import DEFAULT_MAX_TOKENS
from arena.calls.providers.base import EndpointStoppedError
from arena.endpoints import UnknownEndpointError, all_endpoints, endpoint_named, key_of
from arena.errors import ServiceError
from arena.models import Arena, Rater, Team
from arena.permissions import visible_teams
from judges.core.parsing import reader_digest
from judges.core.rubric import Rubric, RubricError
from judges.core.spec import (
    MOST_OUTPUT,
    PROMPT_VERSION,
    Example,
    JudgeSpec,
    SpecError,
    check_pinned,
    family_of,
)
from judges.models import Calibration, Epoch, Judge, MergedModel, RubricVersion, requester_of
from judges.models.judges import SCRIPTED
from judges.services.rubrics import find_version, rubric_named, rubric_of_judge

DEFAULT_RUBRIC = "pairwise"
SCRIPTED_MODELS = [f"{SCRIPTED}-{number}" for number in (1, 2, 3)]
SCRIPTED_MODEL = SCRIPTED_MODELS[0]
MOST_PANELS = 50
# How many times the room of a verdict an effort gets, until the model has been measured.
ROOM_OF_EFFORT = {"minimal": 2, "low": 4, "medium": 16, "high": 32}
NOT_MEASURED_TOGETHER = (
    "Members are weighed by their accuracy in this arena, and these judges were not measured "
    "together here. Run `calibrate --arena` for each of them; this requires at least 60 pairs "
    "with human votes that all of them have judged, and at most 5 judges."
)


class JudgeError(ServiceError):
    """A judge that cannot be asked; the message is for the person who named it."""


class NothingToJudgeError(JudgeError):
    """An order with no comparison left to judge."""

    kind = "nothing-to-do"


class StillJudgingError(JudgeError):
    """An order of comparisons that an unfinished run already contains."""

    kind = "still-judging"


@dataclass(frozen=True)
class Switches:
    """Options of a judge other than endpoint, model and rubric; each combination is another judge.

    swap_policy: what happens when the verdict changes with the order: abstain, tie or average.
    unpinned: the model name is a known alias.
    length_neutral: tell the judge that length earns nothing; None leaves it to the rubric.
    soft: record the probability of each outcome, where the endpoint returns it.
    examples: few-shot examples.
    readings: how often each call is asked; together they are one verdict.
    schema: as in JudgeSpec; None is what the judge of that name has, and True for a new one.
    output_limit: the most tokens of a reply, thought included; None leaves it to the rubric, or to
        what was learned about the model.
    effort: how much a model that thinks shall think; "" leaves it to the model.
    """

    swap_policy: str = "abstain"
    unpinned: bool = False
    length_neutral: bool | None = None
    soft: bool = False
    examples: tuple[Example, ...] = ()
    readings: int = 1
    schema: bool | None = None
    output_limit: int | None = None
    effort: str = ""


DEFAULT_SWITCHES = Switches()


def spec_named(
    name: str, switches: Switches = DEFAULT_SWITCHES, by: Actor = ANONYMOUS
) -> JudgeSpec:
    """Return the judge called `name`: a registered one, or `endpoint:model[@rubric]`.

    A team's rubric can only be used by those who see the team. Nothing is written. Raises
    JudgeError with a sentence.
    """
    try:
        spec = _spec_of_registered(name, switches, by) or _spec_of_typed(name, switches, by)
        key_of(endpoint_named(spec.endpoint))
    except (UnknownEndpointError, RubricError, SpecError, EndpointStoppedError) as error:
        raise JudgeError(str(error)) from None
    return spec


def spec_of(judge: Judge) -> JudgeSpec:
    """Return the spec of a registered judge, with the server's rubric as it is now."""
    return JudgeSpec(
        endpoint=judge.endpoint,
        model=judge.model,
        rubric=rubric_of_judge(judge),
        swap_policy=judge.order_policy,
        unpinned=judge.unpinned,
        length_neutral=judge.length_neutral,
        soft=judge.soft,
        readings=judge.readings,
        schema=judge.schema,
        output_limit=judge.output_limit,
        effort=judge.effort,
        examples=tuple(
            Example(**{**facts, "answers": tuple(facts["answers"])}) for facts in judge.examples
        ),
        parents_family=judge.family if judge.family != family_of(judge.model) else "",
    )


def may_use(judge: Judge, by: Actor) -> bool:
    """Whether `by` sees the team whose rubric the judge uses."""
    version = judge.rubric_version
    if version is None or by.is_operator:
        return True
    return visible_teams(by).filter(rubrics=version.rubric_id).exists()


def _spec_of_registered(name: str, switches: Switches, by: Actor) -> JudgeSpec | None:
    judges = Judge.objects.exclude(protocol=Judge.Protocol.JURY)
    judge = judges.filter(name=name).first() or judges.with_digest(name)
    if judge is None or not may_use(judge, by):
        return None
    spec = spec_of(judge)
    if spec.digest != judge.digest:
        if name == spec.label:
            return None  # the name also means a judge with the current files
        raise SpecError(
            f"The files of rubric {judge.rubric} have changed since judge {name!r} was registered. "
            f"Use {spec.label} to register a judge with the new files."
        )
    # Switches ask for another judge, described by this one's endpoint, model and rubric.
    return spec if switches == DEFAULT_SWITCHES else None


def _spec_of_typed(name: str, switches: Switches, by: Actor) -> JudgeSpec:
    head, rubric = name.rsplit("@", 1) if "@" in name else (name, DEFAULT_RUBRIC)
    endpoint, _, model = head.partition(":")
    if endpoint not in all_endpoints() and ":" not in name:
        endpoints = ", ".join(sorted(all_endpoints()))
        raise SpecError(
            f"There is no judge called {name!r}, and no endpoint of that name. "
            f"Use endpoint:model, where the endpoint is one of: {endpoints}."
        )
    endpoint_named(endpoint)
    model = model or (SCRIPTED_MODEL if endpoint == SCRIPTED else "")
    if not model:
        raise SpecError(f"Add a pinned model: {endpoint}:MODEL.")
    check_pinned(model, unpinned=switches.unpinned)
    # A script answers to any model name, so a typo would vote as a judge of its own.
    if endpoint == SCRIPTED and model not in SCRIPTED_MODELS:
        names = ", ".join(SCRIPTED_MODELS)
        raise SpecError(f"There is no scripted judge {model!r}. The scripted judges are: {names}.")
    loaded = rubric_named(rubric, by)
    return JudgeSpec(
        endpoint,
        model,
        loaded,
        swap_policy=switches.swap_policy,
        unpinned=switches.unpinned,
        length_neutral=switches.length_neutral,
        soft=switches.soft,
        readings=switches.readings,
        schema=switches.schema is not False,
        output_limit=switches.output_limit
        or proposed_limit(endpoint, model, switches.effort, loaded),
        effort=switches.effort,
        examples=switches.examples,
        parents_family=MergedModel.objects.family_of(model),
    )


def proposed_limit(endpoint: str, model: str, effort: str, rubric: Rubric) -> int | None:
    """Propose an output limit for a new judge; None if the rubric's own is enough.

    Twice the longest reply measured, as a power of two: the measured replies are three. Before a
    measurement, an effort has the room that it usually takes.
    """
    capability = capability_of(endpoint, model)
    measured = capability.replies.get(effort) if capability else None
    usual = max_reply_tokens(rubric.parameters)
    needed = 2 * measured["longest"] if measured else usual * ROOM_OF_EFFORT.get(effort, 1)
    return None if needed <= usual else min(2 ** (needed - 1).bit_length(), MOST_OUTPUT)


def max_reply_tokens(parameters: Mapping[str, object]) -> int:
    limit = parameters.get("max_tokens") or parameters.get("max_completion_tokens")
    return int(str(limit or DEFAULT_MAX_TOKENS))


@transaction.atomic
def register_judge(*, spec: JudgeSpec) -> Epoch:
    """Return the open epoch of the judge with this spec; registers it first if it is new.

    Raises JudgeError if its rubric has been deleted.
    """
    if (epoch := _open_epoch(spec.digest)) is not None:
        return epoch
    draft = Judge(
        endpoint=spec.endpoint,
        model=spec.model,
        unpinned=spec.unpinned,
        family=spec.family,
        protocol=spec.protocol,
        rubric=spec.rubric.slug,
        rubric_version=_version_of(spec.rubric),
        parameters=dict(spec.parameters),
        order_policy=spec.swap_policy,
        length_neutral=spec.length_neutral,
        soft=spec.soft,
        readings=spec.readings,
        schema=spec.schema,
        output_limit=spec.output_limit,
        effort=spec.effort,
        examples=[asdict(example) for example in spec.examples],
        digest=spec.digest,
    )
    return _register_judge(draft, spec.label, Rater.Kind.JUDGE)


def _version_of(rubric: Rubric) -> RubricVersion | None:
    """Return the version of a team's rubric, locked so that nobody deletes it before the judge is
    written; None for a folder of the server."""
    if "/" not in rubric.slug:
        return None
    version = find_version(rubric.slug, Team.objects.all())
    locked = RubricVersion.objects.select_for_update(no_key=True)
    if version is None or not locked.filter(pk=version.pk):
        raise JudgeError(f"Rubric {rubric.slug} has been deleted.")
    return version


def register_jury(
    *,
    members: Sequence[Epoch],
    quorum: int | None = None,
    weights: Mapping[str, Any] | None = None,
) -> Epoch:
    """Return the open epoch of the jury of these judges; registers it first if it is new.

    `quorum` is how many verdicts it needs, by default more than half; `weights` are those of
    `jury_weights`. A jury consists of epochs: with a member in another epoch, it is another jury.
    """
    requesters = sorted(epoch.requester for epoch in members)
    if len(set(requesters)) < 2:
        raise JudgeError("A jury needs at least two different judges.")
    quorum = quorum or default_quorum(len(requesters))
    if not 1 <= quorum <= len(requesters):
        raise JudgeError(f"A jury of {len(requesters)} cannot have a quorum of {quorum}.")
    digest = jury_digest(requesters, quorum, weights)
    if (epoch := _open_epoch(digest)) is not None:
        return epoch
    judges = sorted((epoch.judge for epoch in members), key=lambda judge: judge.name)
    draft = Judge(protocol=Judge.Protocol.JURY, quorum=quorum, weights=weights, digest=digest)
    names = ", ".join(judge.name for judge in judges)
    label = f"{'Weighted jury' if weights else 'Jury'} of {len(judges)}: {names}"
    return _register_judge(draft, _shortened(label), Rater.Kind.JURY, judges)


def default_quorum(members: int) -> int:
    """Return the usual quorum of a jury: more than half of its members."""
    return members // 2 + 1


def jury_digest(
    requesters: Iterable[str], quorum: int, weights: Mapping[str, Any] | None = None
) -> str:
    """Return the digest of a jury, given the requesters of its members' epochs."""
    facts = f"jury {quorum} {' '.join(sorted(requesters))}"
    if weights:
        facts += f" {json.dumps(weights, sort_keys=True)}"
    return hashlib.sha256(facts.encode()).hexdigest()


def jury_weights(*, arena: Arena, members: Sequence[Epoch | None]) -> dict[str, Any]:
    """Return the weights of a jury of these judges, as they were measured in the arena.

    Raises JudgeError if they were not measured together there.
    """
    epochs = {epoch.pk: epoch.requester for epoch in members if epoch is not None}
    measured = Calibration.objects.filter(arena=arena, report__panel__isnull=False).order_by("-pk")
    for report in measured.values_list("report", flat=True)[:MOST_PANELS]:
        panel = report["panel"]
        if panel and len(epochs) == len(members) and set(panel["judges"]) == set(epochs):
            return _weights_in(panel, epochs, arena)
    raise JudgeError(NOT_MEASURED_TOGETHER)


def _weights_in(
    panel: Mapping[str, Any], requesters: Mapping[int, str], arena: Arena
) -> dict[str, Any]:
    order = [requesters[pk] for pk in panel["judges"]]
    stored = panel["weights"]
    return {
        "general": dict(zip(order, stored["general"], strict=True)),
        "categories": {
            category: dict(zip(order, weights, strict=True))
            for category, weights in stored["categories"].items()
        },
        "arena": arena.pk,
        "fitted_until": panel["fitted_until"],
    }


def jury_named(name: str) -> Epoch | None:
    epochs = Epoch.objects.open().select_related("judge", "rater")
    return epochs.filter(judge__protocol=Judge.Protocol.JURY, judge__name=name).first()


def _open_epoch(digest: str) -> Epoch | None:
    epochs = Epoch.objects.open().select_related("judge", "rater")
    return epochs.filter(judge__digest=digest).first()


def _register_judge(draft: Judge, label: str, kind: str, members: Iterable[Judge] = ()) -> Epoch:
    try:
        with transaction.atomic():
            draft.name = _free_name(label)
            draft.save()
            draft.members.set(members)
            return _begin_epoch(draft, 1, kind, "")
    except IntegrityError:  # somebody else registered it at the same moment
        epoch = _open_epoch(draft.digest)
        if epoch is None:
            raise
        return epoch


def _begin_epoch(judge: Judge, number: int, kind: str, reason: str) -> Epoch:
    name = str(judge) if number == 1 else f"{judge}, epoch {number}"
    # Leaderboards show raters by name, and a script must not pass for a model.
    display_name = f"{name} (a script, not a model)" if judge.is_scripted else name
    return Epoch.objects.create(
        judge=judge,
        number=number,
        digest=judge.digest,
        reader=reader_digest(),
        prompt_version=PROMPT_VERSION,
        requester=requester_of(judge.digest, number),
        reason=reason[:300],
        rater=Rater.objects.create(kind=kind, name=_shortened(display_name)),
    )


@transaction.atomic
def begin_next_epoch(*, epoch: Epoch, reason: str, now: datetime) -> Epoch:
    """End an epoch and begin the next, which votes as another rater; return the open one.

    Juries are identified by their members' epochs: the next run with this judge makes another
    jury, and existing ones lose their trust when it is settled.
    """
    ended = Epoch.objects.filter(pk=epoch.pk, ended_at=None).update(ended_at=now)
    if not ended:
        return Epoch.objects.open().select_related("judge", "rater").get(judge=epoch.judge_id)
    return _begin_epoch(epoch.judge, epoch.number + 1, epoch.rater.kind, reason)


def take_over_rater(*, epoch: Epoch, successor: Epoch) -> None:
    """Let a successor vote as the rater of an ended epoch, which keeps one without votes."""
    rater, fresh = epoch.rater_id, successor.rater_id
    spare = Rater.objects.create(kind=epoch.rater.kind, name=epoch.rater.name)
    Epoch.objects.filter(pk=epoch.pk).update(rater=spare)
    Epoch.objects.filter(pk=successor.pk).update(rater=rater)
    Rater.objects.filter(pk=fresh).delete()
    epoch.rater, successor.rater = spare, epoch.rater


def _free_name(label: str) -> str:
    name, version = label, 1
    while Judge.objects.filter(name=name).exists():
        version += 1
        name = f"{label[:190]} v{version}"
    return name


def _shortened(name: str) -> str:
    return name if len(name) <= 200 else f"{name[:199]}…"


@dataclass(frozen=True)
class JudgeSource:
    """The rubric files of a judge, and whether they have changed since it was registered.

    `problem` says why there are none.
    """

    rubric: Rubric | None = None
    spec: JudgeSpec | None = None
    changed: bool = False
    problem: str = ""


def read_source(judge: Judge) -> JudgeSource:
    """Read a judge's rubric, on the server as it is today. A jury has none."""
    if judge.is_jury:
        return JudgeSource()
    try:
        spec = spec_of(judge)
        return JudgeSource(spec.rubric, spec, spec.digest != judge.digest)
    except (RubricError, ValueError) as error:
        return JudgeSource(problem=str(error))
