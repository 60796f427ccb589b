"""`manage.py generate ARENA CANDIDATE`: generate a candidate's answers and show the progress."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI
from arena.calls.money import dollars, spent_in_words
from arena.errors import ServiceError
from arena.generation_runs import (
    AnswerOrder,
    order_answers,
    prepare_order,
    report_on,
    unfinished_run,
)
from arena.management.terminal import NO_WORKER, find_arena, find_candidate, follow
from arena.models import Candidate, Run
from arena.services import runs
from arena.tasks import enqueue_due_calls
from arena.validation import dollars_argument


class Command(BaseCommand):
    help = "Generate a candidate's missing answers."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("arena", metavar="ARENA", help="the arena's slug")
        add("candidate", metavar="CANDIDATE", help="a name (of the newest version) or an id")
        add(
            "--cap",
            type=dollars_argument,
            metavar="USD",
            help="spending cap in dollars; a higher one raises the cap of a paused run",
        )
        add("--dry-run", action="store_true", help="print the quote and start nothing")
        add("--no-wait", action="store_true", help="start the run without waiting for it")

    def handle(self, *args: Any, **options: Any) -> None:
        arena = find_arena(options["arena"])
        candidate = find_candidate(arena, options["candidate"])
        cap = options["cap"]
        try:
            run = None if options["dry_run"] else self._resume_run(candidate, cap)
            run = run or self._start_run(candidate, cap, dry_run=options["dry_run"])
        except ServiceError as error:
            raise CommandError(error.message) from None
        if run is not None:
            self._watch_run(run, wait=not options["no_wait"])

    def _resume_run(self, candidate: Candidate, cap: int | None) -> Run | None:
        """Continue an unfinished run instead of starting another."""
        run = unfinished_run(candidate)
        if run is None or run.state == Run.State.ORDERED:
            return None
        if run.state == Run.State.PAUSED:
            runs.resume(run=run, by=CLI, now=timezone.now(), cap=cap)
        self.stdout.write(f"Continuing unfinished run {run.pk} of {candidate.own_name}.")
        return run

    def _start_run(self, candidate: Candidate, cap: int | None, *, dry_run: bool) -> Run | None:
        order = prepare_order(candidate=candidate)
        self._print_quote(order)
        if dry_run:
            self.stdout.write("Nothing was started (--dry-run).")
            return None
        runs.check_cap(order.quote, cap)
        run = order_answers(candidate=candidate, by=CLI, cap=cap, now=timezone.now())
        self.stdout.write(f"Run {run.pk}: {run.votes_wanted} answers of {candidate.own_name}.")
        return run

    def _print_quote(self, order: AnswerOrder) -> None:
        quote, candidate = order.quote, order.candidate
        for note in order.left_out:
            self.stdout.write(f"Note: {note}")
        self.stdout.write(
            f"{candidate.model} at {candidate.endpoint}: {quote.calls} prompts, about "
            f"{quote.tokens_in:,} tokens in and {quote.tokens_out:,} out."
        )
        if quote.expected is None or quote.worst is None:
            self.stdout.write("Cost: unknown, because the model has no price.")
        else:
            expected, worst = dollars(quote.expected), dollars(quote.worst)
            self.stdout.write(f"Cost: {expected} expected, {worst} at most.")

    def _watch_run(self, run: Run, *, wait: bool) -> None:
        page = reverse("answer_run", args=[run.in_arena.slug, run.pk])
        self.stdout.write(f"Progress is also shown at {page}")
        if warning := enqueue_due_calls():
            self.stderr.write(warning)
        if not wait:
            return
        try:
            report = follow(lambda: report_on(run.pk, timezone.now()), unit="answer")
        except KeyboardInterrupt:
            self.stdout.write("\nThe run continues. Run the command again to watch it.")
            return
        states = ", ".join(f"{label.lower()} {n}" for _, label, n in report.state_rows if n)
        self.stdout.write(f"{report.total} prompts: {states or 'none sent yet'}.")
        self.stdout.write(f"{report.requests} requests: {spent_in_words(report.run)}.")
        if report.run.state == Run.State.PAUSED:
            raise CommandError(
                f"The run paused: {report.run.pause_reason} Run the command again to resume it, "
                "with a higher --cap if it reached its cap."
            )
        if not report.is_over:
            raise CommandError(NO_WORKER)
