"""Juries that weigh their members as measured in the arena, and runs of what one left undecided."""

import re
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.models import Arena, Run, Vote
from arena.services.runs import order_run
from judges.models import Calibration, Epoch, Judge, JuryVerdict
from judges.services.calibration import measure_arena
from judges.services.orders import prepare_order
from judges.services.planning import OrderOptions
from judges.services.registry import JudgeError, register_jury
from judges.services.trust import settle_trust
from tests.factories import make_arena, make_person, make_team
from tests.judges.fake_server import FakeServer, Sent, completion, is_probe, nonce_of
from tests.judges.helpers import (
    epoch_of,
    issue_pair,
    order,
    page_text,
    run_command,
    vote_on,
    work_off,
)
from tests.rows import written_once

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
PROMPTS = 64
CHATS, COUNTS, COPIES = (f"local:{name}-7b-2024-07-01" for name in ("chats", "counts", "copies"))
# Each is right on one category and every fifth prompt of the other; the third repeats the first.
GOOD_AT = {"chats": 0, "counts": 1, "copies": 0}


def is_right(judge: str, number: int) -> bool:
    return number % 2 == GOOD_AT[judge] or number % 5 == 0


def judge_by_category(body: dict[str, Any]) -> Sent:
    if is_probe(body):
        return completion("Yes.")
    asked = body["messages"][1]["content"]
    number = int(re.findall(r"Question (\d+)\?", asked)[0])
    shown = dict(re.findall(r"<answer-([ab])-\w+>\n(.*?)\n</", asked, re.DOTALL))
    first = "a" if f"{number}-0 of" in shown["a"] else "b"
    right = is_right(body["model"].split("-")[0], number)
    better = first if right else {"a": "b", "b": "a"}[first]
    return completion(f"Reasons.\nVERDICT-{nonce_of(body)}: {better.upper()}")


@pytest.fixture
def arena(local: FakeServer, db: None) -> Arena:
    """People prefer the first candidate's answer to every prompt; three judges judged them all."""
    local.otherwise = judge_by_category

    def write() -> Arena:
        made, ann = make_arena(2, PROMPTS), make_person()
        for number in range(PROMPTS):
            turned = number % 3 == 0
            outcome = "right" if turned else "left"
            vote_on(issue_pair(made, ann, number, turned=turned), ann, outcome)
        for name in (CHATS, COUNTS, COPIES):
            work_off(order(made, name, per_pair=PROMPTS))
        return made

    return written_once("judged by three", write)


def measure(arena: Arena) -> Calibration:
    newest = None
    for epoch in Epoch.objects.open().exclude(judge__protocol="jury"):
        newest = measure_arena(epoch=epoch, arena=arena, now=timezone.now())
    assert newest is not None
    return newest


def weighted_run(arena: Arena, *names: str) -> Run:
    specs = [epoch_spec(name) for name in names or (CHATS, COUNTS, COPIES)]
    prepared = prepare_order(
        arena=arena, specs=specs, options=OrderOptions(PROMPTS, again=True), weigh=True
    )
    return work_off(order_run(order=prepared, cap=None, now=timezone.now()))


def epoch_spec(name: str) -> Any:
    from judges.services.registry import spec_named

    return spec_named(name)


def test_a_weighted_jury_decides_where_each_member_is_good(arena: Arena) -> None:
    assert measure(arena).report["panel"]["n_items"] == PROMPTS
    run = weighted_run(arena)
    jury = Epoch.objects.get(judge__protocol="jury")
    assert jury.judge.name.startswith("Weighted jury of 3: ")
    verdicts = JuryVerdict.objects.filter(run=run, state="voted").select_related("comparison")
    assert verdicts.count() == PROMPTS
    assert run.settled == 0
    for verdict in verdicts.select_related("comparison__left_response"):
        left_is_first = "-0 of" in verdict.comparison.left_response.text
        assert verdict.outcome == ("left" if left_is_first else "right")
        vote = Vote.objects.get(comparison=verdict.comparison)
        assert vote.outcome == verdict.outcome
        assert vote.preference is not None
        assert (vote.preference > 0.5) == left_is_first
    told = page_text(Client(), reverse("judge_run", args=[arena.slug, run.pk]))
    assert "and weighs them by their accuracy" in told
    assert "more than half of those" not in told
    # It is measured by votes that it was not fitted on.
    told = page_text(Client(), reverse("judge", args=[jury.judge_id]))
    assert "by human votes that were cast after its weights were fitted" in told
    with pytest.raises(JudgeError, match="nothing to measure"):
        measure_arena(epoch=jury, arena=arena, now=timezone.now())
    bob = make_person()
    for number in range(10):
        vote_on(issue_pair(arena, bob, number), bob, "left")
    report = measure_arena(epoch=jury, arena=arena, now=timezone.now()).report
    assert (report["n_items"], report["n_labels"]) == (10, 10)
    assert report["on_all"]["value"] == 1
    settle_trust(epoch=jury, now=timezone.now())
    assert not any("member has changed" in reason for reason in report["trust"]["failed"])
    assert_page_shows_weights(jury.judge, arena)
    # Weights belong to what a jury is.
    plain = register_jury(members=[epoch_of(name) for name in (CHATS, COUNTS, COPIES)])
    assert plain.judge.weights is None
    assert Epoch.objects.filter(judge__protocol="jury").count() == 2
    with pytest.raises(JudgeError, match="already judged"):
        weighted_run(arena)


def assert_page_shows_weights(jury: Judge, arena: Arena) -> None:
    """Each member with its weights and their source, for everyone who may see the arena."""
    assert jury.weights is not None
    Arena.objects.update(visibility="public")
    html = page_text(Client(), reverse("judge", args=[jury.pk]))
    table = html.split('aria-label="Weights"')[1].split("</table>")[0]
    assert table.count("<tr>") == 1 + 3
    for weight in jury.weights["general"].values():
        assert f"{weight:.2f}".replace("-", "\N{MINUS SIGN}") in table
    Arena.objects.update(visibility="private", team=make_team())
    staff = get_user_model().objects.create_superuser("root")
    client = Client()
    client.force_login(staff)
    assert 'aria-label="Weights"' in page_text(client, reverse("judge", args=[jury.pk]))
    answer = Client().get(reverse("judge", args=[jury.pk]))
    assert 'aria-label="Weights"' not in answer.text
    Arena.objects.filter(pk=arena.pk).update(visibility=arena.visibility, team=None)


def check_page(arena: Arena, client: Client, staff: Client) -> None:
    """It says which judges can be trusted here, and how well they do together."""
    runs_page = reverse("judge_runs", args=[arena.slug])
    html = page_text(staff, runs_page)
    assert "Which judges can be trusted here" in html
    assert "Not measured here yet" not in html
    [link] = re.findall(r'href="([^"]*weigh=1)"', html)
    form = page_text(staff, link.replace("&amp;", "&"))
    assert len(re.findall(r'name="registered"[^>]*checked', form)) == 3
    assert re.search(r'name="weigh"[^>]*checked', form)
    strangers = page_text(client, runs_page)
    assert "weigh=1" not in strangers


def test_weighing_is_refused_where_the_judges_were_not_measured_together(
    arena: Arena, client: Client, staff: Client
) -> None:
    runs_page = reverse("judge_runs", args=[arena.slug])
    assert "Not measured here yet, so not trusted here:" in page_text(client, runs_page)
    with pytest.raises(JudgeError, match="not measured together here"):
        weighted_run(arena)
    measure(arena)
    check_page(arena, client, staff)
    with pytest.raises(JudgeError, match="not measured together here"):
        weighted_run(arena, CHATS, COUNTS)
    Vote.objects.of_people().update(outcome="tie")
    assert measure(arena).report["panel"] is None


def test_a_second_judge_is_asked_only_where_the_first_came_to_nothing(
    local: FakeServer, staff: Client
) -> None:
    arena = make_arena(2, 9)
    local.otherwise = lambda body: (
        completion("I cannot say.")
        if not is_probe(body) and re.search(r"Question [0-3]\?", body["messages"][1]["content"])
        else judge_by_category(body)
    )
    run = work_off(order(arena, CHATS, per_pair=9))
    assert run.votes_done == 5
    link = f"{reverse('order_run', args=[arena.slug])}?like_run={run.pk}&amp;undecided=1"
    html = page_text(staff, reverse("judge_run", args=[arena.slug, run.pk]))
    assert f'href="{link}"' in html
    assert "Ask another judge about the 4 without a verdict" in html
    assert "that are without a verdict" in page_text(staff, link.replace("&amp;", "&"))
    local.otherwise = judge_by_category
    said = run_command(
        "judge", arena.slug, f"--judge={COUNTS}", f"--like-run={run.pk}", "--undecided", "--dry-run"
    )
    assert "4 comparisons" in said
    options = OrderOptions(9, like_run=run, undecided=True)
    prepared = prepare_order(arena=arena, specs=[epoch_spec(COUNTS)], options=options)
    work_off(order_run(order=prepared, cap=None, now=timezone.now()))
    assert Vote.objects.filter(rater__kind="judge").count() == 9
    with pytest.raises(CommandError, match="--undecided works only with --like-run"):
        run_command("judge", arena.slug, f"--judge={COUNTS}", "--undecided")
