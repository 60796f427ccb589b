"""The filtered list of a run's verdicts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.db.models import CharField, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Cast, Coalesce, Right, Substr
from django.http import Http404

from arena.actors import Actor
from arena.models import Arena, Prompt, Run
from arena.permissions import FieldVisibility, readable_votes
from judges.models import Judgement, LabelItem
from judges.run_reports import RunReport
from judges.views.addresses import verdict_url

EXCERPT = 200
LONGEST_ID = 15
SETTLED = [state for state in Judgement.State if state not in Judgement.UNSETTLED]
PER_PAGE = 25
NAME_FIELDS = ("name", "version", "disclosed_at", "team")


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
        """Read the filter from an address; raises Http404 for an impossible state or id."""
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
        """The settled judgements of `run` that pass the filter, the most recent first."""
        states = [self.state] if self.state else SETTLED
        judgements = Judgement.objects.filter(run=run, state__in=states)
        if self.judge is not None:
            judgements = judgements.filter(epoch=self.judge)
        if self.flagged:
            judgements = judgements.filter(flagged=True)
        return judgements.order_by(F("settled_at").desc(nulls_last=True), "pk")


def with_excerpts(judgements: "QuerySet[Judgement]") -> "QuerySet[Judgement]":
    """Add `about`, the start of the prompt or the end of a conversation, without the long texts."""

    def start(field: str) -> Cast:
        return Cast(Substr(field, 1, EXCERPT), CharField())

    prompt = Prompt.objects.filter(pk=OuterRef("comparison__prompt"))
    talk = prompt.filter(messages__isnull=False)
    item = LabelItem.objects.filter(pk=OuterRef("item"))
    return judgements.select_related("epoch__judge").annotate(
        about=Coalesce(
            Subquery(talk.values(part=Cast(Right("text", EXCERPT), CharField()))[:1]),
            Subquery(prompt.values(part=start("text"))[:1]),
            Subquery(item.values(part=start("prompt"))[:1]),
        )
    )


def names_of_sides(
    judgements: Iterable[Judgement], arena: Arena, actor: Actor
) -> dict[int, tuple[str, str]]:
    """Return the names of the left and the right candidate of each judgement about answers whose
    authors `actor` can read."""
    reader = FieldVisibility(actor, arena)
    ids = [judgement.pk for judgement in judgements]
    known = Judgement.objects.filter(readable_votes(actor, arena), pk__in=ids, item=None)
    sides = ("comparison__left", "comparison__right")
    fields = [f"{side}__{name}" for side in sides for name in NAME_FIELDS]
    return {
        row.pk: (reader.name_of(row.comparison.left), reader.name_of(row.comparison.right))
        for row in known.select_related(*sides).only("comparison", *fields)
        if row.comparison is not None
    }


def neighbours(
    judgements: "QuerySet[Judgement]", judgement: Judgement
) -> tuple[int | None, int | None]:
    """Return the ids of the verdicts before and after `judgement` in the order of the list."""
    at, pk = judgement.settled_at, judgement.pk
    later = judgements.filter(Q(settled_at__gt=at) | Q(settled_at=at, pk__lt=pk))
    earlier = judgements.filter(Q(settled_at__lt=at) | Q(settled_at=at, pk__gt=pk))
    before = later.order_by("settled_at", "-pk").values_list("pk", flat=True).first()
    return before, earlier.values_list("pk", flat=True).first()


@dataclass(frozen=True)
class FilterLink:
    url: str
    label: str
    chosen: bool


def verdicts_of(report: RunReport, chosen: VerdictFilter, page: str | None) -> dict[str, Any]:
    """The lower part: the filters, and a page of the verdicts that pass them."""
    run = report.run
    verdicts = Paginator(with_excerpts(chosen.verdicts_of(run)), PER_PAGE).get_page(page)
    return {
        "page": verdicts,
        "verdicts": [
            (verdict, verdict_url(run, verdict.pk, chosen.query())) for verdict in verdicts
        ],
        "filter_query": chosen.query(),
        "state_links": _state_links(report, chosen),
        "judge_links": _judge_links(report, chosen),
        "flagged_links": _flagged_links(run, chosen),
    }


def _link_to(chosen: VerdictFilter, label: str, is_chosen: bool, **changes: object) -> FilterLink:
    return FilterLink(f"?{chosen.query(**changes)}#verdicts", label, is_chosen)


def _state_links(report: RunReport, chosen: VerdictFilter) -> list[FilterLink]:
    label = f"All {report.settled}{' so far' if report.goes_on else ''}"
    return [_link_to(chosen, label, not chosen.state, state="")] + [
        _link_to(chosen, f"{label} {count}", chosen.state == state, state=state)
        for state, label, count in report.state_rows
        if count and state not in Judgement.UNSETTLED
    ]


def _judge_links(report: RunReport, chosen: VerdictFilter) -> list[FilterLink]:
    """By judge, if there are several."""
    if len(report.judges) < 2:
        return []
    return [_link_to(chosen, "All judges", chosen.judge is None, judge=None)] + [
        _link_to(chosen, str(judge.epoch), chosen.judge == judge.epoch.pk, judge=judge.epoch.pk)
        for judge in report.judges
    ]


def _flagged_links(run: Run, chosen: VerdictFilter) -> list[FilterLink]:
    """Pairs with a possible prompt injection, if there are any."""
    flagged = Judgement.objects.settled().filter(run=run, flagged=True).count()
    if not (flagged or chosen.flagged):
        return []
    return [
        _link_to(chosen, "All", not chosen.flagged, flagged=0),
        _link_to(chosen, f"Possible prompt injection {flagged}", chosen.flagged, flagged=1),
    ]
