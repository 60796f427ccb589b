"""`manage.py judge`: order votes from an LLM judge and watch them come in."""

import sys
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse
from django.utils import timezone
from kombu.exceptions import OperationalError
from tqdm import tqdm

from arena.models import Arena, Run
from judges import tasks
from judges.core.spec import JudgeSpec
from judges.reports import RunReport, report_on
from judges.services.ordering import go_on, nothing_left, order_run, unfinished_run
from judges.services.planning import plan_run
from judges.services.registering import JudgeRefused, spec_named

LOOK_EVERY = 0.5
SILENCE = 15.0
NO_WORKER = (
    "No worker is answering: nothing has moved for 15 seconds. The run is kept, and goes on as "
    "soon as a worker runs (`make run` starts one)."
)


class Command(BaseCommand):
    help = "Have a judge compare answers, two at a time and in both orders, through the worker."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("arena", metavar="SLUG")
        parser.add_argument(
            "--judge",
            required=True,
            metavar="NAME",
            help="a registered judge, or endpoint:model[@rubric]; `scripted` needs no key",
        )
        parser.add_argument("--per-pair", type=int, required=True, metavar="N")
        parser.add_argument(
            "--max-calls",
            type=int,
            required=True,
            metavar="M",
            help="create at most M calls; one that fails is tried up to six times",
        )
        parser.add_argument("--dry-run", action="store_true", help="print the quote, order nothing")
        parser.add_argument("--no-wait", action="store_true", help="order, and do not watch")

    def handle(self, *args: Any, **options: Any) -> None:
        arena = self._arena(options["arena"])
        per_pair, max_calls = options["per_pair"], options["max_calls"]
        if per_pair < 1 or max_calls < 0:
            raise CommandError("--per-pair must be at least 1, and --max-calls not negative.")
        try:
            spec = spec_named(options["judge"])
            if options["dry_run"]:
                self._quote(arena, spec, per_pair, max_calls)
                return
            run = self._order(arena, spec, per_pair, max_calls)
        except JudgeRefused as error:
            raise CommandError(str(error)) from None
        self._ring(run)
        if not options["no_wait"]:
            self._watch(run)

    def _arena(self, slug: str) -> Arena:
        arena = Arena.objects.revealed().filter(slug=slug).first()
        if arena is None:
            raise CommandError(f"There is no arena {slug!r}.")
        return arena

    def _quote(self, arena: Arena, spec: JudgeSpec, per_pair: int, max_calls: int) -> None:
        plan = plan_run(arena=arena, spec=spec, per_pair=per_pair, max_calls=max_calls)
        if not plan.picks:
            raise CommandError(nothing_left(plan, spec.label))
        self.stdout.write(
            f"{spec.label}: {plan.pairs} pairs, up to {per_pair} comparisons each, 2 calls per "
            f"comparison (both orders): {len(plan.picks)} comparisons, {plan.calls} calls."
        )
        if plan.calls < plan.wanted_calls:
            self.stdout.write(
                f"Asked for {plan.wanted_calls} calls; the cap of {max_calls} and the prompts "
                f"not judged yet leave {plan.calls}."
            )
        self.stdout.write("Nothing was ordered (--dry-run).")

    def _order(self, arena: Arena, spec: JudgeSpec, per_pair: int, max_calls: int) -> Run:
        now = timezone.now()
        run = unfinished_run(arena=arena, spec=spec)
        if run is not None:
            why = f" (paused: {run.pause_reason})" if run.pause_reason else ""
            run = go_on(run=run, now=now)
            self.stdout.write(f"Run {run.pk} of this judge was not through{why}; it goes on.")
            return run
        run = order_run(arena=arena, spec=spec, per_pair=per_pair, max_calls=max_calls, now=now)
        self.stdout.write(f"Run {run.pk}: {run.votes_wanted} comparisons from {spec.label}.")
        return run

    def _ring(self, run: Run) -> None:
        self.stdout.write(f"Watch it at {self._page(run)}")
        try:
            tasks.ring_calls()
        except OperationalError as error:
            self.stderr.write(f"The broker cannot be reached ({error}); the sweep will ring.")

    def _page(self, run: Run) -> str:
        return reverse("judge_run", args=[run.arena.slug, run.pk])

    def _watch(self, run: Run) -> None:
        try:
            report = _follow(run)
        except KeyboardInterrupt:
            self.stdout.write(f"\nLeft running. It can be watched at {self._page(run)}")
            return
        self._sum_up(report)
        if report.run.state == Run.State.PAUSED:
            raise CommandError(
                f"The run paused: {report.run.pause_reason} Give the same command again to go on."
            )
        if not report.is_over:
            raise CommandError(NO_WORKER)

    def _sum_up(self, report: RunReport) -> None:
        states = ", ".join(f"{label.lower()} {n}" for _, label, n in report.state_rows if n)
        self.stdout.write(f"{report.judge}: {report.total} comparisons: {states}.")
        self.stdout.write(
            f"{report.requests} requests for {report.calls} calls, {report.tokens_in} tokens in, "
            f"{report.tokens_out} out."
        )
        self.stdout.write(
            f"Flip rate {_percent(report.flip_rate)}; the answer shown first won "
            f"{_percent(report.first_position_rate)} of decisive verdicts."
        )
        if report.judge.is_scripted:
            self.stdout.write("The scripted judge is arithmetic, not a real model.")


def _follow(run: Run) -> RunReport:
    """Show progress until the run ends, pauses, or nothing has moved for a while."""
    report = report_on(run.pk, timezone.now())
    moved_at = time.monotonic()
    with tqdm(total=report.total, unit="comparison", file=sys.stderr) as bar:
        while True:
            bar.update(report.settled - bar.n)
            if not report.goes_on or time.monotonic() - moved_at > SILENCE:
                return report
            time.sleep(LOOK_EVERY)
            before, report = report, report_on(run.pk, timezone.now())
            if _is_alive(before, report):
                moved_at = time.monotonic()


def _is_alive(before: RunReport, now: RunReport) -> bool:
    """Did something move, is a call under way, or is the server to be left alone for a while?"""
    moved = (before.requests, before.settled) != (now.requests, now.settled)
    resting = now.next_due_at is not None and now.next_due_at > timezone.now()
    return moved or bool(now.under_way) or resting


def _percent(rate: float | None) -> str:
    return "not known" if rate is None else f"{rate:.0%}"
