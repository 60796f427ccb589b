"""Answers are ordered on a candidate's page; a run's page shows its progress and answers."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.calls.providers.base import RejectedError
from arena.models import Candidate, Run
from arena.services.runs import pause_run
from tests.arena.generation import order, work_off
from tests.arena.ledger import Model, says
from tests.arena.teams import signed_in
from tests.factories import DOLLAR, make_member, make_paying_team, make_variant

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def rung(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often workers were woken; no test here uses a broker."""
    rings: list[str] = []
    monkeypatch.setattr("arena.tasks.wake_workers", lambda: rings.append("ring") or 0)
    return rings


def member_of(candidate: Candidate, role: str = "member") -> Client:
    assert candidate.team is not None
    return signed_in(make_member(candidate.team, role).user)


def order_url(candidate: Candidate) -> str:
    return reverse("order_answers", args=[candidate.arena.slug, candidate.pk])


def page_url(candidate: Candidate) -> str:
    return reverse("manage_candidate", args=[candidate.arena.slug, candidate.pk])


def run_url(run: Run, name: str = "answer_run", **query: Any) -> str:
    return reverse(name, args=[run.in_arena.slug, run.pk], query=query or None)


def text(answer: Any) -> str:
    assert answer.status_code == 200, answer.status_code
    return " ".join(answer.content.decode().split())


def test_a_member_orders_and_is_led_to_the_run(
    paid_candidate: Candidate, rung: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    client = member_of(paid_candidate)
    with django_capture_on_commit_callbacks(execute=True):
        answer = client.post(order_url(paid_candidate), {"cap": "1.50"})
    run = Run.objects.get()
    assert answer["Location"] == run_url(run)
    assert (run.state, run.cap, run.team, rung) == (
        "open",
        3 * DOLLAR // 2,
        paid_candidate.team,
        ["ring"],
    )
    assert "0 of 3" in text(client.get(run_url(run)))


def test_the_candidate_s_page_says_what_it_would_cost(paid_candidate: Candidate) -> None:
    page = text(member_of(paid_candidate).get(page_url(paid_candidate)))
    assert "This sends 3 prompts" in page
    assert "and at most" in page
    assert "$2.00 of its budget left" in page
    assert f'action="{order_url(paid_candidate)}"' in page
    assert "Generate 3 answers" in page
    viewer = text(member_of(paid_candidate, "viewer").get(page_url(paid_candidate)))
    assert "Generate 3 answers" not in viewer


def test_the_candidate_s_page_leads_to_the_run_that_is_under_way(paid_candidate: Candidate) -> None:
    run = order(paid_candidate)
    page = text(member_of(paid_candidate).get(page_url(paid_candidate)))
    assert run_url(run) in page
    assert "Generate 3 answers" not in page


@pytest.mark.parametrize(
    ("cap", "said"),
    [
        ("", "spending cap"),
        ("5", "left of its budget"),
        ("much", "Enter a number"),
        ("-1", "greater than or equal to 0"),
    ],
)
def test_what_cannot_be_ordered_is_reported_where_the_page_lands(
    paid_candidate: Candidate, cap: str, said: str
) -> None:
    answer = member_of(paid_candidate).post(order_url(paid_candidate), {"cap": cap}, follow=True)
    assert said in text(answer)
    assert not Run.objects.exists()


def test_a_second_click_leads_to_the_run_that_is_there(paid_candidate: Candidate) -> None:
    client = member_of(paid_candidate)
    for _ in range(2):
        answer = client.post(order_url(paid_candidate), {"cap": "1"}, follow=True)
    run = Run.objects.get()
    assert answer.redirect_chain[-1][0] == run_url(run)
    assert f"Run {run.pk} of this candidate is unfinished" in text(answer)


def test_an_open_run_asks_for_news_and_gets_the_upper_part_alone(paid_candidate: Candidate) -> None:
    run, client = order(paid_candidate), member_of(paid_candidate)
    page = text(client.get(run_url(run)))
    assert f'hx-get="{run_url(run)}?seen=open" hx-trigger="every 2s"' in page
    news = text(client.get(run_url(run, seen="open"), headers={"HX-Request": "true"}))
    assert news.lstrip().startswith("<section")
    assert "hx-swap-oob" not in news
    work_off(run)
    news = text(client.get(run_url(run, seen="open"), headers={"HX-Request": "true"}))
    assert "Run state: done" in news
    assert "hx-trigger" not in news
    desk = f'href="{reverse("manage_arena", args=[paid_candidate.arena.slug])}">Next step'
    assert (desk in page, desk in text(client.get(run_url(run)))) == (False, True)


def test_a_run_shows_failures_with_reasons_and_its_answers(
    paid_candidate: Candidate, model: Model
) -> None:
    model.outcomes = [RejectedError("Not <b>like</b> this.")]
    model.otherwise = says("<script>alert(1)</script> Do this.")
    run = work_off(order(paid_candidate))
    page = text(member_of(paid_candidate).get(run_url(run)))
    assert "Not &lt;b&gt;like&lt;/b&gt; this." in page
    assert "Question 0?" in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt; Do this.") == 4  # two, short and whole
    assert "<script>alert" not in page
    assert "Retry 1 failure" in page


def test_a_run_without_an_answer_has_failed(paid_candidate: Candidate, model: Model) -> None:
    model.otherwise = RejectedError("The server answered 401: <b>unknown</b> key.")
    run, client = work_off(order(paid_candidate)), member_of(paid_candidate)
    for page in (run_url(run), page_url(paid_candidate)):
        assert "Failed: no answers" in text(client.get(page))
    assert "<li>3: The server answered 401: &lt;b&gt;unknown&lt;/b&gt; key.</li>" in text(
        client.get(run_url(run))
    )


def test_a_run_says_how_many_prompts_failed(paid_candidate: Candidate, model: Model) -> None:
    model.outcomes = [RejectedError("Not like this.")]
    run, client = work_off(order(paid_candidate)), member_of(paid_candidate)
    for page in (run_url(run), page_url(paid_candidate)):
        assert "Done: 1 of 3 failed" in text(client.get(page))
    assert "<li>1: Not like this.</li>" in text(client.get(run_url(run)))


def test_many_answers_are_paged_in_a_dozen_queries(
    model: Model, django_assert_max_num_queries: Any
) -> None:
    candidate = make_variant(25, make_paying_team(100 * DOLLAR))
    run, client = work_off(order(candidate)), member_of(candidate)
    with django_assert_max_num_queries(18):
        page = text(client.get(run_url(run)))
    assert page.count('class="answer"') == 20
    assert text(client.get(run_url(run, page=2))).count('class="answer"') == 5


def test_a_run_is_paused_resumed_with_another_cap_and_cancelled(paid_candidate: Candidate) -> None:
    run, client = order(paid_candidate), member_of(paid_candidate)
    steer = run_url(run, "steer_answers")
    assert "Run paused." in text(client.post(steer, {"action": "pause"}, follow=True))
    said = text(client.post(steer, {"action": "resume", "cap": "5"}, follow=True))
    assert "left of its budget" in said
    said = text(client.post(steer, {"action": "resume", "cap": "2"}, follow=True))
    assert "Run resumed." in said
    run.refresh_from_db()
    assert (run.state, run.cap) == ("open", 2 * DOLLAR)
    said = text(client.post(steer, {"action": "cancel"}, follow=True))
    assert "Run cancelled." in said
    assert "it cannot be paused" in text(client.post(steer, {"action": "pause"}, follow=True))


def test_failures_are_retried_from_the_page(paid_candidate: Candidate, model: Model) -> None:
    model.outcomes = [RejectedError("Not like this.")]
    run = work_off(order(paid_candidate))
    steer = run_url(run, "steer_answers")
    said = text(member_of(paid_candidate).post(steer, {"action": "ask_again"}, follow=True))
    assert "Retrying the failed prompts." in said
    assert work_off(run).votes_done == 3


@pytest.mark.parametrize("action", ["", "delete", "pause; drop"])
def test_what_is_no_action_changes_nothing(paid_candidate: Candidate, action: str) -> None:
    run = order(paid_candidate)
    client = member_of(paid_candidate)
    text(client.post(run_url(run, "steer_answers"), {"action": action}, follow=True))
    run.refresh_from_db()
    assert run.state == "open"


@pytest.mark.parametrize(
    ("who", "see", "do"),
    [("owner", 200, 302), ("member", 200, 302), ("viewer", 200, 403), ("other", 403, 403)],
)
def test_the_team_reads_and_its_members_act(
    paid_candidate: Candidate, who: str, see: int, do: int
) -> None:
    run = order(paid_candidate)
    pause_run(run_id=run.pk, reason="By hand.")
    client = (
        signed_in(make_member(make_paying_team()).user)
        if who == "other"
        else member_of(paid_candidate, who)
    )
    assert client.get(run_url(run)).status_code == see
    assert client.post(run_url(run, "steer_answers"), {"action": "cancel"}).status_code == do
    assert client.post(order_url(paid_candidate), {"cap": "1"}).status_code == do


def test_anonymous_visitors_are_redirected_to_sign_in(paid_candidate: Candidate) -> None:
    run, client = order(paid_candidate), Client()
    assert client.get(run_url(run))["Location"].startswith(reverse("sign_in"))
    assert client.post(run_url(run, "steer_answers"), {"action": "pause"}).status_code == 403
    assert client.post(order_url(paid_candidate), {"cap": "1"}).status_code == 403


def test_a_private_arena_and_another_arena_s_run_are_not_found(paid_candidate: Candidate) -> None:
    run, stranger = order(paid_candidate), signed_in(make_member(make_paying_team()).user)
    type(paid_candidate.arena).objects.filter(pk=paid_candidate.arena_id).update(
        visibility="private"
    )
    assert stranger.get(run_url(run)).status_code == 404
    assert stranger.post(order_url(paid_candidate), {"cap": "1"}).status_code == 404
    elsewhere = make_variant(1, paid_candidate.team)
    other = reverse("answer_run", args=[elsewhere.arena.slug, run.pk])
    assert member_of(paid_candidate).get(other).status_code == 404


def test_the_arenas_team_reads_no_money_of_a_guests_run(paid_candidate: Candidate) -> None:
    type(paid_candidate.arena).objects.filter(pk=paid_candidate.arena_id).update(open_to_teams=True)
    guest = make_variant(arena=paid_candidate.arena, team=make_paying_team(2 * DOLLAR))
    run = work_off(order(guest))
    what_it_cost = {run_url(run): "<dt>Spent</dt>", page_url(guest): "3 of 3 answers · $"}
    for url, said in what_it_cost.items():
        assert said in text(member_of(guest).get(url))
        assert said not in text(member_of(paid_candidate).get(url))


def test_the_arenas_team_reads_no_undisclosed_candidate(paid_candidate: Candidate) -> None:
    guest = make_variant(
        arena=paid_candidate.arena,
        team=make_paying_team(2 * DOLLAR),
        disclosed_at=None,
        private_until=timezone.now(),
    )
    type(paid_candidate.arena).objects.filter(pk=paid_candidate.arena_id).update(open_to_teams=True)
    run = order(guest)
    assert member_of(paid_candidate).get(run_url(run)).status_code == 404
    assert member_of(guest).get(run_url(run)).status_code == 200
