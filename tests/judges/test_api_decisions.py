"""A team's decision through the API: the facts of its page, for programs to wait on."""

import uuid
from typing import Any

import pytest
from django.utils import timezone

from arena.models import Arena, Candidate, Run, Team
from judges.services.decisions import write_decisions
from ranking import leaderboard
from ranking.models import ArenaRefresh
from tests.arena.rest import Caller, member_of, token_of, undisclosed
from tests.arena.teams import person
from tests.factories import make_arena, make_vote
from tests.judges.helpers import candidates_of, make_team, order, published_arena, work_off
from tests.ranking.helpers import publish

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quiet_boards")]


def decision(caller: Caller, arena: Arena, **asked: Any) -> dict[str, Any]:
    query = "&".join(f"{name}={value}" for name, value in asked.items())
    answer = caller.get(f"arenas/{arena.slug}/decision/?{query}")
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def test_a_candidate_that_is_named_is_a_family_of_one(team: Team) -> None:
    arena = published_arena(team, (0.0, 1.5, 0.0, 0.0))
    old, new = candidates_of(arena)[:2]
    caller = token_of(team, "read")
    named = decision(caller, arena, candidate=new.pk, baseline=old.pk)
    assert (named["verdict"], named["family"]) == ("better", 1)
    assert decision(caller, arena, baseline=old.pk)["family"] == 3


def test_the_verdict_is_about_the_candidate_that_is_named(team: Team, clear_lead: Arena) -> None:
    old, new = candidates_of(clear_lead)
    caller = token_of(team, "read")
    better = decision(caller, clear_lead, candidate=new.pk, baseline=old.pk)
    worse = decision(caller, clear_lead, candidate=old.pk, baseline=new.pk)
    assert (better["verdict"], worse["verdict"]) == ("better", "worse")
    assert better["candidate"] == worse["baseline"] == {"id": new.pk, "name": str(new)}
    assert better["sentence"].startswith(f"{new} is better than {old} for this one rater and ")
    assert better["scope"] == worse["scope"] == "these_raters"
    assert (better["missing"], better["claim"]["verdict"]) == (None, "better")
    assert better["claim"]["wider"]["missing"]["unit"] == "raters"
    assert better["wins_low"] < better["wins"] < better["wins_high"]
    assert better["elo"] == pytest.approx(-worse["elo"])
    cast = clear_lead.votes.count()
    assert (better["votes"], better["between"], better["votes_to_go"]) == (cast, cast, None)
    snapshot = clear_lead.boards.get(raters="people", category="").snapshots.get()
    assert better["snapshot"] == snapshot.pk
    assert better["page"].startswith(f"http://testserver/teams/help/arenas/{clear_lead.slug}/?")


def test_it_says_what_the_page_says(team: Team, clear_lead: Arena) -> None:
    caller = member_of(team, "viewer")
    found = decision(caller, clear_lead)
    page = caller.client.get(found["page"]).content.decode()
    assert found["sentence"].split(":")[0] in page


def test_unknown_figures_say_what_is_missing(team: Team) -> None:
    arena = published_arena(team, (0.0, 0.3))
    work_off(order(arena, "scripted:scripted-1", per_pair=1))
    found = decision(token_of(team, "read"), arena)
    assert found["verdict"] == "unknown"
    assert found["votes_to_go"] > 0
    assert found["cost_to_go"] == 0  # a script costs nothing


def test_votes_of_scripts_are_called_so(team: Team, clear_lead: Arena) -> None:
    work_off(order(clear_lead, "scripted:scripted-1", per_pair=10))
    publish(clear_lead)
    caller = token_of(team, "read")
    found = decision(caller, clear_lead, raters="judges")
    assert found["scripted"] is True
    assert "Demo only: these votes come from a script" in found["sentence"]
    people = decision(caller, clear_lead)
    assert people["scripted"] is False
    assert "scripted" not in people["sentence"]


def test_nothing_changed_is_304_and_a_new_snapshot_is_not(team: Team, clear_lead: Arena) -> None:
    caller, path = token_of(team, "read"), f"arenas/{clear_lead.slug}/decision/"
    known = caller.get(path)["ETag"]
    assert caller.get(path, If_None_Match=known).status_code == 304
    old, new = candidates_of(clear_lead)
    make_vote(clear_lead, new, old, "left", clear_lead.prompts.first())
    publish(clear_lead)
    changed = caller.get(path, If_None_Match=known)
    assert (changed.status_code, changed.json()["votes"]) == (200, clear_lead.votes.count())


def test_while_votes_wait_or_are_being_counted_it_is_not_up_to_date(
    team: Team, clear_lead: Arena
) -> None:
    caller = token_of(team, "read")
    assert decision(caller, clear_lead)["up_to_date"] is True
    make_vote(clear_lead, *candidates_of(clear_lead), "left", clear_lead.prompts.first())
    assert decision(caller, clear_lead)["up_to_date"] is False
    publish(clear_lead)
    assert decision(caller, clear_lead)["up_to_date"] is True
    ArenaRefresh.objects.update(token=uuid.uuid4())  # the tallies may have votes of no board yet
    assert decision(caller, clear_lead)["up_to_date"] is False


def test_the_votes_of_a_run_are_counted_once_a_board_has_them(
    team: Team, clear_lead: Arena
) -> None:
    caller = token_of(team, "read")
    run = order(clear_lead, "scripted:scripted-1", per_pair=10)
    asked = {"raters": "judges", "run": str(run.pk)}
    assert decision(caller, clear_lead)["counted"] is None
    assert decision(caller, clear_lead, **asked)["counted"] is False
    work_off(run)
    assert decision(caller, clear_lead, **asked)["counted"] is False  # voted, and on no board yet
    publish(clear_lead)
    assert decision(caller, clear_lead, **asked)["counted"] is True


def test_waiting_votes_of_others_do_not_affect_a_counted_run(team: Team, clear_lead: Arena) -> None:
    caller = token_of(team, "read")
    run = work_off(order(clear_lead, "scripted:scripted-1", per_pair=10))
    publish(clear_lead)
    make_vote(clear_lead, *candidates_of(clear_lead), "left", clear_lead.prompts.first())
    found = decision(caller, clear_lead, raters="judges", run=str(run.pk))
    assert (found["up_to_date"], found["counted"]) == (False, True)


def test_a_run_that_ends_after_its_votes_were_counted_needs_no_other_board(
    team: Team, clear_lead: Arena
) -> None:
    caller = token_of(team, "read")
    run = work_off(order(clear_lead, "scripted:scripted-1", per_pair=10))
    publish(clear_lead)
    Run.objects.filter(pk=run.pk).update(counted_at=None)
    found = decision(caller, clear_lead, raters="judges", run=str(run.pk))
    assert (found["up_to_date"], found["counted"]) == (True, True)


def test_a_board_that_cannot_be_published_counts_no_run(
    clear_lead: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(clear_lead)
    run = work_off(order(clear_lead, "scripted:scripted-1", per_pair=10))
    monkeypatch.setattr(leaderboard, "largest_difference", lambda *_: 1.0)
    publish(clear_lead)
    assert Run.objects.get(pk=run.pk).counted_at is None
    monkeypatch.undo()
    publish(clear_lead)
    assert Run.objects.get(pk=run.pk).counted_at


@pytest.mark.parametrize("run", ["0", "x", "9" * 30, "²"])
def test_a_missing_run_is_reported(team: Team, clear_lead: Arena, run: str) -> None:
    answer = token_of(team, "read").get(f"arenas/{clear_lead.slug}/decision/?run={run}")
    assert answer.status_code == 400
    assert "There is no judge run" in answer.text


def test_judges_and_people_are_asked_apart(team: Team, clear_lead: Arena) -> None:
    found = decision(token_of(team, "read"), clear_lead, raters="judges")
    assert (found["verdict"], found["votes"], found["computed_at"]) == ("unknown", 0, None)
    assert found["sentence"].startswith("No votes yet: ")


def test_before_there_are_two_candidates_it_says_so(team: Team) -> None:
    arena = make_arena(1, 2, team=team)
    found = decision(token_of(team, "read"), arena)
    assert (found["verdict"], found["candidate"], found["lead"]) == (
        "unknown",
        None,
        "not_comparable",
    )
    assert "candidate-0 is the only candidate so far" in found["sentence"]


def test_a_team_in_another_s_arena_asks_for_itself(team: Team, clear_lead: Arena) -> None:
    guests = make_team("Guests", "guests")
    clear_lead.open_to_teams = True
    clear_lead.save()
    hidden = undisclosed(clear_lead, team=guests)
    baseline = candidates_of(clear_lead)[0].pk
    for caller in (token_of(guests, "read"), member_of(guests)):
        found = decision(caller, clear_lead, baseline=baseline)
        assert (found["team"], found["candidate"]["name"]) == ("guests", "secret-recipe")
    theirs = decision(token_of(team, "read"), clear_lead, baseline=hidden.pk)
    assert theirs["baseline"]["name"] == f"Undisclosed {hidden.pk}"


def test_whose_team_it_is_nobody_else_asks_for(team: Team, clear_lead: Arena) -> None:
    path = f"arenas/{clear_lead.slug}/decision/?team=help"
    assert Caller(user=person()).get(path).status_code == 404
    assert token_of(make_team("Others", "others")).get(path).status_code == 404
    assert Caller().get(path).status_code == 404
    assert Caller(user=person(is_staff=True)).get(path).json()["team"] == "help"


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("raters=cats", 400),
        ("candidate=999999999", 400),
        ("candidate=one", 400),
        ("candidate=", 400),
        ("baseline=%20", 400),
        ("baseline=" + "9" * 40, 400),
        ("baseline=%00", 400),
        ("category=%00", 400),
        ("category=nope", 400),
        ("team=a%00b", 400),
        ("run=%00", 400),
    ],
)
def test_what_is_asked_for_and_not_there_is_reported(
    team: Team, clear_lead: Arena, asked: str, status: int
) -> None:
    answer = token_of(team, "read").get(f"arenas/{clear_lead.slug}/decision/?{asked}")
    assert answer.status_code == status


def test_the_two_may_be_named_by_their_names(team: Team, clear_lead: Arena) -> None:
    old, new = candidates_of(clear_lead)
    caller = token_of(team, "read")
    by_name = decision(caller, clear_lead, candidate=new.own_name, baseline=old.own_name)
    assert by_name == decision(caller, clear_lead, candidate=new.pk, baseline=old.pk)


def next_version(arena: Arena) -> Candidate:
    _, new = candidates_of(arena)
    return Candidate.objects.create(
        arena=arena, team=new.team, name=new.name, version=2, disclosed_at=new.disclosed_at
    )


def refused_parameter(team: Team, arena: Arena, asked: str) -> str:
    """The sentence of a problem that names the parameter."""
    answer = token_of(team, "read").get(f"arenas/{arena.slug}/decision/?{asked}")
    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    assert error["parameter"] == asked.partition("=")[0]
    assert error["detail"] == answer.json()["detail"]
    return str(error["detail"])


def test_a_name_of_several_versions_is_asked_for_by_id(team: Team, clear_lead: Arena) -> None:
    _, first = candidates_of(clear_lead)
    second = next_version(clear_lead)
    said = refused_parameter(team, clear_lead, f"candidate={first.name}")
    assert f"{first.pk} ({first.name}), {second.pk} ({first.name} v2)" in said
    caller = token_of(team, "read")
    for asked in (f"{first.name} v2", second.pk):
        assert decision(caller, clear_lead, candidate=asked)["candidate"]["id"] == second.pk
    second.retired_at = timezone.now()
    second.save()
    assert decision(caller, clear_lead, candidate=first.name)["candidate"]["id"] == first.pk


def test_what_is_not_there_is_told_with_what_is(team: Team, clear_lead: Arena) -> None:
    old, new = candidates_of(clear_lead)
    said = refused_parameter(team, clear_lead, "baseline=in-production")
    assert said.startswith("There is no baseline 'in-production' here. Choose from: ")
    assert f"{old.pk} ({old.name}), {new.pk} ({new.name})" in said


def test_the_baseline_is_not_compared_with_itself(team: Team, clear_lead: Arena) -> None:
    old, _ = candidates_of(clear_lead)
    said = refused_parameter(team, clear_lead, f"candidate={old.pk}&baseline={old.pk}")
    assert said == f"{old.name} is the baseline itself."


def test_an_undisclosed_name_cannot_be_queried(team: Team, clear_lead: Arena) -> None:
    hidden = undisclosed(clear_lead, team=make_team("Guests", "guests"))
    said = refused_parameter(team, clear_lead, "baseline=secret-recipe")
    assert "secret-recipe'" in said
    assert said.count("secret-recipe") == 1
    found = decision(token_of(team, "read"), clear_lead, baseline=f"Undisclosed {hidden.pk}")
    assert found["baseline"]["id"] == hidden.pk


def decision_of_losses(team: Team, n_prompts: int) -> dict[str, Any]:
    """The decision on a candidate that lost to the baseline on each of so many prompts."""
    arena = make_arena(2, 20, team=team)
    old, new = candidates_of(arena)
    for prompt in arena.prompts.order_by("pk")[:n_prompts]:
        make_vote(arena, old, new, "left", prompt)
    publish(arena)
    arena.candidates.update(team=team)
    return decision(token_of(team, "read"), arena)


def test_a_candidate_that_loses_every_time_is_worse(team: Team) -> None:
    found = decision_of_losses(team, 8)
    assert (found["verdict"], found["wins"], found["elo"]) == ("worse", 0.0, None)
    assert (found["votes"], found["between"], found["votes_to_go"]) == (8, 8, None)
    assert found["groups_to_go"] == 0


def test_too_few_prompts_to_decide_anything_are_told(team: Team) -> None:
    found = decision_of_losses(team, 7)
    assert (found["verdict"], found["between"], found["groups_to_go"]) == ("unknown", 7, 1)


def test_a_category_without_votes_is_not_all_prompts(team: Team, clear_lead: Arena) -> None:
    clear_lead.prompts.create(external_id="new", text="New?", category="fresh")
    found = decision(token_of(team, "read"), clear_lead, category="fresh")
    assert (found["category"], found["verdict"], found["snapshot"]) == ("fresh", "unknown", None)
    assert found["sentence"].startswith("On “fresh” prompts, no votes yet")


def test_since_when_the_verdict_is_known(team: Team, clear_lead: Arena) -> None:
    caller = token_of(team, "read")
    assert decision(caller, clear_lead)["known_since"] is None
    write_decisions(now=timezone.now(), seen={})
    assert decision(caller, clear_lead)["known_since"] is not None
