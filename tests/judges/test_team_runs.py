"""Judge runs in a team's arena: who may order and control them, whose budget pays, what is
logged."""

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import Actor
from arena.calls.models import Capability
from arena.errors import ServiceError
from arena.models import Arena, Run, Team
from arena.services import runs as engine
from arena.services.budgets import BudgetError, committed_by
from judges.judge_reports import list_standings
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer
from tests.judges.helpers import (
    LOCAL,
    QUOTE,
    browser_of,
    join,
    make_member,
    order,
    order_on_page,
    page_text,
    run_url,
    steer,
    work_off,
)

pytestmark = pytest.mark.django_db
DOLLAR = 10**9
MODEL = LOCAL.removeprefix("local:")
NOW = timezone.now()


@pytest.fixture
def arena_of_two(team: Team) -> Arena:
    return make_arena(2, 2, team=team)


def trail(team: Team) -> list[tuple[str, str]]:
    return list(team.audit_entries.order_by("pk").values_list("by", "action"))


def test_a_member_orders_a_run_of_the_team(team: Team, arena_of_two: Arena) -> None:
    ann = make_member(team)
    answer = order_on_page(browser_of(ann), arena_of_two)
    run = Run.objects.get()
    assert answer.url.startswith(run_url(run))
    assert (run.team, run.created_by, run.cap) == (team, ann, None)
    assert trail(team) == [("member-of-help", "ordered a run of judges")]
    assert team.audit_entries.get().details["cap"] == "nothing to pay"


def test_members_of_another_team_and_viewers_order_nothing(team: Team, arena_of_two: Arena) -> None:
    other = Team.objects.create(slug="other", name="Other")
    arena_of_two.open_to_teams = True
    arena_of_two.save()
    for client in (join(other, "owner"), join(team, "viewer")):
        answer = client.post(
            reverse("order_run", args=[arena_of_two.slug]), QUOTE | {"do": "order"}
        )
        assert answer.status_code == 403
    assert not Run.objects.exists()


def test_the_page_says_who_pays_and_what_is_left(team: Team, arena_of_two: Arena) -> None:
    client, page = join(team), reverse("order_run", args=[arena_of_two.slug])
    assert "Help centre pays, but has no budget yet." in page_text(client, page)
    Team.objects.update(budget=5 * DOLLAR)
    Run.objects.create(arena=arena_of_two, kind="judge", team=team, state="open", cap=2 * DOLLAR)
    assert "Help centre pays, with $3.00 left in its budget." in page_text(client, page)


def test_nothing_is_said_of_budgets_where_operators_pay(staff: Client) -> None:
    assert "budget" not in page_text(staff, reverse("order_run", args=[make_arena(2, 2).slug]))


def test_order_beyond_the_budget_is_refused_at_once(
    team: Team, arena_of_two: Arena, paid: FakeServer
) -> None:
    Capability.objects.all().delete()
    Team.objects.update(budget=DOLLAR)
    answer = order_on_page(join(team), arena_of_two, scripted=[], typed=LOCAL, cap="1.50")
    page = answer.content.decode()
    assert (
        "This may cost up to $1.50, but Help centre has $1.00 left of its budget of $1.00." in page
    )
    assert not Run.objects.exists()
    assert paid.requests == []
    assert trail(team) == []


def test_an_order_within_the_budget_takes_its_cap_of_it(
    team: Team, arena_of_two: Arena, paid: FakeServer
) -> None:
    Team.objects.update(budget=DOLLAR)
    run = order(arena_of_two, LOCAL, cap=DOLLAR)
    assert (run.team, run.cap, committed_by(team)) == (team, DOLLAR, DOLLAR)
    assert trail(team) == [("an administrator (command line)", "ordered a run of judges")]
    with pytest.raises(BudgetError, match=r"Help centre has .* left of its budget"):
        order(make_arena(2, 2, team=team), LOCAL, cap=1)


def test_what_costs_nothing_needs_no_budget_and_takes_none(team: Team, arena_of_two: Arena) -> None:
    run = order(arena_of_two, "scripted", cap=DOLLAR)
    assert (run.cap, committed_by(team)) == (None, 0)


def test_members_control_runs_that_their_team_pays_for(team: Team, arena_of_two: Arena) -> None:
    run, client = order(arena_of_two, "scripted"), join(team)
    for action, state in (("pause", "paused"), ("resume", "open"), ("cancel", "cancelled")):
        assert steer(client, run, action).status_code == 302
        run.refresh_from_db()
        assert run.state == state
    said = [action for _, action in trail(team)[1:]]
    assert said == [f"{done} a run of judges" for done in ("paused", "resumed", "cancelled")]


def test_the_public_page_of_a_run_names_no_account(team: Team, arena_of_two: Arena) -> None:
    run = order(arena_of_two, "scripted")
    steer(join(team), run, "pause")
    page = page_text(Client(), run_url(run))
    assert "The arena’s team can see why." in page
    assert "Paused by the team." in page_text(join(team, "viewer"), run_url(run))
    assert "member-of-help" not in page


def test_viewers_see_no_buttons_and_control_nothing(team: Team, arena_of_two: Arena) -> None:
    run, viewer = order(arena_of_two, "scripted"), join(team, "viewer")
    assert reverse("steer_run", args=[run.pk]) not in page_text(viewer, run_url(run))
    assert steer(viewer, run, "cancel").status_code == 403


def test_label_runs_stay_the_operators(team: Team) -> None:
    trial = Run.objects.create(kind="judge", state="open")
    owner = join(team, "owner")
    assert owner.get(reverse("trial_runs")).status_code == 403
    assert owner.get(reverse("trial_run", args=[trial.pk])).status_code == 403


def test_without_failures_nothing_is_retried(team: Team, arena_of_two: Arena) -> None:
    run = work_off(order(arena_of_two, "scripted:scripted-1"))
    run.judgements.filter(state="failed").update(state="abstained")
    with pytest.raises(ServiceError, match="This run has no failures to retry"):
        engine.retry_failed(run=run, by=Actor(user=make_member(team)), now=NOW)
    run.refresh_from_db()
    assert run.state == "done"
    assert "asked failed verdicts again" not in str(trail(team))


def test_criteria_are_changed_by_members_and_noted(team: Team, arena_of_two: Arena) -> None:
    page = reverse("arena_criteria", args=[arena_of_two.slug])
    join(team).post(page, {"criteria": "Short answers."})
    arena_of_two.refresh_from_db()
    assert arena_of_two.criteria == "Short answers."
    assert trail(team) == [("member-of-help", "changed an arena")]


def private(arena_of_two: Arena) -> None:
    arena_of_two.visibility = "private"
    arena_of_two.save()


def test_judges_of_private_arenas_show_to_the_team_alone(team: Team, arena_of_two: Arena) -> None:
    work_off(order(arena_of_two, "scripted"))
    work_off(order(make_arena(2, 2), "scripted:scripted-2", per_pair=1))
    work_off(order(arena_of_two, "scripted:scripted-2"))
    private(arena_of_two)

    def counted(actor: Actor) -> dict[str, int]:
        return {row.judge.model: row.judgements for row in list_standings(actor)}

    assert counted(Actor()) == {"scripted-2": 1}
    assert counted(Actor(user=make_member(team))) == {"scripted-1": 2, "scripted-2": 3}


def test_judges_of_private_arenas_are_offered_to_no_other_team(
    team: Team, arena_of_two: Arena
) -> None:
    work_off(order(arena_of_two, "scripted"))
    private(arena_of_two)
    other = Team.objects.create(slug="other", name="Other")
    theirs = make_arena(2, 2, team=other)
    label = "scripted:scripted-1@pairwise"
    choice = f'name="registered" value="{label}'
    pages = [
        page_text(join(whose), reverse("order_run", args=[where.slug]))
        for whose, where in ((team, arena_of_two), (other, theirs))
    ]
    assert [choice in page for page in pages] == [True, False]
