"""Reports on large experiments are read in a bounded number of queries."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from arena.models import Arena, Response
from judges.experiment_report import report_on
from judges.models import Experiment
from tests.factories import make_arena, make_candidate
from tests.judges.fake_server import FakeServer
from tests.judges.test_experiments import WRITER, begin

pytestmark = pytest.mark.django_db


def answered(team: Any, n: int, *systems: str) -> Experiment:
    """A running experiment whose answers are all there."""
    origin: Arena = make_arena(0, n, team=team)
    make_candidate(origin, "concise", endpoint="local", model=WRITER, system_prompt="plain")
    experiment = begin(origin, *systems)
    prompts = list(experiment.arena.prompts.values_list("pk", flat=True))
    for candidate in [experiment.copy, *experiment.drafts]:
        Response.objects.bulk_create(
            Response(candidate=candidate, prompt_id=prompt, text=f"{candidate} on {prompt}")
            for prompt in prompts
        )
    Experiment.objects.update(
        state="running", size=n, order=prompts, registered_at=timezone.now(), judges=["scripted:a"]
    )
    experiment.refresh_from_db()
    return experiment


def queries_of(experiment: Experiment) -> int:
    with CaptureQueriesContext(connection) as queries:
        report = report_on(experiment)
        for draft in report.drafts:
            assert draft.sentence
            assert draft.lost == []
            assert draft.measured.tally["none"] == 0
        assert report.people is None
    return len(queries)


def test_a_report_takes_as_many_queries_with_four_drafts_and_500_prompts(
    team: Any, local: FakeServer, no_doorbell: None
) -> None:
    small = queries_of(answered(team, 5, "a"))
    Experiment.objects.all().delete()
    large = queries_of(answered(team, 500, "a", "b", "c", "d"))

    assert large <= small <= 20
