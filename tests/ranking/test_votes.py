"""The votes that leaderboards are made of, as the database has them."""

import random
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from arena.actors import CLI
from arena.models import Arena, Import, Rater, Vote
from arena.services.voting import void_rater
from ranking.models import ArenaRefresh, Snapshot
from ranking.services.votes import read
from tests.factories import make_person, make_vote, void_vote
from tests.ranking.helpers import cast, fill, hidden_import, publish, reveal

pytestmark = pytest.mark.django_db


def test_a_voided_vote_leaves_no_trace(arena: Arena) -> None:
    before = publish(arena).digest
    vote = cast(arena, preference=1 / 3)
    assert publish(arena).n_votes == 25
    void_vote(vote)
    assert publish(arena).digest == before


def test_voiding_a_rater_takes_out_all_their_votes_and_them(arena: Arena) -> None:
    somebody = make_person()
    fill(arena, rounds=1, rater=somebody)
    assert publish(arena).n_raters == 2
    assert void_rater(rater=somebody, by=CLI, reason="a script", now=timezone.now()) == 24
    snapshot = publish(arena)
    assert (snapshot.n_raters, snapshot.n_votes) == (1, 24)


def test_the_command_voids_a_rater_and_says_how_many(arena: Arena, capsys: Any) -> None:
    rater = Rater.objects.get(votes=arena.votes.first())
    call_command("void_rater", str(rater.pk), reason="a script")
    assert "24 votes" in capsys.readouterr().out
    rater.refresh_from_db()
    assert rater.blocked_at
    assert not Vote.objects.live().exists()
    with pytest.raises(CommandError, match="no rater 0"):
        call_command("void_rater", "0", reason="a script")


def test_several_raters_are_voided_at_once_or_none(arena: Arena) -> None:
    raters = [make_person() for _ in range(2)]
    ids = [str(rater.pk) for rater in raters]
    with pytest.raises(CommandError, match="no rater 0"):
        call_command("void_rater", *ids, "0", reason="scripts")
    assert not Rater.objects.exclude(blocked_at=None).exists()
    call_command("void_rater", *ids, reason="scripts")
    assert Rater.objects.exclude(blocked_at=None).count() == 2


@pytest.mark.parametrize("with_log", [True, False])
def test_a_vote_with_a_smaller_id_that_commits_late_is_counted(
    arena: Arena, settings: Any, with_log: bool
) -> None:
    settings.VOTE_LOG = with_log
    late = cast(arena)
    arena.votes.filter(pk=late.pk).delete()
    cast(arena, "right")
    assert publish(arena).n_votes == 25
    late.save(force_insert=True)  # as if its transaction had been open until now
    snapshot = publish(arena)
    assert snapshot.n_votes == 26
    assert read(arena).pk.tolist() == sorted(arena.votes.values_list("pk", flat=True))


def test_without_a_log_a_late_commit_is_looked_for(arena: Arena, settings: Any) -> None:
    settings.VOTE_LOG = False
    publish(arena)
    again = ArenaRefresh.objects.get(arena=arena).recheck_at
    assert again - timezone.now() < timedelta(seconds=30)
    assert ArenaRefresh.objects.behind(again).filter(arena=arena).exists()
    publish(arena)
    assert ArenaRefresh.objects.get(arena=arena).recheck_at is None


def test_votes_of_a_hidden_file_are_not_among_those_left_out(arena: Arena) -> None:
    source = hidden_import(arena)
    Vote.objects.filter(source=source).update(uncounted="channel")
    assert publish(arena).settings["left_out"] == {}
    reveal(source)
    cast(arena)
    assert publish(arena).settings["left_out"] == {"channel": 7}


@pytest.mark.parametrize("with_log", [True, False])
def test_a_file_counts_when_it_is_revealed(arena: Arena, settings: Any, with_log: bool) -> None:
    settings.VOTE_LOG = with_log
    source = hidden_import(arena)
    assert publish(arena).n_votes == 24
    reveal(source)
    assert publish(arena).n_votes == 31


@pytest.mark.parametrize("with_log", [True, False])
def test_published_votes_are_those_that_count_now(
    arena: Arena, settings: Any, with_log: bool
) -> None:
    settings.VOTE_LOG = with_log
    chance = random.Random(7)
    people = [make_person() for _ in range(3)]
    candidates, prompts = list(arena.candidates.all()), [*arena.prompts.all(), None]
    files: list[Import] = []
    for turn in range(60):
        left, right = chance.sample(candidates, 2)
        make_vote(
            arena,
            left,
            right,
            chance.choice(["left", "right", "tie", "both_bad"]),
            chance.choice(prompts),
            chance.choice(people),
            preference=chance.choice([None, chance.random()]),
        )
        if turn % 7 == 0:
            void_vote(chance.choice(list(arena.votes.filter(voided_at=None))))
        if turn % 9 == 0:
            rushed = chance.choice(list(arena.votes.filter(voided_at=None, uncounted=None)))
            arena.votes.filter(pk=rushed.pk).update(uncounted="rushed", rushed=True)
        if turn % 20 == 5:
            files.append(hidden_import(arena, turn, 5))
        if turn % 20 == 12:
            reveal(files[-1])
        if chance.random() < 0.1:
            publish(arena)
    publish(arena)
    for snapshot in Snapshot.objects.current().of_arena(arena):
        votes = Vote.objects.live().filter(arena=arena)
        if snapshot.board.category:
            votes = votes.filter(comparison__prompt__category=snapshot.board.category)
        both_bad = votes.filter(outcome="both_bad").count()
        assert (snapshot.n_votes, snapshot.n_both_bad) == (votes.count() - both_bad, both_bad)
        assert snapshot.n_raters == votes.values("rater").distinct().count()


def test_votes_are_read_by_one_statement(arena: Arena, django_assert_max_num_queries: Any) -> None:
    publish(arena)
    with django_assert_max_num_queries(6) as queries:
        read(arena)
    assert sum('FROM "arena_vote"' in query["sql"] for query in queries.captured_queries) == 1
