"""Claims about two candidates, from the votes that a published leaderboard counts, and those that
stay decided.
"""

import hashlib
from collections.abc import Collection, Iterable
from datetime import datetime

from django.db import transaction

from ranking.models import Board, KeptClaim
from ranking.question import Evidence
from ranking.stats.claim import Claim, Scope, claim

Kept = dict[tuple[int, int, int], KeptClaim]  # by board, and the two candidates in order


def read_kept(boards: Collection[int], among: Collection[int]) -> Kept:
    rows = KeptClaim.objects.filter(board__in=boards, first__in=among, second__in=among)
    return {(row.board_id, row.first_id, row.second_id): row for row in rows}


def claim_between(
    evidence: Evidence, b: int, a: int, kept: KeptClaim | None = None, margin: float | None = None
) -> Claim:
    """What is said of `b`, compared with `a`.

    A decision that was kept is one no more once any of its votes does not count as it did.
    """
    earlier = None
    if kept is not None and kept.votes == digest_of(evidence, a, b, kept.last_vote):
        earlier = Claim.of(kept.claim)
        earlier = earlier if b == kept.second_id else earlier.reversed
    return claim(evidence.between(b, a), earlier, margin)


def digest_of(evidence: Evidence, a: int, b: int, last_vote: int) -> str:
    """Of the votes between the two up to `last_vote`, and of whom and what they are by and on."""
    votes = evidence.votes_between(a, b)
    votes = votes.where(votes.pk <= last_vote)
    digest = hashlib.sha256()
    for column in (votes.pk, votes.left, votes.prompt, votes.rater, votes.score):
        digest.update(column.tobytes())
    return digest.hexdigest()


@transaction.atomic
def keep_decided(
    *, board: Board, evidence: Evidence, pairs: Iterable[tuple[int, int]], now: datetime
) -> None:
    """Keep what is decided about these pairs, each in the order of the ids.

    A kept claim is replaced only by a reversed one, by one about more raters, and once its votes no
    longer count.
    """
    pairs = list(pairs)
    kept = read_kept([board.pk], {pk for pair in pairs for pk in pair})
    last = int(evidence.votes.pk.max(initial=0))
    for a, b in pairs:
        before = kept.get((board.pk, a, b))
        now_found = claim_between(evidence, b, a, before)
        if not now_found.is_decided or now_found.is_kept:
            if before is not None and not now_found.is_decided:
                before.delete()
            continue
        if before is not None and before.votes == digest_of(evidence, a, b, before.last_vote):
            earlier = Claim.of(before.claim)
            is_wider = now_found.scope is Scope.RATERS and earlier.scope is not Scope.RATERS
            if earlier.verdict is now_found.verdict and not is_wider:
                continue
        KeptClaim.objects.update_or_create(
            board=board,
            first_id=a,
            second_id=b,
            defaults={
                "claim": now_found.json,
                "last_vote": last,
                "votes": digest_of(evidence, a, b, last),
                "decided_at": now,
            },
        )
