"""A rater's rounds of ten votes: what they moved, whether others agree, and the end of an arena."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.models import Arena, Comparison, Rater, Vote
from arena.services.comparisons import next_comparison
from arena.services.voting import cast_vote
from ranking.claim_words import MOST_WORTHWHILE
from ranking.models import Snapshot, Standing
from ranking.raters import FEWEST
from ranking.rounds import Round, find_round, read_choices, read_marks, read_moves
from ranking.stats.claim import DirectVotes, Unit, Verdict, claim
from tests.factories import make_arena, make_person, make_team
from tests.ranking.helpers import make_past, markup, publish, rank_anyway, words
from tests.ranking.test_my_votes import draw, reader

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


def play(arena: Arena, rater: Rater, outcomes: Sequence[str], first: int = 0) -> list[Vote]:
    """Votes on the first two answers to one prompt after the other; `outcomes` as candidate-0 sees
    them: "left" is a win."""
    low, high = arena.candidates.order_by("pk")[:2]
    votes = []
    for prompt, outcome in zip(arena.prompts.order_by("pk")[first:], outcomes, strict=False):
        answers = [prompt.responses.get(candidate=one).pk for one in (low, high)]
        comparison = draw(arena, rater, *answers)
        is_flipped = comparison.left_id != low.pk
        said = {"left": "right", "right": "left"}.get(outcome, outcome) if is_flipped else outcome
        votes.append(
            cast_vote(comparison=comparison, rater=rater, outcome=said, now=timezone.now())
        )
    return votes


def others_vote(arena: Arena, outcomes: Sequence[str]) -> None:
    """One other person's votes on the same answers."""
    play(arena, make_person(), outcomes)


def the_round(arena: Arena, rater: Rater, number: int = 1) -> Round:
    found = find_round(arena, rater, number)
    assert found is not None
    return found


def card(client: Client, arena: Arena, number: int = 1, **headers: str) -> Any:
    return client.get(reverse("round", args=[arena.slug, number]), headers=headers)


def page_of(rater: Rater, arena: Arena, number: int = 1) -> str:
    answer = card(reader(rater), arena, number)
    assert answer.status_code == 200
    return words(answer.text)


@pytest.fixture
def wide(db: None) -> Arena:
    """Two candidates and many prompts: more than enough for some rounds."""
    return make_arena(2, 45, name="Wide")


def test_a_move_is_the_claim_without_the_rounds_votes_and_with_them(wide: Arena) -> None:
    earlier = ["left"] * 10 + ["right"] * 2
    others_vote(wide, earlier)
    rater = make_person()
    own = ["left"] * 10
    play(wide, rater, own, first=12)
    publish(wide)
    (move,) = read_moves(the_round(wide, rater)).pairs
    points = {"left": 1.0, "right": -1.0}
    score = np.array([points[outcome] for outcome in earlier + own])
    prompt = np.arange(len(score))
    person = np.array([1] * 12 + [2] * 10)
    before, after = (claim(DirectVotes(score[:n], prompt[:n], person[:n])) for n in (12, 22))
    assert (move.before.low, move.before.high) == pytest.approx(
        (100 * before.low, 100 * before.high)  # type: ignore[operator]
    )
    assert (move.after.low, move.after.high) == pytest.approx(
        (100 * after.low, 100 * after.high)  # type: ignore[operator]
    )
    assert before.missing is not None
    assert before.verdict is Verdict.OPEN
    assert after.verdict is Verdict.BETTER
    assert move.to_go_before == before.missing.number
    assert move.to_go is None
    assert move.is_settled_now
    assert str(move.ahead) == "candidate-0"
    page = page_of(rater, wide)
    assert "Ten votes. This is what they moved." in page
    assert (
        "candidate-0 or candidate-1 Settled now: candidate-0 is better, for those who vot" in page
    )


def test_votes_that_move_a_pair_away_from_an_answer_are_said_to(wide: Arena) -> None:
    others_vote(wide, ["left"] * 9 + ["right"])
    rater = make_person()
    play(wide, rater, ["right"] * 5 + ["left"] * 5, first=10)
    publish(wide)
    (move,) = read_moves(the_round(wide, rater)).pairs
    assert not move.is_closer
    page = page_of(rater, wide)
    assert "urther from a decision" in page
    assert "What they moved" in page


def test_votes_to_a_decision_are_shown_where_votes_can_settle_it_alone(wide: Arena) -> None:
    others_vote(wide, (["left"] * 5 + ["right"] * 4) * 2)
    rater = make_person()
    play(wide, rater, ["left", "right"] * 4 + ["left"] * 2, first=18)
    publish(wide)
    (move,) = read_moves(the_round(wide, rater)).pairs
    missing = move.claim.missing
    assert missing is not None
    assert missing.number is not None
    # 28 of 45 prompts have a vote: fewer are left than it takes.
    assert (missing.unit, missing.number > 17) == (Unit.PROMPTS, True)
    assert missing.number < MOST_WORTHWHILE
    assert move.to_go is None
    assert "votes to a decision" not in page_of(rater, wide)
    wide.pairs.update(shared_prompts=10_000)
    (move,) = read_moves(the_round(wide, rater)).pairs
    assert move.to_go == missing.number
    assert "votes to a decision" in page_of(rater, wide)


def test_ranges_of_ranks_that_changed_are_shown_with_their_scope(wide: Arena) -> None:
    others_vote(wide, ["left"] * 6)
    publish(wide)
    rank_anyway(wide)
    make_past(Snapshot.objects.current().get(board__raters="people", board__category=""), 1)
    rater = make_person()
    play(wide, rater, ["left"] * 10, first=6)
    others_vote(wide, ["left"] * 3)
    publish(wide)
    rank_anyway(wide)
    Standing.objects.filter(snapshot__is_current=False).update(sure_rank_low=1, sure_rank_high=2)
    now = Standing.objects.filter(snapshot__is_current=True, candidate__name="candidate-0")
    now.update(sure_rank_low=1, sure_rank_high=1)
    Standing.objects.filter(snapshot__is_current=True, candidate__name="candidate-1").update(
        sure_rank_low=1, sure_rank_high=2
    )
    moves = read_moves(the_round(wide, rater))
    (move,) = moves.ranks
    assert (str(move.candidate), move.before, move.after) == ("candidate-0", "1–2", "1")
    assert move.cells == ["now", "before"]
    assert moves.since is not None
    assert (moves.since.votes, moves.since.own) == (13, 10)
    page = page_of(rater, wide)
    assert "candidate-0 Ranks it could hold 1–2 → 1" in page
    assert "13 votes, 10 of them yours" in page


def test_until_the_leaderboard_counts_the_round_the_card_waits(wide: Arena) -> None:
    others_vote(wide, ["left"] * 8)
    publish(wide)
    rater = make_person()
    play(wide, rater, ["left"] * 10, first=8)
    part = card(reader(rater), wide, **{"HX-Request": "true"})
    assert "<html" not in part.text
    assert 'hx-get="?tries=1"' in part.text
    assert "leaderboard is counting your votes" in part.text
    address = reverse("round", args=[wide.slug, 1])
    last = reader(rater).get(address, {"tries": "10"}, headers={"HX-Request": "true"}).text
    assert "hx-get" not in last
    assert f'href="{address}">Refresh' in markup(last)
    publish(wide)
    assert "hx-get" not in card(reader(rater), wide).text
    assert "This is what they moved" in page_of(rater, wide)


def test_votes_that_do_not_count_move_nothing_and_are_said_not_to(wide: Arena) -> None:
    others_vote(wide, ["left"] * 8)
    rater = make_person()
    play(wide, rater, ["left"] * 10, first=8)
    Vote.objects.filter(rater=rater).update(uncounted="rushed", rushed=True)
    publish(wide)
    page = page_of(rater, wide)
    assert "They have not moved anything" in page
    assert "10 votes of this round do not count" in page
    assert "This is what they moved" not in page


def test_agreement_is_told_only_where_five_others_voted(wide: Arena) -> None:
    for _ in range(4):
        others_vote(wide, ["left", "left", "left"])
    others_vote(wide, ["left", "tie"])
    rater = make_person()
    votes = play(wide, rater, ["left", "right"] + ["left"] * 8)
    marks = read_marks(the_round(wide, rater))
    assert [mark.state for mark in marks] == ["agree", "differ"] + ["few"] * 8
    assert str(marks[1].most) == "candidate-0"
    answer = card(reader(rater), wide).text
    page = words(answer)
    assert "You agreed with most raters in 1 of 2 pairs" in page
    assert "Pair 1: you agreed" in page
    assert "Pair 2 , most chose candidate-0" in page
    assert "On 8 pairs, fewer than five others have voted" in page
    linked = re.findall(r"/comparisons/([0-9a-f-]+)/", answer)
    assert set(linked) == {str(votes[1].comparison.key)}


def test_choices_are_counts_of_chosen_and_shown(wide: Arena) -> None:
    rater = make_person()
    play(wide, rater, ["left"] * 6 + ["right"] * 2 + ["tie", "both_bad"])
    choices = read_choices(wide, rater)
    found = [(str(one.candidate), one.chosen, one.shown) for one in choices.best]
    assert found == [("candidate-0", 6, 10), ("candidate-1", 2, 10)]
    assert choices.to_go == FEWEST - 9  # "both bad" ranks nobody
    page = page_of(rater, wide)
    assert "candidate-0 6 of 10" in page
    assert f"{FEWEST - 9} more votes for a ranking of your own" in page


def test_a_pair_whose_names_are_hidden_is_named_nowhere(
    wide: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        others_vote(wide, ["right"] * 10)
    rater = make_person()
    play(wide, rater, ["left"] * 10)
    publish(wide)
    assert "candidate-" in page_of(rater, wide)
    hide_names(wide, rater)
    found = the_round(wide, rater)
    assert {mark.state for mark in read_marks(found)} == {"hidden"}
    assert not read_moves(found).pairs
    answer = card(reader(rater), wide).text
    assert "candidate-" not in answer
    assert "/comparisons/" not in answer


def hide_names(arena: Arena, rater: Rater) -> None:
    """As if an order that hides names had asked for the rater's votes."""
    from arena.models import Run

    run = Run.objects.create(arena=arena, kind="person", per_pair=1, state="open", hides_names=True)
    Comparison.objects.filter(rater=rater).update(run=run)


def test_only_the_readers_own_complete_rounds_are_there(wide: Arena) -> None:
    rater = make_person()
    play(wide, rater, ["left"] * 12)
    own = reader(rater)
    assert [card(own, wide, number).status_code for number in (0, 1, 2, 3)] == [404, 200, 404, 404]
    assert card(own, wide, 10**30).status_code == 404
    assert card(reader(make_person()), wide).status_code == 404
    assert card(Client(), wide).status_code == 404
    Arena.objects.update(team=make_team(), visibility="private")
    assert card(own, wide).status_code == 404


def finish(arena: Arena, rater: Rater) -> int:
    n, now = 0, timezone.now()
    while comparison := next_comparison(arena=arena, rater=rater, now=now):
        cast_vote(comparison=comparison, rater=rater, outcome="tie", now=now)
        n += 1
    return n


def test_the_end_of_an_arena_thanks_and_offers_the_next() -> None:
    arena, following = make_arena(2, 4), make_arena(2, 3, question="Which is kinder?")
    make_arena(2, 3, visibility="unlisted", question="Nobody lists this?")
    make_arena(2, 3, voters="signed_in", question="For people with an account?")
    rater = make_person()
    assert finish(arena, rater) == 4
    page = card(reader(rater), arena).text
    assert "Thank you. That was your last pair here." in page
    assert f"Next arena · {following.name}" in page
    assert "Which is kinder?" in page
    assert f'href="{reverse("vote", args=[following.slug])}" autofocus' in page
    assert "Ten more" not in page
    finish(following, rater)
    page = card(reader(rater), arena).text
    assert "Next arena" not in page
    assert "All arenas" in page


def test_a_complete_last_round_ends_the_arena_too() -> None:
    arena = make_arena(2, 10)
    rater = make_person()
    play(arena, rater, ["left"] * 10)
    assert "last pair" in page_of(rater, arena)
    assert card(reader(rater), arena, 2).status_code == 404


def test_voided_votes_are_in_no_round(wide: Arena) -> None:
    rater = make_person()
    votes = play(wide, rater, ["left"] * 11)
    Vote.objects.filter(pk=votes[0].pk).update(voided_at=timezone.now(), void_reason="undone")
    found = the_round(wide, rater)
    assert [vote.pk for vote in found.votes] == [vote.pk for vote in votes[1:]]
    assert found.is_last


def test_the_card_takes_few_queries(wide: Arena, django_assert_max_num_queries: Any) -> None:
    others_vote(wide, ["left"] * 10)
    rater = make_person()
    play(wide, rater, ["left"] * 10)
    publish(wide)
    client = reader(rater)
    with django_assert_max_num_queries(30):
        assert card(client, wide).status_code == 200
