"""The combined board: people decide, judges narrow the interval."""

from statistics import mean
from typing import Any

import pytest
from django.test import Client

from arena.models import Arena, Rater
from ranking.models import Snapshot
from tests.factories import make_arena, make_vote
from tests.ranking.helpers import JUDGED_PROMPTS, make_judged_arena, publish, set_trusted

pytestmark = pytest.mark.django_db


def combined(arena: Arena) -> Snapshot:
    publish(arena)
    return Snapshot.objects.current().get(
        board__arena=arena, board__raters="combined", board__category=""
    )


def widths(snapshot: Snapshot) -> float:
    return mean(s.high - s.low for s in snapshot.standings.all())


def test_combined_board_needs_human_votes_and_judges(trusted_judge: Rater) -> None:
    arena = make_judged_arena(None)
    publish(arena)
    assert not Snapshot.objects.filter(board__raters="combined").exists()
    left, right = arena.candidates.all()[:2]
    make_vote(arena, left, right, "left", arena.prompts.last(), trusted_judge)
    assert combined(arena).findings["combined"]["n_judge_votes"] == 1


def test_judges_alone_are_combined_with_nobody(trusted_judge: Rater) -> None:
    arena = make_arena(n_candidates=2)
    make_vote(arena, *arena.candidates.all(), "left", arena.prompts.first(), trusted_judge)
    publish(arena)
    raters = Snapshot.objects.filter(board__category="").values_list("board__raters", flat=True)
    assert set(raters) == {"people", "judges"}


def test_a_judge_that_votes_as_people_do_narrows_the_interval(trusted_judge: Rater) -> None:
    arena = make_judged_arena(trusted_judge)
    both, alone = combined(arena), publish(arena)
    told = both.findings["combined"]
    assert (both.n_votes, told["n_judge_votes"]) == (alone.n_votes, 180)
    assert told["gain"] > 1.2
    assert 0 < told["lambda"] <= 1
    assert widths(both) < 0.95 * widths(alone)


def test_a_judge_that_tosses_coins_changes_next_to_nothing(trusted_judge: Rater) -> None:
    arena = make_judged_arena(trusted_judge, copies_people=False)
    both, alone = combined(arena), publish(arena)
    scores = dict(alone.standings.values_list("candidate", "score"))
    assert all(abs(s.score - scores[s.candidate_id]) < 10 for s in both.standings.all())
    assert both.findings["combined"]["lambda"] < 0.2


def test_it_is_made_again_when_judges_have_voted(trusted_judge: Rater) -> None:
    arena = make_judged_arena(trusted_judge)
    first = combined(arena)
    assert combined(arena).pk == first.pk
    left, right = arena.candidates.all()[:2]
    make_vote(arena, right, left, "left", arena.prompts.first(), trusted_judge)
    assert combined(arena).pk != first.pk


def test_judges_of_other_prompts_only_say_nothing_of_people(trusted_judge: Rater) -> None:
    arena = make_judged_arena(None)
    left, right = arena.candidates.all()[:2]
    for prompt in arena.prompts.order_by("pk")[JUDGED_PROMPTS * 2 // 3 :]:
        make_vote(arena, left, right, "left", prompt, trusted_judge)
    both = combined(arena)
    alone = publish(arena)
    assert both.findings["combined"]["reason"]
    assert dict(both.standings.values_list("candidate", "score")) == pytest.approx(
        dict(alone.standings.values_list("candidate", "score"))
    )


def test_few_prompts_and_votes_without_prompts_are_no_trouble(
    arena: Arena, trusted_judge: Rater
) -> None:
    left, right = arena.candidates.order_by("pk")[:2]
    for prompt in [*arena.prompts.all(), None]:
        make_vote(arena, left, right, "left", prompt, trusted_judge, preference=0.9)
    make_vote(arena, left, right, "both_bad", arena.prompts.first())
    make_vote(arena, left, right, "right", None)
    assert combined(arena).n_votes == 25


def judge_more(arena: Arena, judge: Rater, category: str) -> int:
    """The judge sees the first candidate lose on 30 prompts of its own; returns the candidate."""
    first, *others = arena.candidates.order_by("pk")
    for number in range(30):
        prompt = arena.prompts.create(text="?", external_id=f"more-{number}", category=category)
        for other in others:
            make_vote(arena, first, other, "right", prompt, judge)
    return int(first.pk)


def test_it_leaves_out_whom_the_judges_see_on_prompts_of_another_kind(
    client: Client, trusted_judge: Rater
) -> None:
    arena = make_judged_arena(trusted_judge)
    first = judge_more(arena, trusted_judge, "category-1")
    both, alone = combined(arena), publish(arena)
    assert first in both.findings["combined"]["left_out"]
    assert both.standings.get(candidate=first).score == pytest.approx(
        alone.standings.get(candidate=first).score, abs=15
    )
    page = client.get(f"/a/{arena.slug}/?raters=combined").content.decode()
    assert "by these, the prompts suit it better or worse than people’s" in page
    told = client.get(f"/a/{arena.slug}/results.json?raters=combined").json()
    left_out = [candidate["candidate"] for candidate in told["findings"]["combined"]["left_out"]]
    assert str(arena.candidates.get(pk=first)) in left_out


def test_a_category_that_only_judges_saw_changes_nothing(trusted_judge: Rater) -> None:
    arena = make_judged_arena(trusted_judge)
    before = dict(combined(arena).standings.values_list("candidate", "score"))
    judge_more(arena, trusted_judge, "new")
    after = combined(arena)
    assert dict(after.standings.values_list("candidate", "score")) == pytest.approx(before)


def test_no_interval_is_wider_than_the_human_one(trusted_judge: Rater) -> None:
    arena = make_judged_arena(trusted_judge, copies_people=False)
    both, alone = combined(arena), publish(arena)
    assert both.findings["combined"]["n_judge_votes"] == 180
    ends = {s.candidate_id: s.high - s.low for s in alone.standings.all()}
    assert all(s.high - s.low <= ends[s.candidate_id] + 1e-9 for s in both.standings.all())


# -- Trust -----------------------------------------------------------------------------------------


def numbers(snapshot: Snapshot) -> dict[int, tuple[Any, ...]]:
    names = ("candidate", "rank", "rank_low", "score", "low", "high", "standard_error", "votes")
    return {row[0]: row for row in snapshot.standings.values_list(*names)}


def test_without_trusted_judges_it_equals_people_s_board(judge: Rater) -> None:
    arena = make_judged_arena(judge)
    both, alone = combined(arena), publish(arena)
    assert numbers(both) == numbers(alone)
    assert not both.findings["combined"]["trusted"]
    for finding in ("neighbours", "tiers", "groups"):
        assert both.findings[finding] == alone.findings[finding]
    assert set(both.standings.values_list("elo", flat=True)) == {None}
    assert bytes(both.matrices.covariance) == bytes(alone.matrices.covariance)
    assert combined(arena).pk == both.pk  # and is not published again without need


def test_it_follows_peoples_board_while_no_judge_is_trusted(judge: Rater) -> None:
    arena = make_judged_arena(judge)
    first = combined(arena)
    left, right = arena.candidates.all()[:2]
    make_vote(arena, right, left, "left", arena.prompts.first())
    both = combined(arena)
    assert both.n_votes == first.n_votes + 1
    assert numbers(both) == numbers(publish(arena))


def test_changed_trust_updates_the_board_without_new_votes(judge: Rater) -> None:
    arena = make_judged_arena(judge)
    without = combined(arena)
    set_trusted(judge)
    told = combined(arena).findings["combined"]
    assert (told["trusted"], told["raters"], told["names"]) == (True, "judges", [judge.name])
    assert told["n_judge_votes"] == 180
    set_trusted(judge, False)
    assert numbers(combined(arena)) == numbers(without)


def test_the_votes_of_the_untrusted_stay_off_it(trusted_judge: Rater) -> None:
    arena = make_judged_arena(trusted_judge)
    first = combined(arena)
    other = Rater.objects.create(kind=Rater.Kind.JUDGE, name="An untrusted judge")
    left, right = arena.candidates.all()[:2]
    for prompt in arena.prompts.all():
        make_vote(arena, left, right, "right", prompt, other)
    assert combined(arena).pk == first.pk
    judges = Snapshot.objects.current().get(board__raters="judges", board__category="")
    assert judges.n_votes == 240


def test_a_trusted_jury_is_counted_in_place_of_its_members(
    trusted_judge: Rater, jury: Rater
) -> None:
    arena = make_judged_arena(trusted_judge)
    left, right = arena.candidates.all()[:2]
    for prompt in arena.prompts.all():
        make_vote(arena, left, right, "left", prompt, jury)
    assert combined(arena).findings["combined"]["raters"] == "judges"
    set_trusted(jury)
    told = combined(arena).findings["combined"]
    assert (told["raters"], told["names"], told["n_judge_votes"]) == ("juries", [jury.name], 60)


def test_it_says_how_much_narrower_and_who_moved_most(trusted_judge: Rater) -> None:
    arena = make_judged_arena(trusted_judge)
    told = combined(arena).findings["combined"]
    assert 0.05 < told["narrower"] < 0.6
    # The gain is of variances, averaged over candidates alike: widths go with its root.
    assert 1 - told["narrower"] == pytest.approx(told["gain"] ** -0.5, abs=0.03)
    assert told["moved_most"] in arena.candidates.values_list("pk", flat=True)
    assert told["moved_by"]
