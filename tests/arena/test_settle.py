"""What a run may have been billed is never called spent, and is settled by an administrator."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from arena.actors import CLI
from arena.calls import leases
from arena.calls.models import Call
from arena.models import Run, Team
from arena.services.budgets import budget_left, uncertain_of
from arena.services.runs import RunError, settle
from tests.arena.ledger import books, end, must_take
from tests.factories import DOLLAR, NOW, make_call, make_paying_team, make_run

pytestmark = pytest.mark.django_db
CENT = DOLLAR // 100


@pytest.fixture
def run() -> Run:
    """A paused run of two calls that may have been billed 50 cents each, and one that was."""
    run = make_run(cap=5 * DOLLAR, team=make_paying_team(6 * DOLLAR))
    for number, money in enumerate(
        ({"uncertain": 50 * CENT}, {"uncertain": 50 * CENT}, {"cost": 9})
    ):
        end(must_take(make_call(run, subject=f"{number},9")), "failed", **money)
    Run.objects.filter(pk=run.pk).update(state="paused", pause_reason="No answers.")
    run.refresh_from_db()
    return run


def test_what_was_billed_is_booked_and_the_rest_is_free(run: Run) -> None:
    assert settle(run=run, billed=70 * CENT, by=CLI) == 30 * CENT
    assert books(run) == (70 * CENT + 9, 0, 0)
    assert sorted(Call.objects.values_list("cost", flat=True)) == [9, 20 * CENT, 50 * CENT]


def test_the_command_says_what_it_did(run: Run, capsys: Any) -> None:
    call_command("settle", str(run.pk), "--billed=0.42")
    assert capsys.readouterr().out == f"Run {run.pk}: $0.42 is booked, $0.58 free.\n"
    assert books(run) == (42 * CENT + 9, 0, 0)
    with pytest.raises(CommandError, match="Nothing is uncertain"):
        call_command("settle", str(run.pk), "--billed=0.42")
    with pytest.raises(CommandError, match="There is no run 0"):
        call_command("settle", "0", "--billed=0.42")


def test_more_than_possible_is_refused_and_changes_nothing(run: Run) -> None:
    with pytest.raises(RunError, match=r"At most \$1\.00 may have been billed"):
        settle(run=run, billed=DOLLAR + 1, by=CLI)
    assert books(run) == (9, 0, DOLLAR)


@pytest.mark.parametrize("state", ["ordered", "open"])
def test_a_run_that_goes_on_is_not_settled(run: Run, state: str) -> None:
    Run.objects.update(state=state)
    with pytest.raises(RunError, match="Pause this run first"):
        settle(run=run, billed=0, by=CLI)


def test_requests_under_way_end_first(run: Run) -> None:
    Run.objects.update(state="open")
    must_take(make_call(run))
    Run.objects.update(state="paused")
    with pytest.raises(RunError, match="let its requests end"):
        settle(run=run, billed=0, by=CLI)


def test_a_worker_that_had_read_a_call_before_does_not_bring_the_doubt_back(run: Run) -> None:
    Call.objects.update(state="waiting", finished_at=None)
    Run.objects.update(state="open")
    read = leases.due_call(call_id=Call.objects.filter(uncertain__gt=0)[0].pk, now=NOW)
    assert read is not None
    Run.objects.update(state="paused")
    settle(run=run, billed=0, by=CLI)
    Run.objects.update(state="open")
    assert not leases.claim(call=read, lease=leases.HANDED_OUT, now=NOW, amount=CENT)
    assert books(run) == (9, 0, 0)


def test_a_team_gets_back_what_was_not_billed(run: Run) -> None:
    Run.objects.update(state="cancelled")
    team = Team.objects.get()
    assert (budget_left(team), uncertain_of(team)) == (5 * DOLLAR - 9, DOLLAR)
    settle(run=run, billed=0, by=CLI)
    assert (budget_left(team), uncertain_of(team)) == (6 * DOLLAR - 9, 0)


def test_the_budget_command_calls_doubt_by_its_name(run: Run, capsys: Any) -> None:
    Run.objects.update(state="cancelled")
    call_command("budget", Team.objects.get().slug)
    said = capsys.readouterr().out
    assert "$0.000000009 of it is spent or reserved, and up to $1.00 more may have been" in said


def admin_says(client: Client, run: Run, billed: str) -> str:
    chosen = {"action": "settle", "_selected_action": [run.pk], "billed": billed}
    answer = client.post(reverse("admin:arena_run_changelist"), chosen, follow=True)
    return " ".join(answer.content.decode().split())


def test_an_administrator_settles_in_the_admin(run: Run) -> None:
    client = Client()
    client.force_login(get_user_model().objects.create_superuser("boss", password="x"))
    assert "Billed, in dollars: This field is required." in admin_says(client, run, "")
    assert "At most $1.00 may have been billed" in admin_says(client, run, "2")
    assert books(run) == (9, 0, DOLLAR)
    assert "$0.42 is booked to run" in admin_says(client, run, "0.42")
    assert books(run) == (42 * CENT + 9, 0, 0)


def test_staff_without_the_permission_do_not_settle(run: Run) -> None:
    client = Client()
    staff = get_user_model().objects.create_user("clerk", password="x", is_staff=True)
    client.force_login(staff)
    admin_says(client, run, "0.42")
    assert books(run) == (9, 0, DOLLAR)
