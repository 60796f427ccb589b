"""What a candidate may contain: its name, texts, endpoint, parameters and privacy."""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from arena.actors import Actor
from arena.calls.prices import known_models
from arena.conversations import clean_turns, template_fields
from arena.endpoints import all_endpoints
from arena.errors import ServiceError, checked_fields
from arena.models import Arena, Candidate
from arena.models.candidates import MAX_PRIVATE_VOTES
from arena.permissions import is_open_to
from arena.prompting.templates import TemplateError, check_template, check_turns, variables_in
from arena.services.locks import lock_arena
from arena.validation import (
    InputError,
    clean_details,
    json_type,
    name_key,
    quoted,
    without_joiners,
)

MAX_TOKENS = 200_000
MAX_PARAMETERS_LENGTH = 10_000
MAX_PRIVATE_TIME = timedelta(days=366)
CLOSED = (
    "This arena is closed to candidates from other teams. Existing candidates stay as they are, "
    "and you can archive them."
)
# The mask of an undisclosed candidate as people read it: l, I and 1 look alike, and so do o and 0.
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


class CandidateError(ServiceError):
    """A candidate that cannot be registered, changed or archived."""


# Teams may set only the parameters named here: not a request's address, key, model, messages,
# number of answers or tools, nor anything that a server may add.


class ParametersError(CandidateError):
    """Parameters that cannot be sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, field="parameters")


@dataclass(frozen=True)
class Number:
    """A number from `least` to `most`."""

    least: float
    most: float
    whole: bool = False

    def check(self, value: Any) -> str:
        kind = int if self.whole else (int, float)
        is_number = isinstance(value, kind) and not isinstance(value, bool)
        if is_number and self.least <= value <= self.most:
            return ""
        expected = "a whole number" if self.whole else "a number"
        return f"is {_quote(value)}, not {expected} from {self.least:,} to {self.most:,}"


def _check_word(value: Any) -> str:
    return "" if isinstance(value, str) and 0 < len(value) <= 50 else "is not a word"


def _check_flag(value: Any) -> str:
    return "" if isinstance(value, bool) else f"is {_quote(value)}, not true or false"


def _check_texts(value: Any) -> str:
    texts = [value] if isinstance(value, str) else value
    is_list = isinstance(texts, list) and len(texts) <= 16
    if is_list and all(isinstance(text, str) for text in texts):
        return ""
    return "is not text or a list of at most 16 texts"


def _check_object(value: Any) -> str:
    return "" if isinstance(value, dict) else f"is {json_type(value)}, not an object"


KNOWN: Mapping[str, Callable[[Any], str]] = {
    "temperature": Number(0, 2).check,
    "max_tokens": Number(1, MAX_TOKENS, whole=True).check,
    "max_completion_tokens": Number(1, MAX_TOKENS, whole=True).check,
    "top_p": Number(0, 1).check,
    "top_k": Number(-1, 100_000, whole=True).check,
    "min_p": Number(0, 1).check,
    "seed": Number(-(2**31), 2**31 - 1, whole=True).check,
    "presence_penalty": Number(-2, 2).check,
    "frequency_penalty": Number(-2, 2).check,
    "repetition_penalty": Number(0, 10).check,
    "logit_bias": _check_object,
    "stop": _check_texts,
    "stop_sequences": _check_texts,
    "response_format": _check_object,
    "reasoning_effort": _check_word,
    "verbosity": _check_word,
    "thinking": _check_object,
    "chat_template_kwargs": _check_object,
    "enable_thinking": _check_flag,
}


def clean_parameters(parameters: Any) -> dict[str, Any]:
    """Return `parameters` if each is known and its value valid; raise ParametersError if not."""
    if not isinstance(parameters, dict):
        raise ParametersError(f"The parameters are {json_type(parameters)}, not an object.")
    _check_size(parameters)
    if unknown := [name for name in parameters if name not in KNOWN]:
        raise ParametersError(
            f"The parameter {quoted(unknown[0])} is not supported. Choose from "
            f"{', '.join(sorted(KNOWN))}."
        )
    for name, value in parameters.items():
        if wrong := KNOWN[name](value):
            raise ParametersError(f"The parameter {name} {wrong}.")
    return parameters


def _check_size(parameters: dict[str, Any]) -> None:
    try:
        clean_details({str(name): value for name, value in parameters.items()})
        size = len(json.dumps(parameters, allow_nan=False))
    except InputError as error:
        raise ParametersError(f"The parameter {error.column} {error.reason}.") from None
    except (ValueError, TypeError):
        raise ParametersError(
            "The parameters contain a number that JSON cannot represent."
        ) from None
    if size > MAX_PARAMETERS_LENGTH:
        raise ParametersError(
            f"The parameters are {size:,} characters long; the limit is {MAX_PARAMETERS_LENGTH:,}."
        )


def _quote(value: Any) -> str:
    return quoted(value) if isinstance(value, int | float | str) else json_type(value)


def check_is_open(candidate: Candidate, *, by: Actor) -> Arena:
    """Return the candidate's arena, locked; raise CandidateError if it is closed to the team.

    Call this in a transaction: the lock keeps the arena from closing meanwhile.
    """
    arena = lock_arena(candidate.arena_id)
    if not is_open_to(by, arena, candidate.team_id):
        raise CandidateError(CLOSED)
    return arena


def clean_candidate_name(name: Any) -> str:
    """Return a name that can appear on a leaderboard, or raise CandidateError."""
    candidate_name: str = checked_fields(Candidate, {"name": name}, CandidateError)["name"]
    # The name as people read it at a glance.
    plain = without_joiners(unicodedata.normalize("NFKC", candidate_name)).casefold()
    if _MASK.fullmatch(plain.translate(_LOOKS_LIKE).strip()):
        raise CandidateError(
            f"“{candidate_name}” is reserved for candidates whose name is still private. "
            "Choose another name.",
            field="name",
        )
    return candidate_name


def check_name_is_free(arena: Arena, name: str, team_id: int | None) -> None:
    """Raise CandidateError if `name` is taken, or reads like another candidate or its version."""
    newest = arena.candidates.order_by("-version").only("name", "team")
    key = name_key(name)
    taken = next((one for one in newest if name_key(one.name) == key), None)
    if taken is not None and taken.team_id == team_id:
        raise CandidateError(
            f"You already have a candidate named {taken.name} in this arena. Edit it to create "
            "the next version, or choose another name.",
            field="name",
        )
    if taken is not None:
        raise CandidateError(
            f"The name {name} is already taken in this arena. Choose another name.", field="name"
        )
    reads_like = _VERSION.fullmatch(name)
    if reads_like and arena.candidates.filter(name__iexact=reads_like["base"]).exists():
        raise CandidateError(
            f"{name} reads like version {reads_like['number']} of {reads_like['base']}. "
            "Choose another name.",
            field="name",
        )


# What a model is sent: candidates that are alike in these differ only by chance.
SENT = ("endpoint", "model", "system_prompt", "user_template", "messages", "parameters")


def _bare(value: Any) -> Any:
    """Return a text, or a list of messages, without the white space around it."""
    if isinstance(value, list):
        return [{**message, "content": message["content"].strip()} for message in value]
    return value.strip() if isinstance(value, str) else value


def check_is_different(content: Mapping[str, Any], others: Iterable[Candidate]) -> None:
    """Raise CandidateError if one of `others` is sent the same; uploaded answers never are."""
    if not content["endpoint"]:
        return
    for other in others:
        if all(_bare(content[name]) == _bare(getattr(other, name)) for name in SENT):
            same = "same prompt, model and settings. Change one of them."
            if not content["messages"] and not "".join(templates_in(content)).strip():
                same = "neither has a prompt. Enter one."
            raise CandidateError(f"This is the same as {other.own_name}: {same}")


TEXTS_OR_MESSAGES = "Enter a system prompt and user template, or messages, not both."


def with_changes(content: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with `changes`: messages replace the two texts, and the two texts replace
    messages. Raises TypeError for what is no content.
    """
    if unknown := changes.keys() - content.keys():
        raise TypeError(f"A candidate's content has no {', '.join(sorted(unknown))}.")
    replaced: dict[str, Any] = {}
    if changes.get("messages"):
        replaced = {"system_prompt": "", "user_template": ""}
    elif changes.get("system_prompt") or changes.get("user_template"):
        replaced = {"messages": None}
    return {**content, **replaced, **changes}


def templates_in(content: Mapping[str, Any]) -> list[str]:
    """Return the templates of a candidate's content."""
    turns = [message["content"] for message in content["messages"] or ()]
    return turns or [content["system_prompt"], content["user_template"]]


def _clean_messages(clean: Mapping[str, Any]) -> dict[str, Any]:
    try:
        messages = clean_turns(clean["messages"])
    except InputError as error:
        raise CandidateError(f"The list of messages {error.reason}.", field="messages") from None
    if messages is None:
        return {}
    if clean["system_prompt"].strip() or clean["user_template"].strip():
        raise CandidateError(TEXTS_OR_MESSAGES, field="messages")
    return template_fields(messages)


def clean_content(
    arena: Arena, content: Mapping[str, Any], *, variables: set[str] | None = None
) -> dict[str, Any]:
    """Return the content of a candidate of `arena`, or raise CandidateError.

    `variables`: those of prompts that are not saved, in place of the arena's.
    """
    clean = checked_fields(Candidate, content, CandidateError)
    clean |= _clean_messages(clean)
    known = variables
    if known is None:
        known = _known_variables(arena, *templates_in(clean))
    parts = {"system_prompt": "system prompt", "user_template": "user template"}
    for name, part in parts.items():
        try:
            check_template(clean[name], known=known, part=part)
        except TemplateError as error:
            raise CandidateError(str(error), field=name) from None
    try:
        if clean["messages"]:
            check_turns(clean["messages"], known=known)
    except TemplateError as error:
        raise CandidateError(str(error), field="messages") from None
    clean["endpoint"] = _clean_endpoint(clean["endpoint"], clean["model"])
    clean["parameters"] = clean_parameters(clean["parameters"])
    return clean


def _clean_endpoint(endpoint: Any, model: str) -> str:
    if endpoint == "":
        return ""
    if endpoint not in all_endpoints():
        raise CandidateError(
            f"There is no endpoint with this name. Choose from "
            f"{', '.join(sorted(all_endpoints()))}.",
            field="endpoint",
        )
    if not model:
        example = next((model for where, model in known_models() if where == endpoint), "")
        hint = f", such as {example}" if example else ""
        raise CandidateError(f"Enter the model to use at this endpoint{hint}.", field="model")
    return str(endpoint)


def _known_variables(arena: Arena, *templates: str) -> set[str]:
    """Return the variables of the active prompts, without reading them if no template uses any."""
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
    """Raise CandidateError if a name cannot stay private that long."""
    if votes is not None and not 1 <= votes <= MAX_PRIVATE_VOTES:
        raise CandidateError(
            f"A name can stay private for 1 to {MAX_PRIVATE_VOTES:,} votes.",
            field="private_until_votes",
        )
    if until is not None and not now < until <= now + MAX_PRIVATE_TIME:
        raise CandidateError(
            "Choose a date in the future, at most one year from now.",
            field="private_until",
        )
