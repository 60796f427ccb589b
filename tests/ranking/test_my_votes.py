"""What raters see after a vote, and the list of their own votes."""

from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from arena.models import Arena, Comparison, Prompt, Rater, Reason, Response, Vote
from arena.services.comparisons import issue_pair, next_comparison
from arena.services.voting import cast_vote
from ranking.models import Standing
from ranking.raters import FEWEST, TIES_AT_FIRST, fit_shrunk, summarise, votes_to_own_ranking
from ranking.reasons import count_reasons
from ranking.votes import PairCounts
from tests.arena.rest import member_of
from tests.factories import known, make_arena, make_person, make_team
from tests.ranking.helpers import publish

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


def draw(arena: Arena, rater: Rater, *responses: int) -> Comparison:
    """These two answers, as if they had been drawn for `rater`."""
    comparison = issue_pair(
        arena=arena, rater=rater, responses=(responses[0], responses[1]), now=timezone.now()
    )
    Comparison.objects.filter(pk=comparison.pk).update(draw_probability=0.5)
    return comparison


def cast(arena: Arena, outcome: str, rater: Rater | None = None) -> Vote:
    """A vote on the first prompt's first two answers; `outcome` names the candidate or "tie"."""
    rater, now = rater or make_person(), timezone.now()
    answers = arena.prompts.order_by("pk")[0].responses.order_by("pk")[:2]
    comparison = draw(arena, rater, answers[0].pk, answers[1].pk)
    sides = {str(comparison.left): "left", str(comparison.right): "right"}
    return cast_vote(
        comparison=comparison, rater=rater, outcome=sides.get(outcome, outcome), now=now
    )


def reader(rater: Rater) -> Client:
    """The browser of an anonymous rater."""
    from django.core.signing import get_cookie_signer

    client = Client()
    client.cookies["rater"] = get_cookie_signer(salt="rater").sign(str(rater.pk))
    return client


def facts(client: Client, vote: Vote) -> Any:
    comparison = vote.comparison
    return client.get(reverse("vote_facts", args=[vote.comparison.arena.slug, comparison.key]))


def test_nobody_learns_the_facts_of_a_pair_before_voting_on_it(arena: Arena) -> None:
    waiting = cast(arena, "tie")
    Vote.objects.all().delete()
    assert facts(reader(waiting.rater), waiting).status_code == 404


def test_nobody_reads_the_facts_of_another_persons_vote(arena: Arena) -> None:
    own = cast(arena, "tie")
    assert facts(reader(make_person()), own).status_code == 404


def test_the_list_holds_ones_own_votes_with_links(arena: Arena) -> None:
    own, other = cast(arena, "candidate-1"), cast(arena, "candidate-0")
    page = reader(own.rater).get(reverse("my_votes", args=[arena.slug]))
    assert "<strong>candidate-1</strong> over candidate-0" in page.text
    assert str(own.comparison.key) in page.text
    assert str(other.comparison.key) not in page.text


def test_the_list_names_no_pair_that_waits(client: Client, arena: Arena) -> None:
    known(client).get(reverse("vote", args=[arena.slug]))
    assert Comparison.objects.exists()
    assert "candidate-" not in client.get(reverse("my_votes", args=[arena.slug])).text


def test_the_list_offers_to_vote_only_while_a_pair_is_left(arena: Arena) -> None:
    own, offer = cast(arena, "tie"), f'href="{reverse("vote", args=[arena.slug])}">Vote<'
    issued = Comparison.objects.count()
    list_url, now = reverse("my_votes", args=[arena.slug]), timezone.now()
    assert offer in reader(own.rater).get(list_url).text
    assert Comparison.objects.count() == issued  # looking at the list issues none
    while comparison := next_comparison(arena=arena, rater=own.rater, now=now):
        cast_vote(comparison=comparison, rater=own.rater, outcome="tie", now=now)
    assert offer not in reader(own.rater).get(list_url).text
    assert offer in Client().get(list_url).text


def test_the_ballot_fetches_the_last_ten_alone(arena: Arena) -> None:
    own = cast(arena, "tie")
    list_url = reverse("my_votes", args=[arena.slug])
    part = reader(own.rater).get(list_url, headers={"HX-Request": "true"})
    assert "candidate-0" in part.text
    assert "<html" not in part.text


def test_a_fault_that_one_candidate_has_more_often_stands_out(arena: Arena, client: Client) -> None:
    for number in range(24):
        vote = cast(arena, "candidate-0" if number % 2 else "candidate-1")
        loser = "right" if vote.outcome == "left" else "left"
        is_planted = str(getattr(vote.comparison, loser)) == "candidate-0"
        Reason.objects.create(vote=vote, side=loser, tag="wrong" if is_planted else "unclear")
    named = {reason.tag: reason for reason in count_reasons(arena) if not reason.category}
    assert named["wrong"].stands_out
    assert (named["wrong"].named, named["wrong"].explained, named["wrong"].elsewhere) == (12, 12, 0)
    first = arena.candidates.order_by("pk")[0]
    page = client.get(reverse("candidate", args=[arena.slug, first.pk])).text
    assert "Faults" in page
    assert "wrong" in page
    assert "unclear" not in page


def test_reasons_of_voided_votes_count_for_nothing(arena: Arena) -> None:
    vote = cast(arena, "candidate-0")
    Reason.objects.create(vote=vote, side="left", tag="clear")
    Vote.objects.update(voided_at=timezone.now(), void_reason="spam")
    assert count_reasons(arena) == []


def test_a_raters_page_ranks_by_their_own_votes_alone() -> None:
    arena, rater, now = make_arena(3, 12), make_person(), timezone.now()
    for prompt in arena.prompts.order_by("pk"):
        first, second, third = prompt.responses.order_by("pk")
        for better, worse in ((first, second), (first, third), (second, third)):
            comparison = draw(arena, rater, better.pk, worse.pk)
            is_left = comparison.left_id == better.candidate_id
            outcome = "left" if is_left else "right"
            cast_vote(comparison=comparison, rater=rater, outcome=outcome, now=now)
    for _ in range(5):
        cast(arena, "candidate-1")  # others see it the other way round
    summary = summarise(arena, rater)
    assert [place.candidate for place in summary.places] == [f"candidate-{i}" for i in range(3)]
    assert [place.ranks for place in summary.places] == ["1", "2", "3"]
    assert (summary.same, summary.others) == (0, 5)
    assert summary.places[0].low < summary.places[0].score < summary.places[0].high
    assert summary.places[0].score < 1600  # 24 wins without a loss, and yet finite
    page = reader(rater).get(reverse("my_votes", args=[arena.slug])).text
    assert "Scores are pulled towards 1000" in page
    assert "of 5 votes on the same answers" in page


def test_few_votes_make_no_ranking(arena: Arena) -> None:
    vote = cast(arena, "candidate-0")
    summary = summarise(arena, vote.rater)
    assert (summary.places, summary.to_go) == ([], FEWEST - 1)
    page = reader(vote.rater).get(reverse("my_votes", args=[arena.slug])).text
    assert f"Too few votes yet for a ranking of your own: at least {FEWEST - 1} more to go." in page


def cast_wins(*wins: tuple[int, int, int]) -> PairCounts:
    """`n` wins of the first candidate over the second, by (first, second, n)."""
    first, second = (np.repeat([win[i] for win in wins], [win[2] for win in wins]) for i in (0, 1))
    return PairCounts.count(
        first, second, np.zeros(len(first), np.int64), np.full(len(first), np.nan)
    )


@pytest.mark.parametrize(("candidates", "needed"), [(4, 30), (12, 60)])
def test_many_candidates_take_more_votes_for_a_ranking(candidates: int, needed: int) -> None:
    counts = cast_wins(*((i, i + 1, 1) for i in range(1, candidates)))
    assert votes_to_own_ranking(counts) == needed - (candidates - 1)


def test_shrunk_scores_solve_the_penalised_likelihood() -> None:
    """Two candidates, three wins to none, and two ties: odds of (3 + 1) to 1."""
    fitted = fit_shrunk(cast_wins((1, 2, 3)), np.array([1, 2]))
    assert np.isclose(fitted.scores[0] - fitted.scores[1], 400 * np.log10(4))


def test_errors_of_shrunk_scores_are_the_curvature_of_the_penalised_likelihood() -> None:
    wins = ((1, 2, 9), (2, 3, 4), (3, 1, 2), (3, 4, 6), (4, 2, 3))
    fitted = fit_shrunk(cast_wins(*wins), np.arange(1, 5))
    natural = (fitted.scores - 1000) * np.log(10) / 400

    def log_posterior(theta: Any) -> Any:
        total = 0.0
        for a, b, n in wins:
            total -= n * np.logaddexp(0, theta[b - 1] - theta[a - 1])
        for a in range(4):
            for b in range(a):
                gap = theta[a] - theta[b]
                total -= TIES_AT_FIRST / 3 * (np.logaddexp(0, gap) + np.logaddexp(0, -gap)) / 2
        return total

    step, unit = 1e-3, np.eye(4)
    hessian = np.array(
        [
            [
                sum(
                    s * t * log_posterior(natural + step * (s * unit[i] + t * unit[j]))
                    for s in (1, -1)
                    for t in (1, -1)
                )
                / (4 * step**2)
                for j in range(4)
            ]
            for i in range(4)
        ]
    )
    covariance = np.linalg.pinv(-hessian, rcond=1e-5)
    errors = np.sqrt(covariance.diagonal()) * 400 / np.log(10)
    assert fitted.errors == pytest.approx(errors, rel=1e-4)


def test_intervals_and_ranks_of_ones_own_hold_the_truth() -> None:
    """Six candidates 100 Elo apart, a typical standard deviation, and 60 votes."""
    chance, n_candidates = np.random.default_rng(5), 6
    held, ranked = [], []
    for _ in range(200):
        true = chance.normal(0, 100, n_candidates)
        true -= true.mean()
        left = chance.integers(n_candidates, size=60)
        right = (left + chance.integers(1, n_candidates, size=60)) % n_candidates
        wins = chance.random(60) < 1 / (1 + 10 ** ((true[right] - true[left]) / 400))
        counts = PairCounts.count(left, right, np.where(wins, 0, 1), np.full(60, np.nan))
        fitted = fit_shrunk(counts, np.arange(n_candidates))
        held.append(np.abs(fitted.scores - 1000 - true) < 1.96 * fitted.errors)
        place = 1 + (true > true[:, None]).sum(axis=1)
        ranked.append(((fitted.best <= place) & (place <= fitted.worst)).all())
    assert 0.93 < np.mean(held) < 0.99
    assert np.mean(ranked) >= 0.95


def test_reasons_in_the_api_do_not_tell_who_wrote_the_answers_of_a_blind_category(
    arena: Arena, client: Client
) -> None:
    arena.prompts.update(category="refunds")
    Arena.objects.update(open_answers=False)
    vote = cast(arena, "candidate-0")
    Reason.objects.create(vote=vote, side="left", tag="clear")
    address = reverse("api_reasons", args=[arena.slug])
    (reason,) = client.get(address).json()["reasons"]
    first = vote.comparison.left
    assert (reason["candidate_id"], reason["candidate"]) == (first.pk, str(first))
    assert (reason["category"], reason["tag"], reason["named"]) == ("", "clear", 1)
    arena.prompts.update(retired_at=timezone.now())
    assert {reason["category"] for reason in client.get(address).json()["reasons"]} == {
        "",
        "refunds",
    }


def test_reasons_in_the_api_take_as_many_queries_for_many_prompts(
    django_assert_num_queries: Any,
) -> None:
    team = make_team()
    few, many = (make_arena(n_prompts=n, team=team, open_answers=False) for n in (1, 8))
    Prompt.objects.update(category="refunds")
    caller = member_of(team)
    with CaptureQueriesContext(connection) as needed:
        assert caller.get(f"arenas/{few.slug}/reasons/").status_code == 200
    with django_assert_num_queries(len(needed)):
        assert caller.get(f"arenas/{many.slug}/reasons/").status_code == 200


def test_the_facts_are_ranks_prices_and_seconds_and_nothing_of_other_votes(arena: Arena) -> None:
    arena.candidates.update(organisation="Example Labs")
    Arena.objects.update(open_answers=True)
    Response.objects.update(cost=2_000_000, seconds=1.5)
    others = [cast(arena, "candidate-0") for _ in range(3)]
    publish(arena)
    Standing.objects.update(sure_rank_low=1, sure_rank_high=2)
    text = " ".join(facts(reader(others[0].rater), others[0]).text.split())
    assert "$2.00" in text
    assert "1.5 s" in text
    assert "1–2" in text
    assert "agree" not in text
