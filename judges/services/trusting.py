"""Whose votes may narrow people's intervals: the rule, applied to what was measured.

The newest measurement of the open epoch against people decides (`judges.core.calibration.trust`
holds the rule). Traps never make a judge trusted, but they keep one untrusted: where, at the newest
measurement on traps, more than 20 % of the verdicts went to the trap, over all of them or over one
kind of trap, provided that there are at least 10. Whoever can be led so often can be led by
anybody who knows how, however well it agrees with people otherwise.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction

from arena.services.trust import set_trust
from judges.models import Calibration, Epoch, LabelSet

MOST_FALSE_WINS = 0.20
LEAST_TRAPS = 10
HONEYPOTS = LabelSet.Kind.HONEYPOTS
NEVER_MEASURED = "It has not been measured against people in this epoch."


@transaction.atomic
def settle_trust(*, epoch: Epoch, now: datetime) -> bool:
    """Have the rater of an epoch trusted or not, as its newest measurements say; return which.

    An epoch that has ended is not trusted.
    """
    trusted = not trust_problems(epoch)
    set_trust(rater_id=epoch.rater_id, trusted=trusted, now=now)
    return trusted


def trust_problems(epoch: Epoch) -> list[str]:
    """Return in sentences what keeps a judge from being trusted; nothing where it is."""
    if epoch.ended_at is not None:
        return [f"This epoch has ended. {epoch.reason}".strip()]
    newest = _newest(epoch, honeypots=False)
    if newest is None:
        return [NEVER_MEASURED]
    reasons = [] if newest.trusted else list(newest.report["trust"]["reasons"])
    traps = _newest(epoch, honeypots=True)
    return reasons + (led_astray(traps.report) if traps else [])


def _newest(epoch: Epoch, *, honeypots: bool) -> Calibration | None:
    found = epoch.calibrations.filter(kind=HONEYPOTS)
    if not honeypots:
        found = epoch.calibrations.exclude(kind=HONEYPOTS)
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
