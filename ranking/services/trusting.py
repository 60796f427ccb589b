"""Whose votes may narrow people's intervals: the tallies of the trusted follow the raters' trust.

Trust is given or withdrawn seldom, and counts for all votes of a rater, old ones too. So where it
has changed the votes are counted anew, by the database, and the tallies change with the note of
whom they count (`TalliedTrust`) in one transaction. Folding goes by that note and not by the
raters: trust that changes meanwhile waits for the next refresh, which `ArenaRefresh` finds.
"""

import uuid

from django.db import transaction

from arena.models import Vote
from ranking.models import TalliedTrust, TallyMember
from ranking.services.counting import count
from ranking.services.leases import renew
from ranking.services.rebuilding import put_right
from ranking.votes import KINDS, TRUSTED


def tallied(arena_id: int) -> frozenset[int]:
    """The ids of the raters whose votes the tallies of the trusted count."""
    kept = TalliedTrust.objects.filter(arena=arena_id)
    return frozenset(kept.values_list("rater", flat=True))


def follow(*, arena_id: int, token: uuid.UUID) -> None:
    """Bring the tallies of the trusted up to the trust in those whose votes are in the tallies.

    Raises LeaseLost.
    """
    voted = TallyMember.objects.trusted().filter(tally__arena=arena_id)
    for raters, all_of_kind in TRUSTED.items():
        wanted = set(voted.filter(tally__raters=all_of_kind).values_list("rater", flat=True))
        mine = TalliedTrust.objects.filter(arena=arena_id, rater__kind=KINDS[all_of_kind])
        if wanted != set(mine.values_list("rater", flat=True)):
            _recount(arena_id, raters, wanted, token)


def _recount(arena_id: int, raters: str, wanted: set[int], token: uuid.UUID) -> None:
    """Nobody else folds while the lease is ours, so that all is counted before it is locked."""
    renew(token, Vote.objects.filter(arena=arena_id).count())
    counted = count(arena_id, raters, wanted)
    kind = KINDS[TRUSTED[raters]]
    with transaction.atomic():
        renew(token)
        TalliedTrust.objects.filter(arena=arena_id, rater__kind=kind).delete()
        TalliedTrust.objects.bulk_create(
            TalliedTrust(arena_id=arena_id, rater_id=pk) for pk in sorted(wanted)
        )
        put_right(arena_id=arena_id, raters=raters, counted=counted, token=token)
