"""From the name that somebody typed to a registered judge."""

from django.conf import settings
from django.db import IntegrityError, transaction

from arena.calls.endpoints import UnknownEndpoint, endpoint_named, key_of
from arena.calls.providers.base import Stopped
from arena.models import Rater
from judges.core.rubric import RubricError, load_rubric
from judges.core.spec import JudgeSpec, SpecError, check_pinned
from judges.models import Judge

DEFAULT_RUBRIC = "pairwise"
SCRIPTED_MODEL = "scripted-1"


class JudgeRefused(Exception):
    """A judge that cannot be asked; the message is a sentence for whoever named it."""


def spec_named(name: str) -> JudgeSpec:
    """Return what `name` stands for: a registered judge, or `endpoint:model[@rubric]`.

    Nothing is written. Raises JudgeRefused with a sentence.
    """
    try:
        spec = _registered(name) or _typed(name)
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
    )


def _registered(name: str) -> JudgeSpec | None:
    judge = Judge.objects.filter(name=name).first()
    if judge is None:
        return None
    spec = spec_of(judge)
    if spec.digest == judge.digest:
        return spec
    if name == spec.label:
        return None  # what was typed also names the judge that the files make today
    raise SpecError(
        f"The files of rubric {judge.rubric} changed since judge {name!r} was registered. "
        f"Name {spec.label} to register the judge that they make now."
    )


def _typed(name: str) -> JudgeSpec:
    head, rubric = name.rsplit("@", 1) if "@" in name else (name, DEFAULT_RUBRIC)
    endpoint, _, model = head.partition(":")
    if endpoint not in settings.MODEL_ENDPOINTS and ":" not in name:
        known = ", ".join(sorted(settings.MODEL_ENDPOINTS))
        raise SpecError(
            f"There is no judge called {name!r}, and no endpoint either. "
            f"Write endpoint:model, where the endpoint is one of: {known}."
        )
    endpoint_named(endpoint)
    model = model or (SCRIPTED_MODEL if endpoint == "scripted" else "")
    if not model:
        raise SpecError(f"Name a pinned model too: {endpoint}:MODEL.")
    check_pinned(model)
    return JudgeSpec(endpoint, model, load_rubric(rubric))


def register_judge(*, spec: JudgeSpec) -> Judge:
    """Return the judge of this spec, registered now if it never was, with a rater of its own."""
    found = Judge.objects.filter(digest=spec.digest).first()
    if found is not None:
        return found
    try:
        return _register(spec)
    except IntegrityError:  # somebody else registered it at the same moment
        return Judge.objects.get(digest=spec.digest)


@transaction.atomic
def _register(spec: JudgeSpec) -> Judge:
    name = _free_name(spec.label)
    judge = Judge(
        name=name,
        endpoint=spec.endpoint,
        model=spec.model,
        family=spec.family,
        protocol=spec.protocol,
        rubric=spec.rubric.slug,
        parameters=dict(spec.parameters),
        order_policy=spec.order_policy,
        digest=spec.digest,
    )
    # Boards show raters by name: whoever reads one must see that this judge is none.
    known_as = f"{name} (a script, not a model)" if judge.is_scripted else name
    judge.rater = Rater.objects.create(kind=Rater.Kind.JUDGE, name=known_as)
    judge.save()
    return judge


def _free_name(label: str) -> str:
    name, version = label, 1
    while Judge.objects.filter(name=name).exists():
        version += 1
        name = f"{label} v{version}"
    return name
