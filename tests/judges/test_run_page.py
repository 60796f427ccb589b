"""The page of a judge run: its progress, and its verdicts, blind."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI
from arena.models import Run
from arena.services.arenas import set_criteria
from arena.services.orders import order_people_run
from judges.models import Judgement
from judges.run_reports import report_on
from tests.factories import make_arena, make_call, rewrite_answers
from tests.judges.fake_server import FakeServer, better_is, fails, prefers, says
from tests.judges.helpers import (
    hide_arena,
    join,
    make_team,
    order,
    page_text,
    run_url,
    signed_in,
    verdict_url,
    work_off,
)

pytestmark = pytest.mark.django_db
JURY = ("scripted:scripted-1", "scripted:scripted-2", "scripted:scripted-3")


def test_an_open_run_shows_its_progress_and_asks_for_news(client: Client) -> None:
    run = order(make_arena(2, 2), "scripted")
    html = page_text(client, run_url(run))
    assert "0 of 2" in html
    assert f'hx-get="{run_url(run)}?seen=open" hx-trigger="every 2s"' in html
    assert "htmx" in html
    assert "Demo only" in html


@pytest.mark.parametrize(("calls", "sentence"), [(1, "1 call is"), (8, "8 calls are")])
def test_calls_of_other_runs_at_its_endpoint_are_named_as_what_it_waits_for(
    client: Client, calls: int, sentence: str
) -> None:
    run = order(make_arena(2, 2), "scripted")
    assert "waiting for" not in page_text(client, run_url(run))
    lease = timezone.now() + timedelta(minutes=1)
    for _ in range(calls):
        make_call(endpoint="scripted", state="running", lease_expires_at=lease)
        make_call(endpoint="elsewhere", state="running", lease_expires_at=lease)
    html = page_text(client, run_url(run))
    assert f"{sentence} waiting for <code>scripted</code>." in html
    assert "elsewhere" not in html


def test_the_news_are_the_upper_part_alone(client: Client) -> None:
    run = order(make_arena(2, 2), "scripted")
    html = page_text(client, run_url(run, seen="open"), headers={"HX-Request": "true"})
    assert html.lstrip().startswith("<section")
    assert "<html" not in html
    assert "hx-swap-oob" not in html


def test_new_state_brings_other_buttons_and_says_so(client: Client) -> None:
    run = work_off(order(make_arena(2, 2), "scripted"))
    html = page_text(client, run_url(run, seen="open"), headers={"HX-Request": "true"})
    assert 'hx-swap-oob="innerHTML"' in html
    assert "Run state: done" in html
    assert "hx-trigger" not in html


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}])
def test_a_cache_keeps_the_page_and_its_upper_part_apart(
    client: Client, headers: dict[str, str]
) -> None:
    run = order(make_arena(2, 2), "scripted")
    assert "HX-Request" in client.get(run_url(run), headers=headers).headers["Vary"]


def test_a_run_that_is_over_asks_no_more_and_lists_its_verdicts(
    client: Client, local: FakeServer
) -> None:
    local.otherwise = better_is("TIE")
    run = work_off(order(make_arena(2, 2)))
    html = page_text(client, run_url(run))
    assert "hx-trigger" not in html
    assert html.count('id="verdict-') == 2
    assert "data-state=" not in html.partition('id="verdict-')[2]  # as all have voted
    assert html.count("· Tie") + html.count(">Tie<") == 2
    assert "Demo only" not in html


def counts_in(html: str) -> str:
    """The table of candidates, as words."""
    table = html.partition('aria-label="Candidates in this run"')[2].partition("</table>")[0]
    return " ".join(re.sub("<[^>]*>", " ", table).split())


def verdicts_in(html: str) -> str:
    return html.partition('id="list"')[2]


def test_a_visitor_reads_no_name_beside_a_verdict(client: Client) -> None:
    run = work_off(order(make_arena(3, 4, open_answers=False), *JURY))
    for reader in (client, signed_in("ann")):
        assert "candidate-" not in verdicts_in(page_text(reader, run_url(run)))


def test_verdicts_are_counted_for_each_candidate(client: Client, local: FakeServer) -> None:
    arena = make_arena(2, 4, team=make_team())
    first, second = arena.candidates.order_by("pk")
    local.script.extend([better_is("A")] * 2 + [better_is("TIE")] * 2)
    local.otherwise = prefers("-1 of")
    run = order(arena, per_pair=4)
    assert f"{first} 0 0 0 0 {second} 0 0 0 0" in counts_in(page_text(client, run_url(run)))
    work_off(run)
    assert f"{second} 2 0 1 1 {first} 0 2 1 1" in counts_in(page_text(client, run_url(run)))
    type(second).objects.filter(pk=second.pk).update(disclosed_at=None, private_until_votes=9)
    assert f"Undisclosed {second.pk}" in page_text(client, run_url(run))
    assert str(second) not in page_text(client, run_url(run))
    assert str(second) in page_text(join(arena.team), run_url(run))


def test_the_team_reads_both_names_of_each_verdict(client: Client) -> None:
    arena = make_arena(2, 3, team=make_team(), open_answers=False)
    run, team = work_off(order(arena, "scripted", per_pair=3)), join(arena.team)
    verdicts = verdicts_in(page_text(team, run_url(run)))
    for judgement in run.judgements.select_related("comparison__left", "comparison__right"):
        pair = judgement.comparison
        assert f"{pair.left} (left), {pair.right} (right)" in verdicts
    assert verdicts.count("(left)") == 3
    page = page_text(team, verdict_url(run, run.judgements.earliest("pk").pk))
    assert "so you can’t vote blind on this pair" in page
    assert "(left)" not in page_text(client, run_url(run))


def test_what_a_prompt_says_is_text(client: Client, local: FakeServer) -> None:
    arena = make_arena(2, 1)
    arena.prompts.update(text="<script>alert(1)</script>")
    rewrite_answers("<img src=x onerror=alert(2)>")
    local.otherwise = says("<script>alert(3)</script>")
    html = page_text(client, run_url(work_off(order(arena))))
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_verdicts_are_filtered_by_state_judge_and_flag(client: Client, local: FakeServer) -> None:
    local.script.extend([better_is("TIE"), better_is("TIE"), better_is("A"), better_is("A")])
    run = work_off(order(make_arena(2, 2)))
    assert page_text(client, run_url(run)).count('class="about"') == 2
    assert page_text(client, run_url(run, state="abstained")).count('class="about"') == 1
    epoch = run.run_judges.get().epoch_id
    assert page_text(client, run_url(run, judge=epoch)).count('class="about"') == 2
    assert "No verdicts match these filters." in page_text(client, run_url(run, judge=epoch + 1))
    Judgement.objects.filter(state="voted").update(flagged=True)
    html = page_text(client, run_url(run, flagged=1))
    assert html.count('class="about"') == 1
    assert "possible prompt injection" in html
    for rubbish in ({"state": "rubbish"}, {"state": "waiting"}, {"judge": "x"}):
        assert client.get(run_url(run, **rubbish)).status_code == 404


def test_a_run_that_is_done_without_a_vote_is_no_success(client: Client, local: FakeServer) -> None:
    run = order(make_arena(2, 2))
    local.otherwise = says("Well, well.")
    work_off(run)
    assert "This run cast no vote." in page_text(client, run_url(run))
    voted = work_off(order(make_arena(2, 2), "scripted"))
    assert "This run cast no vote." not in page_text(client, run_url(voted))


def test_a_run_says_how_many_failed_and_tells_the_team_why(local: FakeServer) -> None:
    arena = make_arena(2, 2, team=make_team())
    local.script.extend([fails(400, "Your <account> 77 is unknown."), better_is("A")])
    local.otherwise = better_is("TIE")
    run = work_off(order(arena))
    team, stranger = join(arena.team), Client()
    assert "Done: 1 of 2 failed" in page_text(stranger, run_url(run))
    assert "77" not in page_text(stranger, run_url(run))
    assert "Your &lt;account&gt; 77 is unknown." in page_text(team, run_url(run))
    assert "Done: 1 of 2 failed" in page_text(team, reverse("judge_runs", args=[arena.slug]))
    local.otherwise = fails(400, "Your <account> 77 is unknown.")
    failed = work_off(order(make_arena(2, 2)))
    assert "Failed: no verdicts" in page_text(stranger, run_url(failed))


def test_a_filter_stays_while_pages_are_turned(client: Client) -> None:
    run = work_off(order(make_arena(3, 12), "scripted", per_pair=12))
    voted = Judgement.objects.filter(run=run, state="voted").count()
    assert voted > 25
    assert "?state=voted&amp;page=2#verdicts" in page_text(client, run_url(run, state="voted"))


def test_a_jury_shows_each_judge_and_how_far_they_agree(client: Client) -> None:
    run = work_off(order(make_arena(3, 6), *JURY, per_pair=6))
    html = page_text(client, run_url(run))
    for name in JURY:
        assert f"{name}@pairwise" in html
    assert "votes where at least 2 of 3 judges have a verdict" in html
    assert "kappa" in html


def test_a_paused_run_says_why_to_whoever_pays() -> None:
    run = order(make_arena(2, 2), "scripted")
    Run.objects.filter(pk=run.pk).update(state="paused", pause_reason="HTTP 401: <no>")
    assert "HTTP 401: &lt;no&gt;" in page_text(signed_in("boss", staff=True), run_url(run))


def test_money_that_nobody_can_be_sure_of_is_named() -> None:
    run = order(make_arena(2, 2), "scripted")
    money = {"cap": 5 * 10**9, "settled": 12 * 10**7, "uncertain": 34 * 10**7}
    Run.objects.filter(pk=run.pk).update(**money)
    html = page_text(signed_in("boss", staff=True), run_url(run))
    assert "$0.12 of $5.00" in html
    assert "Up to $0.34 more may have been billed" in html


def test_hidden_arenas_and_runs_of_human_votes_have_no_page(client: Client) -> None:
    run = order(make_arena(2, 2), "scripted")
    elsewhere = reverse("judge_run", args=[make_arena(2, 2).slug, run.pk])
    people = order_people_run(arena=run.arena, per_pair=1, by=CLI)
    assert client.get(elsewhere).status_code == 404
    assert client.get(run_url(people)).status_code == 404
    hide_arena(run.arena)
    assert client.get(run_url(run)).status_code == 404
    assert signed_in("boss", staff=True).get(run_url(run)).status_code == 404


@pytest.mark.parametrize("n_prompts", [2, 10])
def test_the_page_takes_as_many_queries_however_many_verdicts(
    client: Client, django_assert_num_queries: Any, n_prompts: int
) -> None:
    run = work_off(order(make_arena(3, n_prompts), *JURY, per_pair=n_prompts))
    with django_assert_num_queries(15):
        page_text(client, run_url(run))


def test_run_shows_its_criteria_and_whether_they_changed(client: Client) -> None:
    arena = make_arena(2, 2)
    set_criteria(arena=arena, criteria="Rhymes are better.")
    run = work_off(order(arena, "scripted"))
    html = page_text(client, run_url(run))
    assert "Rhymes are better." in html
    assert "have changed since" not in html
    set_criteria(arena=arena, criteria="Facts are better.")
    html = page_text(client, run_url(run))
    assert "Rhymes are better." in html
    assert "have changed since" in html


def test_what_has_no_verdict_stands_beside_each_judge(client: Client) -> None:
    run = work_off(order(make_arena(2, 4), "scripted:scripted-1", per_pair=4))
    first, second, *_ = run.judgements.values_list("pk", flat=True)
    run.judgements.filter(pk=first).update(state="refused")
    run.judgements.filter(pk=second).update(state="too_long")
    (judge,) = report_on(run.pk, timezone.now()).judges
    assert judge.without_verdict == 2 + judge.states["unreadable"]
    assert "No verdict</th>" in page_text(client, run_url(run))


def test_a_run_that_is_done_leads_its_team_to_the_decision(client: Client) -> None:
    team = make_team()
    run = order(make_arena(2, 2, team=team), "scripted:scripted-1")
    member, link = join(team), "View the decision"
    assert link not in page_text(member, run_url(run))
    work_off(run)
    page = page_text(member, run_url(run))
    assert f'href="/teams/help/arenas/{run.arena.slug}/?raters=judges"' in page
    assert link not in page_text(client, run_url(run))


def test_an_unfinished_list_says_that_it_will_grow(client: Client) -> None:
    run = order(make_arena(2, 2), "scripted:scripted-1")
    assert "All 0 so far" in page_text(client, run_url(run))
    assert "so far" not in page_text(client, run_url(work_off(run)))


def set_state(run: Run, state: str) -> None:
    Run.objects.filter(pk=run.pk).update(state=state)


@pytest.mark.parametrize(
    ("state", "badge", "said"),
    [
        ("open", "Running", "No verdicts yet."),
        ("paused", "Paused", "No verdicts yet: the run is paused."),
        ("cancelled", "Cancelled", "The run ended without any verdicts."),
    ],
)
def test_a_run_without_verdicts_says_why(client: Client, state: str, badge: str, said: str) -> None:
    run = order(make_arena(), "scripted")
    set_state(run, state)
    html = page_text(client, run_url(run))
    assert f'data-run="{state}"> {badge} </span>' in html
    reasons = ("yet.", "is paused.", "ended without")
    assert [one for one in reasons if one in html] == [one for one in reasons if one in said]
    assert said in html


def test_the_list_calls_an_open_run_running(client: Client) -> None:
    run = order(make_arena(), "scripted")
    html = page_text(client, run_url(run).rsplit("/", 2)[0] + "/")
    assert 'data-run="open"> Running </span>' in html


def test_no_row_of_a_jury_ends_in_a_dot(client: Client) -> None:
    run = work_off(order(make_arena(), "scripted:scripted-1", "scripted:scripted-2"))
    run.judgements.update(state="refused", outcome="", score=None, flipped=False)
    facts = re.findall(r'verdict-facts"> (.*?) </span> </a> </li>', page_text(client, run_url(run)))
    assert facts
    assert all(re.fullmatch(r"<span>[^<·]+</span>", one) for one in facts), facts
