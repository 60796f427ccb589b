"""Recomputation of the tallies from the votes, with a report of drift.

The database counts the votes (GROUP BY), which verifies the result of folding.
"""

import uuid

from django.db import transaction
from django.db.models import F

from arena.models import Vote
from ranking.models import (
    Board,
    ClusterTally,
    EloCheckpoint,
    RaterTally,
    Tallied,
    TalliedTrust,
    Tally,
    TallyDelta,
    TallyMember,
)
from ranking.services import cluster_tallies, vote_log
from ranking.services import elo as elo_service
from ranking.services.cluster_tallies import CountedVotes, Members, count
from ranking.services.leases import renew
from ranking.tallies import VoteCounts
from ranking.votes import KINDS, TRUSTED


def rebuild(*, arena_id: int, token: uuid.UUID) -> list[str]:
    """Recompute the tallies from the votes they count; return one sentence per difference.

    Votes that wait to be folded keep waiting, and so do changes of trust. Raises BrokenLogError if
    the votes are not those of their log, and RefreshLeaseLostError.
    """
    if faults := vote_log.verify(arena_id=arena_id, token=token).sentences:
        raise vote_log.BrokenLogError(*faults)
    differences = []
    n_votes = Vote.objects.filter(arena=arena_id).count()  # determines how long the steps may take
    trusted = tallied_trust(arena_id)
    for raters in Tallied.values:
        renew(token, n_votes)
        counted = count(arena_id, raters, trusted)
        renew(token, n_votes)
        differences += correct_tallies(
            arena_id=arena_id, raters=raters, counted=counted, token=token
        )
    for board in Board.objects.filter(arena=arena_id):
        renew(token, n_votes)
        differences += _check_elo(board, token)
    return differences


def correct_tallies(
    *, arena_id: int, raters: str, counted: CountedVotes, token: uuid.UUID
) -> list[str]:
    """Make the tallies of these raters equal the count; return one sentence per difference.

    Raises RefreshLeaseLostError.
    """
    differences = _correct_clusters(arena_id, raters, counted.counts, token)
    if raters == Tallied.PEOPLE:  # the next refresh counts them by rater anew
        RaterTally.objects.filter(arena=arena_id).delete()
    tallies = Tally.objects.filter(arena=arena_id, raters=raters)
    for category in sorted({*counted.members, *tallies.values_list("category", flat=True)}):
        same = tallies.filter(category=category).first()
        tally = same or Tally(arena_id=arena_id, raters=raters, category=category)
        differences += _correct_tally(tally, counted, token)
    return differences


def _correct_clusters(arena_id: int, raters: str, true: VoteCounts, token: uuid.UUID) -> list[str]:
    """Compare the rows per prompt and their deltas with the count; rewrite them if they differ."""
    deltas = TallyDelta.objects.filter(arena=arena_id, raters=raters)
    waiting = (VoteCounts.of_bytes(delta.cells).per_prompt() for delta in deltas.iterator())
    merged = cluster_tallies.read_clusters(arena_id=arena_id, raters=raters)
    stored = VoteCounts.joined([merged, *waiting]).merged()
    if true == stored:
        return []
    with transaction.atomic():
        renew(token)
        deltas.delete()
        ClusterTally.objects.filter(arena=arena_id, raters=raters).delete()
        cluster_tallies.add_deltas(arena_id=arena_id, raters=raters, counts=true)
        Tally.objects.filter(arena=arena_id, raters=raters).update(version=F("version") + 1)
    name = Tallied(raters).label.lower()
    return [f"{name}, by prompt: {_difference(stored, true)}"]


def _correct_tally(tally: Tally, counted: CountedVotes, token: uuid.UUID) -> list[str]:
    true, members = counted.of_category(tally.category), counted.members_of(tally.category)
    stored = VoteCounts.of_bytes(tally.cells) if tally.pk else VoteCounts.none()
    if true != stored:
        difference = _difference(stored, true)
    elif tally.pk and not _same_members(tally, members):
        difference = "wrong raters or prompts"
    else:
        return []
    with transaction.atomic():
        renew(token)
        tally.cells = true.pack()
        tally.version += 1
        tally.n_raters, tally.n_prompts = len(members["rater"]), len(members["prompt"])
        tally.last_vote_id = counted.last_vote_id
        tally.save()
        tally.members.all().delete()
        rows = (
            TallyMember(tally=tally, n_votes=n, **{f"{kind}_id": pk})
            for kind, totals in members.items()
            for pk, n in totals.items()
        )
        TallyMember.objects.bulk_create(rows, batch_size=1000)
    name = tally.get_raters_display().lower()
    return [f"{name}, {tally.category or 'all categories'}: {difference}"]


def _same_members(tally: Tally, members: Members) -> bool:
    sizes = (tally.n_raters, tally.n_prompts)
    if sizes != (len(members["rater"]), len(members["prompt"])):
        return False
    rows = tally.members.filter(n_votes__gt=0)
    return all(
        dict(rows.filter(**{f"{kind}__isnull": False}).values_list(kind, "n_votes")) == totals
        for kind, totals in members.items()
    )


def _check_elo(board: Board, token: uuid.UUID) -> list[str]:
    """Replay all votes; if the newest checkpoint differs, drop all, so the next refresh replays."""
    newest: EloCheckpoint | None = (
        board.elo_checkpoints.filter(settings=elo_service.settings_of(board))
        .order_by("-vote_id")
        .first()
    )
    if newest is None:
        return []
    stored = elo_service.state_of(newest).by_candidate()
    if elo_service.replay(board=board, until=newest.vote_id).by_candidate() == stored:
        return []
    with transaction.atomic():
        renew(token)
        board.elo_checkpoints.all().delete()
        Tally.objects.filter(
            arena=board.arena_id, raters=board.raters, category=board.category
        ).update(version=F("version") + 1)
    return [f"{board.raters}, {board.category or 'all categories'}: wrong Elo ratings"]


def _difference(stored: VoteCounts, true: VoteCounts) -> str:
    n_stored, n_true = int(stored.votes.sum()), int(true.votes.sum())
    if n_stored != n_true:
        return f"{n_stored} votes instead of {n_true}"
    return "the right number of votes, but not where they belong"


# -- Trust -----------------------------------------------------------------------------------------

# Trust is rarely given or withdrawn, and applies to all votes of a rater, including old ones. When
# it has changed, the database counts the votes again, and one transaction changes the tallies and
# the record of whom they count (`TalliedTrust`). Folding follows that record and not the raters, so
# trust that changes meanwhile waits for the next refresh (`ArenaRefresh.behind`).


def tallied_trust(arena_id: int) -> frozenset[int]:
    """The ids of the raters included in the trusted tallies."""
    rows = TalliedTrust.objects.filter(arena=arena_id)
    return frozenset(rows.values_list("rater", flat=True))


def sync_trust(*, arena_id: int, token: uuid.UUID) -> None:
    """Make the trusted tallies count exactly the trusted raters with tallied votes.

    Raises RefreshLeaseLostError.
    """
    voted = TallyMember.objects.trusted().filter(tally__arena=arena_id)
    trusted = set(voted.values_list("tally__raters", "rater"))
    notes = TalliedTrust.objects.filter(arena=arena_id)
    noted = set(notes.values_list("rater__kind", "rater"))
    for raters, all_of_kind in TRUSTED.items():
        wanted = {pk for tally_raters, pk in trusted if tally_raters == all_of_kind}
        if wanted != {pk for kind, pk in noted if kind == KINDS[all_of_kind]}:
            _recount(arena_id, raters, wanted, token)


def _recount(arena_id: int, raters: str, trusted: set[int], token: uuid.UUID) -> None:
    # Nobody else folds under our lease, so the votes are counted before the transaction.
    renew(token, Vote.objects.filter(arena=arena_id).count())
    counted = count(arena_id, raters, trusted)
    kind = KINDS[TRUSTED[raters]]
    with transaction.atomic():
        renew(token)
        TalliedTrust.objects.filter(arena=arena_id, rater__kind=kind).delete()
        TalliedTrust.objects.bulk_create(
            TalliedTrust(arena_id=arena_id, rater_id=pk) for pk in sorted(trusted)
        )
        correct_tallies(arena_id=arena_id, raters=raters, counted=counted, token=token)
