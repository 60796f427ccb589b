"""A refresh: which votes are on which board, and who may publish."""

import ctypes
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models import Sum
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from arena.models import Arena, Candidate, Comparison, Import, Rater, Vote
from arena.services.pairs import sync_pairs
from ranking import leaderboard, tasks
from ranking.models import ArenaRefresh, Board, BothBad, Snapshot
from ranking.services import leases, refresh
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from tests.environment import REPOSITORY
from tests.factories import make_arena, make_person, make_vote, void_vote
from tests.ranking.helpers import cast, fill, publish, seconds, words

pytestmark = pytest.mark.django_db


def test_the_snapshot_says_what_it_stands_on(arena: Arena) -> None:
    snapshot = publish(arena)
    assert (snapshot.n_votes, snapshot.n_raters, snapshot.n_prompts) == (24, 1, 8)
    assert snapshot.choix_difference is not None
    assert snapshot.choix_difference < 0.01
    assert snapshot.settings["clusters"] == "prompt"
    assert snapshot.settings["effective"] == {"prompts": 8, "raters": 1}
    assert snapshot.settings["n_resamples"] == 1000
    assert snapshot.last_vote_id == arena.votes.latest("pk").pk


def test_a_snapshot_is_as_old_as_the_votes_that_it_read(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(*args: Any) -> Any:
        cast_at.append(timezone.now())
        return whole_answer(*args)

    whole_answer, cast_at = refresh.fit_leaderboard, []
    monkeypatch.setattr(refresh, "fit_leaderboard", answer)
    assert publish(arena).published_at < cast_at[0]


def test_scores_are_those_of_bradley_terry(arena: Arena) -> None:
    left = list(arena.votes.order_by("pk").values_list("comparison__left", flat=True))
    right = list(arena.votes.order_by("pk").values_list("comparison__right", flat=True))
    score = [
        {"left": 1.0, "right": 0.0, "tie": 0.5}[outcome]
        for outcome in arena.votes.order_by("pk").values_list("outcome", flat=True)
    ]
    ids = sorted({*left, *right})
    battles = Battles.from_arrays(*(list(map(ids.index, side)) for side in (left, right)), score)
    expected = dict(zip(ids, BradleyTerry().fit(battles).ratings_, strict=True))
    for standing in publish(arena).standings.all():
        assert standing.score == pytest.approx(expected[standing.candidate_id])
        assert standing.low < standing.score < standing.high
        assert standing.rank_low <= standing.rank <= standing.rank_high


def test_each_category_and_kind_of_rater_gets_a_board_of_its_own(
    arena: Arena, judge: Rater
) -> None:
    prompt = arena.prompts.get(external_id="p1")
    left, right = arena.candidates.all()[:2]
    make_vote(arena, left, right, "left", prompt, judge)
    publish(arena)
    seen = Snapshot.objects.current().values_list("board__raters", "board__category", "n_votes")
    assert set(seen) == {
        ("people", "", 24),
        ("people", "category-0", 12),
        ("people", "category-1", 12),
        ("judges", "", 1),
        ("judges", "category-1", 1),
        ("combined", "", 24),
        ("combined", "category-1", 12),
    }


def test_both_bad_is_a_rate_and_enters_no_score(arena: Arena) -> None:
    before = {s.candidate_id: s.score for s in publish(arena).standings.all()}
    cast(arena, "both_bad")
    snapshot = publish(arena)
    assert (snapshot.n_votes, snapshot.n_both_bad) == (24, 1)
    assert {s.candidate_id: s.score for s in snapshot.standings.all()} == pytest.approx(before)
    first = snapshot.standings.get(candidate=arena.candidates.order_by("pk")[0])
    assert first.both_bad_rate == pytest.approx(1 / 17)


def test_a_board_may_count_both_bad_as_a_tie(arena: Arena) -> None:
    publish(arena)
    Board.objects.filter(arena=arena).update(both_bad=BothBad.TIE)
    cast(arena, "both_bad")
    assert publish(arena).n_votes == 25


def test_a_soft_verdict_is_its_own_score(arena: Arena, judge: Rater) -> None:
    left, right = arena.candidates.order_by("pk")[:2]
    make_vote(arena, left, right, "left", None, judge, preference=0.75)
    publish(arena)
    snapshot = Snapshot.objects.current().get(board__raters="judges", board__category="")
    best = snapshot.standings.get(candidate=left)
    gap = best.score - snapshot.standings.get(candidate=right).score
    assert gap == pytest.approx(400 * math.log10(3))
    assert best.win_rate == pytest.approx(0.75)


def test_voided_and_hidden_votes_are_on_no_board(arena: Arena) -> None:
    hidden = Import.objects.create(
        arena=arena, file_name="f", sha256="0" * 64, format="pairs", started_at=timezone.now()
    )
    cast(arena, source=hidden, source_row=1)
    cast(arena, voided_at=timezone.now(), void_reason="a mistake")
    assert publish(arena).n_votes == 24


def test_elo_is_replayed_in_the_order_of_the_votes() -> None:
    arena = make_arena(n_candidates=2)
    cast(arena, "left")
    cast(arena, "right")
    first, second = publish(arena).standings.order_by("candidate")
    assert first.elo + second.elo == pytest.approx(2000)
    assert first.elo < 1000  # the later loss weighs more than the earlier win
    assert first.score == pytest.approx(1000)


def test_nothing_is_published_when_nothing_has_changed(arena: Arena) -> None:
    first = publish(arena)
    assert publish(arena).pk == first.pk


def test_one_snapshot_is_current_and_superseded_ones_go(arena: Arena) -> None:
    first = publish(arena)
    for _ in range(3):
        cast(arena)
        last = publish(arena)
    mine = Snapshot.objects.filter(board=last.board)
    assert list(mine.current()) == [last]
    assert set(mine.values_list("pk", flat=True)) == {first.pk, last.pk}  # the first is history


def statements(captured: CaptureQueriesContext) -> list[str]:
    """The queries, without the bounds of transactions."""
    bounds = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE SAVEPOINT")
    return [query["sql"] for query in captured if not query["sql"].startswith(bounds)]


def test_a_board_is_replaced_in_six_queries(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(arena)
    counts = []
    replace = refresh.publish

    def count_queries(*arguments: Any) -> Snapshot:
        with CaptureQueriesContext(connection) as captured:
            snapshot = replace(*arguments)
        counts.append(len(statements(captured)))
        return snapshot

    monkeypatch.setattr(refresh, "publish", count_queries)
    cast(arena)
    publish(arena)
    assert counts == [6, 6]  # of all prompts, and of the prompt's category


@pytest.mark.parametrize(("n_categories", "most"), [(1, 66), (2, 82)])
def test_a_refresh_takes_few_queries(arena: Arena, n_categories: int, most: int) -> None:
    publish(arena)
    publish(arena)
    Snapshot.objects.update(measured_seconds=10**6)  # so that intervals are borrowed
    left, right = arena.candidates.order_by("pk")[:2]
    by_category = {prompt.category: prompt for prompt in arena.prompts.all()}
    for prompt in list(by_category.values())[:n_categories]:
        make_vote(arena, left, right, "left", prompt)
    ArenaRefresh.objects.filter(arena=arena).update(not_before=None)
    with CaptureQueriesContext(connection) as captured:
        published = refresh.refresh_arena(arena_id=arena.pk, now=timezone.now())
    assert len(published) == 1 + n_categories
    assert len(statements(captured)) <= most


def test_a_second_refresh_of_the_same_arena_finds_it_taken(arena: Arena) -> None:
    leases.open_arena(arena_id=arena.pk)
    now = timezone.now()
    assert ArenaRefresh.objects.claim(arena.pk, now, seconds(60))
    assert refresh.refresh_arena(arena_id=arena.pk, now=now) == []
    assert refresh.refresh_arena(arena_id=arena.pk, now=now + seconds(61))


def test_a_process_without_the_lease_publishes_nothing(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases.open_arena(arena_id=arena.pk)
    now = timezone.now()
    real = refresh.fit_leaderboard

    def answer_slowly(*arguments: Any) -> leaderboard.Leaderboard:
        ArenaRefresh.objects.claim(arena.pk, now + seconds(3600), seconds(60))
        return real(*arguments)

    monkeypatch.setattr(refresh, "fit_leaderboard", answer_slowly)
    assert refresh.refresh_arena(arena_id=arena.pk, now=now) == []
    assert not Snapshot.objects.exists()
    assert ArenaRefresh.objects.get(arena=arena).leased_until == now + seconds(3660)


def test_fit_that_choix_contradicts_is_not_published(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    good = publish(arena)
    cast(arena)
    monkeypatch.setattr(leaderboard, "largest_difference", lambda *_: 0.02)
    assert publish(arena).pk == good.pk
    assert "choix differs by 0.0200 Elo" in caplog.text
    assert "choix differs" in Board.objects.get(pk=good.board_id).problem
    assert not ArenaRefresh.objects.get(arena=arena).is_stale  # it is not tried again in vain
    monkeypatch.undo()
    void_vote(Vote.objects.latest("pk"))
    assert publish(arena).pk == good.pk
    assert Board.objects.get(pk=good.board_id).problem == ""
    cast(arena)
    assert publish(arena).pk != good.pk
    assert Board.objects.get(pk=good.board_id).problem == ""


def test_a_refresh_that_breaks_says_so_and_is_tried_again(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "fit_leaderboard", lambda *_: 1 / 0)
    leases.open_arena(arena_id=arena.pk)
    now = timezone.now()
    assert refresh.refresh_arena(arena_id=arena.pk, now=now) == []
    row = ArenaRefresh.objects.get(arena=arena)
    assert "ZeroDivisionError" in row.problem
    later = now + seconds(60)
    assert row in ArenaRefresh.objects.free(later).behind(later)


def weights_of(arena: Arena) -> dict[tuple[int, int], float]:
    publish(arena)
    return {(pair.low_id, pair.high_id): pair.weight for pair in arena.pairs.all()}


def test_pairs_with_fewer_votes_get_more_weight(arena: Arena) -> None:
    for _ in range(20):
        cast(arena)
    first, second, third = arena.candidates.values_list("pk", flat=True).order_by("pk")
    weights = weights_of(arena)
    assert weights[first, second] < weights[second, third]
    assert sum(weights.values()) == pytest.approx(3, rel=0.1)


def test_raters_are_sent_to_the_newcomer(arena: Arena) -> None:
    fill(arena, rounds=4)
    newcomer = Candidate.objects.create(arena=arena, name="newcomer")
    for prompt in arena.prompts.all():
        newcomer.responses.create(prompt=prompt, text="A new answer.")
    sync_pairs(arena=arena)
    publish(arena)
    for pair in arena.pairs.all():
        assert (pair.newcomers > 0) == (newcomer.pk in (pair.low_id, pair.high_id))
        assert 0 <= pair.first + pair.order + pair.newcomers < pair.weight
    total = arena.pairs.aggregate(all=Sum("weight"), newcomers=Sum("newcomers"))
    assert total["newcomers"] >= 0.1 * total["all"]


def test_until_intervals_are_known_nobody_could_be_first() -> None:
    arena = make_arena(3, 2)
    make_vote(arena, *arena.candidates.order_by("pk")[:2], "left")
    publish(arena)
    for pair in arena.pairs.all():
        assert pair.first == pair.order == 0
        assert pair.newcomers > 0


def test_what_cannot_be_compared_is_not_ranked(arena: Arena) -> None:
    Candidate.objects.create(arena=arena, name="newcomer")
    snapshot = publish(arena)
    newcomer = snapshot.standings.get(candidate__name="newcomer")
    assert (newcomer.rank, newcomer.score, newcomer.status) == (None, None, "no_votes")
    assert newcomer.reason


@pytest.mark.parametrize("n_candidates", [0, 1, 2])
def test_an_arena_without_votes_has_a_board_without_scores(n_candidates: int) -> None:
    snapshot = publish(make_arena(n_candidates=n_candidates))
    assert snapshot.n_votes == 0
    assert snapshot.standings.filter(score=None).count() == n_candidates
    assert snapshot.interval_reason


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The arenas that the sweep enqueues."""
    rung: list[int] = []
    monkeypatch.setattr(tasks.refresh_arena, "delay", rung.append)
    monkeypatch.setattr(tasks.add_elo_intervals, "delay", lambda arena_id: None)
    return rung


def settle(arena: Arena) -> None:
    """Refresh until nothing is left, and pretend that it was a while ago."""
    publish(arena)
    publish(arena)
    ArenaRefresh.objects.filter(arena=arena).update(not_before=None)


def test_the_sweep_leaves_an_arena_at_rest_alone(arena: Arena, queued: list[int]) -> None:
    settle(arena)
    tasks.sweep_boards()
    assert queued == []


def test_the_sweep_opens_an_arena_whose_announcement_was_lost(
    arena: Arena, queued: list[int]
) -> None:
    tasks.sweep_boards()
    assert queued == [arena.pk]


def test_the_sweep_finds_new_votes_voids_and_reveals(arena: Arena, queued: list[int]) -> None:
    settle(arena)
    vote = cast(arena)
    tasks.sweep_boards()
    settle(arena)
    arena.votes.filter(pk=vote.pk).update(voided_at=timezone.now(), void_reason="a mistake")
    tasks.sweep_boards()
    settle(arena)
    Import.objects.create(
        arena=arena,
        file_name="f",
        sha256="0" * 64,
        format="pairs",
        started_at=timezone.now(),
        revealed_at=timezone.now(),
    )
    tasks.sweep_boards()
    assert queued == [arena.pk] * 3


def test_the_sweep_enqueues_nothing_during_the_pause(arena: Arena, queued: list[int]) -> None:
    settle(arena)
    cast(arena)
    ArenaRefresh.objects.update(not_before=timezone.now() + seconds(60))
    tasks.sweep_boards()
    assert queued == []


def test_a_refresh_queues_the_elo_intervals_of_what_it_published(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(tasks.add_elo_intervals, "delay", asked.append)
    leases.open_arena(arena_id=arena.pk)
    tasks.refresh_arena(arena.pk)
    assert asked == [arena.pk]


def resident_megabytes() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="needs glibc")
def test_a_long_refresh_gives_its_memory_back() -> None:
    """In a process of its own: how much is free beforehand decides what is kept."""
    program = """
import django; django.setup()
from ranking import tasks
from tests.ranking.test_refresh import resident_megabytes
pinned = []
def refresh_much(**_):
    blocks = [b"x" * 60_000 for _ in range(2_000)]
    pinned.append(blocks[-1])  # keeps the C library from giving back what is below it
    return []
tasks.refresh.refresh_arena = refresh_much
before = resident_megabytes()
tasks.LONG_REFRESH = 600.0
tasks.refresh_arena(1)
kept = resident_megabytes() - before
tasks.LONG_REFRESH = 0.0
tasks.refresh_arena(1)
print(kept, resident_megabytes() - before)
"""
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "arena.settings"}
    command = [sys.executable, "-c", program]
    printed = subprocess.check_output(command, cwd=REPOSITORY, env=environment, text=True)
    kept, left = map(float, printed.split())
    assert kept > 80
    assert left < 40


def test_a_leaderboard_can_be_read_as_of_verified_people(arena: Arena, client: Client) -> None:
    """It is based on their votes alone, and exists only if others voted too."""
    assert publish(arena).n_votes == 24
    assert not Board.objects.filter(raters="verified").exists()
    for _ in range(6):
        fill(arena, rounds=1, rater=(rater := make_person()))
        Vote.objects.filter(rater=rater).update(verified=True, channel="invited")
    assert publish(arena).n_votes == 168
    board = client.get("/a/support/results.json?raters=verified").json()
    assert (board["raters"], board["n_votes"], board["n_raters"]) == ("verified", 144, 6)
    listed = client.get("/api/v1/arenas/support/boards/?raters=verified").json()["results"]
    assert {row["category"]: row["n_votes"] for row in listed}[""] == 144
    page = words(client.get("/a/support/?raters=verified").text)
    assert "144 blind votes 6 verified raters" in page
    assert "Only votes by verified people count here" in page
    others = Vote.objects.filter(arena=arena, verified=False)
    for vote in others:
        void_vote(vote)
    assert publish(arena).n_votes == 144
    alone = client.get("/a/support/results.json").json()
    assert [row | {"url": ""} for row in alone["standings"]] == [
        row | {"url": ""} for row in board["standings"]
    ]


def test_a_leaderboard_says_what_self_identifying_answers_decide(
    arena: Arena, client: Client
) -> None:
    """How many votes they got, and the ranks and scores without them, as if they had none."""
    first, second, third = arena.candidates.order_by("pk")
    prompt = arena.prompts.earliest("pk")
    answers = {answer.candidate_id: answer for answer in prompt.responses.all()}
    answers[third.pk].names_itself = True
    answers[third.pk].save()
    for i in range(40):
        vote = make_vote(arena, (first, second)[i % 2], third, "right", prompt)
        Comparison.objects.filter(pk=vote.comparison_id).update(
            left_response=answers[(first, second)[i % 2].pk],
            right_response=answers[third.pk],
            names_itself=True,
        )
    Arena.objects.filter(pk=arena.pk).update(self_identifying="drop")
    assert publish(arena).settings["named"] == {}
    Arena.objects.filter(pk=arena.pk).update(self_identifying="keep")
    cast(arena)
    snapshot = publish(arena)
    assert snapshot.settings["named"]["votes"] == 40
    changed = {pk: (rank, score) for pk, rank, score in snapshot.settings["named"]["without"]}
    ranks = {row.candidate_id: row.rank for row in snapshot.standings.all()}
    page = words(client.get("/a/support/").text)
    assert "40 votes counted on pairs in which an answer reveals its author. Without them," in page
    for vote in Vote.objects.filter(arena=arena, comparison__names_itself=True):
        void_vote(vote)
    alone = publish(arena)
    assert alone.settings["named"] == {}
    assert ranks[third.pk] == 1
    expected = {
        row.candidate_id: (row.rank, pytest.approx(row.score))
        for row in alone.standings.all()
        if row.rank != ranks[row.candidate_id]
    }
    assert changed == expected
    assert third.pk in changed
