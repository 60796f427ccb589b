"""Whose votes may narrow people's intervals: the rule, applied to what was measured.

The newest measurement of the open epoch against people decides (`judges.core.calibration.trust`
holds the rule). Traps never make a judge trusted, but they keep one untrusted: where, at the newest
measurement on traps, more than 20 % of the verdicts went to the trap, over all of them or over one
kind of trap, provided that there are at least 10. Whoever can be led so often can be led by
anybody who knows how, however well it agrees with people otherwise.

A jury was measured with its members as they were: when the epoch of one ends, its trust does too.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from arena.services.trust import set_trust
from judges.models import Calibration, Epoch, Judge, LabelSet
from judges.services.registering import jury_digest

MOST_FALSE_WINS = 0.20
LEAST_TRAPS = 10
HONEYPOTS = LabelSet.Kind.HONEYPOTS
OTHER_MEMBERS = (
    "A member has changed since this jury was formed: order a run of the same judges, and measure "
    "the jury that they make now."
)
NEVER_MEASURED = "It has not been measured against people in this epoch."


@transaction.atomic
def settle_trust(*, epoch: Epoch, now: datetime) -> bool:
    """Have the rater of an epoch trusted or not, as its newest measurements say; return which.

    An epoch that has ended is not trusted.
    """
    trusted = not trust_problems(epoch)
    set_trust(rater_id=epoch.rater_id, trusted=trusted, now=now)
    return trusted


def settle_juries_with(*, judge: Judge, now: datetime) -> None:
    """Settle the trust of all juries that a judge is a member of."""
    for jury in Epoch.objects.open().filter(judge__members=judge).select_related("judge"):
        settle_trust(epoch=jury, now=now)


def trust_problems(epoch: Epoch, seen: QuerySet[Calibration] | None = None) -> list[str]:
    """Return in sentences what keeps a judge from being trusted; nothing where it is.

    All that was measured decides; a page may say only what is `seen`.
    """
    measured = (Calibration.objects.all() if seen is None else seen).filter(epoch=epoch)
    if epoch.ended_at is not None:
        return [f"This epoch has ended. {epoch.reason}".strip()]
    if epoch.judge.is_jury and not _is_of_today(epoch.judge):
        return [OTHER_MEMBERS]
    newest = _newest(measured, honeypots=False)
    if newest is None:
        return [NEVER_MEASURED]
    reasons = [] if newest.trusted else list(newest.report["trust"]["reasons"])
    traps = _newest(measured, honeypots=True)
    return reasons + (led_astray(traps.report) if traps else [])


def _is_of_today(jury: Judge) -> bool:
    """Would its members, in the epochs that are open now, be registered as this very jury?"""
    assert jury.quorum is not None, "a jury has a quorum"
    members = Epoch.objects.open().filter(judge__juries=jury)
    return jury_digest(members.values_list("asker", flat=True), jury.quorum) == jury.digest


def _newest(measured: QuerySet[Calibration], *, honeypots: bool) -> Calibration | None:
    found = measured.filter(kind=HONEYPOTS)
    if not honeypots:
        found = measured.exclude(kind=HONEYPOTS)
    return found.order_by("-made_at", "-pk").first()


def led_astray(report: dict[str, Any]) -> list[str]:
    """Return in sentences which traps won too often, from a report on honeypots."""
    return list(_too_often(report))


def _too_often(report: dict[str, Any]) -> Iterable[str]:
    named = [("all traps", report["false_wins"])]
    named += [(f"the trap {one['trap']!r}", one["false_wins"]) for one in report["traps"]]
    for name, found in named:
        share, n = found["value"], found["n"]
        if share is not None and n >= LEAST_TRAPS and share > MOST_FALSE_WINS:
            yield (
                f"It gave {share:.0%} of {n} verdicts on {name} to the trap; more than "
                f"{MOST_FALSE_WINS:.0%} is too easily led."
            )
