"""The fold of votes into the running tallies, each exactly once.

Whether the tallies count a vote is recorded on the vote (`Vote.tallied`) and, if it was imported,
on its import (`Import.tallied_row`), in the transaction that changes the tallies. So a vote that
commits late with a smaller id still waits to be added, and a voided one waits to be removed, even
if a process is killed meanwhile. Only the holder of the arena's lease folds; each transaction
checks that, and writes what happened into the arena's log (`vote_log`). The record of whose votes
count as trusted changes with the tallies too: see `rebuild`.
"""

import uuid
from collections.abc import Collection, Sequence

import numpy as np
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from arena.models import Import, Vote
from ranking.models import EloCheckpoint, LogLink, Tallied, Tally, TallyDelta, TallyMember, VoteLog
from ranking.services import rebuild, vote_log
from ranking.services.evidence import Question
from ranking.services.leases import renew
from ranking.tallies import VoteCounts
from ranking.votes import Votes, read_votes_with

Kind = LogLink.Kind

BATCH = 5_000  # votes folded in one transaction, which takes a fraction of a second


def fold(*, arena_id: int, token: uuid.UUID) -> int:
    """Bring the arena's tallies up to date; return how many votes were added or removed.

    Raises RefreshLeaseLostError.
    """
    total, trusted = 0, rebuild.tallied_trust(arena_id)
    log = vote_log.open_log(arena_id=arena_id, token=token)
    for step in (_add_imported, _add_cast, _remove):
        while folded := step(log, token, trusted):
            total += folded
    rebuild.sync_trust(arena_id=arena_id, token=token)
    return total


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
            kept = counts if raters == Tallied.PEOPLE else counts.per_prompt()
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
