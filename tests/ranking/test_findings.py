"""A snapshot's findings besides scores: leader, neighbours, robustness, agreement, style."""

import math
import re
from importlib import import_module
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from django.apps import apps
from django.test import Client
from django.utils import timezone

from arena.actors import CLI
from arena.models import Arena, Rater, Response
from arena.services.arenas import update_arena
from arena.services.candidates import retire_candidate
from ranking.models import ArenaRefresh, Board, ResponseStyle, Snapshot, boards
from ranking.services.refresh import borrow
from ranking.services.styles import count_missing, count_style
from ranking.stats.connectivity import Status
from ranking.wording import capped
from tests.factories import make_arena, make_person, make_vote, make_votes
from tests.ranking.helpers import claim, fill, make_voted_arena, publish, rank_anyway, words

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


@pytest.fixture
def arena(db: None) -> Arena:
    """Three candidates, four prompts in two categories, 24 votes of one person."""
    return make_voted_arena(n_prompts=4, rounds=2)


def contest(n_rounds: int, n_prompts: int = 8) -> Arena:
    """The first candidate beats the others three times out of four, wherever it stands."""
    arena = make_arena(n_candidates=3, n_prompts=n_prompts)
    best, *others = arena.candidates.order_by("pk")
    votes: dict[Rater, list[Any]] = {make_person(): [] for _ in range(9)}
    rows = cycle(votes.values())
    for turn in range(n_rounds):
        for prompt in arena.prompts.order_by("pk"):
            for other in others:
                sides = (best, other) if turn % 2 else (other, best)
                wins = turn % 4 != 0
                outcome = "left" if (sides[0] == best) == wins else "right"
                next(rows).append((*sides, outcome, prompt))
            next(rows).append((*others, ["left", "right", "tie"][turn % 3], prompt))
    for rater, of_rater in votes.items():
        make_votes(arena, of_rater, rater)
    return arena


def test_a_leader_is_named_when_it_is_certain_and_not_before() -> None:
    many = contest(n_rounds=12)
    assert publish(many).findings["leader"] == many.candidates.order_by("pk")[0].pk
    assert publish(contest(n_rounds=1, n_prompts=4)).findings["leader"] is None


def decide(arena: Arena, *results: tuple[int, int, int, int]) -> None:
    """Cast votes, each on another prompt: (winner, loser, votes won, votes lost) by place."""
    candidates = list(arena.candidates.order_by("pk"))
    prompts = list(arena.prompts.order_by("pk"))
    raters = [make_person() for _ in range(12)]
    for winner, loser, won, lost in results:
        for turn in range(won + lost):
            outcome = "left" if turn < won else "right"
            sides = candidates[winner], candidates[loser]
            make_vote(arena, *sides, outcome, prompts[turn], raters[turn % len(raters)])


def test_an_unbeaten_candidate_ranks_above_those_it_beat() -> None:
    arena = make_arena(n_candidates=3, n_prompts=40)
    decide(arena, (0, 1, 40, 0), (0, 2, 40, 0), (1, 2, 38, 2))
    snapshot = publish(arena)
    best, second, third = snapshot.standings.order_by("candidate")
    assert [row.rank for row in (best, second, third)] == [1, 2, 3]
    assert (best.score, best.high, best.reason) == (None, None, Status.UNDEFEATED.reason)
    assert best.low is not None
    assert second.high is not None
    assert best.low > second.high
    assert (second.rank_low, second.rank_high) == (2, 2)
    assert snapshot.findings["leader"] == best.candidate_id
    assert snapshot.findings["fragility"] == {}


def test_an_unbeaten_candidate_with_few_votes_takes_no_lead() -> None:
    arena = make_arena(n_candidates=3, n_prompts=80)
    decide(arena, (0, 1, 4, 0), (1, 2, 76, 4))
    snapshot = publish(arena)
    apart, leader, last = snapshot.standings.order_by("candidate")
    assert (apart.rank, apart.low, apart.high) == (None, None, None)
    assert (leader.rank, last.rank) == (1, 2)
    assert snapshot.findings["leader"] == leader.candidate_id


def leaders_claimed(arena: Arena) -> list[str]:
    """The surfaces that call anybody the leader."""
    client, start = Client(), f"/a/{arena.slug}/"
    board = Board.objects.get(arena=arena, raters="people", category="").pk
    pages = ("/", start, f"{start}embed/")
    files = (f"{start}results.json", f"/api/v1/arenas/{arena.slug}/boards/{board}/")
    claim = r"candidate-\d is the clear leader"
    return [
        *(page for page in pages if re.search(claim, words(client.get(page).text))),
        *(file for file in files if client.get(file).json()["findings"]["leader"]),
    ]


def test_an_archived_candidate_leads_nobody() -> None:
    arena = make_arena(n_candidates=3, n_prompts=80)
    decide(arena, (0, 1, 72, 8), (0, 2, 72, 8), (1, 2, 60, 20))
    best, *_ = arena.candidates.order_by("pk")
    assert publish(arena).findings["leader"] == best.pk
    assert len(leaders_claimed(arena)) == 5
    retire_candidate(candidate=best, by=CLI, now=timezone.now())
    publish(arena)
    assert leaders_claimed(arena) == []
    assert f"{best} is ahead, but it is archived." in words(Client().get(f"/a/{arena.slug}/").text)


def test_nobody_leads_beside_a_group_with_as_much_evidence() -> None:
    arena = make_arena(n_candidates=5, n_prompts=80)
    decide(arena, (0, 1, 72, 8), (0, 2, 72, 8), (1, 2, 60, 20), (3, 4, 20, 20))
    snapshot = publish(arena)
    *_, fourth, fifth = arena.candidates.order_by("pk")
    assert snapshot.findings["leader"] is None
    assert snapshot.findings["apart"] == [fourth.pk, fifth.pk]
    assert leaders_claimed(arena) == []
    page = words(Client().get(f"/a/{arena.slug}/").text)
    assert "2 other candidates with enough votes cannot be compared with it yet." in page
    for candidate in (fourth, fifth):
        retire_candidate(candidate=candidate, by=CLI, now=timezone.now())
    assert publish(arena).findings["leader"] is not None


def test_where_one_alone_has_an_interval_its_rank_is_not_certain() -> None:
    arena = make_arena(n_candidates=3, n_prompts=8)
    first, *others = arena.candidates.order_by("pk")
    for turn, prompt in enumerate(arena.prompts.order_by("pk")):
        outcome = "right" if turn < 2 else "left"
        make_vote(arena, first, others[turn % 2], outcome, prompt, make_person())
    snapshot = publish(arena)
    assert snapshot.findings["leader"] is None
    known = snapshot.standings.exclude(sure_rank_high=None).values_list("rank", "sure_rank_high")
    assert list(known) == [(1, 2)]


def test_wins_over_the_last_alone_decide_nothing_about_the_first() -> None:
    arena = make_arena(n_candidates=4, n_prompts=40)
    decide(arena, (0, 3, 8, 0), (1, 2, 30, 10), (2, 3, 38, 2))
    snapshot = publish(arena)
    unbeaten, leader, *_ = snapshot.standings.order_by("candidate")
    assert (unbeaten.rank, unbeaten.rank_low) == (1, 1)
    assert unbeaten.rank_high is not None
    assert unbeaten.rank_high > 1
    assert (leader.rank, leader.rank_low) == (2, 1)
    assert snapshot.findings["leader"] is None


def test_total_dominance_shows_its_order() -> None:
    arena = make_arena(n_candidates=3, n_prompts=25)
    decide(arena, (0, 1, 25, 0), (1, 2, 25, 0))
    snapshot = publish(arena)
    ranks = snapshot.standings.order_by("candidate").values_list("rank", "rank_high", "score")
    assert list(ranks) == [(1, 1, None), (2, 2, None), (3, 3, None)]
    assert snapshot.findings["leader"] == arena.candidates.order_by("pk")[0].pk


def test_results_of_a_few_raters_hold_only_for_them() -> None:
    arena = make_arena(n_candidates=3, n_prompts=20)
    for _ in range(4):
        fill(arena, rounds=1)
    snapshot = publish(arena)
    assert (snapshot.settings["clusters"], snapshot.settings["these_raters"]) == ("prompt", 4)
    assert snapshot.findings["leader"] is None
    assert "these 4 raters only" in snapshot.settings["clusters_note"]
    assert snapshot.standings.get(rank=1).low is not None


@pytest.mark.parametrize("most_resamples", [200])
def test_raters_of_different_taste_widen_the_intervals(most_resamples: int) -> None:
    """Each of ten raters prefers one candidate always: that is ten answers, not four hundred."""
    arena = make_arena(n_candidates=2, n_prompts=40)
    first, second = arena.candidates.order_by("pk")
    for number in range(10):
        rater = make_person()
        for prompt in arena.prompts.all():
            make_vote(arena, first, second, "left" if number < 7 else "right", prompt, rater)
    snapshot = publish(arena)
    assert snapshot.settings["clusters"] == "prompt_rater"
    assert snapshot.settings["effective"] == {"prompts": 40, "raters": 10}
    best = snapshot.standings.get(rank=1)
    # By hand: log(.7 / .3) +- t(9) sqrt(10 / 9 / (10 * .7 * .3)), halved and in Elo.
    assert best.standard_error == pytest.approx(86.9 * math.sqrt(10 / 9 / 2.1), rel=0.1)
    assert best.low < 1000 < best.high


def test_a_rater_who_casts_most_votes_is_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    arena = make_arena(n_candidates=2, n_prompts=40)
    left, right = arena.candidates.order_by("pk")
    prompts = list(arena.prompts.order_by("pk"))
    zealot, others = make_person(), [make_person() for _ in range(20)]
    for number, prompt in enumerate(prompts):
        make_vote(arena, left, right, "left", prompt, zealot)
        make_vote(
            arena, left, right, "right" if number % 3 else "left", prompt, others[number % 20]
        )
    snapshot = publish(arena)
    share = (14 + 40 / 9) / (40 + 40 / 9)  # he weighs a tenth of all: a ninth of the others
    points = 400 * np.log10(share / (1 - share)) / 2
    assert snapshot.standings.get(candidate=left).score == pytest.approx(1000 + points, abs=0.01)
    assert (snapshot.settings["capped_raters"], snapshot.settings["capped_at"]) == (1, 0.1)
    assert capped(snapshot.settings) == "1 rater’s votes are capped at 10% of the weight."
    assert snapshot.standings.get(candidate=left).wins == 54  # a count stays a count
    # He weighs the same however much he votes, also where intervals are borrowed.
    monkeypatch.setattr(boards, "QUICK_SECONDS", 0.0)
    Snapshot.objects.update(measured_seconds=60.0)
    make_vote(arena, left, right, "left", prompts[0], zealot)
    again = publish(arena)
    assert again.measured_votes == snapshot.n_votes < again.n_votes
    assert again.standings.get(candidate=left).score == pytest.approx(1000 + points, abs=0.01)
    # The arena sets the share.
    update_arena(arena=arena, by=CLI, rater_cap=100)
    Snapshot.objects.update(measured_seconds=0.0)
    free = publish(arena)
    points = 400 * np.log10(55 / 26) / 2
    assert free.standings.get(candidate=left).score == pytest.approx(1000 + points, abs=0.01)
    assert capped(free.settings) == ""


def test_everybody_with_votes_has_a_shrunk_score_and_a_second_group_its_ranking(
    client: Client,
) -> None:
    arena = make_arena(n_candidates=7, n_prompts=10, slug="two-groups")
    a, b, best, c, d, e, nobody = arena.candidates.order_by("pk")
    raters = cycle([make_person() for _ in range(7)])
    for turn, prompt in enumerate(arena.prompts.order_by("pk")):
        make_vote(arena, a, b, "left" if turn % 3 else "right", prompt, next(raters))
        make_vote(arena, c, d, "left" if turn % 3 else "right", prompt, next(raters))
        make_vote(arena, d, e, "left" if turn % 4 else "right", prompt, next(raters))
        if turn < 3:  # too few to be placed
            make_vote(arena, best, c, "left", prompt, next(raters))
    snapshot = publish(arena)
    rows = {row.candidate_id: row for row in snapshot.standings.all()}
    assert rows[best.pk].rank is None
    assert rows[best.pk].shrunk > max(rows[pk].shrunk for pk in (c.pk, d.pk, e.pk))
    assert rows[nobody.pk].shrunk is None
    assert rows[a.pk].rank is None
    (group,) = snapshot.findings["groups"]
    assert [(row["candidate"], row["rank"]) for row in group] == [(a.pk, 1), (b.pk, 2)]
    assert group[0]["score"] == pytest.approx(1000 + 200 * math.log10(6 / 4), abs=0.01)
    assert group[0]["low"] < group[0]["score"] < group[0]["high"]
    page = words(client.get("/a/two-groups/").text)
    assert "A group with a ranking of its own" in page
    found = client.get("/a/two-groups/results.json").json()
    assert found["findings"]["groups"][0][0]["candidate"]["candidate"] == a.name
    shrunk = {row["candidate"]: row["shrunk"] for row in found["standings"]}
    assert shrunk[best.name] == pytest.approx(rows[best.pk].shrunk, abs=1e-6)


def test_of_two_equal_groups_neither_is_preferred(client: Client) -> None:
    arena = make_arena(n_candidates=4, n_prompts=10, slug="equal-groups")
    a, b, c, d = arena.candidates.order_by("pk")
    raters = cycle([make_person() for _ in range(7)])
    for turn, prompt in enumerate(arena.prompts.order_by("pk")):
        make_vote(arena, a, b, "left" if turn % 3 else "right", prompt, next(raters))
        make_vote(arena, c, d, "left" if turn % 4 else "right", prompt, next(raters))
    snapshot = publish(arena)
    assert {(row.rank, row.score) for row in snapshot.standings.all()} == {(None, None)}
    groups = [[row["candidate"] for row in group] for group in snapshot.findings["groups"]]
    assert sorted(groups) == [[a.pk, b.pk], [c.pk, d.pk]]
    rank_anyway(arena)
    page = words(client.get("/a/equal-groups/").text)
    assert "wins and losses do not connect them. Each is ranked on its own below" in page
    assert "no two candidates are connected" not in page


def test_shrunk_scores_follow_votes_while_intervals_are_borrowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arena = contest(n_rounds=2)
    first = publish(arena)
    monkeypatch.setattr(boards, "QUICK_SECONDS", 0.0)
    Snapshot.objects.update(measured_seconds=60.0)
    best, other = arena.candidates.order_by("pk")[:2]
    make_vote(arena, best, other, "left", arena.prompts.first(), make_person())
    second = publish(arena)
    assert second.findings["shrinkage"] == first.findings["shrinkage"]
    before, after = (one.standings.get(candidate=best).shrunk for one in (first, second))
    assert after > before


def test_a_judge_is_never_capped() -> None:
    arena = make_arena(n_candidates=2, n_prompts=20)
    judges = [Rater.objects.create(kind=Rater.Kind.JUDGE, name=f"Judge {i}") for i in range(8)]
    for number, prompt in enumerate(arena.prompts.order_by("pk")):
        for judge in judges if number == 0 else judges[:1]:
            outcome = "left" if number % 3 else "right"
            make_vote(arena, *arena.candidates.order_by("pk"), outcome, prompt, judge)
    publish(arena)
    board = Snapshot.objects.current().get(board__raters="judges", board__category="")
    assert board.settings["capped_raters"] == 0


def test_intervals_that_are_borrowed_keep_their_places() -> None:
    arena = make_arena(n_candidates=3, n_prompts=40)
    decide(arena, (0, 1, 40, 0), (0, 2, 40, 0), (1, 2, 38, 2))
    snapshot = publish(arena)
    again = borrow(snapshot)
    second, third = snapshot.standings.order_by("candidate")[1:]
    assert again.spreads[second.candidate_id].rank_low == 1
    assert again.spreads[third.candidate_id].sure_rank_high == 2


def test_a_lead_that_newer_votes_reversed_is_claimed_no_more() -> None:
    arena = make_arena(n_candidates=3, n_prompts=40)
    decide(arena, (0, 1, 36, 4), (0, 2, 36, 4), (1, 2, 30, 10))
    first, second, third = arena.candidates.order_by("pk")
    leads = publish(arena).findings["neighbours"]
    assert (leads[0]["upper"], leads[0]["separated"]) == (first.pk, True)
    Snapshot.objects.filter(board__arena=arena).update(measured_seconds=1e6)
    decide(arena, *[(1, 0, 40, 0)] * 3)
    snapshot = publish(arena)
    assert snapshot.measured_votes < snapshot.n_votes
    assert snapshot.standings.get(rank=1).candidate_id == second.pk
    assert snapshot.findings["leader"] is None
    leads = snapshot.findings["neighbours"]
    assert [(pair["upper"], pair["lower"]) for pair in leads] == [
        (second.pk, first.pk),
        (first.pk, third.pk),
    ]
    assert not leads[0]["separated"]


def test_neighbours_are_in_the_order_of_the_board() -> None:
    snapshot = publish(contest(n_rounds=12))
    ranked = list(snapshot.standings.order_by("rank").values_list("candidate", flat=True))
    upper = [two["upper"] for two in snapshot.findings["neighbours"]]
    lower = [two["lower"] for two in snapshot.findings["neighbours"]]
    assert (upper, lower) == (ranked[:-1], ranked[1:])
    assert [two["votes"] for two in snapshot.findings["neighbours"]] == [None, None]


def test_dropping_the_fragile_votes_changes_number_one() -> None:
    arena = contest(n_rounds=5, n_prompts=4)
    found = publish(arena).findings["fragility"]
    assert found["confirmed"]
    assert 0 < found["votes"] < found["of"] == 60
    assert found["top"] == arena.candidates.order_by("pk")[0].pk != found["rival"]


def test_agreement_counts_votes_on_the_same_prompt_and_pair(arena: Arena) -> None:
    found = publish(arena).findings["agreement"]
    assert found["n_pairs"] == 12  # two rounds: one pair of votes on each prompt and pair
    assert 0 <= found["share"] <= 1
    assert publish(contest(1)).findings["agreement"] is None


@pytest.mark.parametrize("n_candidates", [0, 1, 2])
def test_no_votes_are_no_trouble(n_candidates: int) -> None:
    found = publish(make_arena(n_candidates=n_candidates)).findings
    assert (found["leader"], found["neighbours"], found["style"]) == (None, [], None)


MARKDOWN = """# A heading

Some **bold words** and __more__, 2 * 3 ** 4.

- one
* two
3. three

```
# no heading
- no item, **not bold**
```
"""


def test_style_is_counted_outside_of_code() -> None:
    assert count_style(MARKDOWN) == {"words": 29, "headings": 1, "list_items": 3, "bold": 2}
    assert count_style("") == {"words": 0, "headings": 0, "list_items": 0, "bold": 0}


def test_style_leaves_out_thought_and_pictures() -> None:
    picture = f"![c](data:image/png;base64,{'AAAA' * 1000})"
    answer = f"<think># Plan\n\n- **one**</think>\n{MARKDOWN}"
    assert count_style(answer) == count_style(MARKDOWN)
    assert count_style(f"A {picture}\n\nB") == count_style("A [image, PNG, 3 kB]\n\nB")


def test_answers_with_thought_or_pictures_are_counted_again_after_the_upgrade(
    arena: Arena,
) -> None:
    token = claim(arena)
    count_missing(arena_id=arena.pk, token=token)
    ArenaRefresh.objects.update(is_stale=False)
    first, second = Response.objects.filter(prompt__arena=arena).order_by("pk")[:2]
    Response.objects.filter(pk=first.pk).update(text="<think>Hm, well.</think>Yes.")
    Response.objects.filter(pk=second.pk).update(text="data:image/png;base64,AAAA")
    import_module("ranking.migrations.0028_styles_without_thought").forget_styles(apps, None)
    assert ArenaRefresh.objects.get(arena=arena).is_stale
    assert count_missing(arena_id=arena.pk, token=token) == 2
    assert ResponseStyle.objects.get(response=first).words == 1


def test_an_answer_s_style_is_counted_once(arena: Arena) -> None:
    token = claim(arena)
    assert count_missing(arena_id=arena.pk, token=token) == 12
    assert count_missing(arena_id=arena.pk, token=token) == 0
    assert ResponseStyle.objects.filter(response__prompt__arena=arena).count() == 12


def test_votes_that_cannot_tell_style_from_quality_give_no_wild_scores() -> None:
    """Each candidate's answers are about equally long: hardly a vote says what length is worth."""
    arena = make_arena(n_candidates=4, n_prompts=30)
    candidates = list(arena.candidates.order_by("pk"))
    for place, candidate in enumerate(candidates):
        for number, response in enumerate(candidate.responses.order_by("pk")):
            response.text = "word " * (9 + 3 * place + (number > 8))
            response.save()
    prompts = list(arena.prompts.order_by("pk"))
    for number in range(24):
        left, right = candidates[number % 4], candidates[(number + 1 + number % 3) % 4]
        make_vote(arena, left, right, ["left", "right", "tie"][number % 3], prompts[number])
    style = publish(arena).findings["style"]
    assert style["features"]
    kept = style["scores"].values()
    assert len(kept) < 4
    assert all(score["high"] - score["low"] <= 2000 for score in kept)


def test_lead_by_length_alone_vanishes_with_style_control() -> None:
    """The longer answer wins nine times in ten, and the first candidate's is the longer more
    often: its lead is all style."""
    arena = make_arena(n_candidates=2, n_prompts=60)
    long, short = arena.candidates.order_by("pk")
    rater = make_person()
    for number, prompt in enumerate(arena.prompts.order_by("pk")):
        longer = long if number % 3 else short
        for candidate in (long, short):
            text = "word " * (200 if candidate == longer else 100)
            Response.objects.filter(candidate=candidate, prompt=prompt).update(text=text)
        for turn in range(3):
            sides = (long, short) if turn % 2 else (short, long)
            longer_wins = (number * 3 + turn) % 10 != 0
            outcome = "left" if (sides[0] == longer) == longer_wins else "right"
            make_vote(arena, *sides, outcome, prompt, rater)
    snapshot = publish(arena)
    style: dict[str, Any] = snapshot.findings["style"]
    plain = snapshot.standings.get(candidate=long).score - 1000
    styled = style["scores"][str(long.pk)]["score"] - 1000
    words = next(row for row in style["features"] if row["name"] == "words")
    assert words["low"] > 0
    assert plain > 40
    assert abs(styled) < plain / 2
    assert style["n_votes"] == 180
    bold = next(row for row in style["features"] if row["name"] == "bold")
    assert bold["coefficient"] is None
    assert bold["reason"]


def test_raters_of_different_tastes_widen_scores_and_effects_of_style() -> None:
    """The same votes by twelve raters, each mostly for one candidate, and by a rater each."""
    arenas = [make_arena(n_candidates=2, n_prompts=60) for _ in range(2)]
    widths = []
    for arena, n_raters in zip(arenas, (12, 240), strict=True):
        first, second = arena.candidates.order_by("pk")
        raters = [make_person() for _ in range(n_raters)]
        rows: list[list[Any]] = [[] for _ in raters]
        for number, prompt in enumerate(arena.prompts.order_by("pk")):
            longer = first if number % 2 else second
            for candidate in (first, second):
                text = "word " * (20 if candidate == longer else 10)
                Response.objects.filter(candidate=candidate, prompt=prompt).update(text=text)
            for place in range(4 * number, 4 * number + 4):
                liked = longer if place % 5 == 0 else (first, second)[place % 2]
                outcome = "left" if liked == first else "right"
                rows[place % n_raters].append((first, second, outcome, prompt))
        for rater, of_rater in zip(raters, rows, strict=True):
            make_votes(arena, of_rater, rater)
        snapshot = publish(arena)
        score = snapshot.standings.get(candidate=first)
        style: dict[str, Any] = snapshot.findings["style"]
        length = next(row for row in style["features"] if row["name"] == "words")
        widths.append((score.high - score.low, length["high"] - length["low"]))
    (score_of_few, length_of_few), (score_of_many, length_of_many) = widths
    assert score_of_few > 1.5 * score_of_many
    assert length_of_few > 1.5 * length_of_many


def test_votes_without_answers_have_no_style() -> None:
    arena = make_arena(n_candidates=3)
    Response.objects.all().delete()
    fill(arena)
    assert publish(arena).findings["style"] is None
