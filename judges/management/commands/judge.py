"""`manage.py judge`: start a judge run and follow it."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI
from arena.calls.money import dollars, spent_in_words
from arena.errors import ServiceError
from arena.management.terminal import NO_WORKER, find_arena
from arena.models import Arena, Run
from arena.services.runs import check_cap, order_run, resume_unfinished, set_cap
from arena.tasks import enqueue_due_calls
from arena.validation import dollars_argument, percent
from judges.core.spec import JudgeSpec
from judges.management.runs import follow_run
from judges.management.switches import add_switches, switches_of
from judges.run_reports import JudgeReport, RunReport
from judges.services.orders import JudgeOrder, prepare_order
from judges.services.planning import PER_PAIR, UNLESS_AGAIN, OrderOptions
from judges.services.quotes import (
    Quote,
    prepare_measured,
    probe_judges,
    quote_for,
    smallest_quote,
)
from judges.services.registry import spec_named
from judges.services.runs import unfinished_run
from judges.wording import SCRIPTED_JUDGE

NO_RUN = "No run was started (--dry-run)."


class Command(BaseCommand):
    help = "Start a judge run: LLM judges compare answers blind and in both orders."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("arena", metavar="SLUG")
        add(
            "--judges",
            "--judge",
            required=True,
            metavar="NAMES",
            help="registered judges, or endpoint:model[@rubric], separated by commas; several form"
            " a jury; `scripted` needs no key",
        )
        add(
            "--pairs",
            choices=["all", "neighbours", "new", "voted"],
            default="all",
            help="which pairs to judge; default: all that are not decided",
        )
        add(
            "--per-pair",
            type=int,
            metavar="N",
            help=f"comparisons per pair; default: {PER_PAIR}",
        )
        add(
            "--cap",
            type=dollars_argument,
            metavar="USD",
            help="spending cap in dollars; a higher one raises the cap of a paused run",
        )
        add("--max-calls", type=int, metavar="M", help="make at most M calls")
        add("--quorum", type=int, metavar="K", help="verdicts a jury needs; default: a majority")
        add("--again", action="store_true", help="include pairs that these judges have decided")
        add(
            "--like-run",
            type=int,
            metavar="RUN",
            help="repeat the comparisons of that run with this judge",
        )
        add(
            "--undecided",
            action="store_true",
            help="with --like-run: only the comparisons without a verdict in that run",
        )
        add(
            "--weigh",
            action="store_true",
            help="weigh a jury's members by their accuracy, as `calibrate --arena` measured it",
        )
        add("--own-family", action="store_true", help="let judges judge their own model family")
        add_switches(parser)
        add("--seed", type=int, default=0, help="seed for drawing the examples")
        add("--dry-run", action="store_true", help="print the quote and start nothing")
        add("--no-wait", action="store_true", help="start the run in the background")

    def handle(self, *args: Any, **options: Any) -> None:
        arena = find_arena(options["arena"])
        _check_numbers(options)
        try:
            names = [name.strip() for name in options["judges"].split(",") if name.strip()]
            switches = [switches_of(name, options) for name in names]

            def specs() -> list[JudgeSpec]:
                return [
                    spec_named(name, own, CLI) for name, own in zip(names, switches, strict=True)
                ]

            def prepare() -> JudgeOrder:
                return prepare_order(
                    arena=arena,
                    specs=specs(),
                    options=_order_options(arena, options),
                    own_family=options["own_family"],
                    quorum=options["quorum"],
                    weigh=options["weigh"],
                    max_calls=options["max_calls"],
                )

            run = None if options["dry_run"] else self._resume(arena, specs(), options["cap"])
            if run is None:
                if not options["dry_run"]:  # before a model is measured, which costs money
                    check_cap(smallest_quote(specs()), options["cap"])
                order = prepare_measured(prepare, cap=options["cap"], now=timezone.now())
                run = self._quote_and_order(order, options)
        except ServiceError as error:
            raise CommandError(_with_option(str(error))) from None
        if run is not None:
            self._follow(run, wait=not options["no_wait"])

    def _resume(self, arena: Arena, specs: list[JudgeSpec], cap: int | None) -> Run | None:
        """Resume the unfinished run of exactly these judges; None if there is none."""
        run = unfinished_run(arena=arena, digests=[spec.digest for spec in specs])
        if run is None:
            return None
        about_cap = _raise_cap(run, cap)
        why = f" (paused: {run.pause_reason})" if run.pause_reason else ""
        self.stdout.write(f"Resuming unfinished run {run.pk}{why}.{about_cap}")
        return resume_unfinished(run=run, now=timezone.now())

    def _quote_and_order(self, order: JudgeOrder, options: dict[str, Any]) -> Run | None:
        quote = quote_for(order)
        self._print_quote(quote, options["cap"])
        if options["dry_run"]:
            self.stdout.write(NO_RUN)
            return None
        probe_judges(specs=[member.spec for member in order.members], now=timezone.now())
        run = order_run(order=order, cap=options["cap"], now=timezone.now())
        names = ", ".join(member.spec.label for member in order.members)
        self.stdout.write(f"Run {run.pk}: {run.votes_wanted} comparisons by {names}.")
        return run

    def _print_quote(self, quote: Quote, cap: int | None) -> None:
        for sentence in quote.left_out:
            self.stdout.write(f"Note: {_with_option(sentence)}")
        for judge in quote.judges:
            cost = "" if judge.expected is None else f", {dollars(judge.expected)} expected"
            self.stdout.write(
                f"{judge.label}: {quote.pairs} pairs, {judge.comparisons} comparisons, "
                f"{judge.calls} calls (both orders), about {judge.tokens_in:,} tokens in and "
                f"{judge.tokens_out:,} out{cost}."
            )
        for judge in quote.without_price:
            self.stdout.write(f"Cost: unknown: {judge.model} at {judge.endpoint} has no price.")
        if quote.worst is not None and quote.expected is not None:
            self.stdout.write(
                f"Cost: {dollars(quote.expected)} expected, {dollars(quote.worst)} at most"
                + (f"; the cap is {dollars(cap)}." if cap else ".")
            )

    def _follow(self, run: Run, *, wait: bool) -> None:
        page = reverse("judge_run", args=[run.arena.slug, run.pk]) if run.arena else ""
        self.stdout.write(f"Progress: {page} on your Ringside")
        if problem := enqueue_due_calls():
            self.stderr.write(problem)
        if not wait:
            return
        try:
            report = follow_run(run)
        except KeyboardInterrupt:
            self.stdout.write(f"\nThe run continues in the background. Progress: {page}")
            return
        self._print_results(report)
        if report.run.state == Run.State.PAUSED:
            how = "Run the same command again to resume."
            if report.run.cap is not None:
                how += (
                    f" If the run has reached its cap, add a --cap above {dollars(report.run.cap)}."
                )
            raise CommandError(f"The run paused: {report.run.pause_reason} {how}")
        if not report.is_over:
            raise CommandError(NO_WORKER)

    def _print_results(self, report: RunReport) -> None:
        for judge in report.judges:
            self.stdout.write(_describe_judge(judge))
        if report.jury is not None:
            states = ", ".join(f"{label.lower()} {n}" for _, label, n in report.jury_rows if n)
            kappa = "not available" if report.kappa is None else f"{report.kappa:.2f}"
            self.stdout.write(f"{report.jury}: {states}. Fleiss' kappa {kappa}.")
        self.stdout.write(
            f"{report.requests} requests for {report.calls} calls: {spent_in_words(report.run)}."
        )
        if report.is_scripted:
            self.stdout.write(SCRIPTED_JUDGE)


def _raise_cap(run: Run, cap: int | None) -> str:
    """Raise an unfinished run's cap to a higher `cap`; return a sentence about its cap."""
    before = run.cap
    if cap is None or (before is not None and cap <= before):
        return "" if before is None else f" Its cap stays {dollars(before)}."
    try:
        set_cap(run=run, cap=cap)
    except ServiceError as error:
        raise CommandError(str(error)) from None
    was = "It had no cap" if before is None else f"Its cap was {dollars(before)}"
    return f" {was}; the cap is now {dollars(cap)}."


def _order_options(arena: Arena, options: dict[str, Any]) -> OrderOptions:
    like, per_pair = None, options["per_pair"]
    if options["like_run"] is not None:
        like = Run.objects.filter(arena=arena, pk=options["like_run"], kind="judge").first()
        if like is None:
            raise CommandError(f"This arena has no judge run {options['like_run']}.")
        per_pair = like.per_pair if per_pair is None else per_pair
    if per_pair is None:
        per_pair = PER_PAIR
    return OrderOptions(
        per_pair, options["pairs"], options["again"], like, undecided=options["undecided"]
    )


def _check_numbers(options: dict[str, Any]) -> None:
    if options["per_pair"] is not None and options["per_pair"] < 1:
        raise CommandError("--per-pair must be at least 1.")
    if options["undecided"] and options["like_run"] is None:
        raise CommandError("--undecided works only with --like-run.")
    if options["max_calls"] is not None and options["max_calls"] < 0:
        raise CommandError("--max-calls must not be negative.")


def _with_option(sentence: str) -> str:
    """Add the option's name to a sentence about decided pairs, which the web form shows too."""
    if UNLESS_AGAIN not in sentence:
        return sentence
    return f"{sentence.rstrip('.')}; --again includes them."


def _describe_judge(judge: JudgeReport) -> str:
    states = ", ".join(f"{label.lower()} {n}" for _, label, n in judge.state_rows if n)
    flips, first = judge.flip_rate, judge.first_position_rate
    flip_rate = "not available" if flips is None else percent(flips)
    first_rate = "not available" if first is None else f"{percent(first)} of decisive verdicts"
    return (
        f"{judge.epoch}: {judge.total} comparisons: {states}. Inconsistent when swapped: "
        f"{flip_rate}. Chose the answer shown first: {first_rate}."
    )
