"""How a run stands is said in words that fit it."""

import re

import pytest
from django.test import Client

from arena.models import Run
from tests.factories import make_arena
from tests.judges.helpers import order, page_text, run_url, work_off

pytestmark = pytest.mark.django_db


def stand(run: Run, state: str) -> None:
    Run.objects.filter(pk=run.pk).update(state=state)


@pytest.mark.parametrize(
    ("state", "badge", "said"),
    [
        ("open", "Running", "No verdicts yet. <a"),
        ("paused", "Paused", "No verdicts yet: the run is paused."),
        ("cancelled", "Cancelled", "The run ended without any verdicts."),
    ],
)
def test_a_run_without_verdicts_says_why(client: Client, state: str, badge: str, said: str) -> None:
    run = order(make_arena(), "scripted")
    stand(run, state)
    html = page_text(client, run_url(run))
    assert f'data-run="{state}">{badge} </span>' in html
    reasons = ("yet. <a", "is paused.", "ended without")
    assert [one for one in reasons if one in html] == [one for one in reasons if one in said]
    assert said in html


def test_the_list_calls_an_open_run_running(client: Client) -> None:
    run = order(make_arena(), "scripted")
    html = page_text(client, run_url(run).rsplit("/", 2)[0] + "/")
    assert 'data-run="open">Running </span>' in html


def test_no_row_of_a_jury_ends_in_a_dot(client: Client) -> None:
    run = work_off(order(make_arena(), "scripted:scripted-1", "scripted:scripted-2"))
    run.judgements.update(state="refused", outcome="", score=None, flipped=False)
    facts = re.findall(r'verdict-facts"> (.*?) </span> </a> </li>', page_text(client, run_url(run)))
    assert facts
    assert all(re.fullmatch(r"<span>[^<·]+</span>", one) for one in facts), facts
