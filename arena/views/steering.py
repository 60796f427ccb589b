"""Steering a run from its page, whoever is asked in it."""

from django.utils import timezone

from arena.access import Actor
from arena.models import Run
from arena.services.steering import Steering


def act(
    steering: Steering, run: Run, by: Actor, action: str, cap: int | None, *, stays: str, again: str
) -> str:
    """Do what a clean SteerForm asks for; return what to say. Raises what the services raise.

    `stays` says what is left of a cancelled run, `again` that failures are asked again.
    """
    now = timezone.now()
    if action == "pause":
        steering.pause(run=run, by=by)
        return "The run is paused. Calls that are under way end as they will."
    if action == "resume":
        steering.resume(run=run, by=by, now=now, cap=cap)
        return "The run goes on."
    if action == "cancel":
        steering.cancel(run=run, by=by, now=now)
        return f"The run is cancelled. {stays}"
    steering.ask_failures_again(run=run, by=by, now=now)
    return again
