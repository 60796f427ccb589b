"""What raters see after a vote, and the list of their own votes."""

from typing import Any

import numpy as np
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from arena.models import Arena, Comparison, Prompt, Rater, Reason, Vote
from arena.services.comparisons import issue_pair, next_comparison
from arena.services.voting import cast_vote
from ranking.raters import shrunk_scores, summarise
from ranking.reasons import count_reasons
from ranking.votes import PairCounts
from tests.arena.rest import member_of
from tests.factories import make_arena, make_person, make_team

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


def test_the_facts_count_the_others_who_chose_the_same(arena: Arena) -> None:
    for outcome in ["candidate-0"] * 3 + ["candidate-1", "tie"]:
        cast(arena, outcome)
    own = cast(arena, "candidate-0")
    answer = facts(reader(own.rater), own)
    assert "60 % of 5 other raters agree" in answer.text


@pytest.mark.parametrize(
    ("others", "sentence"),
    [
        (["candidate-0"], "The only other rater agreed."),
        (["tie"], "The only other rater disagreed."),
        (["candidate-0", "tie"], "1 of 2 other raters agreed."),
    ],
)
def test_few_other_raters_are_counted_in_words(
    arena: Arena, others: list[str], sentence: str
) -> None:
    for outcome in others:
        cast(arena, outcome)
    own = cast(arena, "candidate-0")
    assert sentence in facts(reader(own.rater), own).text


def test_a_voided_vote_agrees_with_nobody(arena: Arena) -> None:
    other, own = cast(arena, "tie"), cast(arena, "tie")
    Vote.objects.filter(pk=other.pk).update(voided_at=timezone.now(), void_reason="spam")
    assert "first to compare" in facts(reader(own.rater), own).text


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
    client.get(reverse("vote", args=[arena.slug]))
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
    assert "Against:" in page
    assert "<strong>wrong</strong>" in page
    assert "unclear" not in page


def test_reasons_of_voided_votes_count_for_nothing(arena: Arena) -> None:
    vote = cast(arena, "candidate-0")
    Reason.objects.create(vote=vote, side="left", tag="clear")
    Vote.objects.update(voided_at=timezone.now(), void_reason="spam")
    assert count_reasons(arena) == []


def test_a_raters_page_ranks_by_their_own_votes_alone(arena: Arena) -> None:
    rater, now = make_person(), timezone.now()
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
    assert [place.rank for place in summary.places] == [1, 2, 3]
    assert (summary.same, summary.others) == (0, 5)
    assert 1000 < summary.places[0].score < 1400  # twelve votes without a loss, and yet finite
    page = reader(rater).get(reverse("my_votes", args=[arena.slug])).text
    assert "Scores are pulled towards 1000" in page
    assert "of 5 votes on the same answers" in page


def test_few_votes_make_no_ranking(arena: Arena) -> None:
    vote = cast(arena, "candidate-0")
    assert summarise(arena, vote.rater).places == []
    page = reader(vote.rater).get(reverse("my_votes", args=[arena.slug])).text
    assert "after ten decisive votes" in page


def test_shrunk_scores_solve_the_penalised_likelihood() -> None:
    """Two candidates, three wins to none, and two ties: odds of (3 + 1) to 1."""
    counts = PairCounts.count(*(np.array([n] * 3) for n in (1, 2, 0, np.nan)))
    scores = shrunk_scores(counts, np.array([1, 2]))
    assert np.isclose(scores[0] - scores[1], 400 * np.log10(4))


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
