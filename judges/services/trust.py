"""Trust: where a judge's votes may support people's, by its newest calibrations.

In an arena where a judge was measured, the newest calibration against its human votes decides.
Everywhere else it is trusted only if its newest calibration on labels passes and an administrator
has decided that labels count there (`Calibration.everywhere`). The rule is in
`judges.core.calibration.trust`.

Honeypots never make a judge trusted, but they can keep it from being trusted anywhere: when, at the
newest measurement, it preferred the fake answer in more than 20 % of at least 10 verdicts, over all
honeypots or over one kind. A jury is calibrated with its members' current epochs: when one of them
ends, so does trust in the jury.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from arena.models import Arena, ArenaTrust
from arena.services.raters import set_arena_trust, set_trust
from arena.validation import percent
from judges.core.calibration.trust import RULE
from judges.models import Calibration, Epoch, Judge, LabelSet
from judges.services.registry import jury_digest
from judges.wording import HONEYPOTS as KINDS_IN_WORDS

MOST_FALSE_WINS = 0.20
FEWEST_VERDICTS = 10
HONEYPOTS = LabelSet.Kind.HONEYPOTS
MEMBERS_CHANGED = (
    "A member has changed since this jury was formed. Start a run with the same judges, and "
    "calibrate the new jury."
)
NEVER_MEASURED = "It has not been calibrated against people in this epoch."
ONLY_IN_ARENAS = "It has been measured only in individual arenas, which says nothing about others."
NOT_EVERYWHERE = (
    "It passed on labels from outside any arena. Measure it in an arena to have it trusted there, "
    "or let an administrator calibrate it with --everywhere."
)


@dataclass(frozen=True)
class TrustPlace:
    """Where a judge is trusted or not: in an arena or, without one, wherever it is not measured.

    `calibration` is the one that decides; `problems` say why it is not trusted, in sentences.
    """

    arena: Arena | None
    calibration: Calibration | None
    problems: tuple[str, ...]

    @property
    def is_trusted(self) -> bool:
        return not self.problems

    @property
    def is_under_earlier_rule(self) -> bool:
        """Whether it is trusted by a rule that no longer applies."""
        trust = self.calibration.report["trust"] if self.calibration else {}
        return self.is_trusted and trust.get("rule", 1) < RULE


def trust_profile(epoch: Epoch, calibrations: Iterable[Calibration]) -> list[TrustPlace]:
    """Return where a judge is trusted by these calibrations of its epoch, newest first.

    The first place is everywhere else; then come the arenas where it was measured.
    """
    newest_first = list(calibrations)
    barred = _problems_anywhere(epoch, newest_first)
    by_arena: dict[int, Calibration] = {}
    for calibration in newest_first:
        if calibration.arena_id is not None:
            by_arena.setdefault(calibration.arena_id, calibration)
    labels = [
        measured
        for measured in newest_first
        if measured.arena_id is None and measured.kind != HONEYPOTS
    ]
    everywhere = _problems_everywhere(labels, bool(by_arena))
    places = [TrustPlace(None, labels[0] if labels else None, (*everywhere, *barred))]
    for calibration in by_arena.values():
        reasons = () if calibration.trusted else _failed(calibration)
        places.append(TrustPlace(calibration.arena, calibration, (*reasons, *barred)))
    return places


def trust_places(epoch: Epoch) -> list[TrustPlace]:
    """Return where a judge is trusted by all its calibrations."""
    calibrations = Calibration.objects.filter(epoch=epoch).select_related("arena")
    return trust_profile(epoch, calibrations.order_by("-made_at", "-pk"))


def problems_of(places: Sequence[TrustPlace]) -> list[str]:
    """Return why a judge is trusted in none of these places; empty if it is trusted in one."""
    if any(place.is_trusted for place in places):
        return []
    measured = [place for place in places if place.calibration is not None] or places
    return list(dict.fromkeys(problem for place in measured for problem in place.problems))


def _problems_everywhere(labels: Sequence[Calibration], in_arenas: bool) -> tuple[str, ...]:
    if not labels:
        return (ONLY_IN_ARENAS if in_arenas else NEVER_MEASURED,)
    if not labels[0].trusted:
        return _failed(labels[0])
    return () if any(calibration.everywhere for calibration in labels) else (NOT_EVERYWHERE,)


def _failed(calibration: Calibration) -> tuple[str, ...]:
    """Return why a calibration gives no trust; older ones store only the conditions."""
    trust = calibration.report["trust"]
    return tuple(trust.get("failed") or trust["reasons"])


def _problems_anywhere(epoch: Epoch, newest_first: Sequence[Calibration]) -> tuple[str, ...]:
    """Return what keeps a judge from being trusted anywhere."""
    if epoch.ended_at is not None:
        return (f"This epoch has ended. {epoch.reason}".strip(),)
    if epoch.judge.is_jury and not _has_current_members(epoch.judge):
        return (MEMBERS_CHANGED,)
    on_honeypots = next(
        (calibration for calibration in newest_first if calibration.kind == HONEYPOTS), None
    )
    return tuple(honeypot_problems(on_honeypots.report)) if on_honeypots else ()


def _has_current_members(jury: Judge) -> bool:
    """Whether its members, in their open epochs, would be registered as this same jury."""
    assert jury.quorum is not None, "a jury has a quorum"
    members = Epoch.objects.open().filter(judge__juries=jury)
    requesters = members.values_list("requester", flat=True)
    return jury_digest(requesters, jury.quorum, jury.weights) == jury.digest


def honeypot_problems(report: dict[str, Any]) -> list[str]:
    """Return one sentence about the kinds of honeypot that fooled the judge too often, if any."""
    named = [("all honeypots", report["false_wins"])]
    for kind in report["traps"]:
        name = KINDS_IN_WORDS[kind["trap"]]
        named.append((f"honeypots ({name[0].lower()}{name[1:]})", kind["false_wins"]))
    fooled = ", ".join(
        f"{percent(wins['value'])} of {wins['n']} verdicts on {name}"
        for name, wins in named
        if wins["n"] >= FEWEST_VERDICTS and (wins["value"] or 0) > MOST_FALSE_WINS
    )
    limit = f"a judge above {percent(MOST_FALSE_WINS)} is too easily fooled"
    return [f"It preferred the fake answer in {fooled}; {limit}."] if fooled else []


@transaction.atomic
def settle_trust(*, epoch: Epoch, now: datetime) -> bool:
    """Mark where an epoch's rater is trusted, by its newest calibrations; return whether it is."""
    places = trust_places(epoch)
    set_trust(rater_id=epoch.rater_id, trusted=places[0].is_trusted, now=now)
    settled = {place.arena.pk: place.is_trusted for place in places if place.arena is not None}
    known = ArenaTrust.objects.filter(rater=epoch.rater_id).values_list("arena", flat=True)
    for arena_id in sorted({*settled, *known}):
        trusted = settled.get(arena_id)
        set_arena_trust(rater_id=epoch.rater_id, arena_id=arena_id, trusted=trusted, now=now)
    return any(place.is_trusted for place in places)


def settle_juries_with(*, judge: Judge, now: datetime) -> None:
    """Settle the trust of all juries with this judge as a member."""
    for jury in Epoch.objects.open().filter(judge__members=judge).select_related("judge"):
        settle_trust(epoch=jury, now=now)
