"""The words by which judges are told what is better in an arena."""

import pytest

from arena.errors import ServiceError
from arena.models import Run
from arena.services.arenas import CriteriaError, set_criteria
from arena.validation import CRITERIA_LIMIT
from tests.factories import make_arena

pytestmark = pytest.mark.django_db


def test_they_are_stored_without_the_space_around_them() -> None:
    arena = make_arena()
    set_criteria(arena=arena, criteria="  Short and true.\n")
    arena.refresh_from_db()
    assert arena.criteria == "Short and true."
    set_criteria(arena=arena, criteria="")
    arena.refresh_from_db()
    assert arena.criteria == ""


def test_a_book_is_refused() -> None:
    with pytest.raises(CriteriaError, match="4,001 characters") as refused:
        set_criteria(arena=make_arena(), criteria="x" * (CRITERIA_LIMIT + 1))
    assert isinstance(refused.value, ServiceError)
    assert refused.value.field == "criteria"


@pytest.mark.parametrize("state", ["ordered", "open", "paused"])
def test_nobody_changes_them_while_judges_are_at_work(state: str) -> None:
    arena = make_arena()
    run = Run.objects.create(arena=arena, kind="judge", per_pair=1, state=state)
    with pytest.raises(CriteriaError, match=f"Run {run.pk}"):
        set_criteria(arena=arena, criteria="Other words.")
    set_criteria(arena=arena, criteria="")  # the same as before
    run.state = "done"
    run.save()
    set_criteria(arena=arena, criteria="Other words.")


def test_runs_of_people_do_not_mind() -> None:
    arena = make_arena()
    Run.objects.create(arena=arena, kind="person", per_pair=1, state="open")
    set_criteria(arena=arena, criteria="Other words.")
    assert arena.criteria == "Other words."
