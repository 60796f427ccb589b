"""People rate whether a judge's reasoning is coherent, suitable and critical."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from arena.models import Run
from judges.models import Judgement, Mark
from judges.services.feedback import FeedbackError, count_feedback, feedback_shares, give_feedback
from tests.factories import make_arena
from tests.judges.helpers import order, work_off

pytestmark = pytest.mark.django_db
NOW = timezone.now()


@pytest.fixture
def judgement() -> Judgement:
    run = work_off(order(make_arena(2, 2), "scripted"))
    return run.judgements.order_by("pk")[0]


@pytest.fixture
def people() -> list[User]:
    return [User.objects.create_user(name) for name in ("ann", "bob")]


def test_shares_count_everybody_s_marks(judgement: Judgement, people: list[User]) -> None:
    for person, holds in zip(people, (True, False), strict=True):
        give_feedback(judgement=judgement, user=person, kind="coherent", holds=holds, now=NOW)
    judge_id = judgement.epoch.judge_id
    shares = {
        one.kind: one
        for one in feedback_shares(count_feedback([judge_id], Run.objects.all())[judge_id])
    }
    assert (shares["coherent"].n, shares["coherent"].holds, shares["coherent"].share) == (2, 1, 0.5)
    assert (shares["critical"].n, shares["critical"].share) == (0, None)
    assert list(shares) == ["coherent", "suitable", "critical"]


def test_a_second_mark_of_the_same_person_replaces_the_first(
    judgement: Judgement, people: list[User]
) -> None:
    for holds in (True, False):
        give_feedback(judgement=judgement, user=people[0], kind="suitable", holds=holds, now=NOW)
    assert list(Mark.objects.values_list("kind", "holds")) == [("suitable", False)]


def test_an_invalid_mark_or_has_no_reasoning_is_refused(
    judgement: Judgement, people: list[User]
) -> None:
    with pytest.raises(FeedbackError, match="'nice' is not one of coherent"):
        give_feedback(judgement=judgement, user=people[0], kind="nice", holds=True, now=NOW)
    judgement.state = "waiting"
    with pytest.raises(FeedbackError, match="not answered"):
        give_feedback(judgement=judgement, user=people[0], kind="critical", holds=True, now=NOW)
    assert not Mark.objects.exists()


def test_the_marks_of_all_judges_take_one_query(
    judgement: Judgement, people: list[User], django_assert_num_queries: Any
) -> None:
    other = work_off(order(make_arena(2, 2), "scripted:scripted-2")).judgements.all()[0]
    for one in (judgement, other):
        give_feedback(judgement=one, user=people[0], kind="critical", holds=True, now=NOW)
    judges = [judgement.epoch.judge_id, other.epoch.judge_id]
    with django_assert_num_queries(1):
        counts = count_feedback(judges, Run.objects.all())
    assert counts == {judge: {"critical": (1, 1)} for judge in judges}
