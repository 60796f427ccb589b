"""The combined board: people decide, judges narrow the interval."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from statistics import mean
from typing import Any

import numpy as np
import pytest
from django.test import Client
from django.utils import timezone

from arena.models import Arena, Rater, Vote
from ranking.combined import combine
from ranking.models import ArenaRefresh, Board, Snapshot
from ranking.question import Evidence, Question
from ranking.services.votes import read
from ranking.stats.battles import Battles
from ranking.stats.bootstrap import Bootstrap
from ranking.stats.intervals import Dependence, Sandwich
from ranking.stats.judged import Labelled, Unlabelled
from ranking.stats.ppi import PredictionPowered
from tests.factories import make_arena, make_person, make_vote, make_votes
from tests.ranking.helpers import JUDGED_PROMPTS, make_judged_arena, publish, set_trusted
from tests.rows import written_once

pytestmark = pytest.mark.django_db


@pytest.fixture
def judged(trusted_judge: Rater) -> Arena:
    """Published, with the votes of people and of a judge who votes as they do."""

    def write() -> Arena:
        arena = make_judged_arena(trusted_judge)
        publish(arena)
        return arena

    return written_once("judged", write)


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


def test_where_no_prompt_is_known_the_combined_board_is_the_human_one(trusted_judge: Rater) -> None:
    arena = make_arena(n_candidates=2, n_prompts=40)
    pair = list(arena.candidates.order_by("pk"))
    for _ in range(2):
        rows = [(*pair, "left" if turn % 3 else "right", None) for turn in range(60)]
        make_votes(arena, rows, make_person())
    judged = [(*pair, "left" if n % 4 else "right", p) for n, p in enumerate(arena.prompts.all())]
    make_votes(arena, judged, trusted_judge)
    both, alone = combined(arena), publish(arena)
    names = ("rank", "score", "low", "high", "standard_error", "sure_rank_low", "sure_rank_high")
    of_both, of_alone = (list(board.standings.values_list(*names)) for board in (both, alone))
    assert None not in of_alone[0]
    assert of_both == of_alone
    assert both.findings["tiers"] == alone.findings["tiers"]
    assert both.findings["combined"]["reason"].startswith("People voted on too few known prompts")


def test_a_judge_that_votes_as_people_do_narrows_the_interval(judged: Arena) -> None:
    both, alone = combined(judged), publish(judged)
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


def test_verdicts_on_prompts_of_one_document_are_one_group(judged: Arena) -> None:
    publish(judged)
    table = read(judged)

    def figures(documents: dict[int, str | int]) -> tuple[str, str]:
        evidence = Evidence.of(replace(table, documents=documents), Question("combined"))
        model, measured = combine(evidence)
        return repr((model.standard_errors_, measured.spreads)), evidence.digest

    prompts = list(judged.prompts.order_by("pk").values_list("pk", flat=True))
    alone = figures({})
    assert figures({pk: pk for pk in prompts})[0] == alone[0]
    numbers, digest = figures({pk: place // 3 for place, pk in enumerate(prompts)})
    assert numbers != alone[0]
    assert digest != alone[1]


def test_it_is_made_again_when_judges_have_voted(trusted_judge: Rater, judged: Arena) -> None:
    first = combined(judged)
    assert combined(judged).pk == first.pk
    left, right = judged.candidates.all()[:2]
    make_vote(judged, right, left, "left", judged.prompts.first(), trusted_judge)
    assert combined(judged).pk != first.pk


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


def test_it_is_what_single_votes_give(trusted_judge: Rater, most_resamples: int) -> None:
    arena = make_judged_arena(trusted_judge)
    Arena.objects.update(rater_cap=100)
    candidates, others = list(arena.candidates.order_by("pk")), [make_person() for _ in range(12)]
    for number, prompt in enumerate(arena.prompts.order_by("pk")[:48]):
        left, right = candidates[number % 2 :][:2]
        make_vote(arena, right, left, "right", prompt, others[number % 12])
        make_vote(arena, left, right, ("tie", "left")[number % 2], prompt, others[number // 4])
        make_vote(arena, left, right, "left", prompt, trusted_judge, preference=0.75)
    both = combined(arena)
    model = from_votes(arena, most_resamples)
    rows = both.standings.order_by("candidate").values_list("score", "low", "high")
    expected = np.column_stack([model.ratings_, model.low_, model.high_])
    assert np.array(rows, float) == pytest.approx(expected, abs=1e-9)
    assert both.findings["combined"]["lambda"] == pytest.approx(model.lambda_, abs=1e-9)
    assert 0 < model.lambda_ < 1


def from_votes(arena: Arena, n_resamples: int) -> PredictionPowered:
    """The combined fit from the arena's votes, one by one, without its tallies."""
    board = Board.objects.get(arena=arena, raters="combined", category="")
    ids = list(arena.candidates.order_by("pk").values_list("pk", flat=True))
    human: list[tuple[Any, ...]] = []  # candidates, prompt, score, rater
    said: dict[tuple[Any, ...], list[float]] = {}
    votes = Vote.objects.filter(arena=arena).select_related("comparison__prompt", "rater")
    for vote in votes.order_by("pk"):
        sides = ids.index(vote.comparison.left_id), ids.index(vote.comparison.right_id)
        score = {"left": 1.0, "right": 0.0, "tie": 0.5}[vote.outcome]
        score = score if vote.preference is None else vote.preference
        score = score if sides[0] < sides[1] else 1 - score
        prompt = vote.comparison.prompt
        cell = (*sorted(sides), prompt.pk, int(prompt.category[-1]))
        if vote.rater.kind == Rater.Kind.JUDGE:
            said.setdefault(cell, []).append(score)
        else:
            human.append((*cell, score, vote.rater_id))
    first, second, prompt, _, score, rater = np.array(human).T
    sides = first.astype(int), second.astype(int)
    groups = [Battles.from_arrays(*sides, score, cluster=of.astype(int)) for of in (prompt, rater)]
    crossed = Sandwich(jackknifed=True).fit(*Dependence.choose(*groups, groups[0]).groupings)
    bootstrap = Bootstrap(n_resamples, random_state=board.seed)
    bootstrap.fit(crossed.strongest_, crossed)
    # Equal votes on one prompt and pair are one row, whose weight is their number.
    equal = Counter(row[:5] for row in human)
    voted = np.array([row[:4] for row in equal])
    labelled = Labelled.from_arrays(
        *voted.T[:2],
        [row[4] for row in equal],
        [mean(said.get(row[:4], [np.nan])) for row in equal],
        list(equal.values()),
        cluster=voted[:, 2],
        stratum=voted[:, 3],
    )
    alone = np.array([cell for cell in said if cell not in {row[:4] for row in equal}])
    unlabelled = Unlabelled.from_arrays(
        *alone.T[:2],
        [mean(said[tuple(cell)]) for cell in alone.tolist()],
        cluster=alone[:, 2],
        stratum=alone[:, 3],
    )
    return PredictionPowered().fit(labelled, unlabelled, crossed, bootstrap)


def judge_more(arena: Arena, judge: Rater, category: str) -> int:
    """The judge sees the first candidate lose on 30 prompts of its own; returns the candidate."""
    first, *others = arena.candidates.order_by("pk")
    for number in range(30):
        prompt = arena.prompts.create(text="?", external_id=f"more-{number}", category=category)
        for other in others:
            make_vote(arena, first, other, "right", prompt, judge)
    return int(first.pk)


def test_it_leaves_out_whom_the_judges_see_on_prompts_of_another_kind(
    client: Client, trusted_judge: Rater, judged: Arena
) -> None:
    first = judge_more(judged, trusted_judge, "category-1")
    both, alone = combined(judged), publish(judged)
    assert first in both.findings["combined"]["left_out"]
    assert both.standings.get(candidate=first).score == pytest.approx(
        alone.standings.get(candidate=first).score, abs=15
    )
    page = client.get(f"/a/{judged.slug}/?raters=combined").content.decode()
    assert "because those prompts seem to help or hurt them" in page
    told = client.get(f"/a/{judged.slug}/results.json?raters=combined").json()
    left_out = [candidate["candidate"] for candidate in told["findings"]["combined"]["left_out"]]
    assert str(judged.candidates.get(pk=first)) in left_out


def test_a_category_that_only_judges_saw_changes_nothing(
    trusted_judge: Rater, judged: Arena
) -> None:
    before = dict(combined(judged).standings.values_list("candidate", "score"))
    judge_more(judged, trusted_judge, "new")
    after = combined(judged)
    assert dict(after.standings.values_list("candidate", "score")) == pytest.approx(before)


def test_no_interval_is_wider_than_the_human_one(trusted_judge: Rater) -> None:
    arena = make_judged_arena(trusted_judge, copies_people=False)
    both, alone = combined(arena), publish(arena)
    assert both.findings["combined"]["n_judge_votes"] == 180
    ends = {s.candidate_id: s.high - s.low for s in alone.standings.all()}
    assert all(s.high - s.low <= ends[s.candidate_id] + 1e-9 for s in both.standings.all())


def test_one_that_takes_long_waits_like_intervals(trusted_judge: Rater, judged: Arena) -> None:
    first = combined(judged)
    Snapshot.objects.filter(board__raters="combined").update(measured_seconds=60.0)
    left, right = judged.candidates.order_by("pk")[:2]
    make_vote(judged, left, right, "left", judged.prompts.first())
    assert combined(judged).pk == first.pk
    due = ArenaRefresh.objects.get(arena=judged).recheck_at
    assert first.measured_at + timedelta(seconds=600) <= due
    Snapshot.objects.update(measured_at=timezone.now() - timedelta(hours=1))
    second = combined(judged)
    assert second.n_votes == first.n_votes + 1
    assert ArenaRefresh.objects.get(arena=judged).recheck_at is None
    Snapshot.objects.filter(board__raters="combined").update(measured_seconds=60.0)
    another = Rater.objects.create(kind=Rater.Kind.JUDGE, name="Another judge")
    make_vote(judged, left, right, "left", judged.prompts.last(), another)
    set_trusted(another)
    names = combined(judged).findings["combined"]["names"]  # trust does not wait
    assert names == sorted([trusted_judge.name, another.name])


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


def test_the_votes_of_the_untrusted_stay_off_it(judged: Arena) -> None:
    first = combined(judged)
    other = Rater.objects.create(kind=Rater.Kind.JUDGE, name="An untrusted judge")
    left, right = judged.candidates.all()[:2]
    for prompt in judged.prompts.all():
        make_vote(judged, left, right, "right", prompt, other)
    assert combined(judged).pk == first.pk
    judges = Snapshot.objects.current().get(board__raters="judges", board__category="")
    assert judges.n_votes == 240


def test_a_trusted_jury_is_counted_in_place_of_its_members(judged: Arena, jury: Rater) -> None:
    left, right = judged.candidates.all()[:2]
    for prompt in judged.prompts.all():
        make_vote(judged, left, right, "left", prompt, jury)
    assert combined(judged).findings["combined"]["raters"] == "judges"
    set_trusted(jury)
    told = combined(judged).findings["combined"]
    assert (told["raters"], told["names"], told["n_judge_votes"]) == ("juries", [jury.name], 60)


def test_it_says_how_much_narrower_and_who_moved_most(judged: Arena) -> None:
    told = combined(judged).findings["combined"]
    assert 0.05 < told["narrower"] < 0.6
    # The gain is of variances, averaged over candidates alike: widths go with its root.
    assert 1 - told["narrower"] == pytest.approx(told["gain"] ** -0.5, abs=0.03)
    assert told["moved_most"] in judged.candidates.values_list("pk", flat=True)
    assert told["moved_by"]
