"""A board's page: what it says, how it is stored and sent, and what it survives."""

import gzip
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import OperationalError
from django.db.models import QuerySet
from django.test import Client
from django.utils import timezone

from arena.models import Arena, Candidate, Import, Rater, Response, Run, Team
from arena.services.arenas import create_arena
from ranking import board_data
from ranking.models import BoardPage, Snapshot
from ranking.services import elo as elo_service
from ranking.services import leases
from tests.factories import make_arena, make_team, make_vote
from tests.ranking.helpers import cast, fill, make_voted_arena, markup, publish, rank_anyway, words

pytestmark = pytest.mark.django_db


def test_board_shows_standings_intervals_and_votes(client: Client, published: Snapshot) -> None:
    page = client.get("/a/support/").text
    assert "Support answers" in page
    assert "Which answer helps more?" in page
    assert "24 blind votes 1 rater 8 prompts" in words(page)
    assert page.count("<circle") == 3  # one in each row
    assert "one rater is too few to say what others would prefer." in words(page)
    assert "/a/support/vote/" in page


def test_stored_page_costs_one_query_and_new_one_up_to_eleven(
    client: Client,
    arena: Arena,
    published: Snapshot,
    django_assert_num_queries: Callable[..., Any],
    django_assert_max_num_queries: Callable[..., Any],
) -> None:
    elo_service.add_intervals(arena_id=arena.pk, now=timezone.now())
    cast(arena)
    publish(arena)  # its Elo intervals are lent by the snapshot before
    with django_assert_max_num_queries(11):
        first = client.get("/a/support/")
    with django_assert_num_queries(1):
        second = client.get("/a/support/")
    assert first.content == second.content
    assert "include the first 24 of these votes" in first.text


@pytest.mark.parametrize("path", ["/", "/a/support/", "/a/support/results.csv"])
def test_a_page_that_cannot_be_stored_is_sent(
    path: str, client: Client, arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OperationalError("No space left on device")

    publish(arena)
    monkeypatch.setattr(QuerySet, "bulk_create", refuse)
    assert client.get(path).status_code == 200


@pytest.mark.parametrize("name", ["", "results.csv", "results.json"])
def test_a_reader_with_the_page_gets_304(
    client: Client, arena: Arena, published: Snapshot, name: str
) -> None:
    first = client.get(f"/a/support/{name}")
    again = client.get(f"/a/support/{name}", headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again["ETag"] == first["ETag"]
    cast(arena)
    publish(arena)
    changed = client.get(f"/a/support/{name}", headers={"If-None-Match": first["ETag"]})
    assert changed.status_code == 200


def test_a_page_is_sent_compressed_to_those_who_take_it(
    client: Client, published: Snapshot
) -> None:
    plain = client.get("/a/support/")
    packed = client.get("/a/support/", headers={"Accept-Encoding": "br, gzip"})
    refused = client.get("/a/support/", headers={"Accept-Encoding": "gzip;q=0, br"})
    assert packed["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content == refused.content
    assert "Content-Encoding" not in plain
    assert "Accept-Encoding" in packed["Vary"]


def test_a_page_made_from_older_numbers_is_never_served(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    client.get("/a/support/")
    stale = BoardPage.objects.get(arena=arena, key="html||rank|")
    cast(arena)
    publish(arena)
    stale.pk = None
    stale.save()  # as if it had been stored after the newer snapshot was published
    assert "25 blind votes" in words(client.get("/a/support/").text)


def test_a_renamed_arena_shows_its_new_name(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    client.get("/a/support/")
    arena.name = "Help desk"
    arena.save()
    assert "Help desk" in client.get("/a/support/").text


def test_strangers_cannot_fill_the_store(client: Client, published: Snapshot) -> None:
    for i in range(5):
        assert client.get(f"/a/support/?utm={i}&sort=x{i}&raters=cat{i}").status_code == 200
        assert client.get(f"/a/support/?category=no-such-{i}").status_code == 404
    assert client.get("/a/support/?category=%00").status_code == 200
    assert BoardPage.objects.count() == 1


def test_a_board_is_sorted_by_the_column_that_was_requested(
    client: Client, published: Snapshot
) -> None:
    down = client.get("/a/support/results.json?sort=votes").json()["standings"]
    by_name = client.get("/a/support/results.json?sort=-name").json()["standings"]
    assert [row["votes"] for row in down] == sorted((row["votes"] for row in down), reverse=True)
    assert [row["candidate"] for row in by_name] == ["candidate-2", "candidate-1", "candidate-0"]
    page = client.get("/a/support/?sort=-name").text
    assert rows_of(page) == ["candidate-2", "candidate-1", "candidate-0"]
    assert 'href="/a/support/?raters=people&amp;sort=votes"' in page


def test_people_and_judges_have_boards_of_their_own(
    client: Client, arena: Arena, judge: Rater
) -> None:
    left, right = arena.candidates.all()[:2]
    make_vote(arena, left, right, "tie", arena.prompts.first(), judge)
    publish(arena)
    assert client.get("/a/support/results.json").json()["raters"] == "people"
    judged = client.get("/a/support/results.json?raters=judges").json()
    assert (judged["n_votes"], judged["interval_reason"]) == (1, "Every vote so far is a tie.")
    assert " 1 judge " in words(client.get("/a/support/?raters=judges").text)


def test_the_board_with_votes_comes_first(client: Client, judge: Rater) -> None:
    arena = make_arena(slug="judged")
    left, right = arena.candidates.all()[:2]
    make_vote(arena, left, right, "left", None, judge)
    publish(arena)
    assert client.get("/a/judged/results.json").json()["raters"] == "judges"


def test_a_category_has_its_own_standings(client: Client, published: Snapshot) -> None:
    found = client.get("/a/support/results.json?category=category-1").json()
    assert (found["category"], found["n_votes"]) == ("category-1", 12)
    assert "Category category-1 ( all )" in words(
        client.get("/a/support/?category=category-1").text
    )


HOSTILE = '<script>alert("1")</script>\'"&{{ 7 }}'


def test_hostile_names_reach_the_page_as_text(client: Client) -> None:
    arena = make_arena(slug="hostile", name=HOSTILE, question=HOSTILE, description=HOSTILE)
    for candidate in arena.candidates.all():
        Candidate.objects.filter(pk=candidate.pk).update(name=f"={HOSTILE}{candidate.pk}")
    arena.prompts.update(category=HOSTILE)
    cast(arena)
    cast(arena, "right")
    publish(arena)
    for address in ("/", "/a/hostile/"):
        page = client.get(address).text
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in page
    lines = client.get("/a/hostile/results.csv").text.splitlines()
    assert lines[1].startswith("\"'=<script>")
    names = [row["candidate"] for row in client.get("/a/hostile/results.json").json()["standings"]]
    assert names[0].startswith(f"={HOSTILE}")


def test_no_page_has_inline_styles_or_scripts(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    candidate = arena.candidates.first()
    vote = arena.votes.first()
    for address in (
        "/",
        "/a/support/",
        f"/a/support/candidates/{candidate.pk}/",
        f"/a/support/comparisons/{vote.comparison.key}/",
    ):
        page = client.get(address).text
        assert " style=" not in page
        assert "<style" not in page
        assert " onclick=" not in page
        assert page.count("<script") == page.count("<script src=") + page.count(
            "<script defer src="
        )


def test_only_the_board_lets_plotly_style_itself(client: Client, published: Snapshot) -> None:
    assert "style-src 'self' 'sha256-" in client.get("/a/support/")["Content-Security-Policy"]
    assert "style-src" not in client.get("/")["Content-Security-Policy"]


def test_the_board_of_a_team_leads_its_members_to_their_workspace(client: Client) -> None:
    arenas = [create_arena(slug=slug, name=slug) for slug in ("ours", "nobodys")]
    team = Team.objects.create(slug="acme", name="Acme")
    Arena.objects.filter(slug="ours").update(team=team)
    for arena in arenas:
        publish(arena)
    administered = '<p class="for-signed-in"><a href="/a/nobodys/manage/">Manage this arena</a>'
    assert administered in markup(client.get("/a/nobodys/").text)
    assert 'href="/a/ours/manage/">Manage this arena</a>' in client.get("/a/ours/").text


def test_a_candidate_with_few_votes_has_a_score_and_no_range(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    assert "A score without an interval" not in client.get("/a/support/").text
    first = arena.candidates.order_by("pk").first()
    new = Candidate.objects.create(arena=arena, name="newcomer")
    voter = arena.votes.all()[0].rater
    for outcome in ("left", "right", "left"):
        make_vote(arena, new, first, outcome, arena.prompts.first(), voter)
    publish(arena)
    page = client.get("/a/support/").text
    assert "A score without an interval" in page
    row = next(row for row in page.split("<tr") if "newcomer" in row and '<td class="rank"' in row)
    assert '<span class="range">any</span>' in markup(row)


def test_an_empty_arena_is_not_said_to_have_come_without_texts(client: Client) -> None:
    publish(create_arena(slug="new", name="New"))
    for page in (client.get("/a/new/").text, client.get("/").text):
        assert "Voting is not open yet" in page
        assert "Results only" not in page


def test_an_arena_without_texts_says_that_nobody_can_vote(client: Client) -> None:
    arena = create_arena(slug="old-votes", name="Old votes")
    left, right = (Candidate.objects.create(arena=arena, name=name) for name in "ab")
    make_vote(arena, left, right, "left")
    publish(arena)
    page = client.get("/a/old-votes/").text
    assert "Results only" in page
    assert "/vote/" not in page
    assert "Never lost or tied" in page
    assert "Never won or tied" in page


@pytest.mark.parametrize(
    ("n_candidates", "sentence"),
    [
        (0, "This arena has no candidates yet."),
        (1, "A ranking needs at least two."),
        (3, "Collecting votes: 0 so far."),
    ],
)
def test_an_arena_without_votes_has_a_clear_page(
    client: Client, n_candidates: int, sentence: str
) -> None:
    publish(make_arena(n_candidates=n_candidates, slug="empty"))
    response = client.get("/a/empty/")
    assert response.status_code == 200
    assert sentence in response.text
    assert ("Voting is not open yet" in response.text) == (n_candidates < 2)
    assert ("<strong>Collecting votes" in response.text) == (n_candidates > 1)


def test_an_arena_whose_first_board_is_being_made_says_so(client: Client) -> None:
    make_arena(slug="new")
    page = client.get("/a/new/").text
    assert "The first leaderboard is being computed" in page
    assert "candidate-1" in page
    assert client.get("/a/new/results.json").json()["n_votes"] is None
    assert client.get("/a/new/?category=x").status_code == 404


def test_disjoint_pools_are_not_ranked_against_each_other(client: Client) -> None:
    arena = make_arena(n_candidates=5, slug="pools")
    a, b, c, d, e = arena.candidates.order_by("pk")
    for left, right in ((a, b), (b, c), (c, a), (d, e), (e, d)):
        make_vote(arena, left, right, "left")
    publish(arena)
    page = client.get("/a/pools/").text
    assert page.count("No chain of results connects them with the others in both directions.") == 1
    assert page.index("Not connected to the rest") < page.index(f"candidates/{d.pk}/")


def test_a_board_of_a_hidden_import_is_not_found(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    arena.founded_by = Import.objects.create(
        arena=arena, file_name="f", sha256="0" * 64, format="pairs", started_at=timezone.now()
    )
    arena.save()
    assert client.get("/a/support/").status_code == 404
    assert "Support answers" not in client.get("/").text


def test_newest_votes_that_failed_the_check_are_announced(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    published.board.problem = "choix differs by 3 Elo"
    published.board.save()
    leases.drop_pages(arena_id=arena.pk)
    page = client.get("/a/support/").text
    assert "administrators have been notified" in words(page)
    assert "choix differs by" not in page


def test_the_first_load_is_small(client: Client) -> None:
    snapshot = publish(make_arena(n_candidates=60, n_prompts=1, slug="large"))
    for i, standing in enumerate(snapshot.standings.all()):
        scored = {"rank": i + 1, "score": 1234.5 - i, "low": 1200.7 - i, "high": 1260.2 - i}
        snapshot.standings.filter(pk=standing.pk).update(rank_low=i, rank_high=i + 9, **scored)
    packed = client.get("/a/large/", headers={"Accept-Encoding": "gzip"})
    files = ("css/base.css", "css/board.css", "js/page.js", "js/board.js")
    sent = [gzip.compress((settings.BASE_DIR / "static" / name).read_bytes()) for name in files]
    assert len(packed.content) + sum(map(len, sent)) < 30_000


def test_writing_to_a_board_is_refused(client: Client, published: Snapshot) -> None:
    assert client.post("/a/support/").status_code == 405
    assert client.head("/a/support/").status_code == 200


def test_the_index_names_the_leader_and_how_certain_that_is(
    client: Client, published: Snapshot
) -> None:
    make_arena(name="Nobody here")
    page = client.get("/").text
    leader = Snapshot.objects.current().get(board__category="").standings.get(rank=1)
    assert str(leader.candidate) in page
    assert "No clear leader yet." in page
    assert "24 human votes" in page
    assert "The first leaderboard is being computed." in page


def test_the_index_without_arenas_says_how_to_make_one(client: Client) -> None:
    assert "No arenas yet." in client.get("/").text


def test_a_judges_board_names_its_judges_and_leads_to_their_runs(
    client: Client, arena: Arena, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    judge = Rater.objects.create(kind=Rater.Kind.JUDGE, name="the <b>strict</b> one")
    Run.objects.create(arena=arena, kind=Rater.Kind.JUDGE, per_pair=1)
    for _ in range(2):
        cast(arena, rater=judge)
        publish(arena)
        elo_service.add_intervals(arena_id=arena.pk, now=timezone.now())
    cast(arena, rater=judge)
    publish(arena)
    with django_assert_max_num_queries(10):
        page = client.get("/a/support/?raters=judges").text
    assert "Judge: the &lt;b&gt;strict&lt;/b&gt; one." in page
    assert 'href="/a/support/runs/"' in page
    assert "/runs/" not in client.get("/a/support/?raters=people").text


def test_a_snapshot_replaced_while_it_is_read_is_read_again(
    client: Client, arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(arena)
    cast(arena)
    publish(arena)  # not history: it goes when the next one comes
    real = board_data.choose_snapshot

    def choose_and_lose(*arguments: Any) -> Any:
        chosen = real(*arguments)
        monkeypatch.setattr(board_data, "choose_snapshot", real)
        cast(arena)
        publish(arena)
        return chosen

    monkeypatch.setattr(board_data, "choose_snapshot", choose_and_lose)
    assert "26 blind votes" in words(client.get("/a/support/").text)
    assert not BoardPage.objects.fresh("support", "html||rank|").exists()  # its epoch is over


def test_an_empty_board_costs_no_more_than_nine_queries(
    client: Client, django_assert_max_num_queries: Any
) -> None:
    publish(make_arena(n_candidates=0, slug="empty"))
    with django_assert_max_num_queries(9):
        client.get("/a/empty/")


def test_a_new_release_renders_every_page_again(client: Client, published: Snapshot) -> None:
    client.get("/a/support/")
    assert BoardPage.objects.exists()
    call_command("migrate", verbosity=0)
    assert not BoardPage.objects.exists()


@pytest.fixture
def long_arena(client: Client) -> Arena:
    """120 ranked candidates, the first of which scores highest."""
    arena = make_arena(n_candidates=120, n_prompts=1, slug="long")
    snapshot = publish(arena)
    standings = list(snapshot.standings.order_by("candidate"))
    for i, standing in enumerate(standings):
        standing.rank, standing.score = i + 1, 1500.0 - 5 * i
        standing.low, standing.high = standing.score - 40, standing.score + 40
    snapshot.standings.bulk_update(standings, ["rank", "score", "low", "high"])
    rank_anyway(arena)
    return arena


def rows_of(page: str) -> list[str]:
    """The names in the table, from the top."""
    names = re.findall(r'<th scope="row" class="name">.*?<a [^>]+>(.*?)</a>', markup(page), re.S)
    return [re.sub("<[^>]*>", "", name) for name in names]


def test_a_long_table_shows_a_hundred_and_the_rest_on_request(
    client: Client, long_arena: Arena
) -> None:
    page = client.get("/a/long/").text
    assert len(rows_of(page)) == 100
    assert "Show 20 more candidates" in words(page)
    assert page.count("<") / 2 < 3000  # elements: those without a closing tag count half
    assert len(rows_of(client.get("/a/long/?rows=all").text)) == 120


def test_a_search_keeps_true_ranks_and_says_how_many_match(
    client: Client, long_arena: Arena
) -> None:
    page = client.get("/a/long/?q=ATE-117&sort=name").text
    standings = client.get("/a/long/results.json").json()["standings"]
    assert rows_of(page) == ["candidate-117"]
    assert [one["rank"] for one in standings if one["candidate"] == "candidate-117"] == [118]
    assert "1 of 120 candidates match “ATE-117”." in words(page)
    assert not BoardPage.objects.filter(key__contains="117").exists()
    none = client.get("/a/long/?q=<script>").text
    assert "0 of 120 candidates match “&lt;script&gt;”." in none


@pytest.fixture
def described_arena(client: Client) -> Arena:
    """Three candidates of two organisations, one undisclosed; the first of a team."""
    arena = make_voted_arena()
    own, other, hidden = arena.candidates.order_by("pk")
    about = {"organisation": "Ours & Co", "licence": "MIT", "link": "https://example.org/a"}
    Candidate.objects.filter(pk=own.pk).update(team=make_team(name="Us"), **about)
    Candidate.objects.filter(pk=other.pk).update(organisation="Theirs", licence="MIT")
    Candidate.objects.filter(pk=hidden.pk).update(
        organisation="Hidden Labs", licence="Secret", disclosed_at=None, private_until_votes=9999
    )
    for candidate, cost in ((own, 2_000_000), (other, 9_000_000)):
        Response.objects.filter(candidate=candidate).update(
            cost=cost
        )  # $2 and $9 for 1,000 answers
    publish(arena)
    rank_anyway(arena)
    return arena


@pytest.mark.parametrize(
    ("query", "kept", "said"),
    [
        ("q=theirs", [1], "1 of 3 candidates match “theirs”."),
        ("organisation=Theirs", [1], "1 of 3 candidates match “Theirs”."),  # of older addresses
        ("licence=MIT", [0, 1], "2 of 3 candidates match “MIT”."),
        ("organisation=Hidden+Labs", [], "0 of 3 candidates match “Hidden Labs”."),
        ("q=hidden", [], "0 of 3 candidates match “hidden”."),
        ("price=2.5&team=own", [0, 1, 2], ""),
    ],
)
def test_the_table_is_searched_by_the_address(
    client: Client, described_arena: Arena, query: str, kept: list[int], said: str
) -> None:
    page = client.get(f"/a/support/?{query}").text
    candidates = list(described_arena.candidates.order_by("pk"))
    assert sorted(rows_of(page)) == sorted(str(candidates[i]) for i in kept)
    assert said in words(page)
    assert "Secret" not in page
    assert BoardPage.objects.filter(key__startswith="html").count() == (
        query == "price=2.5&team=own"
    )


def test_a_row_has_the_monogram_of_an_organisation(client: Client, described_arena: Arena) -> None:
    page = client.get("/a/support/").text
    assert 'title="Ours &amp; Co"' in page
    assert ">OC<" in markup(page)
    assert "Hidden Labs" not in page
    rows = client.get("/a/support/results.json").json()["standings"]
    assert {row["organisation"] for row in rows} == {"Ours & Co", "Theirs", None}
    assert "Hidden Labs" not in client.get("/a/support/results.csv").text


def headings_of(page: str) -> list[str]:
    return [words(one) for one in re.findall(r'<th\s+scope="col".*?</th>', page, re.DOTALL)]


def test_sets_of_columns_are_chosen_by_the_address_and_kept_by_its_links(
    client: Client, published: Snapshot
) -> None:
    page = client.get("/a/support/?columns=details").text
    assert headings_of(page)[4:6] == ["Elo", "Both bad"]
    assert 'href="/a/support/?raters=people&amp;sort=name&amp;columns=details"' in page
    assert headings_of(client.get("/a/support/?columns=elo,nonsense").text)[4] == "Elo"
    page = client.get("/a/support/?columns=categories").text
    assert headings_of(page) == ["Rank", "Candidate", "category-0", "category-1"]
    assert 'href="/a/support/?raters=people&amp;category=category-1"' in page
    assert headings_of(client.get("/a/support/?columns=nonsense").text)[-1] == "Votes"


def test_a_category_s_ranks_are_shaded_by_the_lowest_possible_one(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    of_category = Snapshot.objects.current().get(
        board__arena=arena, board__raters="people", board__category="category-1"
    )
    ranges = ((1, 1), (1, 3), (2, 3))
    standings = list(of_category.standings.order_by("rank", "candidate"))
    for standing, (low, high) in zip(standings, ranges, strict=True):
        standing.sure_rank_low, standing.sure_rank_high = low, high
        standing.save()
    leases.drop_pages(arena_id=arena.pk)
    rank_anyway(arena)
    page = markup(client.get("/a/support/?columns=categories").text)
    cells = set(re.findall(r'(shade-\d)"\s*data-title="category-1"\s*>([^<]+)', page))
    assert cells == {("shade-5", "1"), ("shade-0", "1–3"), ("shade-0", "2–3")}


def test_a_reason_named_by_too_few_is_no_column(client: Client, published: Snapshot) -> None:
    assert "Reasons" not in words(client.get("/a/support/").text)


def test_the_rows_before_the_table_are_few(client: Client, long_arena: Arena) -> None:
    """At most twelve controls that are in sight, and 120 words."""
    page = client.get("/a/long/").text
    before = page[page.index("<main") : page.index("<tbody")]
    before = re.sub(r'<div class="menu-list.*?</details>', "", before, flags=re.DOTALL)
    before = re.sub(r'<span class="visually-hidden.*?</span>', "", before, flags=re.DOTALL)
    assert len(re.findall(r"<(?:a|summary|input|button|select)[ >]", before)) <= 12
    assert len(words(before).split()) <= 120


def test_long_names_keep_their_end(client: Client, arena: Arena) -> None:
    name = "a-model-with-a-very-long-name-2026-11-29"
    Candidate.objects.filter(pk=arena.candidates.earliest("pk").pk).update(name=name)
    publish(arena)
    page = markup(client.get("/a/support/").text)
    assert f"<span>{name[:-8]}</span>{name[-8:]}</a>" in page
    assert name in rows_of(page)


def test_doors_that_lead_nowhere_are_not_shown(client: Client, arena: Arena, judge: Rater) -> None:
    """Without a trusted judge, the combined leaderboard is the human one again."""
    fill(arena, rounds=1, rater=judge)
    publish(arena)
    page = client.get("/a/support/").text
    assert "raters=judges" in page
    assert "raters=combined" not in page
    assert "raters=combined" in client.get("/a/support/?raters=combined").text
    arena.votes.filter(rater=judge).delete()
    publish(arena)
    assert "raters=judges" not in client.get("/a/support/").text


def test_it_is_told_in_french(client: Client, published: Snapshot) -> None:
    french = client.get("/a/support/", headers={"Accept-Language": "fr"})
    english = client.get("/a/support/")
    assert "Classement" in french.text
    assert "Classement" not in english.text
    assert "Accept-Language" in french["Vary"]
    assert BoardPage.objects.filter(arena__slug="support").count() == 2


def test_it_can_be_quoted(client: Client, arena: Arena, published: Snapshot) -> None:
    page = client.get("/a/support/").text
    day = published.published_at.date().isoformat()
    quoted = f"Support answers: No clear leader yet. Leaderboard of 24 votes, {day}. "
    assert quoted in page
    assert "&amp;lt;" not in page
    assert 'href="/a/support/picture.png?raters=people"' in page
    assert "leaderboard.html" in page
    of_category = client.get("/a/support/?category=category-1").text
    assert "votes on prompts in “category-1”, " in of_category
    assert "leaderboard.html" not in of_category  # that file has the votes on all prompts


def test_intervals_of_all_rows_share_one_scale(client: Client, long_arena: Arena) -> None:
    page = client.get("/a/long/?rows=all").text
    dots = [float(x) for x in re.findall(r'<circle cx="([\d.]+)%"', page)]
    assert dots == sorted(dots, reverse=True)
    assert 0 < dots[-1] < dots[0] < 100
    gaps = [a - b for a, b in pairwise(dots)]
    assert max(gaps) - min(gaps) < 0.05  # as between the scores


def test_one_wide_interval_does_not_flatten_the_others(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    published.standings.filter(rank=3).update(low=-90_000.0)
    leases.drop_pages(arena_id=arena.pk)
    dots = [float(x) for x in re.findall(r'<circle cx="([\d.]+)%"', client.get("/a/support/").text)]
    assert dots[0] - dots[-1] > 25


LANDMARK = re.compile(r'<(?:section|[a-z]+ [^>]*role="region")[^>]*aria-labelledby="([^"]+)"')


def test_no_two_landmarks_share_a_name(client: Client) -> None:
    publish(make_voted_arena())
    answer = client.get("/a/support/")
    assert answer.status_code == 200
    found = Counter(LANDMARK.findall(answer.text))
    assert found
    assert set(found.values()) == {1}, found
