"""Which judges are trusted, so that their votes may narrow people's intervals.

The newest calibration of the open epoch against people decides, by the rule in
`judges.core.calibration.trust`. Honeypots never make a judge trusted, but they can keep it from
being trusted: when, at the newest measurement, it preferred the fake answer in more than 20 % of at
least 10 verdicts, over all honeypots or over one kind. A judge that is fooled so often can be
fooled on purpose, however well it agrees with people otherwise.

A jury is calibrated with its members as they are: when the epoch of one ends, so does its trust.
"""

from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from arena.services.voting import set_trust
from judges.models import Calibration, Epoch, Judge, LabelSet
from judges.services.registry import jury_digest

MOST_FALSE_WINS = 0.20
FEWEST_VERDICTS = 10
HONEYPOTS = LabelSet.Kind.HONEYPOTS
MEMBERS_CHANGED = (
    "A member has changed since this jury was formed. Start a run with the same judges, and "
    "calibrate the new jury."
)
NEVER_MEASURED = "It has not been calibrated against people in this epoch."


@transaction.atomic
def settle_trust(*, epoch: Epoch, now: datetime) -> bool:
    """Mark an epoch's rater as trusted or not, by its newest calibrations; return which."""
    trusted = not trust_problems(epoch)
    set_trust(rater_id=epoch.rater_id, trusted=trusted, now=now)
    return trusted


def settle_juries_with(*, judge: Judge, now: datetime) -> None:
    """Settle the trust of all juries with this judge as a member."""
    for jury in Epoch.objects.open().filter(judge__members=judge).select_related("judge"):
        settle_trust(epoch=jury, now=now)


def trust_problems(epoch: Epoch, seen: QuerySet[Calibration] | None = None) -> list[str]:
    """Return the reasons why a judge is not trusted, in sentences; none where it is.

    Every calibration counts; a page passes only those that its reader may see as `seen`.
    """
    calibrations = (Calibration.objects.all() if seen is None else seen).filter(epoch=epoch)
    if epoch.ended_at is not None:
        return [f"This epoch has ended. {epoch.reason}".strip()]
    if epoch.judge.is_jury and not _has_current_members(epoch.judge):
        return [MEMBERS_CHANGED]
    newest_first = calibrations.order_by("-made_at", "-pk")
    against_people = newest_first.exclude(kind=HONEYPOTS).first()
    if against_people is None:
        return [NEVER_MEASURED]
    problems = [] if against_people.trusted else list(against_people.report["trust"]["reasons"])
    on_honeypots = newest_first.filter(kind=HONEYPOTS).first()
    return problems + (honeypot_problems(on_honeypots.report) if on_honeypots else [])


def _has_current_members(jury: Judge) -> bool:
    """Would its members, in their open epochs, be registered as this very jury?"""
    assert jury.quorum is not None, "a jury has a quorum"
    members = Epoch.objects.open().filter(judge__juries=jury)
    return jury_digest(members.values_list("asker", flat=True), jury.quorum) == jury.digest


def honeypot_problems(report: dict[str, Any]) -> list[str]:
    """Return a sentence for each kind of honeypot that fooled the judge too often."""
    named = [("all honeypots", report["false_wins"])]
    named += [(f"{kind['trap']!r} honeypots", kind["false_wins"]) for kind in report["traps"]]
    return [
        f"It preferred the fake answer in {wins['value']:.0%} of {wins['n']} verdicts on {name}; "
        f"more than {MOST_FALSE_WINS:.0%} is too easily fooled."
        for name, wins in named
        if wins["n"] >= FEWEST_VERDICTS and (wins["value"] or 0) > MOST_FALSE_WINS
    ]
