"""What a board says besides its numbers: each sentence only where it is true."""

import csv
import gzip
import io
import re
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from arena.models import Arena, Candidate, Rater
from ranking.models import Snapshot
from ranking.services import leases
from tests.factories import make_arena, make_person, make_vote, make_votes
from tests.ranking.helpers import STYLE, make_judged_arena, markup, publish, words

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


class Board:
    """A published board whose findings a test writes by hand."""

    def __init__(self, client: Client, arena: Arena, published: Snapshot) -> None:
        self.client, self.arena, self.snapshot = client, arena, published
        self.snapshot.settings["these_raters"] = 0  # as of a crowd, whoever cast the votes
        self.reset(settings=self.snapshot.settings)
        self.ranked = [s.candidate for s in self.standings()]

    def standings(self) -> Any:
        return self.snapshot.standings.exclude(rank=None).order_by("rank")

    def says(self, **findings: Any) -> str:
        """The page with exactly these findings."""
        Snapshot.objects.filter(pk=self.snapshot.pk).update(findings=findings)
        return self.page()

    def page(self, address: str = "") -> str:
        leases.drop_pages(arena_id=self.arena.pk)
        return str(self.client.get(f"/a/{self.arena.slug}/{address}").content.decode())

    def ranks(self, *sure: tuple[int, int]) -> None:
        """Write the simultaneous rank intervals, in rank order."""
        for standing, (low, high) in zip(self.standings(), sure, strict=True):
            standing.sure_rank_low, standing.sure_rank_high = low, high
            standing.save()

    def reset(self, **fields: Any) -> None:
        Snapshot.objects.filter(pk=self.snapshot.pk).update(**fields)


@pytest.fixture
def board(client: Client, arena: Arena, published: Snapshot) -> Board:
    return Board(client, arena, published)


def test_snapshot_without_findings_has_none_of_their_lines(board: Board) -> None:
    page = board.says()
    for line in ("Controlled for style", "would change number one", "alpha is"):
        assert line not in page
    assert "Lead over next" not in board.page("?columns=details")
    assert board.client.get("/a/support/results.json").json()["findings"]["leader"] is None


def test_the_clear_number_one_is_named(board: Board) -> None:
    board.ranks((1, 1), (2, 3), (2, 3))
    page = board.says(leader=board.ranked[0].pk)
    assert f"{board.ranked[0]} is the clear leader." in page
    assert "holds at every look, for raters and prompts like these." in words(page)
    assert "No clear leader" not in page


def test_whoever_is_ahead_at_this_count_is_ahead_for_now(board: Board) -> None:
    board.ranks((1, 1), (2, 3), (2, 3))
    page = board.says(leader=None, ahead=board.ranked[0].pk)
    assert f"{board.ranked[0]} is ahead for now." in page
    assert "at this count its lead over every other ranked candidate" in words(page).lower()


@pytest.mark.parametrize(
    ("ranks", "sentence"),
    [
        ([(1, 3), (1, 3), (1, 3)], "Three candidates share the lead. {} is ahead on points."),
        ([(1, 3), (2, 3), (1, 3)], "Two candidates share the lead. {} is ahead on points."),
        (
            [(1, 2), (2, 3), (2, 3)],
            "No clear leader yet. {} is ahead, but not all of its leads are statistically"
            " significant.",
        ),
    ],
)
def test_without_a_clear_number_one_the_board_says_who_could_be(
    board: Board, ranks: list[tuple[int, int]], sentence: str
) -> None:
    board.ranks(*ranks)
    page = board.says(leader=None)
    assert sentence.format(board.ranked[0]) in words(page)


def test_a_candidate_that_has_no_interval_could_be_first_too(board: Board) -> None:
    board.ranks((1, 2), (1, 2), (3, 3))
    board.ranked[2].standings.update(sure_rank_low=None, sure_rank_high=None, low=None)
    assert "any of the top 3 could be first." in board.says(leader=None)


@pytest.mark.parametrize(
    ("lead", "raters", "asks"), [(50, 40, True), (52, 40, False), (52, 35, True), (52, 0, False)]
)
def test_where_votes_settle_nothing_it_asks_for_raters_and_prompts(
    board: Board, lead: int, raters: int, asks: bool
) -> None:
    board.ranks((1, 2), (1, 3), (2, 3))
    for place, standing in enumerate(board.standings()):
        standing.score = 1000.0 - lead * place
        standing.save()
    effective = {"prompts": 40} | ({"raters": raters} if raters else {})
    board.reset(settings=board.snapshot.settings | {"effective": effective})
    told = "needs more raters and prompts, not votes"
    assert (told in board.says(leader=None)) == asks


def test_nobody_is_ahead_where_several_share_the_first_place(board: Board) -> None:
    board.ranks((1, 3), (1, 3), (1, 3))
    board.snapshot.standings.update(rank=1)
    page = board.says(leader=None)
    assert "Three candidates share the lead." in page
    assert "share first place" not in page
    assert "is ahead" not in page


def test_fewer_at_the_first_place_than_could_hold_it_are_counted(board: Board) -> None:
    board.ranks((1, 3), (1, 3), (1, 3))
    board.snapshot.standings.filter(pk__in=[s.pk for s in board.standings()[:2]]).update(rank=1)
    board.snapshot.standings.filter(rank__gt=1).update(rank=3)
    page = board.says(leader=None)
    assert "Three candidates share the lead. 2 candidates share first place." in words(page)


def test_a_leader_that_newer_votes_overtook_is_none(board: Board) -> None:
    board.ranks((1, 3), (1, 1), (2, 3))
    page = board.says(leader=board.ranked[1].pk)
    assert "clear leader" not in page
    assert "Two candidates share the lead." in page


def test_the_home_page_names_only_clear_leaders(board: Board) -> None:
    first = board.ranked[0].pk
    board.snapshot.standings.filter(rank=1).update(rank_low=1, rank_high=1, sure_rank_high=1)
    for leader in (None, first):
        board.says(leader=leader)
        page = board.client.get("/").content.decode()
        assert ("No clear leader yet." in page) == (leader is None)
        assert ("is the clear leader." in page) == (leader is not None)


def test_where_no_ranks_are_certain_nothing_is_said_of_number_one(board: Board) -> None:
    board.snapshot.standings.update(sure_rank_low=None, sure_rank_high=None)
    assert "clear leader" not in board.says(leader=None)


def test_the_lead_over_the_next_is_a_gap(board: Board) -> None:
    first, second, third = (candidate.pk for candidate in board.ranked)
    board.says(
        neighbours=[
            {"upper": first, "lower": second, "separated": True, "votes": None, "words": ""},
            {"upper": second, "lower": third, "separated": False, "votes": None, "words": ""},
        ]
    )
    page = markup(board.page("?columns=details"))
    scores = [row.score for row in board.snapshot.standings.order_by("rank")]
    leads = re.findall(r'c-lead">([^<]+)</td>', page)
    assert leads == [f"+{a - b:.0f}" for a, b in pairwise(scores)] + ["–"]


def test_few_votes_that_would_change_number_one_are_counted(board: Board) -> None:
    top, rival = board.ranked[0].pk, board.ranked[1].pk
    told = {"words": "13 of 8,931 votes would change number one", "votes": 13, "of": 8931}
    page = board.says(fragility=told | {"top": top, "rival": rival, "confirmed": True})
    assert f"Removing just 13 of 8,931 votes would put {board.ranked[1]} first." in page
    held = {"words": "None was found.", "votes": None, "of": 8931, "top": top, "rival": None}
    assert "We found no set of up to half of the 8,931 votes" in board.says(fragility=held)
    level = {"words": "The first place is shared.", "votes": 0, "of": 9, "top": top}
    assert "The first place is shared." in board.says(fragility=level | {"rival": rival})
    nobody = {"words": "No two candidates are comparable yet.", "votes": None, "of": 0, "top": None}
    assert "comparable yet" not in board.says(fragility=nobody)


def test_agreement_and_transitivity_are_a_sentence_each(board: Board) -> None:
    page = board.says(
        agreement={"share": 0.532, "n_pairs": 15112, "alpha": 0.2906}
        | {"decisive_share": 0.701, "decisive_n_pairs": 6755},
        transitivity={"share": 0.9028, "triads": 5249, "transitive": 4739},
    )
    assert "agree in 53% of cases (15,112 pairs of votes)" in page
    assert "the same one in 70% of cases (6,755)" in page
    assert "alpha is 0.29" in page
    assert "Of the 5,249 sets of three" in page
    assert "90% have no cycle" in page
    page = board.says(
        agreement={"share": 1.0, "n_pairs": 1, "alpha": None}
        | {"decisive_share": None, "decisive_n_pairs": 0},
        transitivity={"share": None, "triads": 0, "transitive": 0},
    )
    assert "agree in 100% of cases (1 pair of votes)" in page
    assert "alpha" not in page
    assert "sets of three" not in page


def test_style_is_a_view_of_its_own_and_a_sentence_for_each_trait(board: Board) -> None:
    first, second, _ = (candidate.pk for candidate in board.ranked)
    scores = {
        str(first): {"score": 1043.4, "low": 961.2, "high": 1125.6, "rank_low": 1, "rank_high": 2},
        str(second): {"score": 1050.4, "low": 990.2, "high": 1125.6, "rank_low": 1, "rank_high": 2},
    }
    style = STYLE | {"scores": scores, "tiers": [[first, second]]}
    page = words(board.says(style=style, leader=None))
    assert f"Between answers of equal style, {board.ranked[1]} scores highest." in page
    assert "1043" not in page
    level = [feature | {"low": -20.0, "high": 60.0} for feature in STYLE["features"]]
    assert "equal style" not in board.says(style=style | {"features": level}, leader=None)
    board.says(style=style, leader=None)
    styled = words(board.page("?control=style"))
    assert "Between answers of equal style, two candidates share the lead." in styled
    assert f"{board.ranked[1]} is ahead on points." in styled
    assert "1 candidate has no style-controlled score." in styled
    assert "961–1126" in styled
    assert "More votes" not in styled
    page = board.page("about/")
    assert (
        "An answer twice as long scores about 40 Elo higher than the other." in page
    )  # 60 / .5 / 3
    assert "An answer with headings scores about 80 Elo lower than one without." in page
    assert "No significant effect." in page
    assert "Unknown. It is the same in every vote." in page


def test_without_scores_by_style_there_is_no_view(board: Board) -> None:
    assert "ontrolled for style" not in board.says(style=STYLE | {"scores": {}})
    assert "ontrolled for style" not in board.says(style=None)
    alike = [feature | {"coefficient": None} for feature in STYLE["features"]]
    scores = {str(board.ranked[0].pk): {"score": 1043.4, "low": 961.2, "high": 1125.6}}
    page = board.says(style=STYLE | {"features": alike, "scores": scores})
    assert "ontrolled for style" not in page


def test_a_combined_board_says_what_the_judges_are_good_for(board: Board) -> None:
    told = {"lambda": 0.5, "gain": 1.62, "n_judge_votes": 4830, "reason": ""}
    assert (
        "the 4,830 votes by trusted judges narrow the intervals as much as 1.6 times"
        in board.says(combined=told)
    )
    nothing = told | {"gain": 1.0, "n_judge_votes": 1, "reason": "It tosses coins."}
    says = board.says(combined=nothing)
    assert "the 1 vote by trusted judges adds nothing. It tosses coins." in says
    assert "barely narrow" in board.says(combined=told | {"gain": 1.01})


def test_stale_intervals_say_so_and_when_they_are_renewed(board: Board) -> None:
    assert "Intervals include" not in board.page()
    made = board.snapshot.measured_at
    assert made is not None
    board.reset(n_votes=10_214, measured_votes=10_000, measured_seconds=60.0)
    due = f"{made + timedelta(minutes=10):%H:%M:%S} UTC"
    page = board.page()
    assert "Intervals include 10,000 of 10,214 votes" in page
    assert due in words(page)


def test_a_board_of_few_raters_speaks_about_these_alone(client: Client) -> None:
    for n in (4, 5):
        arena = make_arena(2, 20, slug=f"of-{n}")
        left, right = arena.candidates.all()
        raters = [make_person() for _ in range(n)]
        for turn, prompt in enumerate(arena.prompts.all()):
            outcome = ["left", "right", "left"][turn % 3]
            make_vote(arena, left, right, outcome, prompt, raters[turn % n])
        publish(arena)
    assert "4 raters are too few to say what others would prefer" in client.get("/a/of-4/").text
    assert "too few to say" not in client.get("/a/of-5/").text
    assert "These results hold for" not in client.get("/a/of-4/").text  # the verdict has said it


def test_the_unranked_stand_in_groups_with_the_reason_once(client: Client) -> None:
    arena = make_arena(n_candidates=7, slug="groups")
    a, b, c, above, beyond, below, nobody = arena.candidates.order_by("pk")
    ring = [(a, b), (b, c), (c, a)]
    tops = [(above, beyond), (beyond, above), (above, a)]
    for left, right in (*ring, *tops, (a, below)):
        make_vote(arena, left, right, "left")
    publish(arena)
    page = client.get("/a/groups/").content.decode()
    titles = ["Group that beats all others", "Never won or tied", "No votes yet"]
    places = [page.index(title) for title in titles]
    assert places == sorted(places)
    assert page.count("have ever lost to a ranked candidate") == 1
    for candidate, place in ((beyond, places[0]), (below, places[1]), (nobody, places[2])):
        assert page.index(f"/candidates/{candidate.pk}/") > place


def test_findings_with_hostile_names_are_text(board: Board) -> None:
    name = "<img src=x onerror=alert(1)>"
    Candidate.objects.filter(pk=board.ranked[1].pk).update(name=name)
    first, second = (candidate.pk for candidate in board.ranked[:2])
    two = {"upper": first, "lower": second, "separated": True, "votes": 0, "words": "separated"}
    told = {"words": "3 of 24 votes would change number one", "votes": 3, "of": 24}
    page = board.says(
        neighbours=[two], fragility=told | {"top": first, "rival": second, "confirmed": True}
    )
    assert "<img" not in page
    assert page.count("would put &lt;img src=x onerror=alert(1)&gt; first") == 1


def test_the_files_hold_the_findings_by_name(board: Board) -> None:
    first, second, _ = board.ranked
    two = {"upper": first.pk, "lower": second.pk, "separated": True, "votes": 0}
    told = {"words": "3 of 24 votes would change number one", "votes": 3, "of": 24}
    scores = {str(first.pk): {"score": 1043.4, "low": 961.2, "high": None}}
    board.ranks((1, 1), (2, 3), (2, 3))
    board.says(
        leader=first.pk,
        neighbours=[two | {"words": "separated"}],
        fragility=told | {"top": first.pk, "rival": second.pk, "confirmed": True},
        style=STYLE | {"scores": scores},
    )
    found = board.client.get("/a/support/results.json").json()
    who = {"candidate": str(first), "url": f"/a/support/candidates/{first.pk}/"}
    assert found["findings"]["leader"] == who
    assert found["findings"]["neighbours"][0]["lower"]["candidate"] == str(second)
    assert found["findings"]["fragility"]["rival"]["candidate"] == str(second)
    assert "scores" not in found["findings"]["style"]
    assert found["intervals_from_votes"] == 24
    row = found["standings"][0]
    assert (row["sure_rank_low"], row["sure_rank_high"]) == (1, 1)
    assert (row["style_score"], row["style_low"], row["style_high"]) == (1043.4, 961.2, None)
    lines = csv.DictReader(io.StringIO(board.page("results.csv")))
    line = next(line for line in lines if line["candidate"] == str(first))
    assert (line["sure_rank_high"], line["style_score"], line["style_high"]) == ("1", "1043.4", "")


def test_findings_cost_no_query(
    board: Board, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    with django_assert_max_num_queries(9):
        board.client.get("/a/support/")


def test_what_leads_to_the_page_about_it_finds_its_place(board: Board) -> None:
    page, about = board.page(), board.page("about/?raters=people")
    anchors = [part.split('"')[0] for part in page.split("/about/?raters=people#")[1:]]
    assert "exports" in anchors
    for anchor in anchors:
        assert f'id="{anchor}"' in about


def test_the_first_load_is_small_with_everything_said(client: Client) -> None:
    snapshot = publish(make_arena(n_candidates=100, n_prompts=1, slug="large"))
    standings = list(snapshot.standings.all())
    for i, standing in enumerate(standings):
        standing.rank, standing.score = i + 1, 1234.5 - i
        standing.low, standing.high = 1200.7 - i, 1260.2 - i
        standing.rank_low, standing.rank_high, standing.sure_rank_low = i, i + 9, 1
        standing.save()
    ids = [standing.candidate_id for standing in standings]
    two = {"separated": False, "votes": 1}
    findings = {
        "neighbours": [
            two | {"upper": a, "lower": b, "words": f"about {a * b} more votes"}
            for a, b in pairwise(ids)
        ],
        "style": STYLE
        | {"scores": {str(pk): {"score": 990.0 + pk, "low": pk, "high": 2 * pk} for pk in ids}},
    }
    Snapshot.objects.filter(pk=snapshot.pk).update(findings=findings)
    leases.drop_pages(arena_id=snapshot.board.arena_id)
    packed = client.get("/a/large/", headers={"Accept-Encoding": "gzip"})
    assert b"Controlled for style" in gzip.decompress(packed.content)
    names = ("base", "board", "leaderboard", "specimens")
    files = (*(f"css/{name}.css" for name in names), "js/page.js", "js/board.js", "favicon.svg")
    sent = [gzip.compress((settings.BASE_DIR / "static" / name).read_bytes()) for name in files]
    assert len(packed.content) + sum(map(len, sent)) < 60_000


def test_a_published_combined_board_is_offered_and_explained(
    client: Client, trusted_judge: Any
) -> None:
    arena = make_judged_arena(trusted_judge)
    publish(arena)
    assert "raters=combined" in client.get(f"/a/{arena.slug}/").content.decode()
    page = client.get(f"/a/{arena.slug}/?raters=combined").content.decode()
    assert "the 180 votes by trusted judges narrow the intervals as" in page
    assert ">Elo<" not in client.get(f"/a/{arena.slug}/?raters=combined&columns=details").text
    methodology = client.get(f"/a/{arena.slug}/about/?raters=combined").content.decode()
    assert "the 180 votes by trusted judges narrow the intervals as" in methodology
    found = client.get(f"/a/{arena.slug}/results.json?raters=combined").json()
    told = found["findings"]["combined"]
    assert (found["raters"], told["n_judge_votes"]) == ("combined", 180)
    assert told["moved_most"]["candidate"].startswith("candidate-")


def test_a_combined_board_says_what_the_judges_changed(board: Board) -> None:
    told = {
        "trusted": True,
        "raters": "juries",
        "names": ["One jury", "Another"],
        "lambda": 0.837,
        "gain": 1.62,
        "narrower": 0.213,
        "moved_most": board.ranked[1].pk,
        "moved_by": -12.4,
        "n_judge_votes": 4830,
        "reason": "",
    }
    page = board.says(combined=told)
    assert "the 4,830 votes by trusted juries narrow" in page
    assert "Intervals are 21% narrower on average than with human votes alone." in page
    assert f"Largest change in score: {board.ranked[1]}, −12 Elo." in page
    assert "λ is 0.84: 0 would ignore the juries" in page
    assert "Trusted juries counted here: One jury, Another." in page
    still = board.says(combined=told | {"moved_by": 0.2})
    assert "No score changed by a whole point." in still
    assert "Left out:" not in page
    left_out = [standing.pk for standing in board.ranked[:2]]
    other = board.says(combined=told | {"left_out": left_out})
    assert f"verdicts about {board.ranked[0]}, {board.ranked[1]} on prompts that only the" in other
    nothing = board.says(combined=told | {"reason": "It tosses coins.", "gain": 1.0})
    assert "λ is" not in nothing


def test_a_combined_board_without_trust_says_so_in_words(board: Board) -> None:
    page = board.says(combined={"trusted": False, "lambda": 0.0, "n_judge_votes": 0})
    assert "No judge is trusted yet, so this leaderboard is identical to the human one." in page
    assert "λ is" not in page
    assert "counted here:" not in page


def headings_of(page: str) -> list[str]:
    """The tiers, and the names of the candidates in the table, from the top."""
    table = markup(page).split('<table class="board">')[1].split("</table>")[0]
    found = re.findall(r'visually-hidden">Tier\s+(\d+),|<a [^>]*title="([^"]+)"\s*><span>', table)
    return [f"Tier {tier}" if tier else name for tier, name in found]


def test_tiers_part_the_table(board: Board) -> None:
    first, second, third = board.ranked
    page = board.says(tiers=[[first.pk], [third.pk, second.pk]])
    assert headings_of(page) == ["Tier 1", str(first), "Tier 2", str(second), str(third)]
    assert "a new one begins where a candidate is clearly below the first" in words(page)
    by_name = headings_of(board.page("?sort=name"))
    assert by_name == sorted(map(str, board.ranked))


def test_a_single_tier_says_nothing(board: Board) -> None:
    page = board.says(tiers=[[candidate.pk for candidate in board.ranked]])
    assert headings_of(page) == [str(candidate) for candidate in board.ranked]


def test_tiers_that_newer_scores_contradict_are_not_drawn(board: Board) -> None:
    first, second, third = board.ranked
    page = board.says(tiers=[[second.pk], [first.pk, third.pk]])
    assert headings_of(page) == [str(candidate) for candidate in board.ranked]


def test_a_candidate_that_has_no_interval_is_in_no_tier(board: Board) -> None:
    first, second, third = board.ranked
    page = board.says(tiers=[[first.pk], [third.pk]])
    assert headings_of(page) == ["Tier 1", str(first), str(second), "Tier 2", str(third)]
    assert page.count('class="no-tier"') == 1


def test_tiers_are_measured_and_nobody_is_alone_on_top_without_a_clear_lead(
    client: Client,
) -> None:
    for n_raters, alone in ((8, True), (3, False)):
        arena = make_arena(3, 40, slug=f"raters-{n_raters}")
        strong, *weak = arena.candidates.order_by("pk")
        raters = [make_person() for _ in range(n_raters)]
        for turn, prompt in enumerate(arena.prompts.order_by("pk")):
            for other in weak:
                outcome = "right" if turn % 10 == 0 else "left"
                make_vote(arena, strong, other, outcome, prompt, raters[turn % n_raters])
            make_vote(
                arena, *weak, ["left", "right"][turn // 2 % 2], prompt, raters[turn % n_raters]
            )
        snapshot = publish(arena)
        tiers = snapshot.findings["tiers"]
        assert (tiers[0] == [strong.pk]) == alone
        best = snapshot.standings.get(candidate=strong)
        assert (best.sure_rank_high == 1) == alone
        page = words(client.get(f"/a/{arena.slug}/").text)
        assert (f"{strong} is ahead for now." in page) == alone
        assert f"{strong} is the clear leader." not in page  # at every look, eight are too few


def test_who_never_lost_is_in_the_tier_that_its_rank_says(client: Client) -> None:
    arena = make_arena(3, 10, slug="unbeaten")
    a, b, c = arena.candidates.order_by("pk")
    for turn in range(8):
        rows = [
            (x, y, "right" if (x, turn, i) == (b, 0, 0) else "left", prompt)
            for i, prompt in enumerate(arena.prompts.order_by("pk"))
            for x, y in ((a, b), (a, c), (b, c))
        ]
        make_votes(arena, rows, make_person())
    snapshot = publish(arena)
    assert snapshot.findings["leader"] == a.pk
    assert snapshot.findings["tiers"] == [[a.pk], [b.pk], [c.pk]]
    table = headings_of(client.get(f"/a/{arena.slug}/").text)
    assert table == ["Tier 1", str(a), "Tier 2", str(b), "Tier 3", str(c)]


def test_with_too_few_votes_a_board_collects_them_and_ranks_nobody(client: Client) -> None:
    arena = make_arena(3, 6, slug="few")
    candidates = list(arena.candidates.order_by("pk"))
    for turn, prompt in enumerate(arena.prompts.order_by("pk")):
        left, right = candidates[turn % 3], candidates[(turn + 1) % 3]
        make_vote(arena, left, right, "left", prompt, make_person())
    publish(arena)
    page = client.get("/a/few/").text
    assert "Collecting votes: 6 of 15." in words(page)
    assert 'class="board"' not in page
    assert "leader yet" not in page
    for address in ("/", "/a/few/embed/"):
        assert "Collecting votes: 6 of 15." in words(client.get(address).text)
    badge = client.get(f"/a/few/badge/{candidates[0].pk}.svg").text
    assert "collecting votes: 6 of 15" in badge
    assert "Collecting votes" in client.get(f"/a/few/candidates/{candidates[0].pk}/").text


def test_while_votes_are_collected_nothing_is_said_of_anybody(board: Board) -> None:
    first, second, _ = board.ranked
    evidence = {"needed": 120, "few_prompts": False, "enough": False}
    board.reset(settings=board.snapshot.settings | {"evidence": evidence})
    pair = {"upper": first.pk, "lower": second.pk, "separated": True, "votes": None, "words": ""}
    page = words(board.says(neighbours=[pair]))
    assert "Collecting votes: 24 of 120. A ranking follows" in page
    assert 'class="board"' in board.says(leader=first.pk)


def test_the_first_board_is_one_with_enough_votes(client: Client, judge: Rater) -> None:
    arena = make_judged_arena(judge)
    arena.votes.filter(rater__kind="person").update(voided_at=timezone.now(), void_reason="a test")
    left, right = arena.candidates.order_by("pk")[:2]
    make_vote(arena, left, right, "left", arena.prompts.first(), make_person())
    publish(arena)
    assert client.get(f"/a/{arena.slug}/results.json").json()["raters"] == "judges"
