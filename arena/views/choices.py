"""What a rater may answer: its button, its key, and what the page says afterwards."""

from dataclasses import dataclass

from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext, gettext_noop

from arena.outcomes import BOTH_BAD, LEFT, RIGHT, TIE

SKIP = "skip"
CHOSEN = gettext_noop("You chose <strong>%(left)s</strong> over %(right)s.")


@dataclass(frozen=True)
class Choice:
    """`key` is the name of the key in a browser's events, `cap` what is written on it."""

    value: str
    text: str
    key: str
    cap: str
    result: str = ""

    @property
    def label(self) -> str:
        return gettext(self.text)


CHOICES = (
    Choice(LEFT, gettext_noop("A is better"), "ArrowLeft", "←", CHOSEN),
    Choice(TIE, gettext_noop("Tie"), "t", "T", gettext_noop("Tie between %(left)s and %(right)s.")),
    Choice(
        BOTH_BAD,
        gettext_noop("Both bad"),
        "b",
        "B",
        gettext_noop("Both bad: %(left)s and %(right)s."),
    ),
    Choice(RIGHT, gettext_noop("B is better"), "ArrowRight", "→", CHOSEN),
    Choice(SKIP, gettext_noop("Skip"), "s", "S"),
)
RESULTS = {choice.value: choice.result for choice in CHOICES}


def result_of(outcome: str, left: object, right: object) -> SafeString:
    """Return what a vote says of the two candidates, as HTML."""
    if outcome == RIGHT:
        left, right = right, left
    names = {"left": conditional_escape(str(left)), "right": conditional_escape(str(right))}
    return mark_safe(gettext(RESULTS[outcome]) % names)  # noqa: S308  (our own sentence)
