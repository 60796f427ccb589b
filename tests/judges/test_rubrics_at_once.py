"""People who write, delete and use a rubric at the same moment."""

from typing import Any

import pytest
from django.db import connection

from arena.actors import CLI
from arena.models import Team
from judges.models import Judge, RubricVersion, TeamRubric
from judges.services.registry import JudgeError, register_judge, spec_named
from judges.services.rubrics import RubricRefusedError, remove_rubric
from tests.factories import make_empty_team
from tests.judges.helpers import stricter_files, write_version
from tests.judges.test_drift_at_once import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services]


@pytest.fixture(autouse=True)
def only_where_threads_meet() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time.")


@pytest.fixture
def team() -> Team:
    return make_empty_team(slug="acme", name="Acme")


def outcome(work: Any) -> str:
    try:
        work()
    except (RubricRefusedError, JudgeError) as error:
        return type(error).__name__
    return "done"


def test_those_who_save_the_same_text_write_one_version(team: Team) -> None:
    assert set(at_once(lambda: outcome(lambda: write_version(team)))) == {"done"}
    assert RubricVersion.objects.count() == 1


def test_of_those_who_save_different_texts_one_is_first(team: Team) -> None:
    write_version(team)
    texts = iter([stricter_files(f"Be {word}.") for word in ("kind", "fair", "short", "strict")])
    found = at_once(lambda: outcome(lambda: write_version(team, texts=next(texts), after=1)))
    assert sorted(found) == ["StaleRubricError"] * 3 + ["done"]
    assert RubricVersion.objects.count() == 2


@pytest.mark.parametrize("attempt", range(4))
def test_a_rubric_is_either_deleted_or_used(team: Team, attempt: int) -> None:
    version = write_version(team)
    spec = spec_named("scripted@acme/support", by=CLI)
    works = iter(
        [
            lambda: remove_rubric(rubric=version.rubric, by=CLI),
            lambda: register_judge(spec=spec),
        ]
    )
    found = at_once(lambda: outcome(next(works)), threads=2)
    assert sorted(found) in (["JudgeError", "done"], ["RubricRefusedError", "done"])
    assert Judge.objects.exists() == TeamRubric.objects.exists()
