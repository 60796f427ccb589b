"""`manage.py canary`: ask a judge the same labelled pairs again and again, to hear it change."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from arena.calls.money import dollars
from arena.importers.base import FileProblem
from arena.management.amounts import cap_in_nano
from arena.services.refusals import Refused
from judges.labels import BadLabels, read_labels
from judges.management.following import ring
from judges.management.waiting import wait_for
from judges.models import Canary, CanaryCheck, Judge
from judges.services.canaries import canary_items, evaluate_checks, set_canary, stop_canary
from judges.services.labelling import add_labels
from judges.services.probing import probe_judges
from judges.services.registering import register_judge, spec_named
from judges.services.trying import let_go_on


class Command(BaseCommand):
    help = "Set, stop or list the canaries of judges."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add = parser.add_argument
        add("judge", nargs="?", metavar="JUDGE", help="a judge; without one, all are listed")
        add("--labels", type=Path, metavar="FILE", help="freeze at most 200 of its pairs")
        add("--cap", metavar="USD", help="what each check may cost at most, in dollars")
        add("--no-wait", action="store_true", help="order the first check, and do not watch")
        add("--stop", action="store_true", help="ask this judge's canary no more")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["judge"] is None:
            self._list()
            return
        try:
            if options["stop"]:
                self._stop(options["judge"])
            else:
                self._set(options)
        except (Refused, BadLabels, FileProblem) as error:
            raise CommandError(str(error)) from None

    def _list(self) -> None:
        canaries = Canary.objects.select_related("judge", "label_set").order_by("pk")
        for canary in canaries:
            self.stdout.write(_line(canary))
        if not canaries:
            self.stdout.write(
                "No judge has a canary. Set one: manage.py canary JUDGE --labels FILE"
            )

    def _stop(self, name: str) -> None:
        judge = Judge.objects.filter(name=name).first()
        if judge is None:
            judge = Judge.objects.filter(digest=spec_named(name).digest).first()
        if judge is None or not stop_canary(judge=judge, now=timezone.now()):
            raise CommandError(f"{name} has no canary that could be stopped.")
        self.stdout.write(f"The canary of {judge} is not asked any more.")

    def _set(self, options: dict[str, Any]) -> None:
        cap = cap_in_nano(options["cap"])
        if options["labels"] is None or cap is None:
            raise CommandError("A canary needs --labels FILE and --cap USD (0 is a cap).")
        spec = spec_named(options["judge"])
        labels_in = add_labels(file=read_labels(options["labels"]), name=options["labels"].name)
        probe_judges(specs=[spec], now=timezone.now())
        epoch = register_judge(spec=spec)
        canary = set_canary(epoch=epoch, labels_in=labels_in, cap=cap, now=timezone.now())
        self._through(canary, cap, wait=not options["no_wait"])
        self.stdout.write(_line(canary))

    def _through(self, canary: Canary, cap: int, *, wait: bool) -> None:
        """Have the checks under way go on and, unless told not to wait, evaluate them at once."""
        pending = canary.checks.filter(evaluated_at=None).select_related("run").order_by("pk")
        runs = [check.run for check in pending]
        for run in runs:
            let_go_on(run=run, cap=cap, now=timezone.now())
        if wait:
            if wait_for(runs, self.stdout, self.stderr):
                evaluate_checks(canary_id=canary.pk, now=timezone.now())
        elif trouble := ring():
            self.stderr.write(trouble)


def _line(canary: Canary) -> str:
    start = f"{canary.judge}: {len(canary_items(canary))} pairs of {canary.label_set}, "
    start += f"{dollars(canary.cap)} a check"
    if canary.stopped_at:
        return f"{start}; stopped on {canary.stopped_at:%Y-%m-%d}."
    last = canary.checks.select_related("run").order_by("begun_at", "pk").last()
    return f"{start}; {_last(last) if last else 'never asked yet'}."


def _last(check: CanaryCheck) -> str:
    said = f"last asked on {check.begun_at:%Y-%m-%d} ({check.get_why_display().lower()})"
    if check.evaluated_at is None:
        reason = check.run.pause_reason.rstrip(".")
        return f"{said}, under way" + (f", paused: {reason}" if reason else "")
    if check.why == CanaryCheck.Why.BASELINE:
        return f"{said}, {check.n} verdicts"
    found = f"{check.only_before} only before, {check.only_now} only now, p = {check.p:.3f}"
    return f"{said}, {found}{', ALARM' if check.alarm else ''}"
