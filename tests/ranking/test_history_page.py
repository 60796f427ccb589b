"""The history of scores: on a candidate's page, and from the dates of imported votes."""

import json
import re
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db.models import Q
from django.test import Client
from django.utils import timezone

from arena.models import Arena, Candidate, Vote
from ranking.models import ArenaRefresh, Board, Snapshot
from ranking.services import refresh
from ranking.views.history import MOST_SNAPSHOTS, PastSnapshot, thinned
from tests.ranking.helpers import cast, get_page, make_past, publish, words

pytestmark = pytest.mark.django_db


def candidate_page(client: Client, snapshot: Snapshot, query: str = "") -> str:
    pk = snapshot.standings.order_by("candidate")[0].candidate_id
    return get_page(client, f"/a/support/candidates/{pk}/{query}")


def figure_of(page: str) -> Any:
    data = re.search(r'<script id="history-data"[^>]*>(.+?)</script>', page)
    assert data
    return json.loads(data[1])


@pytest.fixture
def old_snapshot(arena: Arena) -> Snapshot:
    """A current snapshot at 12:30, and one of the day before whose scores were 40 lower."""
    snapshot = publish(arena)
    snapshot.published_at = snapshot.published_at.replace(
        year=2026, month=3, day=2, hour=12, minute=30
    )
    snapshot.save()
    make_past(snapshot, 24, by=40, n_votes=11)
    return snapshot


@pytest.mark.parametrize(
    ("query", "target"),
    [
        ("", "/a/support/?columns=details#standings"),
        (
            "?raters=people&category=category-0",
            "/a/support/?raters=people&category=category-0&columns=details#standings",
        ),
        ("?candidate=7&candidate=8", "/a/support/candidates/7/#history"),
        ("?candidate=x&candidate=8", "/a/support/candidates/8/#history"),
        (
            "?raters=people&category=category-0&candidate=7",
            "/a/support/candidates/7/?raters=people&category=category-0#history",
        ),
        ("?candidate=", "/a/support/?columns=details#standings"),
        (f"?candidate={10**30}", "/a/support/?columns=details#standings"),
    ],
)
def test_the_former_page_leads_to_the_candidate_or_the_leaderboard(
    client: Client, arena: Arena, query: str, target: str
) -> None:
    answer = client.get(f"/a/support/history/{query}")
    assert (answer.status_code, answer["Location"]) == (301, target)


def test_a_candidates_page_shows_its_history_and_that_of_others(
    client: Client, old_snapshot: Snapshot
) -> None:
    page = candidate_page(client, old_snapshot)
    own = old_snapshot.standings.order_by("candidate")[0]
    assert own.score is not None
    assert page.count("<polyline") == page.count("<polygon") == 1
    assert 'id="history"' in page
    before, now = f"{own.score - 40:.0f}", f"{own.score:.0f}"
    assert f"History of its score {before} → {now}, since 1 Mar 2026" in words(page)
    lines = figure_of(page)
    assert lines[0]["name"] == str(own.candidate)
    assert {line["name"] for line in lines} == {f"candidate-{i}" for i in range(3)}
    assert lines[0]["score"] == [round(own.score - 40), round(own.score)]
    assert own.low is not None
    assert own.high is not None
    assert lines[0]["low"][-1] == round(own.low)
    assert lines[0]["high"][-1] == round(own.high)
    assert "style=" not in page


def test_no_score_leaves_a_gap(client: Client, old_snapshot: Snapshot) -> None:
    for hours in (12, 6, 3):
        make_past(old_snapshot, hours)
    gap = Snapshot.objects.get(published_at=old_snapshot.published_at - timedelta(hours=12))
    first = old_snapshot.standings.order_by("candidate")[0].candidate_id
    gap.standings.filter(candidate=first).update(score=None, rank=None, low=None, high=None)
    page = candidate_page(client, old_snapshot)
    assert page.count("<polyline") == 2
    assert page.count("<polygon") == 2


def test_one_score_is_no_history_yet(client: Client, published: Snapshot) -> None:
    page = candidate_page(client, published)
    assert "The chart starts with the second score." in page
    assert "<polyline" not in page
    assert "css/history" not in page


def test_only_kept_snapshots_of_the_chosen_leaderboard_count(
    client: Client, old_snapshot: Snapshot
) -> None:
    make_past(old_snapshot, 2, is_history=False)
    other = old_snapshot.board.arena.boards.get(category="category-0").snapshots.get()
    make_past(other, 5)
    make_past(other, 7)
    assert candidate_page(client, old_snapshot, "?raters=people").count("<circle") == 2
    chosen = candidate_page(client, old_snapshot, "?raters=people&category=category-0")
    assert chosen.count("<circle") == 3
    assert "People, category-0" in words(chosen)


def test_many_snapshots_are_thinned_at_even_times() -> None:
    start = timezone.now()
    past = [PastSnapshot(i, start + timedelta(minutes=10 * i)) for i in range(2_000)]
    kept = thinned(past)
    assert len(kept) <= MOST_SNAPSHOTS
    assert len(kept) > MOST_SNAPSHOTS * 0.9
    assert (kept[0], kept[-1]) == (past[0], past[-1])
    assert [p.pk for p in kept] == sorted({p.pk for p in kept})
    steps = [b.published_at - a.published_at for a, b in pairwise(kept)]
    assert max(steps) < timedelta(minutes=10 * 2_000 / MOST_SNAPSHOTS * 2.1)
    assert thinned(past[:5]) == past[:5]
    same = [PastSnapshot(i, start) for i in range(300)]
    assert len(thinned(same)) <= MOST_SNAPSHOTS


def test_names_are_escaped(client: Client, old_snapshot: Snapshot) -> None:
    first = Candidate.objects.filter(arena__slug="support")[0]
    Candidate.objects.filter(pk=first.pk).update(name="<script>'")
    raw = candidate_page(client, old_snapshot)
    assert "<script>" not in raw
    assert "&lt;script&gt;" in raw


def test_votes_with_dates_give_a_new_leaderboard_its_past(client: Client, arena: Arena) -> None:
    end = timezone.now().replace(microsecond=0)
    votes = list(Vote.objects.order_by("pk"))
    for i, vote in enumerate(votes):
        vote.cast_at = end - timedelta(hours=len(votes) - i)
    Vote.objects.bulk_update(votes, ["cast_at"])
    now = publish(arena)
    *past, current = Snapshot.objects.filter(board=now.board_id).order_by("published_at")
    assert current == now
    assert [row.n_votes for row in past] == list(range(2, 24, 2))
    assert {row.is_history for row in past} == {True}
    assert {row.last_vote_id for row in past} <= {vote.pk for vote in votes}
    Snapshot.objects.filter(pk=now.pk).delete()  # as if the first refresh had been killed
    now = publish(arena)
    assert now.board.snapshots.count() == len(past) + 1
    assert len(figure_of(candidate_page(client, now))[0]["at"]) == 12
    assert words(get_page(client, "/a/support/about/")).count("67% 67%") == 3
    counted = Vote.objects.filter(pk__lte=past[-1].last_vote_id)
    for standing in past[-1].standings.all():
        won = Q(outcome="left", comparison__left=standing.candidate_id)
        won |= Q(outcome="right", comparison__right=standing.candidate_id)
        assert standing.wins == counted.filter(won).count()
        assert standing.low is not None


def test_too_many_votes_give_no_past_counting_those_outside_the_scores(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    cast(arena, "both_bad")
    first = Vote.objects.order_by("pk").values("pk")[:1]
    Vote.objects.filter(pk__in=first).update(cast_at=timezone.now() - timedelta(days=9))
    monkeypatch.setattr(refresh, "MOST_PAST_VOTES", 24)
    assert publish(arena).n_votes == 24
    assert not Snapshot.objects.filter(is_current=False).exists()


def test_the_lease_is_renewed_before_each_past_snapshot(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Vote.objects.order_by("pk").values("pk")[:1]
    Vote.objects.filter(pk__in=first).update(cast_at=timezone.now() - timedelta(days=9))
    leased, answer = [], refresh.fit_leaderboard

    def answer_slowly(*values: Any) -> Any:
        lease = ArenaRefresh.objects.filter(arena=arena)
        leased.append(lease.filter(leased_until__gt=timezone.now()).exists())
        lease.update(leased_until=timezone.now())  # as if this took as long as the lease
        return answer(*values)

    monkeypatch.setattr(refresh, "fit_leaderboard", answer_slowly)
    publish(arena)
    n_boards = Board.objects.filter(arena=arena).count()
    assert leased == [True] * (refresh.PAST_SNAPSHOTS - 1 + n_boards)


def test_votes_of_a_quarter_of_an_hour_give_no_past(arena: Arena) -> None:
    first = Vote.objects.order_by("pk").values("pk")[:1]
    Vote.objects.filter(pk__in=first).update(cast_at=timezone.now() - timedelta(minutes=15))
    publish(arena)
    assert not Snapshot.objects.filter(is_current=False).exists()
