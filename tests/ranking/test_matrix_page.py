"""The table of all pairs: the win rate of each."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from django.test import Client

from arena.models import Arena, Candidate, Import, Rater
from ranking import comparison
from ranking.board_data import BoardQuery, find_arena
from ranking.models import BothBad, Snapshot, SnapshotMatrices
from ranking.votes import COUNTS, PairCounts
from tests.factories import make_arena, make_vote
from tests.ranking.helpers import cast, get_page, markup, publish, rank_anyway, words

pytestmark = pytest.mark.django_db
ADDRESS = "/a/support/compare/"


def matrix_page(client: Client, query: str = "", slug: str = "support") -> str:
    return markup(get_page(client, f"/a/{slug}/compare/{query}"))


def rows_of(page: str) -> list[tuple[str, list[str]]]:
    """Each row's name and the words of its cells."""
    body = page.split('class="matrix"')[1].split("<tbody>")[1].split("</tbody>")[0]
    rows = []
    for row in body.split("<tr>")[1:]:
        head, *cells = re.split(r"<td[^>]*>", row)
        words = [" ".join(re.sub(r"<[^>]*>", " ", cell).split()) for cell in cells]
        name = " ".join(re.sub(r"<[^>]*>", " ", head).split())
        rows.append((name, words))
    return rows


@pytest.fixture
def uneven() -> Arena:
    """a beats b 3 to 1, ties b once; b and c trade wins; a and c never met."""
    arena = make_arena(3, 2, slug="support", name="Support answers")
    a, b, c = arena.candidates.order_by("pk")
    for left, right, outcome in (
        (a, b, "left"),
        (b, a, "right"),
        (a, b, "left"),
        (a, b, "right"),
        (a, b, "tie"),
        (b, a, "both_bad"),
        (b, c, "left"),
        (b, c, "left"),
        (c, b, "left"),
    ):
        make_vote(arena, left, right, outcome, arena.prompts.first())
    return arena


def test_a_cell_holds_the_rows_share_and_the_votes_behind_it(client: Client, uneven: Arena) -> None:
    publish(uneven)
    assert rows_of(matrix_page(client))[0][0] == "– candidate-0"  # too few votes for ranks
    rank_anyway(uneven)
    assert rows_of(matrix_page(client)) == [
        ("1 candidate-0", ["itself", "70% of 5", "no votes"]),
        ("2 candidate-1", ["30% of 5", "itself", "67% of 3"]),
        ("3 candidate-2", ["no votes", "33% of 3", "itself"]),
    ]


def test_a_cell_opens_the_comparison_of_the_two(client: Client, uneven: Arena) -> None:
    publish(uneven)
    a, b, _ = (candidate.pk for candidate in uneven.candidates.order_by("pk"))
    link = f"/a/support/compare/?raters=people&a={a}&b={b}"
    page = matrix_page(client)
    assert f'<a href="{link.replace("&", "&amp;")}">70' in page
    assert "1–6 of 6" in client.get(link).content.decode()
    assert len(re.findall(r'<td[^>]*><a href="/a/support/compare/', page)) == 4  # both sides


def test_a_cell_of_a_category_keeps_it(client: Client, arena: Arena, published: Snapshot) -> None:
    a, b, _ = (candidate.pk for candidate in arena.candidates.order_by("pk"))
    page = matrix_page(client, "?category=category-0")
    link = f"/a/support/compare/?raters=people&category=category-0&a={a}&b={b}"
    assert link.replace("&", "&amp;") in page
    assert "of 4" in rows_of(page)[0][1][1]
    assert "1–4 of 4" in client.get(link).content.decode()


def test_both_bad_alone_gives_no_share_but_counts_as_a_meeting(
    client: Client, uneven: Arena
) -> None:
    a, _, c = uneven.candidates.order_by("pk")
    make_vote(uneven, a, c, "both_bad", uneven.prompts.first())
    publish(uneven)
    assert rows_of(matrix_page(client))[0][1][2] == "– both bad"


def test_both_bad_counts_as_a_tie_where_the_board_says_so(client: Client, uneven: Arena) -> None:
    publish(uneven)
    uneven.boards.update(both_bad=BothBad.TIE)
    publish(uneven)
    page = matrix_page(client)
    assert rows_of(page)[0][1][1] == "67% of 6"
    assert "“Both bad” counts as a tie" in page


def test_shades_are_classes_that_few_votes_do_not_reach(client: Client) -> None:
    arena = make_arena(4, 1, slug="support")
    a, b, c, d = arena.candidates.order_by("pk")
    for _ in range(20):
        make_vote(arena, a, b, "left")
    for left, right in ((b, a), (b, c), (c, d), (d, a)):
        make_vote(arena, left, right, "left")
    publish(arena)
    page = matrix_page(client)
    assert re.search(r'class="over-4"><a [^>]*>95%', page)  # 20 of 21
    assert re.search(r'class="over-1"><a [^>]*>100%', page)  # 1 of 1
    assert re.search(r'class="under-1"><a [^>]*>0%', page)
    assert "style=" not in page
    assert "<script>" not in page


def test_it_is_a_table_with_headers_for_both_directions(client: Client, uneven: Arena) -> None:
    publish(uneven)
    page = matrix_page(client)
    page = page.split('class="matrix"')[1]
    assert page.count('<th scope="row"') == 3
    assert page.count('<th scope="col"') == 4
    assert "<caption" in page


def test_the_unranked_stand_last(client: Client, uneven: Arena) -> None:
    lonely = Candidate.objects.create(arena=uneven, name="aaa")
    make_vote(uneven, lonely, uneven.candidates.order_by("pk")[0], "left")
    publish(uneven)
    rank_anyway(uneven)
    assert rows_of(matrix_page(client))[-1] == (
        "– aaa",
        ["100% of 1", *["no votes"] * 2, "itself"],
    )


def test_people_and_judges_have_matrices_of_their_own(
    client: Client, arena: Arena, judge: Rater
) -> None:
    left, right = arena.candidates.order_by("pk")[:2]
    make_vote(arena, left, right, "tie", arena.prompts.first(), judge)
    publish(arena)
    assert "50% of 1" in rows_of(matrix_page(client, "?raters=judges"))[0][1][1]
    assert "of 8" in rows_of(matrix_page(client, "?raters=people"))[0][1][1]


def test_names_are_escaped(client: Client, uneven: Arena) -> None:
    uneven.candidates.update(version=2)
    first = uneven.candidates.order_by("pk")[0]
    Candidate.objects.filter(pk=first.pk).update(name='<script>"x"</script>')
    publish(uneven)
    page = matrix_page(client)
    assert "<script>" not in page
    assert "&lt;script&gt;&quot;x&quot;" in page


def test_it_is_stored(
    client: Client, published: Snapshot, django_assert_num_queries: Callable[..., Any]
) -> None:
    first = client.get(ADDRESS)
    with django_assert_num_queries(1):
        assert client.get(ADDRESS).content == first.content


def test_strangers_cannot_fill_the_store(client: Client, arena: Arena, published: Snapshot) -> None:
    for i in range(4):
        matrix_page(client, f"?utm={i}&sort=-name&show=x{i}&raters=cats")
    assert arena.board_pages.count() == 1


@pytest.mark.slow
def test_a_hundred_candidates_fit_into_a_small_page(client: Client) -> None:
    arena = make_arena(105, 1, slug="large")
    candidates = list(arena.candidates.order_by("pk"))
    snapshot = publish(arena)
    Snapshot.objects.update(n_votes=9_900)
    rank_anyway(arena)
    for i, standing in enumerate(snapshot.standings.order_by("candidate")):
        snapshot.standings.filter(pk=standing.pk).update(score=2000.5 - 7 * i, rank=i + 1)
    _let_all_meet(snapshot.matrices, [candidate.pk for candidate in candidates])
    first = client.get("/a/large/compare/", headers={"Accept-Encoding": "gzip"})
    assert len(first.content) < 60_000
    first_page = matrix_page(client, slug="large")
    assert "Showing the first 30 of 105 candidates" in words(first_page)
    assert len(rows_of(first_page)) == 30
    packed = client.get("/a/large/compare/?rows=all", headers={"Accept-Encoding": "gzip"})
    assert len(packed.content) < 150_000
    page = matrix_page(client, "?rows=all", slug="large")
    assert len(rows_of(page)) == 100
    assert "Showing the first 100 of 105 candidates" in page
    assert len(re.findall(r'&amp;b=\d+">\d+%<small>of \d+', page)) == 9_900


def _let_all_meet(matrices: SnapshotMatrices, ids: list[int]) -> None:
    first, second = np.triu_indices(len(ids), 1)
    counts = np.zeros((len(first), len(COUNTS)), np.int64)
    counts[:, :3] = np.random.default_rng(1).integers(1, 90, (len(first), 3))
    matrices.cells = PairCounts(np.array(ids)[first], np.array(ids)[second], counts).pack()
    matrices.save()


@pytest.mark.parametrize(
    ("n_candidates", "sentence"),
    [(0, "this leaderboard has 0"), (1, "this leaderboard has 1"), (3, "No votes yet: nobody has")],
)
def test_an_arena_without_votes_has_a_clear_page(
    client: Client, n_candidates: int, sentence: str
) -> None:
    publish(make_arena(n_candidates, slug="empty"))
    assert sentence in matrix_page(client, slug="empty")


def test_page_says_when_board_or_matrices_are_missing(client: Client, arena: Arena) -> None:
    assert "The first leaderboard is being computed" in matrix_page(client)
    publish(arena)
    SnapshotMatrices.objects.all().delete()
    assert "still being counted" in matrix_page(client)
    assert client.get(ADDRESS + "?category=no-such").status_code == 404


def test_an_arena_that_is_hidden_or_not_there_has_none(client: Client, arena: Arena) -> None:
    from django.utils import timezone

    publish(arena)
    arena.founded_by = Import.objects.create(
        arena=arena, file_name="f", sha256="0" * 64, format="pairs", started_at=timezone.now()
    )
    arena.save()
    for name in ("matrix", "compare", "history"):
        assert client.get(f"/a/support/{name}/").status_code == 404
        assert client.get(f"/a/nowhere/{name}/").status_code == 404
        assert client.post(f"/a/support/{name}/").status_code == 405


def test_a_long_name_shows_its_end_and_is_read_aloud_whole(client: Client, uneven: Arena) -> None:
    first = uneven.candidates.order_by("pk")[0]
    Candidate.objects.filter(pk=first.pk).update(name="gpt-3.5-turbo-1106_very_concise")
    publish(uneven)
    page = matrix_page(client)
    assert page.count('<b aria-hidden="true">gpt-3.5-tu…ery_concise</b>') == 2
    assert page.count("<i>gpt-3.5-turbo-1106_very_concise</i>") == 2


def test_a_snapshot_replaced_while_it_is_read_is_read_again(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(arena)
    cast(arena)
    publish(arena)  # not kept as history
    original, calls = comparison.standings_with_candidates, []

    def replaced_first(snapshots: Any) -> Any:
        calls.append(snapshots)
        if len(calls) == 1:
            cast(arena)
            publish(arena)
        return original(snapshots)

    monkeypatch.setattr(comparison, "standings_with_candidates", replaced_first)
    board = comparison.read_published(find_arena("support"), BoardQuery())
    assert len(calls) == 2
    assert board.snapshot is not None
    assert (board.snapshot.n_votes, len(board.standings)) == (26, 3)
