"""The verdicts of a run as a list: filtered, in order, and blind."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import CharField, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Cast, Coalesce, Substr
from django.http import Http404

from arena.models import Prompt, Run
from judges.models import Judgement, LabelItem

EXCERPT = 200
LONGEST_ID = 15
SETTLED = [state for state in Judgement.State if state != Judgement.State.WAITING]


@dataclass(frozen=True)
class VerdictFilter:
    """Which verdicts of a run a reader wants to see; empty means all of them.

    `judge` is an epoch's id, `flagged` the pairs with a possible prompt injection.
    """

    state: str = ""
    judge: int | None = None
    flagged: bool = False

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "VerdictFilter":
        """Read the filter from an address; raises Http404 for a state or id that cannot be."""
        state, judge = query.get("state", ""), query.get("judge", "")
        is_id = judge.isascii() and judge.isdecimal() and len(judge) <= LONGEST_ID
        if (state and state not in SETTLED) or (judge and not is_id):
            raise Http404("There is no such state or judge.")
        return cls(state, int(judge) if judge else None, bool(query.get("flagged")))

    def query(self, **changes: object) -> str:
        """Return this filter as a query string, with some of it changed."""
        fields = {"state": self.state, "judge": self.judge, "flagged": int(self.flagged)} | changes
        return urlencode({name: value for name, value in fields.items() if value})

    def verdicts_of(self, run: Run) -> "QuerySet[Judgement]":
        """The settled judgements of `run` that pass the filter, the last settled first."""
        states = [self.state] if self.state else SETTLED
        judgements = Judgement.objects.filter(run=run, state__in=states)
        if self.judge is not None:
            judgements = judgements.filter(epoch=self.judge)
        if self.flagged:
            judgements = judgements.filter(flagged=True)
        return judgements.order_by(F("settled_at").desc(nulls_last=True), "pk")


def with_excerpts(judgements: "QuerySet[Judgement]") -> "QuerySet[Judgement]":
    """Add `about`, the start of the prompt, without reading any of the long texts."""

    def start(field: str) -> Cast:
        return Cast(Substr(field, 1, EXCERPT), CharField())

    prompt = Prompt.objects.filter(pk=OuterRef("comparison__prompt"))
    item = LabelItem.objects.filter(pk=OuterRef("item"))
    return judgements.select_related("epoch__judge").annotate(
        about=Coalesce(
            Subquery(prompt.values(start=start("text"))[:1]),
            Subquery(item.values(start=start("prompt"))[:1]),
        )
    )


def neighbours(
    judgements: "QuerySet[Judgement]", judgement: Judgement
) -> tuple[int | None, int | None]:
    """Return the ids of the verdicts before and after `judgement` in the order of the list."""
    at, pk = judgement.settled_at, judgement.pk
    later = judgements.filter(Q(settled_at__gt=at) | Q(settled_at=at, pk__lt=pk))
    earlier = judgements.filter(Q(settled_at__lt=at) | Q(settled_at=at, pk__gt=pk))
    before = later.order_by("settled_at", "-pk").values_list("pk", flat=True).first()
    return before, earlier.values_list("pk", flat=True).first()
