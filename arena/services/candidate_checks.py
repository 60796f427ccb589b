"""What a candidate may be: its name, its texts, where its answers come from, how long it hides."""

import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypedDict

from django.conf import settings

from arena.access import Actor, is_open_to
from arena.calls.prices import known_models
from arena.importers.base import BadRow, checked_name, checked_text
from arena.models import Arena, Candidate
from arena.prompting import TemplateError, check_template, variables_in
from arena.services.deadlocks import hold_arena
from arena.services.names import hidden_character, without_joiners
from arena.services.parameters import ParametersRefused, checked_parameters
from arena.services.refusals import Refused

LONGEST_NOTES = 10_000
MOST_PRIVATE_VOTES = 10_000
LONGEST_PRIVATE = timedelta(days=366)
OTHER = "Choose another one."
# As it is read: l, I and 1 look alike, and so do o and 0.
_MASK = re.compile(r"und[il1|]sc[il1|][o0]sed\s*\d+(\s*v\s*\d+)?")
# Cyrillic, Greek and Armenian letters that look like those of "undisclosed".
_LOOKS_LIKE = str.maketrans(
    {
        "\u0441": "c",
        "\u03f2": "c",
        "\u0501": "d",
        "\u0435": "e",
        "\u0456": "i",
        "\u03b9": "i",
        "\u04cf": "l",
        "\u0578": "n",
        "\u043e": "o",
        "\u03bf": "o",
        "\u0455": "s",
        "\u057d": "u",
        "\u03c5": "u",
    }
)
_VERSION = re.compile(r"(?P<base>.+) v(?P<number>\d{1,9})")


class CandidateRefused(Refused):
    """A candidate that cannot be entered, changed or retired."""


CLOSED = (
    "This arena is not open to candidates of other teams. Those that are in it stay as they are, "
    "and can be retired."
)


class CandidateFields(TypedDict, total=False):
    """What a candidate is made of; a new version takes over what is not named."""

    system_prompt: str
    user_template: str
    endpoint: str
    model: str
    variant: str
    parameters: dict[str, Any]
    notes: str


DEFAULTS: dict[str, Any] = {
    "system_prompt": "",
    "user_template": "",
    "endpoint": "",
    "model": "",
    "variant": "",
    "parameters": {},
    "notes": "",
}
WORDS = {
    "system_prompt": "system prompt",
    "user_template": "user template",
    "variant": "variant",
    "model": "model",
    "notes": "notes",
}


def check_is_open(candidate: Candidate, *, by: Actor) -> Arena:
    """Return the arena that `candidate` is in, or is to enter; refuse a guest's in a closed one.

    The arena's row is held, so that it cannot close meanwhile: call this in a transaction.
    """
    arena = hold_arena(candidate.arena_id)
    if not is_open_to(by, arena, candidate.team_id):
        raise CandidateRefused(CLOSED)
    return arena


def checked_candidate_name(name: Any) -> str:
    """Return a name that can stand on a board, or raise CandidateRefused."""
    try:
        found = checked_name(name, "name")
    except BadRow as bad:
        raise CandidateRefused(f"The name {bad.reason}.", field="name") from None
    if hidden := hidden_character(found):
        raise CandidateRefused(f"The name {hidden}.", field="name")
    if _MASK.fullmatch(_as_read(found)):
        raise CandidateRefused(
            f"“{found}” is how candidates are shown whose name is not public yet. "
            "Choose another name.",
            field="name",
        )
    return found


def _as_read(name: str) -> str:
    """A name as somebody reads it who does not look closely."""
    seen = without_joiners(unicodedata.normalize("NFKC", name))
    return seen.casefold().translate(_LOOKS_LIKE).strip()


def check_name_is_free(arena: Arena, name: str, team_id: int | None) -> None:
    """Raise CandidateRefused where `name` is taken, or reads like a version of another one."""
    taken = arena.candidates.filter(name__iexact=name).order_by("-version").first()
    if taken is not None and taken.team_id == team_id:
        raise CandidateRefused(
            f"You have a candidate named {taken.name} in this arena already. Edit it to write its "
            "next version, or choose another name.",
            field="name",
        )
    if taken is not None:
        raise CandidateRefused(f"The name {name} is taken in this arena. {OTHER}", field="name")
    reads_like = _VERSION.fullmatch(name)
    if reads_like and arena.candidates.filter(name__iexact=reads_like["base"]).exists():
        raise CandidateRefused(
            f"{name} would read like version {reads_like['number']} of {reads_like['base']}. "
            f"{OTHER}",
            field="name",
        )


def checked_fields(arena: Arena, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a candidate of `arena` is made of, or raise CandidateRefused."""
    checked: dict[str, Any] = {
        name: _text(name, value) for name, value in fields.items() if name in WORDS
    }
    _check_notes(checked["notes"])
    known = _known_variables(arena, checked["system_prompt"], checked["user_template"])
    try:
        check_template(checked["system_prompt"], known=known, part="system prompt")
    except TemplateError as error:
        raise CandidateRefused(str(error), field="system_prompt") from None
    try:
        check_template(checked["user_template"], known=known, part="user template")
    except TemplateError as error:
        raise CandidateRefused(str(error), field="user_template") from None
    checked["endpoint"] = _endpoint(fields["endpoint"], checked["model"])
    checked["parameters"] = _parameters(fields["parameters"])
    return checked


def _text(name: str, value: Any) -> str:
    try:
        if name in ("model", "variant"):
            return checked_name(value, name, required=False)
        return checked_text(value, name).replace("\r\n", "\n")
    except BadRow as bad:
        raise CandidateRefused(f"The {WORDS[name]} {bad.reason}.", field=name) from None


def _parameters(value: Any) -> dict[str, Any]:
    try:
        return checked_parameters(value)
    except ParametersRefused as refusal:
        raise CandidateRefused(refusal.sentence, field=refusal.field) from None


def _check_notes(notes: str) -> None:
    if len(notes) > LONGEST_NOTES:
        raise CandidateRefused(
            f"The notes have {len(notes):,} characters; at most {LONGEST_NOTES:,} will do.",
            field="notes",
        )


def _endpoint(endpoint: Any, model: str) -> str:
    if endpoint == "":
        return ""
    if endpoint not in settings.MODEL_ENDPOINTS:
        raise CandidateRefused(
            f"There is no endpoint of this name. The operator of this site has listed "
            f"{', '.join(sorted(settings.MODEL_ENDPOINTS))}.",
            field="endpoint",
        )
    if not model:
        raise CandidateRefused(
            f"Name the model that is to be asked at this endpoint{_as_in(endpoint)}.",
            field="model",
        )
    return str(endpoint)


def _as_in(endpoint: str) -> str:
    """An example of a model there, where one is known."""
    first = next((model for where, model in known_models() if where == endpoint), "")
    return f", as in {first}" if first else ""


def _known_variables(arena: Arena, *templates: str) -> set[str]:
    """The variables that any active prompt has; none are looked for where no template has any."""
    try:
        used = {name for template in templates for name in variables_in(template)}
    except TemplateError:
        return set()
    return set() if used <= {"prompt"} else variables_of(arena)


def variables_of(arena: Arena) -> set[str]:
    """Return the names of the variables that the arena's active prompts have."""
    rows = arena.prompts.active().exclude(variables={}).values_list("variables", flat=True)
    return {name for variables in rows.iterator() for name in variables}


def check_privacy(votes: int | None, until: datetime | None, now: datetime) -> None:
    """Raise CandidateRefused unless a name may stay private so long."""
    if votes is not None and not 1 <= votes <= MOST_PRIVATE_VOTES:
        raise CandidateRefused(
            f"A name can stay private for 1 to {MOST_PRIVATE_VOTES:,} votes.",
            field="private_until_votes",
        )
    if until is not None and not now < until <= now + LONGEST_PRIVATE:
        raise CandidateRefused(
            "A name can stay private until a time that is yet to come, and for a year at most.",
            field="private_until",
        )
