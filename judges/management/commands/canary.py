"""`manage.py canary`: drift checks, which ask a judge the same labelled pairs again and again."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from arena.actors import CLI
from arena.calls.money import dollars
from arena.errors import ServiceError
from arena.files.reader import FileError
from arena.management.commands import add_choices
from arena.tasks import enqueue_due_calls
from arena.validation import dollars_argument
from judges.management.runs import wait_for_runs
from judges.models import DriftCheck, DriftCheckSet, Judge
from judges.services.drift import (
    drift_check_items,
    evaluate_drift_checks,
    start_drift_checks,
    stop_drift_checks,
)
from judges.services.label_files import LabelsError, read_labels
from judges.services.label_runs import resume_label_run
from judges.services.labels import add_labels
from judges.services.quotes import probe_judges
from judges.services.registry import register_judge, spec_named


class Command(BaseCommand):
    help = "Start, stop or list the drift checks of judges."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("judge", nargs="?", metavar="JUDGE", help="a judge; without one, list all drift checks")
        add("--labels", type=Path, metavar="FILE", help="labelled pairs; up to 200 are kept")
        add_choices(parser)
        add(
            "--cap",
            type=dollars_argument,
            metavar="USD",
            help="spending cap of each check, in dollars",
        )
        add("--no-wait", action="store_true", help="start the first check in the background")
        add("--stop", action="store_true", help="stop this judge's drift checks")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["judge"] is None:
            self._list()
            return
        try:
            if options["stop"]:
                self._stop(options["judge"])
            else:
                self._start(options)
        except (ServiceError, LabelsError, FileError) as error:
            raise CommandError(str(error)) from None

    def _list(self) -> None:
        check_sets = DriftCheckSet.objects.select_related("judge", "label_set").order_by("pk")
        for check_set in check_sets:
            self.stdout.write(_describe_check_set(check_set))
        if not check_sets:
            self.stdout.write(
                "No judge has drift checks. Start them with: manage.py canary JUDGE --labels FILE "
                "--cap USD"
            )

    def _stop(self, name: str) -> None:
        judge = Judge.objects.filter(name=name).first()
        if judge is None:
            judge = Judge.objects.filter(digest=spec_named(name, by=CLI).digest).first()
        if judge is None or not stop_drift_checks(judge=judge, now=timezone.now()):
            raise CommandError(f"{name} has no drift checks to stop.")
        self.stdout.write(f"Drift checks of {judge} stopped.")

    def _start(self, options: dict[str, Any]) -> None:
        cap = options["cap"]
        if options["labels"] is None or cap is None:
            raise CommandError("Drift checks need --labels FILE and --cap USD (0 is allowed).")
        spec = spec_named(options["judge"], by=CLI)
        columns, values = dict(options["column"]), dict(options["value"])
        file = read_labels(options["labels"], columns=columns, values=values)
        labels_in = add_labels(file=file, name=options["labels"].name)
        probe_judges(specs=[spec], now=timezone.now())
        epoch = register_judge(spec=spec)
        check_set = start_drift_checks(
            epoch=epoch, labels_in=labels_in, cap=cap, now=timezone.now()
        )
        self._run_checks(check_set, cap, wait=not options["no_wait"])
        self.stdout.write(_describe_check_set(check_set))

    def _run_checks(self, check_set: DriftCheckSet, cap: int, *, wait: bool) -> None:
        """Resume the unfinished checks and, with `wait`, evaluate them as soon as they are done."""
        pending = check_set.checks.filter(evaluated_at=None).select_related("run").order_by("pk")
        runs = [check.run for check in pending]
        for run in runs:
            resume_label_run(run=run, cap=cap, now=timezone.now())
        if wait:
            if wait_for_runs(runs, self.stdout, self.stderr):
                evaluate_drift_checks(check_set_id=check_set.pk, now=timezone.now())
        elif problem := enqueue_due_calls():
            self.stderr.write(problem)


def _describe_check_set(check_set: DriftCheckSet) -> str:
    pairs = f"{len(drift_check_items(check_set))} pairs of {check_set.label_set}"
    start = f"{check_set.judge}: {pairs}, {dollars(check_set.cap)} per check"
    if check_set.stopped_at:
        return f"{start}; stopped on {check_set.stopped_at:%Y-%m-%d}."
    last = check_set.checks.select_related("run").order_by("begun_at", "pk").last()
    return f"{start}; {_describe_check(last) if last else 'no check yet'}."


def _describe_check(check: DriftCheck) -> str:
    start = f"last check on {check.begun_at:%Y-%m-%d} ({check.get_why_display().lower()})"
    if check.evaluated_at is None:
        reason = check.run.pause_reason.rstrip(".")
        return f"{start}, in progress" + (f", paused: {reason}" if reason else "")
    if check.why == DriftCheck.Why.BASELINE:
        return f"{start}, {check.n} verdicts"
    counts = f"{check.only_before} correct only before, {check.only_now} only now"
    return f"{start}, {counts}, p = {check.p:.3f}{', DRIFT DETECTED' if check.alarm else ''}"
