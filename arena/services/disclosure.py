"""When the public learns what an undisclosed candidate is: by the rule fixed as it was entered."""

from datetime import datetime

from django.db import transaction
from django.db.models import Case, Count, F, IntegerField, OuterRef, Q, Subquery, When
from django.db.models.functions import Coalesce

from arena.access import RULE
from arena.models import Candidate, Rater, Vote
from arena.services import audit

WHOSE = [Rater.Kind.PERSON, Rater.Kind.JUDGE]  # a jury's vote is its members' once more
# Raters whose votes do not count here; what makes one of them is known to the app that has them.
_disregarded: list[Q] = []


def disregard(raters: Q) -> None:
    """Leave the votes of these raters out, in the words of a filter of raters."""
    _disregarded.append(raters)


def votes_so_far() -> Case:
    """Votes of people and of judges that are models, for a candidate that waits for some.

    An annotation; None for all others, whose votes are not counted for it.
    """
    waits = Q(disclosed_at=None, private_until_votes__isnull=False)
    counted = _votes_on("left") + _votes_on("right")
    return Case(When(waits, then=counted), default=None, output_field=IntegerField())


def _votes_on(side: str) -> Coalesce:
    where = f"comparison__{side}"
    live = Vote.objects.live().filter(rater__kind__in=WHOSE, **{where: OuterRef("pk")})
    for raters in _disregarded:
        live = live.exclude(rater__in=Rater.objects.filter(raters))
    counted = live.order_by().values(where).annotate(n=Count("pk")).values("n")
    return Coalesce(Subquery(counted), 0)


def disclose_due(*, now: datetime) -> int:
    """Disclose the candidates whose votes or whose date has come; return how many."""
    undisclosed = Candidate.objects.undisclosed().annotate(so_far=votes_so_far())
    due = Q(private_until__lte=now) | Q(so_far__gte=F("private_until_votes"))
    found = undisclosed.filter(due).order_by("pk").values_list("pk", "so_far")
    return sum(_disclose(pk, so_far, now) for pk, so_far in found)


@transaction.atomic
def _disclose(pk: int, votes: int | None, now: datetime) -> bool:
    """Saved as an instance, so that whoever keeps pages with its mask hears of it."""
    locked = Candidate.objects.select_for_update(of=("self",), no_key=True).select_related("arena")
    candidate = locked.undisclosed().filter(pk=pk).first()
    if candidate is None:
        return False
    candidate.disclosed_at = now
    candidate.save(update_fields=["disclosed_at"])
    audit.record(
        team=candidate.team or candidate.arena.team,
        by=RULE,
        action="disclosed a candidate",
        subject=candidate,
        arena=candidate.arena.slug,
        votes=votes,
    )
    return True
