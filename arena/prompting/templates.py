"""Templates with variables: `{{ prompt }}` is the prompt's text, other names are its variables.

Names are matched exactly. Single braces are text, so a template can contain JSON unchanged; of
three braces in a row the inner two count. Two opening braces as text are written `{{ "{{" }}`. A
value is inserted unchanged: braces inside it stay text.
"""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from arena.validation import InputError, clean_text, join_names, quoted

TEXT_LIMIT = 100_000  # characters of a system prompt, and of a user template
MESSAGE_LIMIT = 2_000_000  # characters of one message with its values in place
NAMES_COMPARED = 200  # with more names no suggestion is made, because comparing them is slow
PROMPT = "prompt"
LITERAL = '{{ "{{" }}'
# Linear time: no match begins inside another, and no part of the pattern can match in two ways.
_OPENED = re.compile(r"""\{\{(?!\{)(?:\s*(?P<quote>["'])\{\{(?P=quote)\s*\}\}|([^{}]*)(\}\})?)""")


class TemplateError(ValueError):
    """A template that cannot be used; the message is a sentence for people."""


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str
    line: int


def variables_in(template: str) -> list[str]:
    """Return the names of the variables that `template` uses, in order, each once.

    Raises TemplateError for an invalid template.
    """
    return _names_in(template, "user template")


def check_turns(messages: Sequence[Mapping[str, Any]], *, known: Collection[str]) -> None:
    """Raise TemplateError unless these messages, each a template, can be filled."""
    for number, message in enumerate(messages, start=1):
        check_template(message["content"], known=known, part=f"message {number}")
    if not any(variables_in(message["content"]) for message in messages):
        raise TemplateError(
            "No message uses a variable, so every prompt would ask the same question; write "
            "{{ prompt }} where the prompt's text belongs."
        )


def check_template(template: str, *, known: Collection[str], part: str = "user template") -> None:
    """Raise TemplateError unless `template` can be filled from a prompt with the `known` variables.

    `prompt` is always known. An empty user template stands for `{{ prompt }}`.
    """
    if len(template) > TEXT_LIMIT:
        raise TemplateError(
            f"The {part} has {len(template):,} characters; the limit is {TEXT_LIMIT:,}."
        )
    try:
        clean_text(template)
    except InputError as error:
        raise TemplateError(f"The {part} {error.reason}.") from None
    known = {PROMPT, *known}
    names = _names_in(template, part)
    if unknown := [name for name in names if name not in known]:
        raise TemplateError(_unknown_variables(unknown, known, part))
    if part == "user template" and template.strip() and not names:
        raise TemplateError(
            "The user template uses no variable, so every prompt would ask the same question; "
            "write {{ prompt }} where the prompt's text belongs."
        )


def render_messages(
    *,
    system_prompt: str,
    user_template: str,
    prompt: str,
    variables: Mapping[str, str],
    prompt_id: str = "",
    messages: Sequence[Mapping[str, Any]] | None = None,
) -> list[tuple[str, str]]:
    """Return the messages to send as (role, content); a blank system prompt is not sent.

    `messages`, each a template, take the place of the two texts.

    Raises TemplateError for an invalid template, for a variable without a value (naming the prompt
    by `prompt_id` or its first words), and for a message that would be too long.
    """
    values = {**variables, PROMPT: prompt}
    called = quoted(prompt_id or prompt)
    if messages:
        return [
            (message["role"], _filled(message["content"], f"message {number}", values, called))
            for number, message in enumerate(messages, start=1)
        ]
    user = (
        _filled(user_template, "user template", values, called) if user_template.strip() else prompt
    )
    if not system_prompt.strip():
        return [("user", user)]
    return [("system", _filled(system_prompt, "system prompt", values, called)), ("user", user)]


def _filled(template: str, part: str, values: Mapping[str, str], called: str) -> str:
    pieces = []
    for piece in _pieces_of(template, part):
        if isinstance(piece, str):
            pieces.append(piece)
        elif piece.name in values:
            pieces.append(values[piece.name])
        else:
            raise TemplateError(
                f"The {part} uses {_braced(piece.name)}, "
                f"for which the prompt {called} has no value."
            )
    if (size := sum(map(len, pieces))) > MESSAGE_LIMIT:
        raise TemplateError(
            f"The {part} becomes {size:,} characters long with the prompt {called}; "
            f"the limit is {MESSAGE_LIMIT:,}."
        )
    return "".join(pieces)


def _names_in(template: str, part: str) -> list[str]:
    pieces = _pieces_of(template, part)
    return list(dict.fromkeys(piece.name for piece in pieces if isinstance(piece, _Variable)))


def _pieces_of(template: str, part: str) -> Iterator[str | _Variable]:
    """Yield the texts and the variables of `template` in order; raises TemplateError."""
    end, line = 0, 1
    for match in _OPENED.finditer(template):
        yield template[end : match.start()]
        line += template.count("\n", end, match.start())
        yield _opened_braces(match, part, line)
        line += match.group().count("\n")
        end = match.end()
    yield template[end:]


def _opened_braces(match: re.Match[str], part: str, line: int) -> str | _Variable:
    _, inside, closed = match.groups()
    if inside is None:
        return "{{"
    where = f"The {part}, line {line}:"
    name = inside.strip()
    if not closed:
        raise TemplateError(
            f"{where} {quoted('{{' + inside)} opens a variable that is not closed with two braces. "
            f"Write two literal braces as {LITERAL}."
        )
    if not name:
        raise TemplateError(f"{where} {{{{ }}}} names no variable; write {{{{ prompt }}}}.")
    if not name.isidentifier():
        raise TemplateError(
            f"{where} {quoted(name)} is not a valid variable name, which must be one word of "
            "letters, digits and underscores."
        )
    return _Variable(name, line)


def _unknown_variables(names: list[str], known: Collection[str], part: str) -> str:
    if len(names) > 1:
        used, there = join_names(map(_braced, names)), _all_known(known)
        return f"The {part} uses {used}, which no prompt has; the prompts have {there}."
    [name] = names
    says = f"The {part} uses {_braced(name)}, which no prompt has"
    if nearest := _nearest_name(name, known):
        return f"{says}; did you mean {_braced(nearest)}?"
    return f"{says}; the prompts have {_all_known(known)}."


def _nearest_name(name: str, known: Collection[str]) -> str:
    """Return the most similar known name, ignoring case; '' if none is, or with too many."""
    if len(known) > NAMES_COMPARED:
        return ""
    folded = {known_name.casefold(): known_name for known_name in sorted(known)}
    close = difflib.get_close_matches(name.casefold()[:200], folded, n=1)
    return folded[close[0]] if close else ""


def _all_known(known: Collection[str]) -> str:
    return join_names(map(_braced, sorted(known, key=lambda name: (name != PROMPT, name))))


def _braced(name: str) -> str:
    return "{{ " + (name if len(name) <= 60 else f"{name[:60]}...") + " }}"


Kind = Literal["same", "added", "removed", "gap"]
Span = tuple[int, int, int, int]
Words = list[tuple[str, bool]]
