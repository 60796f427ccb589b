"""Waiting for runs that a command has ordered, and saying what became of them."""

from collections.abc import Sequence

from django.core.management.base import CommandError, OutputWrapper

from arena.calls.money import dollars
from arena.models import Run
from judges.management.following import NO_WORKER, follow, ring
from judges.reports import RunReport


def wait_for(runs: Sequence[Run], out: OutputWrapper, err: OutputWrapper) -> bool:
    """Ring for some runs and follow each to its end; False when somebody pressed Ctrl-C.

    Raises CommandError where a run pauses, or where no worker answers.
    """
    if runs and (trouble := ring()):
        err.write(trouble)
    for run in runs:
        try:
            report = follow(run)
        except KeyboardInterrupt:
            out.write("\nLeft running. The same command goes on from there.")
            return False
        _check(report)
        out.write(
            f"Run {run.pk}: {report.requests} requests for {report.calls} calls: "
            f"{dollars(report.spent)}."
        )
    return True


def _check(report: RunReport) -> None:
    if report.run.state == Run.State.PAUSED:
        raise CommandError(
            f"Run {report.run.pk} paused: {report.run.pause_reason} "
            "Give the same command again to go on."
        )
    if not report.is_over:
        raise CommandError(NO_WORKER)
