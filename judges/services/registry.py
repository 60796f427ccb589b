"""The registry of judges and juries: looking them up by name, and registering them."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from arena.calls.providers.base import EndpointStoppedError
from arena.endpoints import UnknownEndpointError, endpoint_named, key_of
from arena.errors import ServiceError
from arena.models import Arena, Rater
from judges.core.rubric import Rubric, RubricError, load_rubric
from judges.core.spec import Example, JudgeSpec, SpecError, check_pinned, family_of
from judges.models import Calibration, Epoch, Judge, MergedModel, requester_of
from judges.models.judges import SCRIPTED

DEFAULT_RUBRIC = "pairwise"
SCRIPTED_MODELS = [f"{SCRIPTED}-{number}" for number in (1, 2, 3)]
SCRIPTED_MODEL = SCRIPTED_MODELS[0]
MOST_PANELS = 50
NOT_MEASURED_TOGETHER = (
    "Members are weighed by their accuracy in this arena, and these judges were not measured "
    "together here. Run `calibrate --arena` for each of them; this requires at least 60 pairs "
    "with human votes that all of them have judged, and at most 5 judges."
)
NO_GAIN = (
    "Weighing these judges gains nothing here: an option that costs no more agreed with people at "
    "least as often. The figures are on the arena's page of judge runs."
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
    """

    swap_policy: str = "abstain"
    unpinned: bool = False
    length_neutral: bool | None = None
    soft: bool = False
    examples: tuple[Example, ...] = ()
    readings: int = 1


DEFAULT_SWITCHES = Switches()


def spec_named(name: str, switches: Switches = DEFAULT_SWITCHES) -> JudgeSpec:
    """Return the judge called `name`: a registered one, or `endpoint:model[@rubric]`.

    Nothing is written. Raises JudgeError with a sentence.
    """
    try:
        spec = _spec_of_registered(name, switches) or _spec_of_typed(name, switches)
        key_of(endpoint_named(spec.endpoint))
    except (UnknownEndpointError, RubricError, SpecError, EndpointStoppedError) as error:
        raise JudgeError(str(error)) from None
    return spec


def spec_of(judge: Judge) -> JudgeSpec:
    """Return the spec of a registered judge, with the rubric's files as they are now."""
    return JudgeSpec(
        endpoint=judge.endpoint,
        model=judge.model,
        rubric=load_rubric(judge.rubric),
        swap_policy=judge.order_policy,
        unpinned=judge.unpinned,
        length_neutral=judge.length_neutral,
        soft=judge.soft,
        readings=judge.readings,
        examples=tuple(
            Example(**{**facts, "answers": tuple(facts["answers"])}) for facts in judge.examples
        ),
        parents_family=judge.family if judge.family != family_of(judge.model) else "",
    )


def _spec_of_registered(name: str, switches: Switches) -> JudgeSpec | None:
    judge = Judge.objects.exclude(protocol=Judge.Protocol.JURY).filter(name=name).first()
    if judge is None:
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


def _spec_of_typed(name: str, switches: Switches) -> JudgeSpec:
    head, rubric = name.rsplit("@", 1) if "@" in name else (name, DEFAULT_RUBRIC)
    endpoint, _, model = head.partition(":")
    if endpoint not in settings.MODEL_ENDPOINTS and ":" not in name:
        endpoints = ", ".join(sorted(settings.MODEL_ENDPOINTS))
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
    return JudgeSpec(
        endpoint,
        model,
        load_rubric(rubric),
        swap_policy=switches.swap_policy,
        unpinned=switches.unpinned,
        length_neutral=switches.length_neutral,
        soft=switches.soft,
        readings=switches.readings,
        examples=switches.examples,
        parents_family=MergedModel.objects.family_of(model),
    )


def register_judge(*, spec: JudgeSpec) -> Epoch:
    """Return the open epoch of the judge with this spec; registers it first if it is new."""
    if (epoch := _open_epoch(spec.digest)) is not None:
        return epoch
    draft = Judge(
        endpoint=spec.endpoint,
        model=spec.model,
        unpinned=spec.unpinned,
        family=spec.family,
        protocol=spec.protocol,
        rubric=spec.rubric.slug,
        parameters=dict(spec.parameters),
        order_policy=spec.swap_policy,
        length_neutral=spec.length_neutral,
        soft=spec.soft,
        readings=spec.readings,
        examples=[asdict(example) for example in spec.examples],
        digest=spec.digest,
    )
    return _register_judge(draft, spec.label, Rater.Kind.JUDGE)


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

    Raises JudgeError if they were not measured together there, or if weighting gains nothing.
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
    weighted = next(option for option in panel["options"] if option["kind"] == "weighted")
    if not weighted["offered"]:
        raise JudgeError(NO_GAIN)
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
    """Read a judge's rubric from its files as they are today. A jury has none."""
    if judge.is_jury:
        return JudgeSource()
    try:
        spec = spec_of(judge)
        return JudgeSource(load_rubric(judge.rubric), spec, spec.digest != judge.digest)
    except (RubricError, ValueError) as error:
        return JudgeSource(problem=str(error))
