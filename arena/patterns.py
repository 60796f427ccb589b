"""Regular expressions that people write, searched in time linear in the text. Pure.

RE2 compiles a pattern into an automaton: no text makes it backtrack, which a time limit on another
engine would only cut short. In return it has neither lookarounds nor backreferences.
"""

from functools import lru_cache
from typing import Any

import re2

MOST_CHARACTERS = 2_000  # of a pattern
# Sizes of the automaton times the text's, at worst 250 million a second: a fifth of a second.
MOST_STEPS = 50_000_000


class PatternError(ValueError):
    """A pattern that cannot be used; the message follows its name."""


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Any:
    """Return the compiled pattern. Raises PatternError."""
    if len(pattern) > MOST_CHARACTERS:
        raise PatternError(f"is {len(pattern):,} characters long; the limit is {MOST_CHARACTERS:,}")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        said = error.args[0] if error.args else ""
        reason = said.decode("utf-8", "replace") if isinstance(said, bytes) else "it is not Unicode"
        hint = ""
        if "invalid perl operator: (?" in reason or "invalid escape sequence" in reason:
            hint = "; lookarounds and backreferences are not supported"
        raise PatternError(f"is not a valid regular expression: {reason}{hint}") from None


def steps_of(pattern: str, text: str) -> int:
    """Return how many steps a search takes at worst. Raises PatternError."""
    return int(compile_pattern(pattern).programsize) * len(text)


def find_match(pattern: str, text: str) -> str | None:
    """Return the first match of `pattern` in `text`; None if there is none. Raises PatternError."""
    if steps_of(pattern, text) > MOST_STEPS:
        raise PatternError(f"takes too long to search {len(text):,} characters")
    match = compile_pattern(pattern).search(text)
    return None if match is None else str(match.group())
