"""Running tallies: each vote in them exactly once, whatever comes late, is voided or is killed."""

import random
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from arena.models import Arena, Import, Rater, Vote
from arena.services.voting import void_rater, void_vote
from ranking import cadence
from ranking.models import (
    ArenaRefresh,
    Board,
    ClusterTally,
    EloCheckpoint,
    Snapshot,
    Tally,
    TallyDelta,
)
from ranking.services import (
    boards,
    cluster_tallies,
    elo_ratings,
    rebuilding,
    refresh,
    tallying,
)
from ranking.tallies import Cells
from ranking.votes import read_votes
from tests.factories import make_arena, make_person, make_vote
from tests.ranking.helpers import cast, fill, publish, seconds

pytestmark = pytest.mark.django_db


def claim(arena: Arena) -> Any:
    boards.open_arena(arena_id=arena.pk)
    ArenaRefresh.objects.filter(arena=arena).update(not_before=None, token=None, leased_until=None)
    return ArenaRefresh.objects.claim(arena.pk, timezone.now(), seconds(60))


def fold(arena: Arena) -> int:
    return tallying.fold(arena_id=arena.pk, token=claim(arena))


def drift(arena: Arena) -> list[str]:
    """What a count of the votes, made by the database, finds wrong with the tallies."""
    return rebuilding.rebuild(arena_id=arena.pk, token=claim(arena))


def counted(arena: Arena) -> int:
    tally = Tally.objects.filter(arena=arena, raters="people", category="").first()
    return int(Cells.of_bytes(tally.cells).votes.sum()) if tally else 0


def hidden_import(arena: Arena, number: int = 0, n_votes: int = 7) -> Import:
    source = Import.objects.create(
        arena=arena,
        file_name="votes.csv",
        sha256=f"{number:064}",
        format="pairs",
        started_at=timezone.now(),
    )
    for row in range(1, n_votes + 1):
        cast(arena, source=source, source_row=row)
    return source


def reveal(source: Import) -> None:
    Import.objects.filter(pk=source.pk).update(revealed_at=timezone.now())


def test_votes_are_counted_once_however_often_one_folds(arena: Arena) -> None:
    assert fold(arena) == 24
    assert fold(arena) == 0
    assert counted(arena) == 24
    assert drift(arena) == []


def test_folding_in_small_steps_comes_to_the_same(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold(arena)
    at_once = {tally.category: bytes(tally.cells) for tally in Tally.objects.all()}
    Tally.objects.all().delete()
    arena.votes.update(tallied=False)
    monkeypatch.setattr(tallying, "BATCH", 5)
    assert fold(arena) == 24
    assert {tally.category: bytes(tally.cells) for tally in Tally.objects.all()} == at_once


def test_a_voided_vote_is_taken_out_again_and_leaves_no_trace(arena: Arena) -> None:
    fold(arena)
    before = {tally.category: bytes(tally.cells) for tally in Tally.objects.all()}
    vote = cast(arena, preference=1 / 3)
    fold(arena)
    assert counted(arena) == 25
    void_vote(vote=vote, reason="a mistake", now=timezone.now())
    assert fold(arena) == 1
    assert {tally.category: bytes(tally.cells) for tally in Tally.objects.all()} == before
    assert drift(arena) == []


def test_a_vote_voided_before_it_was_folded_is_never_counted(arena: Arena) -> None:
    fold(arena)
    void_vote(vote=cast(arena), reason="a mistake", now=timezone.now())
    assert fold(arena) == 0
    assert counted(arena) == 24


def test_voiding_a_rater_takes_out_all_their_votes_and_them(arena: Arena) -> None:
    somebody = make_person()
    fill(arena, rounds=1, rater=somebody)
    fold(arena)
    assert Tally.objects.get(arena=arena, raters="people", category="").n_raters == 2
    assert void_rater(rater=somebody, reason="a script", now=timezone.now()) == 12
    assert fold(arena) == 12
    assert Tally.objects.get(arena=arena, raters="people", category="").n_raters == 1
    assert counted(arena) == 24
    assert drift(arena) == []


def test_the_command_voids_a_rater_and_says_how_many(arena: Arena, capsys: Any) -> None:
    rater = Rater.objects.get(votes=arena.votes.first())
    call_command("void_rater", str(rater.pk), reason="a script")
    assert "24 votes" in capsys.readouterr().out
    rater.refresh_from_db()
    assert rater.blocked_at
    assert not Vote.objects.live().exists()
    with pytest.raises(CommandError, match="no rater 0"):
        call_command("void_rater", "0", reason="a script")


def test_a_vote_with_a_smaller_id_that_commits_late_is_counted(arena: Arena) -> None:
    late = cast(arena)
    arena.votes.filter(pk=late.pk).delete()
    cast(arena)
    fold(arena)
    assert counted(arena) == 25
    late.save(force_insert=True)  # as if its transaction had been open until now
    assert fold(arena) == 1
    assert counted(arena) == 26


def test_a_file_counts_when_it_is_revealed_and_in_steps(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallying, "BATCH", 3)
    source = hidden_import(arena)
    fold(arena)
    assert counted(arena) == 24
    reveal(source)
    assert fold(arena) == 7
    source.refresh_from_db()
    assert (source.tallied_row, bool(source.tallied_at)) == (7, True)
    assert counted(arena) == 31
    assert drift(arena) == []


def test_a_vote_of_a_file_that_is_voided_half_way_is_taken_out_after_all(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallying, "BATCH", 3)
    source = hidden_import(arena)
    reveal(source)
    tallying._add_imported(arena.pk, claim(arena))
    for row in (2, 6):  # one that is in the tallies, and one that is not
        vote = Vote.objects.get(source=source, source_row=row)
        void_vote(vote=vote, reason="a mistake", now=timezone.now())
    fold(arena)
    assert counted(arena) == 24 + 5
    assert drift(arena) == []


def test_a_fold_that_breaks_half_way_changes_nothing(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TallyDelta.objects, "create", lambda **_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fold(arena)
    assert not Tally.objects.exists()
    assert not arena.votes.filter(tallied=True).exists()
    monkeypatch.undo()
    fold(arena)
    assert drift(arena) == []


def test_random_votes_voids_and_files_never_drift(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallying, "BATCH", 4)
    monkeypatch.setattr(cluster_tallies, "CELLS_AT_ONCE", 5)
    monkeypatch.setattr(elo_ratings, "EVERY", 3)
    chance = random.Random(7)
    people = [make_person() for _ in range(3)]
    candidates, prompts = list(arena.candidates.all()), [*arena.prompts.all(), None]
    outcomes = ["left", "right", "tie", "both_bad"]
    files: list[Import] = []
    for turn in range(60):
        left, right = chance.sample(candidates, 2)
        soft = chance.choice([None, chance.random()])
        make_vote(
            arena,
            left,
            right,
            chance.choice(outcomes),
            chance.choice(prompts),
            chance.choice(people),
            preference=soft,
        )
        if turn % 7 == 0:
            vote = chance.choice(list(arena.votes.filter(voided_at=None)))
            void_vote(vote=vote, reason="a test", now=timezone.now())
        if turn % 20 == 5:
            files.append(hidden_import(arena, turn, 5))
        if turn % 20 == 12:
            reveal(files[-1])
        if chance.random() < 0.3:
            fold(arena)
        if chance.random() < 0.2:
            cluster_tallies.settle(arena_id=arena.pk, raters="people", token=claim(arena))
    ArenaRefresh.objects.update(token=None, leased_until=None)
    publish(arena)
    assert drift(arena) == []
    assert counted(arena) == Vote.objects.live().filter(arena=arena).count()


def test_the_tallies_per_prompt_are_those_per_pair(arena: Arena) -> None:
    fold(arena)
    token = claim(arena)
    cluster_tallies.settle(arena_id=arena.pk, raters="people", token=token)
    assert not TallyDelta.objects.exists()
    assert ClusterTally.objects.count() == 4
    cells = cluster_tallies.read_clusters(arena_id=arena.pk, raters="people")
    tally = Tally.objects.get(arena=arena, raters="people", category="")
    assert cells.per_pair().pack() == bytes(tally.cells)
    some = cluster_tallies.read_clusters(arena_id=arena.pk, raters="people", category="category-1")
    assert some.votes.sum() == 12


def test_drift_is_found_told_and_mended(arena: Arena, capsys: Any) -> None:
    publish(arena)
    good = bytes(Tally.objects.get(arena=arena, raters="people", category="").cells)
    Tally.objects.filter(category="").update(cells=Cells.none().pack())
    with pytest.raises(CommandError, match="had drifted"):
        call_command("rebuild_tallies", arena.slug)
    assert "people, all categories: 0 votes where there are 24" in capsys.readouterr().out
    assert bytes(Tally.objects.get(arena=arena, raters="people", category="").cells) == good
    call_command("rebuild_tallies")
    assert "as they should be" in capsys.readouterr().out


def test_a_rebuild_finds_drift_by_prompt_in_members_and_in_elo(arena: Arena) -> None:
    publish(arena)
    ClusterTally.objects.filter(prompt=arena.prompts.first()).update(cells=Cells.none().pack())
    Tally.objects.filter(category="category-0").update(n_raters=5)
    newest = EloCheckpoint.objects.filter(board__category="category-1")
    newest.update(ratings=np.full(3, 1000.0).tobytes())
    found = drift(arena)
    assert len(found) == 3
    assert drift(arena) == []


def test_a_rebuild_waits_its_turn(arena: Arena) -> None:
    claim(arena)
    with pytest.raises(CommandError, match="is being refreshed"):
        call_command("rebuild_tallies", arena.slug, wait=0.1)


# -- Elo as state ------------------------------------------------------------------------------


def elo_of(arena: Arena) -> dict[int, float]:
    return dict(publish(arena).standings.values_list("candidate", "elo"))


def replayed(arena: Arena) -> dict[int, float]:
    board = Board.objects.get(arena=arena, raters="people", category="")
    return elo_ratings.replay(board=board, until=10**9).by_candidate()


def test_ratings_kept_are_those_of_a_replay(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elo_ratings, "EVERY", 5)
    for _ in range(3):
        assert elo_of(arena) == replayed(arena)
        cast(arena)
    kept = EloCheckpoint.objects.filter(board__arena=arena, board__category="")
    assert 4 <= kept.count() <= 7


def test_a_voided_vote_replays_the_tail_only(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elo_ratings, "EVERY", 5)
    elo_of(arena)
    vote = arena.votes.order_by("pk")[17]
    void_vote(vote=vote, reason="a mistake", now=timezone.now())
    read: list[int] = []
    monkeypatch.setattr(
        elo_ratings, "read_votes", lambda votes, n: _noted(read, read_votes(votes, n))
    )
    token = claim(arena)
    tallying.fold(arena_id=arena.pk, token=token)
    board = Board.objects.get(arena=arena, raters="people", category="")
    ratings = elo_ratings.bring_up(board=board, token=token)
    assert min(read) > arena.votes.order_by("pk")[13].pk
    monkeypatch.undo()
    assert ratings == replayed(arena)


def _noted(read: list[int], votes: Any) -> Any:
    read.extend(votes.pk.tolist())
    return votes


def test_a_late_vote_with_a_smaller_id_is_replayed_in_its_place(arena: Arena) -> None:
    late = cast(arena)
    arena.votes.filter(pk=late.pk).delete()
    cast(arena, "right")
    elo_of(arena)
    late.save(force_insert=True)
    assert elo_of(arena) == replayed(arena)


# -- Intervals that are made less often ----------------------------------------------------------


def test_costly_intervals_are_borrowed_and_say_which_votes_they_have_seen(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = publish(arena)
    widths = {s.candidate_id: (s.score - s.low, s.high - s.score) for s in first.standings.all()}
    monkeypatch.setattr(cadence, "QUICK", 0.0)
    Snapshot.objects.update(measured_seconds=60.0)
    cast(arena)
    second = publish(arena)
    assert (second.n_votes, second.measured_votes) == (25, 24)
    assert second.measured_digest == first.digest
    for s in second.standings.all():
        assert (s.score - s.low, s.high - s.score) == pytest.approx(widths[s.candidate_id])
    later = ArenaRefresh.objects.get(arena=arena).recheck_at
    assert later
    assert ArenaRefresh.objects.behind(later).filter(arena=arena).exists()
    assert publish(arena).pk == second.pk  # not due yet
    Snapshot.objects.update(measured_at=timezone.now() - seconds(3600))
    third = publish(arena)
    assert (third.n_votes, third.measured_votes) == (25, 25)
    assert ArenaRefresh.objects.get(arena=arena).recheck_at is None


def test_a_newcomer_has_no_interval_until_they_are_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arena = make_arena(n_candidates=3)
    fill(arena)
    publish(arena)
    monkeypatch.setattr(cadence, "QUICK", 0.0)
    Snapshot.objects.update(measured_seconds=60.0)
    newcomer = arena.candidates.create(name="newcomer")
    old = arena.candidates.order_by("pk")[0]
    make_vote(arena, newcomer, old, "left", arena.prompts.first())
    make_vote(arena, old, newcomer, "left", arena.prompts.first())
    standing = publish(arena).standings.get(candidate=newcomer)
    assert standing.score
    assert (standing.low, standing.rank_low) == (None, None)


def test_refreshing_an_arena_that_is_gone_does_nothing() -> None:
    assert refresh.refresh_arena(arena_id=0, now=timezone.now()) == []
