"""Judge runs that a command waits for."""

from collections.abc import Sequence

from django.core.management.base import CommandError, OutputWrapper
from django.utils import timezone

from arena.calls.money import spent_in_words
from arena.management import terminal
from arena.management.terminal import NO_WORKER
from arena.models import Run
from arena.tasks import enqueue_due_calls
from judges.run_reports import RunReport, report_on


def follow_run(run: Run) -> RunReport:
    """Show progress until the run ends or pauses, or until nothing has happened for a while."""
    return terminal.follow(lambda: report_on(run.pk, timezone.now()), unit="verdict")


def wait_for_runs(runs: Sequence[Run], out: OutputWrapper, err: OutputWrapper) -> bool:
    """Enqueue the runs and follow each to its end; return False after Ctrl-C.

    A paused run of a hopeless judge is over, too: its verdicts can be measured. Raises CommandError
    if a run pauses for another reason, or if no worker answers.
    """
    if runs and (problem := enqueue_due_calls()):
        err.write(problem)
    for run in runs:
        try:
            report = follow_run(run)
        except KeyboardInterrupt:
            out.write("\nThe run continues in the background. Run this command again to follow it.")
            return False
        hopeless = report.run.run_judges.exclude(hopeless_at=None).exists()
        if report.run.state == Run.State.PAUSED and hopeless:
            out.write(f"Run {run.pk} paused: {report.run.pause_reason}")
        elif report.run.state == Run.State.PAUSED:
            raise CommandError(
                f"Run {run.pk} paused: {report.run.pause_reason} Run this command again to resume."
            )
        elif not report.is_over:
            raise CommandError(NO_WORKER)
        requests = f"{report.requests} requests for {report.calls} calls"
        out.write(f"Run {run.pk}: {requests}: {spent_in_words(report.run)}.")
    return True
