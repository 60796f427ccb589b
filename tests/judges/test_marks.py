"""People say of a judge's reasoning whether it is coherent, suitable and critical."""

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from judges.models import Judgement, Mark
from judges.services.marking import MarkRefused, mark_reasoning, mark_shares
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
        mark_reasoning(judgement=judgement, user=person, kind="coherent", holds=holds, now=NOW)
    shares = {one.kind: one for one in mark_shares(judgement.epoch.judge)}
    assert (shares["coherent"].n, shares["coherent"].holds, shares["coherent"].share) == (2, 1, 0.5)
    assert (shares["critical"].n, shares["critical"].share) == (0, None)
    assert list(shares) == ["coherent", "suitable", "critical"]


def test_a_second_mark_of_the_same_person_replaces_the_first(
    judgement: Judgement, people: list[User]
) -> None:
    for holds in (True, False):
        mark_reasoning(judgement=judgement, user=people[0], kind="suitable", holds=holds, now=NOW)
    assert list(Mark.objects.values_list("kind", "holds")) == [("suitable", False)]


def test_what_is_no_mark_or_has_no_reasoning_is_refused(
    judgement: Judgement, people: list[User]
) -> None:
    with pytest.raises(MarkRefused, match="'nice' is none of coherent"):
        mark_reasoning(judgement=judgement, user=people[0], kind="nice", holds=True, now=NOW)
    judgement.state = "waiting"
    with pytest.raises(MarkRefused, match="not answered"):
        mark_reasoning(judgement=judgement, user=people[0], kind="critical", holds=True, now=NOW)
    assert not Mark.objects.exists()


def test_shares_take_one_query(
    judgement: Judgement, people: list[User], django_assert_num_queries: object
) -> None:
    judge = judgement.epoch.judge
    with django_assert_num_queries(1):  # type: ignore[operator]
        mark_shares(judge)
