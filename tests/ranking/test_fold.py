"""Running tallies: each vote is in them exactly once, despite late votes, voids and kills."""

import random
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from arena.actors import CLI
from arena.models import Arena, Import, Rater, Vote
from arena.services.voting import void_rater
from ranking.models import ArenaRefresh, ClusterTally, RaterTally, Tally, TallyDelta, VoteLog
from ranking.services import cluster_tallies, vote_log
from ranking.services import elo as elo_service
from ranking.services import fold as fold_service
from ranking.tallies import VoteCounts
from tests.factories import make_person, make_vote, void_vote
from tests.ranking.helpers import (
    cast,
    claim,
    counted,
    drift,
    fill,
    fold,
    hidden_import,
    make_voted_arena,
    publish,
    reveal,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def arena(db: None) -> Arena:
    """Three candidates, four prompts in two categories, 24 votes of one person."""
    return make_voted_arena(n_prompts=4, rounds=2)


def test_votes_are_counted_once_however_often_one_folds(arena: Arena) -> None:
    assert fold(arena) == 24
    assert fold(arena) == 0
    assert counted(arena) == 24
    assert drift(arena) == []


def test_folding_in_small_steps_gives_the_same_tallies(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold(arena)
    at_once = {tally.category: bytes(tally.cells) for tally in Tally.objects.all()}
    Tally.objects.all().delete()
    arena.votes.update(tallied=False)
    monkeypatch.setattr(fold_service, "BATCH", 5)
    assert fold(arena) == 24
    assert {tally.category: bytes(tally.cells) for tally in Tally.objects.all()} == at_once


def test_a_voided_vote_is_removed_again_and_leaves_no_trace(arena: Arena) -> None:
    fold(arena)
    before = {tally.category: bytes(tally.cells) for tally in Tally.objects.all()}
    vote = cast(arena, preference=1 / 3)
    fold(arena)
    assert counted(arena) == 25
    void_vote(vote)
    assert fold(arena) == 1
    assert {tally.category: bytes(tally.cells) for tally in Tally.objects.all()} == before
    assert drift(arena) == []


def test_a_vote_voided_before_it_was_folded_is_never_counted(arena: Arena) -> None:
    fold(arena)
    void_vote(cast(arena))
    assert fold(arena) == 0
    assert counted(arena) == 24


def test_voiding_a_rater_takes_out_all_their_votes_and_them(arena: Arena) -> None:
    somebody = make_person()
    fill(arena, rounds=1, rater=somebody)
    fold(arena)
    assert Tally.objects.get(arena=arena, raters="people", category="").n_raters == 2
    assert void_rater(rater=somebody, by=CLI, reason="a script", now=timezone.now()) == 12
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


def test_several_raters_are_voided_at_once_or_none(arena: Arena, capsys: Any) -> None:
    raters = [make_person() for _ in range(2)]
    ids = [str(rater.pk) for rater in raters]
    with pytest.raises(CommandError, match="no rater 0"):
        call_command("void_rater", *ids, "0", reason="scripts")
    assert not Rater.objects.exclude(blocked_at=None).exists()
    call_command("void_rater", *ids, reason="scripts")
    assert Rater.objects.exclude(blocked_at=None).count() == 2


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
    monkeypatch.setattr(fold_service, "BATCH", 3)
    source = hidden_import(arena)
    fold(arena)
    assert counted(arena) == 24
    reveal(source)
    assert fold(arena) == 7
    source.refresh_from_db()
    assert (source.tallied_row, bool(source.tallied_at)) == (7, True)
    assert counted(arena) == 31
    assert drift(arena) == []


def test_vote_voided_during_its_import_is_removed(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_service, "BATCH", 3)
    source = hidden_import(arena)
    reveal(source)
    token = claim(arena)
    log = vote_log.open_log(arena_id=arena.pk, token=token)
    fold_service._add_imported(log, token, frozenset())
    for row in (2, 6):  # one that is in the tallies, and one that is not
        vote = Vote.objects.get(source=source, source_row=row)
        void_vote(vote)
    fold(arena)
    assert counted(arena) == 24 + 5
    assert drift(arena) == []


def test_a_fold_that_breaks_half_way_changes_nothing(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TallyDelta.objects, "bulk_create", lambda _: 1 / 0)
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
    monkeypatch.setattr(fold_service, "BATCH", 4)
    monkeypatch.setattr(cluster_tallies, "CELLS_AT_ONCE", {"sqlite": 5, "postgresql": 5})
    monkeypatch.setattr(elo_service, "EVERY", 3)
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
            void_vote(vote)
        if turn % 20 == 5:
            files.append(hidden_import(arena, turn, 5))
        if turn % 20 == 12:
            reveal(files[-1])
        if chance.random() < 0.3:
            fold(arena)
        if chance.random() < 0.2:
            cluster_tallies.merge_deltas(arena_id=arena.pk, raters="people", token=claim(arena))
    ArenaRefresh.objects.update(token=None, leased_until=None)
    publish(arena)
    assert drift(arena) == []
    assert counted(arena) == Vote.objects.live().filter(arena=arena).count()


def test_the_tallies_per_prompt_are_those_per_pair(arena: Arena) -> None:
    fold(arena)
    token = claim(arena)
    cluster_tallies.merge_deltas(arena_id=arena.pk, raters="people", token=token)
    assert not TallyDelta.objects.exists()
    assert ClusterTally.objects.count() == 4
    cells = cluster_tallies.read_clusters(arena_id=arena.pk, raters="people")
    tally = Tally.objects.get(arena=arena, raters="people", category="")
    assert cells.per_pair().pack() == bytes(tally.cells)
    some = cluster_tallies.read_clusters(arena_id=arena.pk, raters="people", category="category-1")
    assert some.votes.sum() == 12


def by_rater(arena: Arena, category: str = "") -> dict[int, int]:
    """The number of votes in each row per rater, after a refresh."""
    publish(arena)
    rows = RaterTally.objects.filter(arena=arena, raters="people", category=category)
    counts = {row.member: int(VoteCounts.of_bytes(row.cells).votes.sum()) for row in rows}
    return {member: n for member, n in counts.items() if n}


def test_votes_are_counted_by_rater_as_they_come_and_go(arena: Arena) -> None:
    first = arena.votes.first()
    assert first is not None
    extra = cast(arena)
    assert by_rater(arena) == {first.rater_id: 24, extra.rater_id: 1}
    void_vote(first)
    newest = cast(arena, rater=extra.rater)
    assert by_rater(arena) == {first.rater_id: 23, extra.rater_id: 2}
    category = newest.comparison.prompt.category
    assert by_rater(arena, category)[extra.rater_id] == 2
    assert sum(by_rater(arena, category).values()) + sum(
        by_rater(arena, "category-1").values()
    ) == sum(by_rater(arena).values())


def test_votes_from_before_an_upgrade_are_counted_by_rater(arena: Arena) -> None:
    expected = by_rater(arena)
    RaterTally.objects.all().delete()
    cast(arena)
    assert sum(by_rater(arena).values()) == sum(expected.values()) + 1
    assert drift(arena) == []
    ArenaRefresh.objects.update(token=None, leased_until=None)
    cast(arena)
    assert sum(by_rater(arena).values()) == 26


def test_the_last_of_many_raters_share_groups(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RaterTally, "RATERS", 3)
    own = [cast(arena).rater_id for _ in range(2)]
    before = by_rater(arena)
    assert {member for member in before if member > 0} >= set(own)
    late = [cast(arena) for _ in range(6)]
    after = by_rater(arena)
    assert sum(after.values()) == 32
    assert {member for member in after if member > 0} == set(before)
    assert {member for member in after if member < 0} == {-1 - vote.rater_id % 3 for vote in late}
    for vote in late:
        void_vote(vote)
    assert by_rater(arena) == before


def test_a_hidden_arena_is_left_alone(arena: Arena) -> None:
    publish(arena)
    cast(arena)
    hidden = hidden_import(arena, n_votes=0)
    Arena.objects.filter(pk=arena.pk).update(founded_by=hidden)
    assert not ArenaRefresh.objects.behind(timezone.now()).exists()


def test_votes_of_verified_people_have_tallies_of_their_own(arena: Arena) -> None:
    """They follow votes in and out; those from before are counted once, at the next fold."""
    somebody = make_person()
    fill(arena, rounds=1, rater=somebody)
    Vote.objects.filter(rater=somebody).update(verified=True)
    fold(arena)
    assert Tally.objects.get(arena=arena, raters="people", category="").n_raters == 2
    verified = Tally.objects.filter(arena=arena, raters="verified")
    assert verified.get(category="").n_raters == 1
    before = {tally.category: bytes(tally.cells) for tally in verified}
    assert VoteCounts.of_bytes(before[""]).votes.sum() == 12
    late = cast(arena, rater=somebody)
    Vote.objects.filter(pk=late.pk).update(verified=True)
    fold(arena)
    assert VoteCounts.of_bytes(verified.get(category="").cells).votes.sum() == 13
    void_vote(late)
    fold(arena)
    assert {tally.category: bytes(tally.cells) for tally in verified} == before
    assert drift(arena) == []
    verified.delete()
    VoteLog.objects.update(counts_verified=False)
    assert fold(arena) == 0
    assert {tally.category: bytes(tally.cells) for tally in verified} == before
    assert drift(arena) == []
