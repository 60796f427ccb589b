"""What the page of a run and the list of an arena's runs say."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Count, Exists, OuterRef, Prefetch, Q, QuerySet

from arena.calls.amounts import in_dollars
from arena.models import Arena, Run
from judges.models import Judgement, RunJudge
from judges.pages.addresses import run_url, verdict_url
from judges.pages.listing import Shown, with_excerpts
from judges.reports import RunReport, report_on

PER_PAGE = 25
# In place of the reason of a pause, which may name amounts, accounts and addresses.
NOT_TOLD = "The arena's team is told why."
State = Judgement.State


@dataclass(frozen=True)
class Link:
    """A filter that a reader may choose."""

    url: str
    label: str
    chosen: bool


def runs_of_judges() -> "QuerySet[Run]":
    """Runs that judges were ordered for; imported ones and those of people are not."""
    judged = RunJudge.objects.filter(run=OuterRef("pk"))
    return Run.objects.filter(Exists(judged), kind=Run.Kind.JUDGE)


def runs_in(arena: Arena | None) -> "QuerySet[Run]":
    """The runs of an arena, newest first, with how far they are; trials where there is none."""
    waiting = Q(judgements__state=State.WAITING)
    part = RunJudge.objects.select_related("epoch__judge").order_by("pk")
    return (
        runs_of_judges()
        .filter(arena=arena)
        .select_related("arena")
        .prefetch_related(Prefetch("run_judges", queryset=part, to_attr="part"))
        .annotate(total=Count("judgements"), settled_count=Count("judgements", filter=~waiting))
        .order_by("-pk")
    )


# -- Progress --------------------------------------------------------------------------------------


def progress_of(run: Run, now: datetime) -> dict[str, Any]:
    """The upper part of a run's page, which is asked for again while the run goes on."""
    report = report_on(run.pk, now)
    per_minute = report.per_minute(now)
    return {
        "arena": run.arena,
        "report": report,
        "run": report.run,
        "run_url": run_url(run),
        "jury_size": len(report.judges),
        "jury_rows": [(label, count) for _, label, count in report.jury_rows if count],
        "per_minute": per_minute,
        "seconds_left": _seconds_left(report, per_minute),
        "cap_in_dollars": in_dollars(report.run.cap),
        "may_ask_again": report.run.state == Run.State.DONE and report.failures > 0,
    }


def _seconds_left(report: RunReport, per_minute: float | None) -> float | None:
    left = report.total - report.settled
    return 60 * left / per_minute if report.goes_on and per_minute else None


# -- Verdicts --------------------------------------------------------------------------------------


def verdicts_of(report: RunReport, shown: Shown, page: str | None) -> dict[str, Any]:
    """The lower part: which verdicts can be chosen, and a page of those that are."""
    run = report.run
    listed = Paginator(with_excerpts(shown.of_run(run)), PER_PAGE).get_page(page)
    flagged = Judgement.objects.filter(run=run, flagged=True).exclude(state=State.WAITING).count()
    return {
        "page": listed,
        "lines": [(one, verdict_url(run, one.pk, shown.query())) for one in listed],
        "page_links": _page_links(listed, shown),
        "state_links": _state_links(report, shown),
        "judge_links": _judge_links(report, shown),
        "flagged_links": _flagged_links(shown, flagged),
        "shown": shown,
    }


def _page_links(page: "Page[Judgement]", shown: Shown) -> dict[str, str]:
    links = {}
    if page.has_previous():
        links["newer"] = f"?{shown.query(page=page.previous_page_number())}#verdicts"
    if page.has_next():
        links["older"] = f"?{shown.query(page=page.next_page_number())}#verdicts"
    return links


def _link(shown: Shown, label: str, chosen: bool, **other: object) -> Link:
    return Link(f"?{shown.query(**other)}#verdicts", label, chosen)


def _state_links(report: RunReport, shown: Shown) -> list[Link]:
    settled = [(state, label, n) for state, label, n in report.state_rows if state != State.WAITING]
    all_of_them = f"All {report.settled}{' so far' if report.goes_on else ''}"
    every = _link(shown, all_of_them, not shown.state, state="")
    return [every] + [
        _link(shown, f"{label} {count}", shown.state == state, state=state)
        for state, label, count in settled
        if count
    ]


def _judge_links(report: RunReport, shown: Shown) -> list[Link]:
    """By judge, where there are several."""
    if len(report.judges) < 2:
        return []
    every = _link(shown, "All judges", shown.judge is None, judge=None)
    return [every] + [
        _link(shown, str(one.epoch), shown.judge == one.epoch.pk, judge=one.epoch.pk)
        for one in report.judges
    ]


def _flagged_links(shown: Shown, count: int) -> list[Link]:
    """Those of which an answer looks as if it told the judge what to say, where there are any."""
    if not (count or shown.flagged):
        return []
    return [
        _link(shown, "All", not shown.flagged, flagged=0),
        _link(shown, f"An answer speaks to the judge {count}", shown.flagged, flagged=1),
    ]
