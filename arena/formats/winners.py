"""What a cell says about the winner of a pair, as tools, forms and people write it. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from arena.outcomes import BOTH_BAD, LEFT, MIRRORED, OUTCOMES, RIGHT, TIE
from arena.validation import NAME_LIMIT, InputError, clean_preference, quoted

SKIP = "skip"  # no vote: missing data, never a tie
SLIGHTLY = 0.75  # the preference for a side that is slightly better
_NOUN = (
    "(?:model|answer|response|reply|output|completion|assistant|option|candidate|choice|item|text|"
    "system|version|variant|conversation|chatbot|bot|player|generator|image|column|side)"
)
_LEFT = {"a", "left", "x", "first", "1", "gauche", "links"}
_MORE = "much|far|significantly|strongly|clearly|definitely|a lot|way"
_LESS = "(?P<less>slightly|somewhat|marginally|a bit|a little|barely)"


def _side(name: str) -> str:
    which = f"(?P<{name}>a|b|left|right|x|y|first|second|1|2|gauche|droite|links|rechts)"
    return rf"(?:the )?(?:{_NOUN} ?)?{which}(?: {_NOUN}| one)?"


_VERDICTS = [
    re.compile(form)
    for form in (
        rf"(?:winner )?{_side('side')}",
        rf"{_side('side')} ?votes?",
        rf"{_side('side')} ?(?:\+\+|(?P<less>\+))",
        rf"(?:i )?(?:(?:{_MORE}) |{_LESS} )?(?:prefer|preferred|prefers|better|chose) "
        rf"{_side('side')}",
        rf"{_side('side')}(?: is| was)?(?: (?:{_MORE})| {_LESS})? "
        r"(?:better|best|preferred|wins?|won|winner|chosen)",
    )
]
_WITH_NAME = re.compile(r"(.*\S) ?[(\[](.*)[)\]]")  # Reply A (oak)
_AGAINST = re.compile(rf"{_side('first')} ?(?P<sign>>+|<+|=+|~) ?{_side('second')}")
_SAID = {
    **dict.fromkeys(
        """tie|ties|tied|tie vote|tievote|draw|drawn|equal|equals|both equal|equally good|equivalent
        |same|the same|about the same|they are the same|both|both good|bothgood|both are good
        |tie both good|no preference|no difference|égalité|unentschieden|neutral|similar|even
        |toss up|-|=|c
        |1/2-1/2|½-½|0.5-0.5|tie: both good""".replace("\n", "").split("|"),
        TIE,
    ),
    **dict.fromkeys(
        """both bad|bothbad|bothbad vote|both are bad|tie both bad|tie bothbad|neither|neither one
        |neither is good|both worse|none of them|none of the two|all bad|both poor""".replace(
            "\n", ""
        ).split("|"),
        BOTH_BAD,
    ),
    **dict.fromkeys(["skip", "skipped", "pass", "tie inconsistent", "inconsistent", "error"], SKIP),
    **{"1-0": LEFT, "0-1": RIGHT},
}
_SAID = {" ".join(written.split()): meaning for written, meaning in _SAID.items()}
# What codes usually mean; they are asked about, because as many files mean something else.
GUESSES = {"0": LEFT, "1": TIE, "2": RIGHT, "-1": RIGHT, "c": TIE}
MEANINGS = (*OUTCOMES, SKIP)


def guesses(values: Iterable[str]) -> dict[str, str]:
    """Return what those of the values that are codes most likely mean, beside each other."""
    found = {*values}
    if found & {"-1", "-2"}:
        codes = {"-2": RIGHT, "-1": RIGHT, "0": TIE, "1": LEFT, "2": LEFT}
    elif "0" in found:
        codes = GUESSES if "2" in found else {"0": LEFT, "1": RIGHT}
    else:
        codes = {"1": LEFT, "2": RIGHT, "3": TIE, "4": BOTH_BAD}
    codes = {**GUESSES, **codes}
    return {value: codes[value.lower()] for value in sorted(found) if value.lower() in codes}


class Winner(NamedTuple):
    """An outcome, or SKIP; and how much left is preferred, if the cell says more than the side."""

    outcome: str
    preference: float | None = None


def read_meaning(written: str) -> Winner:
    """Return what somebody chose for a value: an outcome, `skip`, or a preference for left from 0
    to 1. Raises InputError."""
    name = written.strip().lower().replace(" ", "_")
    if name in MEANINGS:
        return Winner(name)
    try:
        preference = clean_preference(float(name))
    except (ValueError, InputError):
        raise InputError(
            f"is read as {quoted(written)}, which is not one of {', '.join(MEANINGS)}, or a number "
            "from 0 (right is better) to 1 (left is better)"
        ) from None
    return Winner(LEFT if preference > 0.5 else RIGHT if preference < 0.5 else TIE, preference)


def read_winner(value: Any, left: str, right: str, chosen: Mapping[str, str]) -> Winner:
    """Return who has won between two names; `chosen` are meanings that a person gave to values.

    Raises InputError.
    """
    written = " ".join(str(value).split())
    if len(written) > NAME_LIMIT:
        raise InputError(f"is {len(written):,} characters long, which is no side and no name")
    if written in chosen:
        return read_meaning(chosen[written])
    found = _named(written, left, right)
    said = _read_words(written)
    if not found and not said and (match := _WITH_NAME.fullmatch(written)):
        found, said = _named(match[2], left, right), _read_words(match[1])
    if found and said and said.outcome in (LEFT, RIGHT) and found.outcome == MIRRORED[said.outcome]:
        raise InputError(
            f"is {quoted(written)}, the name of the {found.outcome} candidate, but also a usual "
            f"word for the {said.outcome} one; write left or right"
        )
    if winner := found or said:
        return winner
    raise InputError(f"is {quoted(written)}, {_why(written)}")


def _named(written: str, left: str, right: str) -> Winner | None:
    """The side with this name, which may be spelled in other letters if only one is alike."""
    for spelled in (str, _bare_name):
        sides = [spelled(name) == spelled(written) for name in (left, right)]
        if sum(sides) == 1:
            return Winner(LEFT if sides[0] else RIGHT)
    return None


def _bare_name(name: str) -> str:
    return " ".join(name.casefold().split())


def _read_words(written: str) -> Winner | None:
    """Read the usual words: a side, how much better it is, a tie, both bad, or no vote."""
    is_marked = written.startswith("[[")
    words = re.sub(r"[\[\]()*\"'`]|[.!]$", "", written.casefold())
    words = " ".join(re.sub(r"[\s_]+|(?<=[a-z])-(?=[a-z])|:(?= )", " ", words).split())
    if words == "c" and not is_marked:
        return None
    if outcome := _SAID.get(words):
        return Winner(outcome)
    if match := _AGAINST.fullmatch(words):
        return _read_comparison(match["first"], match["sign"], match["second"])
    match = next(filter(None, (form.fullmatch(words) for form in _VERDICTS)), None)
    if match is None or words.isdecimal():
        return None
    if not match.groupdict().get("less"):
        return Winner(LEFT if match["side"] in _LEFT else RIGHT)
    return Winner(LEFT, SLIGHTLY) if match["side"] in _LEFT else Winner(RIGHT, 1 - SLIGHTLY)


def _read_comparison(first: str, sign: str, second: str) -> Winner | None:
    if (first in _LEFT) == (second in _LEFT):
        return None
    if sign[0] in "=~":
        return Winner(TIE)
    return Winner(LEFT if (first in _LEFT) == (sign[0] == ">") else RIGHT)


def _why(written: str) -> str:
    if written.casefold() in ("", "nan", "none", "null", "n/a", "na"):
        return "not a winner; write left, right, tie or both_bad, or delete the row"
    try:
        float(written)
    except ValueError:
        return "which is not one of left, right, tie, both_bad, or the name of one of the two"
    return (
        f"a code that could mean several things; say what each means, as in --value={written}=left "
        "--value=...=right, or choose it on the page"
    )
