"""A team adds and deletes checks on a page, and reads there what they say of its answers."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from arena.actors import CLI
from arena.models import AnswerCheck, Arena, Response, Role
from arena.services.checks import add_check
from tests.arena.teams import everybody, signed_in
from tests.described import undescribed
from tests.factories import make_arena, make_candidate, make_empty_team, make_member, make_team

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


@pytest.fixture
def arena() -> Arena:
    return make_arena(2, 3, team=make_empty_team(), visibility="private")


@pytest.fixture
def member(arena: Arena) -> Client:
    return signed_in(make_member(arena.team, Role.MEMBER).user)


def page(client: Client, arena: Arena, query: str = "") -> str:
    html = client.get(reverse("manage_checks", args=[arena.slug]) + query).text
    return re.sub(r"\s+", " ", html)


def send(client: Client, arena: Arena, **fields: Any) -> Any:
    return client.post(reverse("manage_checks", args=[arena.slug]), fields, follow=True)


def test_a_member_adds_a_check_and_reads_what_fails(member: Client, arena: Arena) -> None:
    assert "No checks yet" in page(member, arena)
    Response.objects.filter(prompt__external_id="p1").update(text="A refund.")
    shown = send(member, arena, kind="contains", expected="refund", allowed="")
    assert "Check added: Contains “refund”." in shown.text
    html = page(member, arena)
    assert "candidate-0: 1 of 3 answers passes every check" not in html
    assert "candidate-0: 1 of 3 answers pass every check, <strong>2 fail</strong>." in html
    assert "candidate-1: 2 of 3" in html
    assert "It does not contain “refund”." in html
    assert not undescribed(html)


def test_a_check_of_one_prompt_is_added_from_its_page(member: Client, arena: Arena) -> None:
    prompt = arena.prompts.get(external_id="p1")
    link = reverse("manage_checks", args=[arena.slug]) + "?prompt=p1#add"
    assert link in member.get(reverse("edit_prompt", args=[arena.slug, prompt.pk])).text
    assert 'value="p1"' in page(member, arena, "?prompt=p1")
    send(member, arena, kind="guard", prompt="p1", name="Refunds")
    check = AnswerCheck.objects.get()
    assert (check.prompt, check.kind, check.name) == (prompt, "guard", "Refunds")
    html = page(member, arena)
    assert "Decided by votes" in html
    assert "Never lose this prompt" in html


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "regex", "expected": "("}, "is not a valid regular expression"),
        ({"kind": "contains", "expected": ""}, "The expected value is empty."),
        ({"kind": "contains", "expected": "x", "prompt": "p9"}, "no prompt with this ID"),
        ({"kind": "guard"}, "Choose the prompt that must never be lost."),
        ({"kind": "like"}, "Select a valid choice"),
        ({"kind": "contains", "expected": "x", "allowed": "-1"}, "greater than or equal to 0"),
    ],
)
def test_what_is_no_check_is_said_at_the_form(
    member: Client, arena: Arena, fields: dict[str, str], words: str
) -> None:
    assert words in send(member, arena, **fields).text
    assert not AnswerCheck.objects.exists()


def test_a_check_is_deleted(member: Client, arena: Arena) -> None:
    check = add_check(arena=arena, by=CLI, kind="contains", expected="x")
    shown = member.post(reverse("delete_check", args=[arena.slug, check.pk]), follow=True)
    assert "Check deleted: Contains “x”." in shown.text
    assert not AnswerCheck.objects.exists()
    other = add_check(arena=make_arena(0, 1), by=CLI, kind="contains", expected="x")
    url = reverse("delete_check", args=[arena.slug, other.pk])
    assert member.post(url).status_code == 404


def test_viewers_read_and_outsiders_find_nothing(arena: Arena) -> None:
    check = add_check(arena=arena, by=CLI, kind="contains", expected="x")
    people = everybody(arena.team)
    page_of, delete = (
        reverse("manage_checks", args=[arena.slug]),
        reverse("delete_check", args=[arena.slug, check.pk]),
    )
    statuses = {name: client.get(page_of).status_code for name, client in people.items()}
    assert statuses == {
        **{"nobody": 404, "stranger": 404, "operator": 200},
        **{"viewer": 200, "member": 200, "owner": 200},
    }
    assert people["viewer"].post(page_of, {"kind": "guard"}).status_code == 403
    assert people["viewer"].post(delete).status_code == 403
    assert "Add check" not in people["viewer"].get(page_of).text
    assert people["stranger"].post(delete).status_code == 404


def test_answers_that_the_team_may_not_read_are_not_checked_for_it(arena: Arena) -> None:
    guest = make_candidate(
        arena, "Secret", team=make_team(), disclosed_at=None, private_until_votes=100
    )
    Response.objects.create(candidate=guest, prompt=arena.prompts.first(), text="Hush")
    add_check(arena=arena, by=CLI, kind="contains", expected="Hush", negated=True)
    viewer = signed_in(make_member(arena.team, Role.VIEWER).user)
    html = page(viewer, arena)
    assert "Secret" not in html
    assert str(guest) not in html


def test_nothing_that_somebody_wrote_becomes_html(member: Client, arena: Arena) -> None:
    send(member, arena, kind="equals", expected="<b>x</b>", name="<i>bold</i>")
    Response.objects.update(text="<script>")
    html = page(member, arena)
    assert "<i>bold" not in html
    assert "<b>x" not in html
    assert "It is “<script>" not in html
