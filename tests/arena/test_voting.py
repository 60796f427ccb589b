"""Casting, repeating, refusing, skipping, undoing and voiding votes."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from arena.models import Comparison, Rater, Vote
from arena.services import comparisons, voting
from arena.signals import votes_changed
from tests.factories import make_arena, make_person, make_vote, void_vote

pytestmark = pytest.mark.django_db
NOW = timezone.now()


@pytest.fixture
def rater():
    return make_person()


@pytest.fixture
def comparison(rater):
    return comparisons.next_comparison(arena=make_arena(), rater=rater, now=NOW)


def cast(comparison, rater, outcome="left", now=NOW):
    return voting.cast_vote(comparison=comparison, rater=rater, outcome=outcome, now=now)


def test_a_vote_is_one_row(comparison, rater):
    vote = cast(comparison, rater, "both_bad")
    assert Vote.objects.get() == vote
    assert (vote.outcome, vote.arena, vote.preference) == ("both_bad", comparison.arena, None)


def test_the_same_vote_again_is_the_same_vote(comparison, rater):
    assert cast(comparison, rater) == cast(comparison, rater)
    assert Vote.objects.count() == 1


def test_another_outcome_on_a_voted_pair_is_refused(comparison, rater):
    cast(comparison, rater, "left")
    with pytest.raises(voting.AlreadyVotedError):
        cast(comparison, rater, "right")
    assert Vote.objects.get().outcome == "left"


def test_another_persons_comparison_is_refused(comparison):
    with pytest.raises(voting.NotIssuedToYouError):
        cast(comparison, make_person())
    assert not Vote.objects.exists()


def test_an_expired_comparison_is_refused(comparison, rater):
    with pytest.raises(voting.ExpiredError):
        cast(comparison, rater, now=comparison.expires_at)
    assert not Vote.objects.exists()


def test_a_vote_repeated_after_the_expiry_is_still_found(comparison, rater):
    vote = cast(comparison, rater)
    assert cast(comparison, rater, now=comparison.expires_at + timedelta(days=1)) == vote


def test_a_skipped_comparison_takes_no_vote(comparison, rater):
    voting.skip_comparison(comparison=comparison, rater=rater, now=NOW)
    with pytest.raises(voting.SkippedError):
        cast(Comparison.objects.get(pk=comparison.pk), rater)


def test_skipping_a_voted_comparison_changes_nothing(comparison, rater):
    vote = cast(comparison, rater)
    assert voting.skip_comparison(comparison=comparison, rater=rater, now=NOW) == vote
    comparison.refresh_from_db()
    assert comparison.skipped_at is None


def test_a_pair_skipped_in_another_tab_takes_no_vote(comparison, rater):
    in_another_tab = Comparison.objects.get(pk=comparison.pk)
    voting.skip_comparison(comparison=in_another_tab, rater=rater, now=NOW)
    with pytest.raises(voting.SkippedError):
        cast(comparison, rater)
    assert not Vote.objects.exists()


def test_an_unknown_outcome_is_refused(comparison, rater):
    with pytest.raises(voting.UnknownOutcomeError):
        cast(comparison, rater, "LEFT")


def test_undo_voids_the_last_vote_within_thirty_seconds(comparison, rater):
    cast(comparison, rater)
    undone = voting.undo_vote(
        comparison=comparison, rater=rater, now=NOW + voting.TIME_TO_UNDO - timedelta(seconds=1)
    )
    undone.refresh_from_db()
    assert undone.voided_at
    assert undone.void_reason == voting.UNDONE
    assert not Vote.objects.live().exists()


def test_undo_after_thirty_seconds_is_refused(comparison, rater):
    cast(comparison, rater)
    with pytest.raises(voting.TooLateToUndoError):
        voting.undo_vote(
            comparison=comparison, rater=rater, now=NOW + voting.TIME_TO_UNDO + timedelta(seconds=1)
        )


def test_only_the_last_vote_can_be_undone(comparison, rater):
    cast(comparison, rater)
    following = comparisons.next_comparison(arena=comparison.arena, rater=rater, now=NOW)
    cast(following, rater)
    with pytest.raises(voting.TooLateToUndoError):
        voting.undo_vote(comparison=comparison, rater=rater, now=NOW)


def test_nobody_can_withdraw_every_vote_that_turns_out_to_be_against_a_favourite(rater):
    """The names follow the vote: whoever withdraws at will moves a board without telling authors
    apart."""
    arena = make_arena(2, 8)

    def vote_and_withdraw(now):
        issued = comparisons.next_comparison(arena=arena, rater=rater, now=now)
        cast(issued, rater, now=now)
        voting.undo_vote(comparison=issued, rater=rater, now=now)

    for _ in range(voting.MOST_UNDONE):
        vote_and_withdraw(NOW)
    with pytest.raises(voting.OftenUndoneError):
        vote_and_withdraw(NOW)
    assert Vote.objects.live().count() == 1
    vote_and_withdraw(NOW + voting.HOUR)


def test_an_undone_pair_takes_no_second_vote_of_its_rater(comparison, rater):
    cast(comparison, rater)
    voting.undo_vote(comparison=comparison, rater=rater, now=NOW)
    with pytest.raises(voting.UndoneError):
        cast(comparison, rater, "right")
    assert not Vote.objects.live().exists()


@pytest.mark.parametrize(
    "act",
    [
        lambda c, r: cast(c, r),
        lambda c, r: voting.skip_comparison(comparison=c, rater=r, now=NOW),
        lambda c, r: voting.undo_vote(comparison=c, rater=r, now=NOW),
    ],
    ids=["vote", "skip", "undo"],
)
def test_a_blocked_rater_can_do_nothing_more(comparison, rater, act):
    rater.blocked_at = NOW
    with pytest.raises(voting.BlockedError):
        act(comparison, rater)


def test_a_signed_in_arena_issues_nothing_to_anonymous_raters(rater):
    arena = make_arena(voters="signed_in")
    with pytest.raises(comparisons.SignInFirstError):
        comparisons.next_comparison(arena=arena, rater=rater, now=NOW)
    left, right, _ = arena.candidates.order_by("pk")
    comparison = Comparison.objects.create(arena=arena, rater=rater, left=left, right=right)
    with pytest.raises(comparisons.SignInFirstError):
        cast(comparison, rater)


def test_a_judge_votes_where_people_must_sign_in():
    arena = make_arena(voters="signed_in")
    judge = Rater.objects.create(kind=Rater.Kind.JUDGE, name="judge")
    left, right, _ = arena.candidates.order_by("pk")
    comparison = Comparison.objects.create(arena=arena, rater=judge, left=left, right=right)
    assert cast(comparison, judge).outcome == "left"


def test_an_undo_twice_asks_for_the_pair_once(comparison, rater):
    cast(comparison, rater)
    for _ in range(2):
        voting.undo_vote(comparison=comparison, rater=rater, now=NOW)
    assert comparison.arena.demands.get().remaining == 1


def test_voiding_twice_says_who_did_it(comparison, rater):
    vote = cast(comparison, rater)
    assert void_vote(vote, reason="a bot")
    assert not void_vote(vote, reason="again")
    vote.refresh_from_db()
    assert vote.void_reason == "a bot"


def test_votes_changed_is_sent_after_the_commit_of_a_new_vote(
    comparison, rater, django_capture_on_commit_callbacks
):
    heard = []

    def listen(sender, arena_id, **kwargs):
        heard.append(arena_id)

    votes_changed.connect(listen)
    with django_capture_on_commit_callbacks(execute=True):
        cast(comparison, rater)
        assert not heard
    with django_capture_on_commit_callbacks(execute=True):
        cast(comparison, rater)
    assert heard == [comparison.arena_id]


def refused_by(constraint, **fields):
    """The database itself refuses, and names the constraint."""
    arena = make_arena()
    left, right, _ = arena.candidates.order_by("pk")
    vote = make_vote(arena, left, right, "left")
    new = {"arena": arena, "comparison": vote.comparison, "rater": make_person(), "outcome": "tie"}
    if fields.pop("same_rater", False):
        new["rater"] = vote.rater
    with pytest.raises(IntegrityError) as error, transaction.atomic():
        Vote.objects.create(**new | fields)
    return constraint in str(error.value) or "UNIQUE constraint failed" in str(error.value)


def test_the_database_refuses_two_live_votes_on_a_comparison():
    assert refused_by("vote_one_live_per_rater_and_comparison", same_rater=True)


def test_the_database_refuses_an_unknown_outcome():
    assert refused_by("vote_outcome_known", outcome="draw")


def test_the_database_refuses_a_preference_out_of_range():
    assert refused_by("vote_preference_in_range", preference=1.5)


def test_the_database_refuses_a_void_without_a_reason():
    assert refused_by("vote_voided_with_a_reason", voided_at=NOW)


def test_the_database_refuses_a_candidate_against_itself():
    arena = make_arena()
    candidate = arena.candidates.first()
    with pytest.raises(IntegrityError, match="comparison_of_two_candidates"):
        Comparison.objects.create(arena=arena, rater=make_person(), left=candidate, right=candidate)
