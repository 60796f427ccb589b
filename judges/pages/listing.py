"""The verdicts of a run, as a list: filtered, in order, and blind."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import CharField, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Cast, Coalesce, Substr

from arena.models import Prompt, Run
from judges.models import Judgement, LabelItem

EXCERPT = 200
LONGEST_ID = 15
SETTLED = [state for state in Judgement.State if state != Judgement.State.WAITING]


class NoSuchFilter(ValueError):
    """A state or a judge that this run does not have."""


@dataclass(frozen=True)
class Shown:
    """Which verdicts of a run a reader wants to see; empty means all of them.

    `judge` is an epoch's id, `flagged` those of which an answer speaks to the judge.
    """

    state: str = ""
    judge: int | None = None
    flagged: bool = False

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Shown":
        """Read what an address asks for; raises NoSuchFilter."""
        state, judge = query.get("state", ""), query.get("judge", "")
        if (state and state not in SETTLED) or (judge and not _is_id(judge)):
            raise NoSuchFilter
        return cls(state, int(judge) if judge else None, bool(query.get("flagged")))

    def query(self, **other: object) -> str:
        """Return this choice as the query of an address, with some of it changed."""
        parts = {"state": self.state, "judge": self.judge, "flagged": int(self.flagged)} | other
        return urlencode({name: value for name, value in parts.items() if value})

    def of_run(self, run: Run) -> "QuerySet[Judgement]":
        """The settled judgements of `run` that are wanted, those settled last first."""
        found = Judgement.objects.filter(run=run, state__in=[self.state] if self.state else SETTLED)
        if self.judge is not None:
            found = found.filter(epoch=self.judge)
        if self.flagged:
            found = found.filter(flagged=True)
        return found.order_by(F("settled_at").desc(nulls_last=True), "pk")


def _is_id(given: str) -> bool:
    return given.isascii() and given.isdecimal() and len(given) <= LONGEST_ID


def with_excerpts(judgements: "QuerySet[Judgement]") -> "QuerySet[Judgement]":
    """What a line of the list says, and none of the long texts; `about` starts the prompt."""
    prompt = Prompt.objects.filter(pk=OuterRef("comparison__prompt"))
    item = LabelItem.objects.filter(pk=OuterRef("item"))
    return judgements.select_related("epoch__judge").annotate(
        about=Coalesce(
            Subquery(prompt.values(start=_start("text"))[:1]),
            Subquery(item.values(start=_start("prompt"))[:1]),
        )
    )


def _start(field: str) -> Cast:
    return Cast(Substr(field, 1, EXCERPT), CharField())


def neighbours(judgements: "QuerySet[Judgement]", one: Judgement) -> tuple[int | None, int | None]:
    """Return the ids of the verdicts before and after `one` in the order of the list."""
    later = Q(settled_at__gt=one.settled_at) | Q(settled_at=one.settled_at, pk__lt=one.pk)
    earlier = Q(settled_at__lt=one.settled_at) | Q(settled_at=one.settled_at, pk__gt=one.pk)
    before = judgements.filter(later).order_by("settled_at", "-pk")
    after = judgements.filter(earlier)
    return _first(before), _first(after)


def _first(judgements: "QuerySet[Judgement]") -> int | None:
    return judgements.values_list("pk", flat=True).first()
