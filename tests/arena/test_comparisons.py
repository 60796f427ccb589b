"""Issuing comparisons: what a rater gets next."""

from collections import Counter
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from psycopg._queries import MAX_CACHED_STATEMENT_LENGTH

from arena.db import sql
from arena.db.sql import MOST_UNEVEN, NEXT
from arena.models import (
    Arena,
    Candidate,
    Comparison,
    Import,
    Pair,
    PairDemand,
    Prompt,
    Rater,
    Role,
    Team,
)
from arena.services import comparisons, raters, voting
from arena.services.comparisons import TIME_TO_VOTE
from arena.services.pairs import publish_pair_weights, sync_pairs, take_side
from tests.factories import make_arena, make_member, make_person, make_team, make_user

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def issue(arena, rater, **kwargs):
    return comparisons.next_comparison(arena=arena, rater=rater, now=NOW, **kwargs)


def vote_through(arena, rater):
    """Vote until nothing is left; return the comparisons in order."""
    seen = []
    while comparison := issue(arena, rater):
        voting.cast_vote(comparison=comparison, rater=rater, outcome="tie", now=NOW)
        seen.append(comparison)
    return seen


def test_a_comparison_has_one_prompt_and_two_candidates():
    arena = make_arena()
    comparison = issue(arena, make_person())
    assert comparison.left != comparison.right
    assert comparison.left_response.prompt == comparison.right_response.prompt == comparison.prompt
    assert comparison.expires_at == NOW + TIME_TO_VOTE


def test_a_rater_gets_no_two_responses_twice_in_either_order():
    arena, rater = make_arena(3, 4), make_person()
    seen = [
        frozenset([c.left_response_id, c.right_response_id]) for c in vote_through(arena, rater)
    ]
    assert len(seen) == len(set(seen)) == 3 * 4


def test_a_reload_shows_the_pair_that_is_waiting():
    arena, rater = make_arena(), make_person()
    assert issue(arena, rater) == issue(arena, rater)


def test_the_pair_fetched_ahead_is_another_one_and_is_the_next():
    arena, rater = make_arena(), make_person()
    first = issue(arena, rater)
    ahead = issue(arena, rater, exclude=[first])
    assert ahead != first
    assert issue(arena, rater, exclude=[first]) == ahead
    voting.cast_vote(comparison=first, rater=rater, outcome="left", now=NOW)
    assert issue(arena, rater) == ahead


def test_no_side_of_a_pair_gets_far_ahead():
    arena = make_arena(4, 5)
    for _ in range(7):
        vote_through(arena, make_person())
    left = Counter(Comparison.objects.values_list("left", "right"))
    for pair in Pair.objects.all():
        shown = left[pair.low_id, pair.high_id], left[pair.high_id, pair.low_id]
        assert shown == (pair.low_left, pair.high_left)
        assert abs(shown[0] - shown[1]) <= MOST_UNEVEN
        assert sum(shown) == 35


def test_whoever_knows_all_earlier_sides_can_hardly_tell_the_next_one():
    """Public votes show their sides, so of two candidates the one behind was on the left in three
    of four showings."""
    make_arena(2, 1)
    pair, ahead, right = Pair.objects.get(), 0, 0.0
    for _ in range(1000):
        went_left = take_side(pair=pair)
        right += 0.5 if ahead == 0 else went_left == (ahead < 0)
        ahead += 1 if went_left else -1
        assert abs(ahead) <= MOST_UNEVEN
    assert right / 1000 < 0.58  # 52.5 %, and three and a half standard errors


def test_the_stored_probability_is_of_what_was_left_to_draw():
    arena, rater = make_arena(3, 1), make_person()
    pairs = list(Pair.objects.order_by("pk"))
    weights = {(p.low_id, p.high_id): w for p, w in zip(pairs, [1.0, 2.0, 5.0], strict=True)}
    publish_pair_weights(arena=arena, weights=weights)
    left_over = 8.0
    for comparison in vote_through(arena, rater):
        ids = tuple(sorted([comparison.left_id, comparison.right_id]))
        assert comparison.draw_probability == pytest.approx(weights[ids] / left_over)
        left_over -= weights[ids]


def test_a_pair_without_weight_is_never_drawn():
    arena = make_arena(3, 5)
    pair = Pair.objects.first()
    publish_pair_weights(arena=arena, weights={(pair.low_id, pair.high_id): 0.0})
    drawn = vote_through(arena, make_person())
    assert len(drawn) == 10
    assert {pair.low_id, pair.high_id} not in [{c.left_id, c.right_id} for c in drawn]


def test_a_retired_candidate_is_not_shown_although_its_pair_has_weight():
    arena = make_arena(2, 1)
    for candidate in arena.candidates.all():
        Candidate.objects.filter(pk=candidate.pk).update(retired_at=NOW)
        assert issue(arena, make_person()) is None
        Candidate.objects.update(retired_at=None)
    assert issue(arena, make_person()) is not None


def test_texts_are_shown_once_their_import_is_revealed():
    arena = make_arena(2, 1)
    prompt = arena.prompts.get()
    hidden = Import.objects.create(arena=arena, sha256="0", started_at=NOW)
    for text in (prompt, *prompt.responses.all()):
        stored = type(text).objects.filter(pk=text.pk)
        stored.update(source=hidden)
        assert issue(arena, make_person()) is None
        stored.update(source=None)
    prompt.responses.update(source=hidden)
    Import.objects.update(revealed_at=NOW)
    assert issue(arena, make_person()).prompt == prompt


def test_weights_decide_how_often_a_pair_comes():
    arena = make_arena(3, 1)
    pair = Pair.objects.first()
    publish_pair_weights(arena=arena, weights={(pair.low_id, pair.high_id): 18.0})
    first = [issue(arena, make_person()) for _ in range(60)]
    favoured = sum({c.left_id, c.right_id} == {pair.low_id, pair.high_id} for c in first)
    assert favoured > 40  # expected 54 of 60


def test_an_expired_pair_is_not_shown_to_its_rater_again():
    arena, rater = make_arena(2, 1), make_person()
    issue(arena, rater)
    later = NOW + TIME_TO_VOTE + timedelta(seconds=1)
    assert comparisons.next_comparison(arena=arena, rater=rater, now=later) is None


def test_an_undone_pair_goes_to_another_rater():
    arena, rater, other = make_arena(2, 1), make_person(), make_person()
    comparison = issue(arena, rater)
    voting.cast_vote(comparison=comparison, rater=rater, outcome="left", now=NOW)
    voting.undo_vote(comparison=comparison, rater=rater, now=NOW)
    assert PairDemand.objects.get().remaining == 1
    assert issue(arena, rater) is None
    again = issue(arena, other)
    assert again.prompt == comparison.prompt
    assert again.draw_probability == comparison.draw_probability
    assert PairDemand.objects.get().remaining == 0


def test_a_comparison_is_flagged_when_an_answer_names_its_model():
    arena = make_arena(2, 1)
    response = arena.candidates.first().responses.get()
    response.names_itself = True
    response.save()
    assert issue(arena, make_person()).names_itself


def test_prompts_that_only_one_candidate_answers_are_never_shown():
    arena = make_arena(2, 2)
    arena.candidates.first().responses.first().delete()
    sync_pairs(arena=arena)
    assert len(vote_through(arena, make_person())) == 1


def test_an_arena_of_one_candidate_has_nothing_to_show():
    assert issue(make_arena(1, 3), make_person()) is None


def test_what_is_retired_is_shown_no_more_even_if_waiting():
    arena, rater = make_arena(3, 1), make_person()
    waiting = issue(arena, rater)
    Candidate.objects.filter(pk=waiting.left_id).update(retired_at=NOW)
    sync_pairs(arena=arena)
    following = issue(arena, rater)
    assert following != waiting
    assert waiting.left_id not in (following.left_id, following.right_id)


def test_a_retired_prompt_is_neither_left_nor_seen():
    arena, rater = make_arena(2, 2), make_person()
    comparison = issue(arena, rater)
    voting.cast_vote(comparison=comparison, rater=rater, outcome="tie", now=NOW)
    Prompt.objects.filter(pk=comparison.prompt_id).update(retired_at=NOW)
    sync_pairs(arena=arena)
    assert issue(arena, rater).prompt != comparison.prompt


def test_an_undone_vote_tells_nobody_the_names_of_the_next_answers():
    """Whoever undid a vote in one browser knew the names of the first pair in another."""
    arena, same = make_arena(3, 30), 0
    for _ in range(8):
        rater, other = make_person(), make_person()
        comparison = issue(arena, rater)
        voting.cast_vote(comparison=comparison, rater=rater, outcome="left", now=NOW)
        voting.undo_vote(comparison=comparison, rater=rater, now=NOW)
        again = issue(arena, other)
        assert {again.left, again.right} == {comparison.left, comparison.right}
        same += again.prompt == comparison.prompt
    assert same < 4  # one in 30 each: this fails once in 13,000 times


def test_a_rater_who_saw_all_demanded_gets_a_pair_by_weight():
    arena, rater = make_arena(2, 30), make_person()
    for hours in range(8, 0, -1):
        comparison, then = issue(arena, rater), NOW - timedelta(hours=hours)
        voting.cast_vote(comparison=comparison, rater=rater, outcome="tie", now=then)
        voting.undo_vote(comparison=comparison, rater=rater, now=then)
    assert issue(arena, rater) is not None


@pytest.fixture
def contest() -> tuple[Arena, Team]:
    """An arena of one team with four candidates; the last two are another team's."""
    arena, guests = make_arena(4, 6, team=make_team()), make_team()
    pks = list(arena.candidates.order_by("pk").values_list("pk", flat=True))
    Candidate.objects.filter(pk__in=pks[2:]).update(team=guests)
    return arena, guests


def pairs_of(arena: Arena, user: Any, rater: Rater | None = None) -> set[frozenset[int]]:
    """The places of the candidates in every pair that this person gets."""
    rater = rater or make_person(user=user)
    pks = list(arena.candidates.order_by("pk").values_list("pk", flat=True))
    found = set()
    while pair := comparisons.next_comparison(arena=arena, rater=rater, now=timezone.now()):
        found.add(frozenset({pks.index(pair.left_id), pks.index(pair.right_id)}))
        Comparison.objects.filter(pk=pair.pk).update(skipped_at=timezone.now())
    return found


SAME = {frozenset({0, 1}), frozenset({2, 3})}


def test_members_never_get_pairs_of_own_and_foreign_candidates(contest: tuple[Arena, Team]) -> None:
    arena, guests = contest
    everything = {frozenset({i, j}) for i in range(4) for j in range(i)}
    assert pairs_of(arena, None) == pairs_of(arena, make_user()) == everything
    for team in (arena.team, guests):
        assert pairs_of(arena, make_member(team, Role.VIEWER).user) == SAME


def test_raters_named_by_a_team_s_token_are_of_that_team(contest: tuple[Arena, Team]) -> None:
    arena, _ = contest
    named = raters.rater_of_name(arena=arena, name="anna", now=timezone.now())
    assert pairs_of(arena, None, named) == SAME


def test_members_of_the_only_team_vote_as_ever() -> None:
    arena = make_arena(3, 2, team=make_team())
    assert len(pairs_of(arena, make_member(arena.team).user)) == 3
    named = raters.rater_of_name(arena=arena, name="anna", now=timezone.now())
    assert len(pairs_of(arena, None, named)) == 3


def test_requested_votes_are_not_cast_by_a_team_that_competes(
    contest: tuple[Arena, Team],
) -> None:
    arena, guests = contest
    PairDemand.objects.create(pair=arena.pairs.order_by("low", "high")[1], arena=arena, remaining=3)
    assert pairs_of(arena, make_member(guests).user) == SAME


def test_a_pair_that_was_chosen_follows_the_same_rule(contest: tuple[Arena, Team]) -> None:
    arena, guests = contest
    answers = arena.prompts.order_by("pk")[0].responses.order_by("candidate")
    first, _, third, fourth = (answer.pk for answer in answers)
    rater = make_person(user=make_member(guests).user)
    issue = partial(comparisons.issue_pair, arena=arena, rater=rater, now=timezone.now())
    with pytest.raises(comparisons.OwnTeamError):
        issue(responses=(first, third))
    assert issue(responses=(third, fourth)).rater == rater


@pytest.mark.django_db
def test_the_next_pair_reads_no_other_raters_comparisons() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL knows how many rows there are.")
    values = {"arena": 1, "rater": 2, "also": 3, "now": NOW, "random": 0.5}
    excluded = {f"skip_{n}": 0 for n in range(3)}
    plan = sql.rows(f"EXPLAIN QUERY PLAN {NEXT}", **values, **excluded)
    assert not [row for row in plan if "arena_comparison_arena" in row[3]]


def test_psycopg_keeps_the_next_pairs_statement_parsed():
    assert len(NEXT) <= MAX_CACHED_STATEMENT_LENGTH


def test_the_next_pair_is_planned_alike_for_every_rater():
    if connection.vendor != "postgresql":
        pytest.skip("Only PostgreSQL plans again for values that it expects to be rare.")
    arena, busy, idle = make_arena(3, 8), make_person(), make_person()
    vote_through(arena, busy)
    asked = []

    def keep(execute, statement, values, many, context):
        if "drawn" in statement:
            asked.append((statement, values))
        return execute(statement, values, many, context)

    with connection.execute_wrapper(keep):
        issue(arena, busy)
        issue(arena, idle)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE arena_comparison")
        costs = []
        for statement, values in asked:
            cursor.execute(f"EXPLAIN {statement}", values | {"coin": True})
            costs.append(cursor.fetchone()[0])
    assert len(costs) == 2
    assert costs[0] == costs[1]


def test_equal_answers_are_never_shown_and_nobody_waits_for_them():
    arena = make_arena(3, 3)
    first, second, third = arena.candidates.order_by("pk")
    first.responses.update(text="Yes.")
    second.responses.update(text="Yes.")
    arena.prompts.earliest("pk").responses.filter(candidate=third).update(text="Yes.")
    sync_pairs(arena=arena)
    rater = make_person()
    seen = vote_through(arena, rater)
    assert all(c.left_response.text != c.right_response.text for c in seen)
    assert len(seen) == 2 * 2
    assert not comparisons.is_pair_left(arena=arena, rater=rater, now=NOW)


def test_an_order_for_equal_answers_waits_for_nobody():
    arena = make_arena(2, 2)
    arena.prompts.earliest("pk").responses.update(text="Yes.")
    sync_pairs(arena=arena)
    pair, rater = arena.pairs.get(), make_person()
    PairDemand.objects.create(arena=arena, pair=pair, rater=rater, remaining=2)
    seen = vote_through(arena, rater)
    assert [c.prompt for c in seen] == [arena.prompts.latest("pk")]


def test_equal_answers_that_somebody_asks_for_are_refused():
    arena = make_arena(2, 1)
    arena.prompts.get().responses.update(text="Yes.")
    low, high = arena.prompts.get().responses.values_list("pk", flat=True)
    with pytest.raises(comparisons.EqualAnswersError, match="the same"):
        comparisons.issue_pair(arena=arena, rater=make_person(), responses=(low, high), now=NOW)
