"""What a candidate's page says of generating its answers, and what the page of a run says."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest

from arena.answers.ordering import check_cap, payer_of, unfinished_run
from arena.answers.quoting import Order, prepare_order
from arena.answers.refusals import AnswersRefused
from arena.answers.reporting import answers_of, failures_of, report_on, with_prompts
from arena.calls.amounts import in_dollars
from arena.models import Candidate, Run
from arena.services.budgets import budget_left

RUNS_SHOWN = 10
PER_PAGE = 20


@dataclass(frozen=True)
class Generation:
    """A candidate's answers as they may be ordered: the order and its price, or why there is none.

    `left` is what the paying team's budget leaves, in nano-dollars; None where nobody's does.
    """

    order: Order | None
    refused: str
    under_way: Run | None
    runs: list[Run]
    left: int | None

    @property
    def is_free(self) -> bool:
        return self.order is not None and self.order.quote.is_free

    @property
    def suggested_cap(self) -> str:
        """The worst that can come, as the form takes it: dollars."""
        return in_dollars(self.order.quote.worst) if self.order else ""


def generation_of(candidate: Candidate) -> Generation | None:
    """Return what `manage/_generate.html` shows; None where the answers are uploaded."""
    if not candidate.endpoint:
        return None
    under_way = unfinished_run(candidate)
    order, refused = (None, "") if under_way else _order(candidate)
    runs = Run.objects.of_answers().filter(candidate=candidate).order_by("-pk")[:RUNS_SHOWN]
    return Generation(order, refused, under_way, list(runs), _left(candidate))


def _order(candidate: Candidate) -> tuple[Order | None, str]:
    try:
        order = prepare_order(candidate=candidate)
        check_cap(candidate, order.quote, order.quote.worst)
    except AnswersRefused as refusal:
        return None, refusal.sentence
    return order, ""


def _left(candidate: Candidate) -> int | None:
    team = payer_of(candidate)
    return None if team is None else max(0, budget_left(team))


# -- A run -----------------------------------------------------------------------------------------


def progress_of(run: Run, now: datetime) -> dict[str, Any]:
    """The upper part of a run's page, which is asked for again while the run goes on."""
    report = report_on(run.pk, now)
    return {
        "report": report,
        "run": report.run,
        "per_minute": report.per_minute(now),
        "seconds_left": report.seconds_left(now),
        "cap_in_dollars": in_dollars(report.run.cap),
        "may_ask_again": report.run.state == Run.State.DONE and report.failures > 0,
    }


def results_of(run: Run, request: HttpRequest) -> dict[str, Any]:
    """The lower part: what failed and why, and the answers so far, a page of each."""
    failures = Paginator(failures_of(run), PER_PAGE).get_page(request.GET.get("failures"))
    answers = Paginator(answers_of(run), PER_PAGE).get_page(request.GET.get("page"))
    return {
        "failures_page": failures,
        "failures": with_prompts(list(failures)),
        "answers": answers,
    }
