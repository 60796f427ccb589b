"""The fold of votes into the running tallies, each exactly once.

Whether the tallies count a vote is recorded on the vote (`Vote.tallied`) and, if it was imported,
on its import (`Import.tallied_row`), in the transaction that changes the tallies. So a vote that
commits late with a smaller id still waits to be added, and a voided one waits to be removed, even
if a process is killed meanwhile. Only the holder of the arena's lease folds; each transaction
checks that, and writes what happened into the arena's log (`vote_log`). The record of whose votes
count as trusted changes with the tallies too. `rebuild` recounts the votes in the database
(GROUP BY), which verifies the result of folding, and reports drift.
"""

import uuid
from collections.abc import Collection, Sequence

import numpy as np
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from arena.models import Import, Vote
from ranking.models import (
    Board,
    ClusterTally,
    EloCheckpoint,
    LogLink,
    RaterTally,
    Tallied,
    TalliedTrust,
    Tally,
    TallyDelta,
    TallyMember,
    VoteLog,
)
from ranking.services import cluster_tallies, vote_log
from ranking.services import elo as elo_service
from ranking.services.cluster_tallies import CountedVotes, Members, count
from ranking.services.evidence import Question
from ranking.services.leases import renew
from ranking.tallies import VoteCounts
from ranking.tallied_votes import HUMAN, KINDS, TRUSTED, Votes, read_votes_with

Kind = LogLink.Kind

BATCH = 5_000  # votes folded in one transaction, which takes a fraction of a second


def fold(*, arena_id: int, token: uuid.UUID) -> int:
    """Bring the arena's tallies up to date; return how many votes were added or removed.

    Raises RefreshLeaseLostError.
    """
    total, trusted = 0, tallied_trust(arena_id)
    log = vote_log.open_log(arena_id=arena_id, token=token)
    if not log.counts_verified:
        _begin_verified(log, token)
    for step in (_add_imported, _add_cast, _remove):
        while folded := step(log, token, trusted):
            total += folded
    sync_trust(arena_id=arena_id, token=token)
    return total


def _begin_verified(log: VoteLog, token: uuid.UUID) -> None:
    """Count the votes of verified people that were tallied before verified people had tallies."""
    renew(token, Vote.objects.filter(arena=log.arena_id).count())
    counted = count(log.arena_id, Tallied.VERIFIED, ())
    with transaction.atomic():
        correct_tallies(
            arena_id=log.arena_id, raters=Tallied.VERIFIED, counted=counted, token=token
        )
        VoteLog.objects.filter(pk=log.pk).update(counts_verified=True)


def _add_cast(log: VoteLog, token: uuid.UUID, trusted: frozenset[int]) -> int:
    waiting = Vote.objects.to_add().filter(arena=log.arena_id).order_by("pk")
    votes, others = read_votes_with(vote_log.LOGGED, waiting, BATCH, trusted)
    if not len(votes):
        return 0
    columns, kind = vote_log.vote_columns(log, votes, *others), Kind.CAST
    # Votes that were counted before, and then held or ruled out, are known to the log.
    is_back = vote_log.were_held(log, votes.pk)
    if is_back.any():
        votes, kind = votes.where(is_back), Kind.RELEASED
        columns = {name: column[is_back] for name, column in columns.items()}
    with transaction.atomic():
        _apply(log.arena_id, token, votes, sign=1)
        vote_log.append(log=log, kind=kind, columns=columns)
        Vote.objects.filter(pk__in=votes.pk.tolist()).update(tallied=True)
    return len(votes)


def _remove(log: VoteLog, token: uuid.UUID, trusted: frozenset[int]) -> int:
    """Remove votes that were voided, then those that are held or ruled out by the arena."""
    waiting = Vote.objects.to_take_out().filter(arena=log.arena_id)
    ordered = waiting.order_by(F("voided_at").asc(nulls_last=True), "pk")
    names = ("voided_at", "void_reason", "uncounted")
    votes, (at, reasons, uncounted) = read_votes_with(names, ordered, BATCH, trusted)
    if not len(votes):
        return 0
    kind = Kind.VOIDED if at[0] is not None else Kind.HELD
    n = sum((time is not None) == (at[0] is not None) for time in at)
    chosen = np.arange(len(votes)) < n
    votes, times, why = votes.where(chosen), at[:n], reasons[:n]
    if kind == Kind.HELD:
        times, why = (timezone.now(),) * n, uncounted[:n]
    with transaction.atomic():
        _apply(log.arena_id, token, votes, sign=-1)
        columns = vote_log.removal_columns(votes.pk, times, why)
        vote_log.append(log=log, kind=kind, columns=columns)
        Vote.objects.filter(pk__in=votes.pk.tolist()).update(tallied=False)
    return len(votes)


def _add_imported(log: VoteLog, token: uuid.UUID, trusted: frozenset[int]) -> int:
    """Add the next rows of a revealed import, even voided ones, which are removed later."""
    for source in Import.objects.to_tally().filter(arena=log.arena_id).order_by("pk"):
        rows = Vote.objects.filter(source=source, source_row__gt=source.tallied_row, tallied=True)
        ordered = rows.order_by("source_row")
        votes, others = read_votes_with(vote_log.LOGGED, ordered, BATCH, trusted)
        note = Import.objects.filter(pk=source.pk)
        if not len(votes):
            with transaction.atomic():
                renew(token)
                if note.filter(tallied_at=None).update(tallied_at=timezone.now()):
                    vote_log.close_import(log=log, source=source)
            continue
        with transaction.atomic():
            _apply(log.arena_id, token, votes, sign=1)
            vote_log.append(
                log=log,
                kind=Kind.IMPORT,
                columns=vote_log.vote_columns(log, votes, *others),
                details={"source": source.pk},
            )
            note.update(tallied_row=int(votes.source_row[-1]))
        return len(votes)
    return 0


def _apply(arena_id: int, token: uuid.UUID, votes: Votes, sign: int) -> None:
    """Add the votes to all tallies that count them (`sign` 1), or remove them (-1)."""
    renew(token)
    votes = votes.counted()
    parts = {question: votes.of(*question) for question in sorted(votes.questions())}
    tallies = _load_tallies(arena_id, parts)
    growth = _update_members([(tallies[question], part) for question, part in parts.items()], sign)
    deltas, outdated = [], Q()
    for (raters, category), part in parts.items():
        tally = tallies[raters, category]
        counts = part.count() if sign > 0 else -part.count()
        before = VoteCounts.of_bytes(tally.cells)
        tally.cells = VoteCounts.joined([before, counts.per_pair()]).merged().pack()
        tally.n_raters += growth[tally.pk, "rater"]
        tally.n_prompts += growth[tally.pk, "prompt"]
        tally.last_vote_id = max(tally.last_vote_id, int(part.pk.max()))
        tally.version += 1
        tally.save()
        if not category:
            kept = counts if raters in HUMAN else counts.per_prompt()
            deltas.append(
                TallyDelta(arena_id=arena_id, raters=raters, n_cells=len(kept), cells=kept.pack())
            )
        question = Q(board__raters=raters, board__category=category)
        outdated |= question & Q(vote_id__gte=int(part.pk.min()))
    TallyDelta.objects.bulk_create(deltas)
    EloCheckpoint.objects.filter(outdated, board__arena=arena_id).delete()


def _load_tallies(arena_id: int, questions: Collection[Question]) -> dict[Question, Tally]:
    """The tallies of these questions, and perhaps of others; missing ones are created."""
    rows = Tally.objects.filter(
        arena=arena_id,
        raters__in={raters for raters, _ in questions},
        category__in={category for _, category in questions},
    )
    tallies = {(tally.raters, tally.category): tally for tally in rows}
    for raters, category in questions:
        if (raters, category) not in tallies:
            tallies[raters, category] = Tally.objects.create(
                arena_id=arena_id,
                raters=raters,
                category=category,
                cells=VoteCounts.none().pack(),
            )
    return tallies


def _update_members(parts: Sequence[tuple[Tally, Votes]], sign: int) -> dict[tuple[int, str], int]:
    """Update how many votes each rater and prompt has in each tally.

    Returns, by tally id and kind, how many more members have votes.
    """
    ids = [tally.pk for tally, _ in parts]
    growth = {(pk, kind): 0 for pk in ids for kind in ("rater", "prompt")}
    for kind in ("rater", "prompt"):
        changes: dict[tuple[int, int], int] = {}
        for tally, votes in parts:
            column = votes.rater if kind == "rater" else votes.prompt[votes.prompt > 0]
            distinct, counts = np.unique(column, return_counts=True)
            for pk, n in zip(distinct.tolist(), counts.tolist(), strict=True):
                changes[tally.pk, pk] = sign * n
        members = TallyMember.objects.filter(
            **{"tally__in": ids, f"{kind}__in": {pk for _, pk in changes}}
        )
        before = {(tally, pk): n for tally, pk, n in members.values_list("tally", kind, "n_votes")}
        after = {key: before.get(key, 0) + n for key, n in changes.items()}
        TallyMember.objects.bulk_create(
            [
                TallyMember(tally_id=tally, n_votes=n, **{f"{kind}_id": pk})
                for (tally, pk), n in after.items()
            ],
            update_conflicts=True,
            unique_fields=["tally", kind],
            update_fields=["n_votes"],
        )
        for (tally_id, pk), n in after.items():
            growth[tally_id, kind] += (n > 0) - (before.get((tally_id, pk), 0) > 0)
    return growth


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
    if raters in HUMAN:  # the next refresh recounts them by rater
        RaterTally.objects.filter(arena=arena_id, raters=raters).delete()
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
