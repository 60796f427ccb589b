"""From the name that somebody typed to a registered judge, or a jury, and its open epoch."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from arena.calls.endpoints import UnknownEndpoint, endpoint_named, key_of
from arena.calls.providers.base import Stopped
from arena.models import Rater
from arena.services.refusals import Refused
from judges.core.examples import Example
from judges.core.rubric import RubricError, load_rubric
from judges.core.spec import JudgeSpec, SpecError, check_pinned
from judges.models import Epoch, Judge, asker_of
from judges.models.judges import SCRIPTED

DEFAULT_RUBRIC = "pairwise"
SCRIPTED_MODELS = [f"{SCRIPTED}-{number}" for number in (1, 2, 3)]
SCRIPTED_MODEL = SCRIPTED_MODELS[0]


class JudgeRefused(Refused):
    """A judge that cannot be asked; the message is a sentence for whoever named it."""


class NothingToJudge(JudgeRefused):
    """An order of what was judged already, or is told apart without."""

    kind = "nothing-to-do"


@dataclass(frozen=True)
class Switches:
    """What may be changed of any judge as it is named; all of it is part of what it is."""

    order_policy: str = "abstain"
    unpinned: bool = False
    length_neutral: bool | None = None
    soft: bool = False
    examples: tuple[Example, ...] = ()


AS_IT_COMES = Switches()


def spec_named(name: str, switches: Switches = AS_IT_COMES) -> JudgeSpec:
    """Return what `name` stands for: a registered judge, or `endpoint:model[@rubric]`.

    Nothing is written. Raises JudgeRefused with a sentence.
    """
    try:
        spec = _registered(name, switches) or _typed(name, switches)
        key_of(endpoint_named(spec.endpoint))
    except (UnknownEndpoint, RubricError, SpecError, Stopped) as error:
        raise JudgeRefused(str(error)) from None
    return spec


def spec_of(judge: Judge) -> JudgeSpec:
    """Return the spec that the judge's row and today's rubric files give."""
    return JudgeSpec(
        endpoint=judge.endpoint,
        model=judge.model,
        rubric=load_rubric(judge.rubric),
        order_policy=judge.order_policy,
        unpinned=judge.unpinned,
        length_neutral=judge.length_neutral,
        soft=judge.soft,
        examples=tuple(_example(facts) for facts in judge.examples),
    )


def _example(facts: Mapping[str, Any]) -> Example:
    return Example(
        prompt=str(facts["prompt"]),
        answers=tuple(str(answer) for answer in facts["answers"]),
        verdict=str(facts["verdict"]),
        reason=str(facts.get("reason", "")),
        reference=str(facts.get("reference", "")),
    )


def _registered(name: str, switches: Switches) -> JudgeSpec | None:
    judge = Judge.objects.exclude(protocol=Judge.Protocol.JURY).filter(name=name).first()
    if judge is None:
        return None
    spec = spec_of(judge)
    if spec.digest != judge.digest:
        if name == spec.label:
            return None  # what was typed also names the judge that the files make today
        raise SpecError(
            f"The files of rubric {judge.rubric} changed since judge {name!r} was registered. "
            f"Name {spec.label} to register the judge that they make now."
        )
    # A name with switches besides means another judge, which the name's own parts spell out.
    return spec if switches == AS_IT_COMES else None


def _typed(name: str, switches: Switches) -> JudgeSpec:
    head, rubric = name.rsplit("@", 1) if "@" in name else (name, DEFAULT_RUBRIC)
    endpoint, _, model = head.partition(":")
    if endpoint not in settings.MODEL_ENDPOINTS and ":" not in name:
        known = ", ".join(sorted(settings.MODEL_ENDPOINTS))
        raise SpecError(
            f"There is no judge called {name!r}, and no endpoint either. "
            f"Write endpoint:model, where the endpoint is one of: {known}."
        )
    endpoint_named(endpoint)
    model = model or (SCRIPTED_MODEL if endpoint == SCRIPTED else "")
    if not model:
        raise SpecError(f"Name a pinned model too: {endpoint}:MODEL.")
    check_pinned(model, unpinned=switches.unpinned)
    _check_script(endpoint, model)
    return JudgeSpec(
        endpoint,
        model,
        load_rubric(rubric),
        order_policy=switches.order_policy,
        unpinned=switches.unpinned,
        length_neutral=switches.length_neutral,
        soft=switches.soft,
        examples=switches.examples,
    )


def _check_script(endpoint: str, model: str) -> None:
    """A script answers to any name, so a slip of the pen would vote as a judge of its own."""
    if endpoint == SCRIPTED and model not in SCRIPTED_MODELS:
        known = ", ".join(SCRIPTED_MODELS)
        raise SpecError(f"There is no scripted judge {model!r}. The scripted judges are: {known}.")


# -- Registering -----------------------------------------------------------------------------------


def register_judge(*, spec: JudgeSpec) -> Epoch:
    """Return the open epoch of the judge of this spec, registered now if it never was."""
    found = _open_epoch(spec.digest)
    if found is not None:
        return found
    draft = Judge(
        endpoint=spec.endpoint,
        model=spec.model,
        unpinned=spec.unpinned,
        family=spec.family,
        protocol=spec.protocol,
        rubric=spec.rubric.slug,
        parameters=dict(spec.parameters),
        order_policy=spec.order_policy,
        length_neutral=spec.length_neutral,
        soft=spec.soft,
        examples=[_facts(example) for example in spec.examples],
        digest=spec.digest,
    )
    return _register(draft, spec.label, Rater.Kind.JUDGE)


def _facts(example: Example) -> dict[str, object]:
    return {
        "prompt": example.prompt,
        "answers": list(example.answers),
        "verdict": example.verdict,
        "reason": example.reason,
        "reference": example.reference,
    }


def register_jury(*, members: Sequence[Epoch], quorum: int | None = None) -> Epoch:
    """Return the open epoch of the jury of these judges; by default more than half must agree to
    count at all (the quorum). A jury is a jury of epochs: a member that changed makes another."""
    askers = sorted(epoch.asker for epoch in members)
    if len(set(askers)) < 2:
        raise JudgeRefused("A jury needs two different judges or more.")
    quorum = quorum or usual_quorum(len(askers))
    if not 1 <= quorum <= len(askers):
        raise JudgeRefused(f"A quorum of {quorum} does not fit a jury of {len(askers)}.")
    digest = jury_digest(askers, quorum)
    found = _open_epoch(digest)
    if found is not None:
        return found
    judges = sorted((epoch.judge for epoch in members), key=lambda judge: judge.name)
    draft = Judge(protocol=Judge.Protocol.JURY, quorum=quorum, digest=digest)
    names = ", ".join(judge.name for judge in judges)
    label = f"Jury of {len(judges)}: {names}"
    return _register(draft, _shortened(label), Rater.Kind.JURY, judges)


def usual_quorum(members: int) -> int:
    """Return how many verdicts a jury needs unless somebody says otherwise: more than half."""
    return members // 2 + 1


def jury_digest(askers: Iterable[str], quorum: int) -> str:
    """Return what identifies the jury of these epochs, given by who asks in the ledger."""
    return hashlib.sha256(f"jury {quorum} {' '.join(sorted(askers))}".encode()).hexdigest()


def jury_named(name: str) -> Epoch | None:
    """Return the open epoch of the jury of this name; None where no jury has it."""
    epochs = Epoch.objects.open().select_related("judge", "rater")
    return epochs.filter(judge__protocol=Judge.Protocol.JURY, judge__name=name).first()


def _open_epoch(digest: str) -> Epoch | None:
    epochs = Epoch.objects.open().select_related("judge", "rater")
    return epochs.filter(judge__digest=digest).first()


def _register(draft: Judge, label: str, kind: str, members: Iterable[Judge] = ()) -> Epoch:
    try:
        with transaction.atomic():
            draft.name = _free_name(label)
            draft.save()
            draft.members.set(members)
            return _begin_epoch(draft, 1, kind, "")
    except IntegrityError:  # somebody else registered it at the same moment
        found = _open_epoch(draft.digest)
        if found is None:
            raise
        return found


def _begin_epoch(judge: Judge, number: int, kind: str, reason: str) -> Epoch:
    name = str(judge) if number == 1 else f"{judge}, epoch {number}"
    # Boards show raters by name: whoever reads one must see that this judge is none.
    known_as = f"{name} (a script, not a model)" if judge.is_scripted else name
    return Epoch.objects.create(
        judge=judge,
        number=number,
        asker=asker_of(judge.digest, number),
        reason=reason[:300],
        rater=Rater.objects.create(kind=kind, name=_shortened(known_as)),
    )


@transaction.atomic
def begin_next_epoch(*, epoch: Epoch, reason: str, now: datetime) -> Epoch:
    """End an epoch and begin the next, whose votes are another rater's; return the open one.

    Juries that the judge belongs to are told apart by their members' epochs, so the next run with
    it makes another jury, and those that there are lose their trust when it is settled.
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
