"""The page of a judge's run."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.models import Arena, Import, Response, Run, Vote
from arena.services.runs import order_people_run
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, better_is, says
from tests.judges.helpers import order, work_off

pytestmark = pytest.mark.django_db


def url(run: Run) -> str:
    return reverse("judge_run", args=[run.arena.slug, run.pk])


def page(client: Client, run: Run, **kwargs: Any) -> str:
    answer = client.get(url(run), **kwargs)
    assert answer.status_code == 200
    return answer.content.decode()


def test_an_open_run_shows_its_progress_and_asks_for_news(client: Client) -> None:
    run = order(make_arena(2, 2), "scripted")
    html = page(client, run)
    assert "0 of 2" in html
    assert 'hx-trigger="every 2s"' in html
    assert "htmx" in html
    assert "decides by arithmetic" in html


def test_the_news_are_the_upper_part_alone(client: Client) -> None:
    run = order(make_arena(2, 2), "scripted")
    html = page(client, run, headers={"HX-Request": "true"})
    assert html.lstrip().startswith("<section")
    assert "<html" not in html


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}])
def test_a_cache_keeps_the_page_and_its_upper_part_apart(
    client: Client, headers: dict[str, str]
) -> None:
    run = order(make_arena(2, 2), "scripted")
    assert "HX-Request" in client.get(url(run), headers=headers).headers["Vary"]


def test_only_a_judgement_with_a_vote_that_counts_leads_to_its_comparison(
    client: Client, local: FakeServer
) -> None:
    local.script.extend([better_is("A"), better_is("A"), *[better_is("TIE")] * 4])
    run = work_off(order(make_arena(2, 3), per_pair=3))
    voided, counts = Vote.objects.order_by("pk")
    Vote.objects.filter(pk=voided.pk).update(voided_at=timezone.now(), void_reason="wrong")
    links = re.findall(r'href="([^"]*/comparisons/[^"]*)"', page(client, run))
    assert links == [counts.comparison.get_absolute_url()]
    assert client.get(links[0]).status_code == 200


def test_a_run_that_is_over_asks_no_more_and_shows_both_verdicts(
    client: Client, local: FakeServer
) -> None:
    local.otherwise = better_is("TIE")
    run = work_off(order(make_arena(2, 2)))
    html = page(client, run)
    assert "hx-trigger" not in html
    assert html.count("<strong>Tie</strong>") == 4
    assert html.count("It is better.") == 4
    assert "decides by arithmetic" not in html


def test_what_a_model_or_a_candidate_wrote_is_text(client: Client, local: FakeServer) -> None:
    arena = make_arena(2, 1)
    arena.prompts.update(text="<script>alert(1)</script>")
    Response.objects.update(text="<img src=x onerror=alert(2)>")
    local.otherwise = says("<script>alert(3)</script>")
    html = page(client, work_off(order(arena)))
    for raw in ("<script>alert", "<img src=x"):
        assert raw not in html
    assert "&lt;script&gt;alert(3)" in html


def test_verdicts_can_be_filtered_by_state(client: Client, local: FakeServer) -> None:
    local.script.extend([better_is("TIE"), better_is("TIE"), better_is("A"), better_is("A")])
    run = work_off(order(make_arena(2, 2)))
    assert page(client, run).count('<article class="judgement">') == 2
    html = page(client, run, data={"state": "abstained"})
    assert html.count('<article class="judgement">') == 1
    assert client.get(url(run), {"state": "rubbish"}).status_code == 404


def test_a_paused_run_says_why(client: Client) -> None:
    run = order(make_arena(2, 2), "scripted")
    Run.objects.filter(pk=run.pk).update(state="paused", pause_reason="HTTP 401: <no>")
    assert "HTTP 401: &lt;no&gt;" in page(client, run)


def hide(arena: Arena) -> None:
    arena.founded_by = Import.objects.create(
        arena=arena, file_name="f", sha256="0", format="native", started_at=arena.created_at
    )
    arena.save()


def test_there_is_no_page_for_hidden_arenas_other_arenas_and_runs_of_people(
    client: Client,
) -> None:
    run = order(make_arena(2, 2), "scripted")
    elsewhere = reverse("judge_run", args=[make_arena(2, 2).slug, run.pk])
    people = order_people_run(arena=run.arena, per_pair=1)
    assert client.get(elsewhere).status_code == 404
    assert client.get(url(people)).status_code == 404
    hide(run.arena)
    assert client.get(url(run)).status_code == 404


def test_the_page_takes_few_queries_however_many_judgements(
    client: Client, django_assert_max_num_queries: Any
) -> None:
    run = work_off(order(make_arena(3, 10), "scripted", per_pair=10))
    with django_assert_max_num_queries(9):
        page(client, run)


@pytest.mark.parametrize("name", ["judge", "runjudge", "judgement"])
def test_the_admin_shows_judges_and_lets_nobody_edit(admin_client: Client, name: str) -> None:
    order(make_arena(2, 2), "scripted")
    listing = reverse(f"admin:judges_{name}_changelist")
    assert admin_client.get(listing).status_code == 200
    assert admin_client.get(reverse(f"admin:judges_{name}_add")).status_code == 403
