"""The history of scores: a chart, the same as a table, and which candidates they show."""

import re
from collections.abc import Callable
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
from ranking.views.charts import ScoreAt, Series, bump_chart
from ranking.views.history import MOST_SNAPSHOTS, PastSnapshot, thinned
from tests.factories import make_arena
from tests.ranking.helpers import cast, get_page, make_past, markup, publish, rank_anyway, words

pytestmark = pytest.mark.django_db


def history_page(client: Client, query: str = "", slug: str = "support") -> str:
    return get_page(client, f"/a/{slug}/history/{query}")


def rows_of(page: str) -> list[str]:
    body = page.split("<tbody>")[1].split("</tbody>")[0]
    return [words(row) for row in body.split("</tr>")[:-1]]


def scores_of(page: str) -> str:
    """The page without the chart of ranks."""
    return page.split("<h2>Scores</h2>")[-1]


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


def test_a_line_per_candidate_and_the_same_numbers_as_a_table(
    client: Client, old_snapshot: Snapshot
) -> None:
    page = history_page(client)
    assert len(re.findall(r'<polyline class="line line-\d"', scores_of(page))) == 3
    standings = list(old_snapshot.standings.order_by("rank", "candidate__name"))
    now, before = rows_of(page)
    assert now.startswith("2 Mar 2026, 12:30 UTC 24")
    assert before.startswith("1 Mar 2026, 12:30 UTC 11")
    for standing in standings:
        assert f" {standing.score:.0f}" in now
        assert f" {standing.score - 40:.0f}" in before
    top = standings[0]
    says = f"{top.candidate}: from {top.score - 40:.0f} to {top.score:.0f}."
    assert says in words(page)
    assert "The table below shows the same numbers." in page


def test_lines_differ_by_dashes_and_are_named_where_they_end(
    client: Client, old_snapshot: Snapshot
) -> None:
    page = history_page(client)
    labels = page.split('class="history-labels"')[1].split("</svg>")[0]
    assert re.findall(r"line-(\d)", labels) == ["0", "1", "2"]
    assert [f"candidate-{i}" in labels for i in range(3)] == [True] * 3
    assert "style=" not in page
    assert "<script>" not in page


def test_only_a_single_candidate_has_a_band(client: Client, old_snapshot: Snapshot) -> None:
    first = old_snapshot.standings.order_by("rank").first()
    assert first is not None
    assert "<polygon" not in history_page(client)
    page = history_page(client, f"?candidate={first.candidate_id}")
    assert page.count('<polygon class="band"') == 1
    assert scores_of(page).count("<polyline") == 1
    assert "The band is the 95 % interval." in page
    assert f"{first.low:.0f}–{first.high:.0f}" in rows_of(page)[0]


def test_candidates_are_chosen_in_the_address(client: Client, old_snapshot: Snapshot) -> None:
    a, b, c = (s.candidate_id for s in old_snapshot.standings.order_by("candidate"))
    page = history_page(
        client, f"?candidate={a}&candidate={c}&candidate={a}&candidate=x&candidate=²"
    )
    assert scores_of(page).count("<polyline") == 2
    assert set(re.findall(r'value="(\d+)"\s+checked', page)) == {str(a), str(c)}
    assert f'value="{b}">' in markup(page)
    for nobody in ("?candidate=999999", f"?candidate={10**30}", "?candidate=", "?candidate=-1"):
        assert scores_of(history_page(client, nobody)).count("<polyline") == 3


def test_the_first_ten_by_score_are_shown(client: Client) -> None:
    arena = make_arena(13, 1, slug="support")
    snapshot = publish(arena)
    for i, standing in enumerate(snapshot.standings.order_by("-candidate")):
        snapshot.standings.filter(pk=standing.pk).update(score=1200 - i, rank=i + 1)
    make_past(snapshot, 1)
    assert "Collecting votes: 0 so far." in history_page(client)
    rank_anyway(arena)
    page = history_page(client)
    assert scores_of(page).count("<polyline") == 10
    assert page.count(" checked") == 10
    assert "candidate-12" in page.split("<thead>")[1].split("</thead>")[0]
    assert "candidate-2<" not in page.split("<thead>")[1].split("</thead>")[0]
    everybody = "&".join(f"candidate={c.pk}" for c in arena.candidates.all())
    many = history_page(client, f"?{everybody}")
    assert scores_of(many).count("<polyline") == 10
    assert "at most 10 candidates" in many
    assert "at most 10 candidates" not in page


def test_no_score_leaves_a_gap(client: Client, old_snapshot: Snapshot) -> None:
    for hours in (12, 6, 3):
        make_past(old_snapshot, hours)
    gap = Snapshot.objects.get(published_at=old_snapshot.published_at - timedelta(hours=12))
    first = old_snapshot.standings.order_by("candidate")[0].candidate_id
    gap.standings.filter(candidate=first).update(score=None, rank=None, low=None, high=None)
    page = history_page(client, f"?candidate={first}")
    assert scores_of(page).count("<polyline") == 2
    assert page.count("<polygon") == 2
    assert "no score" in rows_of(page)[3]


def test_one_snapshot_is_no_history_yet(client: Client, published: Snapshot) -> None:
    page = history_page(client)
    assert "Only one snapshot so far" in page
    assert "<polyline" not in page
    assert len(rows_of(page)) == 1


def test_only_kept_snapshots_and_the_current_one_count(
    client: Client, old_snapshot: Snapshot
) -> None:
    make_past(old_snapshot, 2, is_history=False)
    other = old_snapshot.board.arena.boards.get(category="category-0").snapshots.get()
    make_past(other, 5)
    rank_anyway(other.board.arena)
    assert len(rows_of(history_page(client))) == 2
    assert len(rows_of(history_page(client, "?category=category-0"))) == 2


def test_many_snapshots_are_thinned_at_even_times() -> None:
    start = timezone.now()
    past = [PastSnapshot(i, start + timedelta(minutes=10 * i), i, "") for i in range(2_000)]
    kept = thinned(past)
    assert len(kept) <= MOST_SNAPSHOTS
    assert len(kept) > MOST_SNAPSHOTS * 0.9
    assert (kept[0], kept[-1]) == (past[0], past[-1])
    assert [p.pk for p in kept] == sorted({p.pk for p in kept})
    steps = [b.published_at - a.published_at for a, b in pairwise(kept)]
    assert max(steps) < timedelta(minutes=10 * 2_000 / MOST_SNAPSHOTS * 2.1)
    assert thinned(past[:5]) == past[:5]
    same = [PastSnapshot(i, start, i, "") for i in range(300)]
    assert len(thinned(same)) <= MOST_SNAPSHOTS


def test_thinning_is_reported(
    client: Client, arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ranking.views.history.MOST_SNAPSHOTS", 4)
    snapshot = publish(arena)
    for hours in range(1, 9):
        make_past(snapshot, hours)
    assert "Showing 4 of 9 snapshots" in words(history_page(client))


def test_names_are_escaped(client: Client, old_snapshot: Snapshot) -> None:
    first = Candidate.objects.filter(arena__slug="support")[0]
    Candidate.objects.filter(pk=first.pk).update(name="<script>'")
    raw = client.get("/a/support/history/?candidate=0").content.decode()
    assert "<script>" not in raw
    assert "&lt;script&gt;" in raw


def test_a_new_page_takes_few_queries_and_a_stored_one_takes_one(
    client: Client,
    old_snapshot: Snapshot,
    django_assert_num_queries: Callable[..., Any],
    django_assert_max_num_queries: Callable[..., Any],
) -> None:
    for hours in range(1, 9):
        make_past(old_snapshot, hours)
    with django_assert_max_num_queries(8):
        first = client.get("/a/support/history/")
    with django_assert_num_queries(1):
        second = client.get("/a/support/history/")
    assert first.content == second.content
    pk = old_snapshot.standings.all()[0].candidate_id
    with django_assert_max_num_queries(8):
        client.get(f"/a/support/history/?candidate={pk}")
    assert old_snapshot.board.arena.board_pages.count() == 1  # no choice of a stranger's is stored
    again = client.get("/a/support/history/", headers={"If-None-Match": first["ETag"]})
    assert again.status_code == 304
    cast(old_snapshot.board.arena)
    publish(old_snapshot.board.arena)
    changed = client.get("/a/support/history/", headers={"If-None-Match": first["ETag"]})
    assert changed.status_code == 200


@pytest.mark.parametrize("n_candidates", [0, 1, 3])
def test_without_scores_the_page_says_so(client: Client, n_candidates: int) -> None:
    publish(make_arena(n_candidates, slug="empty"))
    assert "No candidate has a score on this leaderboard yet." in history_page(client, slug="empty")


def test_before_the_first_board_the_page_says_so(client: Client, arena: Arena) -> None:
    assert "The first leaderboard is being computed" in history_page(client)
    publish(arena)
    assert "No LLM-judge votes here yet." in history_page(client, "?raters=judges")
    assert client.get("/a/support/history/?category=no-such").status_code == 404
    pk = arena.candidates.all()[0].pk
    missing = client.get(f"/a/support/history/?category=no-such&candidate={pk}")
    assert missing.status_code == 404


def test_a_candidates_page_shows_its_history_and_leads_to_it(
    client: Client, old_snapshot: Snapshot, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    pk = old_snapshot.standings.all()[0].candidate_id
    with django_assert_max_num_queries(14):
        page = client.get(f"/a/support/candidates/{pk}/").content.decode()
    assert f'href="/a/support/history/?raters=people&amp;candidate={pk}"' in page
    assert "Score history: People, all prompts" in page
    assert page.count("<polyline") == page.count("<polygon") == 1
    assert "css/history" in page


def test_a_candidates_page_without_a_history_has_no_chart(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    pk = arena.candidates.all()[0].pk
    page = client.get(f"/a/support/candidates/{pk}/").content.decode()
    assert "<polyline" not in page
    assert "css/history" not in page
    assert "Score history" in page


def test_ranks_of_a_few_are_named_and_the_rest_is_grey(client: Client) -> None:
    arena = make_arena(12, 2, slug="support")
    snapshot = publish(arena)
    standings = list(snapshot.standings.order_by("candidate"))
    for i, standing in enumerate(standings):
        standing.rank, standing.score = i + 1, 1100.0 - 10 * i
    snapshot.standings.bulk_update(standings, ["rank", "score"])
    make_past(snapshot, 5)
    rank_anyway(arena)
    page = history_page(client)
    ranks = page.split("<h2>Ranks</h2>")[1].split("</figure>")[0]
    assert ranks.count('class="line line-rest" points=') == 7
    assert len(re.findall(r'class="line line-\d" points=', ranks)) == 5
    assert "candidate-0: from 1 to 1." in words(ranks)
    assert "candidate-5" not in ranks
    last = standings[-1].candidate_id
    chosen = history_page(client, f"?candidate={last}").split("<h2>Scores</h2>")[0]
    assert "candidate-11: from 12 to 12." in words(chosen)
    assert chosen.count('class="line line-rest" points=') == 11


def test_the_first_rank_is_at_the_top() -> None:
    now = timezone.now()
    moments = [(now - timedelta(hours=1), now)]
    up, down = (
        Series(name, [ScoreAt(at, rank) for at, rank in zip(moments[0], ranks, strict=True)])
        for name, ranks in (("up", (3, 1)), ("down", (1, 3)))
    )
    chart = bump_chart([up], [down])
    assert chart is not None
    grey, line = chart.lines
    heights = [float(point.split(",")[1]) for point in line.pieces[0].split()]
    assert heights[0] > heights[1]
    assert (grey.style, grey.full, line.full) == ("rest", "", "up")
    assert [row.label for row in chart.rows] == ["1", "2", "3"]
    assert bump_chart([up], []) is not None
    assert bump_chart([], [down]) is None


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
    page = history_page(client)
    assert "computed afterwards, from the dates of the votes." in words(page)
    assert len(rows_of(page)) == 12
    assert words(get_page(client, "/a/support/entries/")).count("67 % 67 %") == 3
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
