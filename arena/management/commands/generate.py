"""`manage.py generate`: have a candidate's model answer the prompts, and watch the answers come."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.urls import reverse
from django.utils import timezone

from arena import tasks
from arena.access import COMMAND
from arena.answers import steering
from arena.answers.ordering import check_cap, order_answers, unfinished_run
from arena.answers.quoting import Order, prepare_order
from arena.answers.reporting import AnswerReport, report_on
from arena.bells import ring
from arena.calls.money import dollars
from arena.management.amounts import cap_in_nano
from arena.management.following import NO_WORKER, follow
from arena.models import Arena, Candidate, Run
from arena.services.refusals import Refused


class Command(BaseCommand):
    help = "Generate a candidate's answers to the prompts that it has not answered."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("arena", metavar="ARENA", help="the arena's slug")
        add("candidate", metavar="CANDIDATE", help="a name, for its newest version, or a number")
        add("--cap", metavar="USD", help="dollars the run may cost at most; raises a paused run's")
        add("--dry-run", action="store_true", help="print the quote, order nothing")
        add("--no-wait", action="store_true", help="order, and do not watch")

    def handle(self, *args: Any, **options: Any) -> None:
        candidate = _candidate(_arena(options["arena"]), options["candidate"])
        cap = cap_in_nano(options["cap"])
        try:
            run = None if options["dry_run"] else self._go_on(candidate, cap)
            run = run or self._order(candidate, cap, dry=options["dry_run"])
        except Refused as refusal:
            raise CommandError(refusal.sentence) from None
        if run is not None:
            self._watch(run, wait=not options["no_wait"])

    def _go_on(self, candidate: Candidate, cap: int | None) -> Run | None:
        """Let a run that is not through go on, rather than order the same again."""
        run = unfinished_run(candidate)
        if run is None or run.state == Run.State.ORDERED:
            return None
        if run.state == Run.State.PAUSED:
            steering.resume(run=run, by=COMMAND, now=timezone.now(), cap=cap)
        self.stdout.write(f"Run {run.pk} of {candidate.own_name} was not through; it goes on.")
        return run

    def _order(self, candidate: Candidate, cap: int | None, *, dry: bool) -> Run | None:
        order = prepare_order(candidate=candidate)
        self._print_quote(order)
        if dry:
            self.stdout.write("Nothing was ordered (--dry-run).")
            return None
        check_cap(candidate, order.quote, cap)
        run = order_answers(candidate=candidate, by=COMMAND, cap=cap, now=timezone.now())
        self.stdout.write(f"Run {run.pk}: {run.votes_wanted} answers of {candidate.own_name}.")
        return run

    def _print_quote(self, order: Order) -> None:
        quote, candidate = order.quote, order.candidate
        for sentence in order.left_out:
            self.stdout.write(f"Note: {sentence}")
        self.stdout.write(
            f"{candidate.model} at {candidate.endpoint}: {quote.calls} prompts, about "
            f"{quote.tokens_in:,} tokens in and {quote.tokens_out:,} out."
        )
        if quote.expected is None or quote.worst is None:
            self.stdout.write("Cost: not known, because the model has no price.")
        else:
            expected, worst = dollars(quote.expected), dollars(quote.worst)
            self.stdout.write(f"Cost: {expected} expected, {worst} at worst.")

    def _watch(self, run: Run, *, wait: bool) -> None:
        page = reverse("answer_run", args=[run.in_arena.slug, run.pk])
        self.stdout.write(f"Watch it on your Ringside's page {page}")
        if trouble := ring(tasks.ring_answers):
            self.stderr.write(trouble)
        if not wait:
            return
        try:
            report = follow(lambda: report_on(run.pk, timezone.now()), unit="answer")
        except KeyboardInterrupt:
            self.stdout.write("\nLeft running. The same command goes on from there.")
            return
        self._sum_up(report)

    def _sum_up(self, report: AnswerReport) -> None:
        states = ", ".join(f"{label.lower()} {n}" for _, label, n in report.state_rows if n)
        self.stdout.write(f"{report.total} prompts: {states or 'none asked yet'}.")
        self.stdout.write(f"{report.requests} requests: {dollars(report.spent)}.")
        if report.run.state == Run.State.PAUSED:
            raise CommandError(
                f"The run paused: {report.run.pause_reason} Give the same command again to go on, "
                "with a higher --cap where the cap is what stopped it."
            )
        if not report.is_over:
            raise CommandError(NO_WORKER)


def _arena(slug: str) -> Arena:
    arena = Arena.objects.revealed().filter(slug=slug).first()
    if arena is None:
        raise CommandError(f"There is no arena {slug!r}.")
    return arena


def _candidate(arena: Arena, named: str) -> Candidate:
    """The candidate of this number, or the newest version of this name."""
    candidates = arena.candidates.revealed().select_related("arena__team", "team")
    found = candidates.filter(name=named).order_by("-version").first()
    if found is None and named.isdecimal():
        found = candidates.filter(pk=int(named)).first()
    if found is None:
        raise CommandError(f"The arena has no candidate {named!r}.")
    return found
