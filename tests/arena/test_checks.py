"""Checks of an arena: added, deleted, and asked of the answers that are there."""

import time
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from arena.actors import CLI
from arena.checks import MOST_CHECKS, Rule
from arena.models import AnswerCheck, Arena, AuditEntry, Prompt, Response
from arena.services import checks
from arena.services.checks import CheckError, CheckReport, add_check, check_answers, count_passing
from arena.services.prompts import delete_prompt
from tests.factories import make_arena, make_team

pytestmark = pytest.mark.django_db


@pytest.fixture
def arena() -> Arena:
    """Two candidates; the second answers better, but not everything."""
    arena = make_arena(2, 4, team=make_team())
    first, second = arena.candidates.order_by("pk")
    for answer in Response.objects.filter(candidate=first):
        answer.text = "A refund." if answer.prompt.external_id == "p0" else "So."
        answer.save()
    Response.objects.filter(candidate=second).update(text="A refund, at once.", seconds=2)
    Response.objects.filter(candidate=second, prompt__external_id="p3").delete()
    Response.objects.filter(candidate=second, prompt__external_id="p0").update(text="No.")
    return arena


def add(arena: Arena, kind: str = "contains", expected: str = "refund", **more: Any) -> AnswerCheck:
    return add_check(arena=arena, by=CLI, kind=kind, expected=expected, **more)


def report(arena: Arena, **more: Any) -> CheckReport:
    candidates = list(arena.candidates.order_by("pk"))
    [only] = check_answers(arena=arena, candidates=candidates, **more)
    return only


def prompt(arena: Arena, name: str) -> Prompt:
    return arena.prompts.get(external_id=name)


def names(answers: Any) -> list[str]:
    return [answer.external_id for answer in answers]


def test_a_report_counts_each_candidate_s_answers_and_names_what_changed(arena: Arena) -> None:
    check = add(arena, allowed=1)
    told = report(arena)
    assert told.check == check
    before, after = told.tallies
    assert (before.passed, names(before.failed), before.unknown) == (1, ["p1", "p2", "p3"], [])
    assert (after.passed, names(after.failed)) == (2, ["p0"])
    assert after.failed[0].reason == "It does not contain “refund”."
    assert names(told.fixed) == ["p1", "p2"]
    assert [(one.external_id, one.reason) for one in told.broken] == [
        ("p0", "It does not contain “refund”.")
    ]
    assert [told.is_kept_by(tally) for tally in told.tallies] == [False, True]


def test_one_candidate_alone_has_neither_fixed_nor_broken_answers(arena: Arena) -> None:
    add(arena)
    [told] = check_answers(arena=arena, candidates=[arena.candidates.order_by("pk")[0]])
    assert (told.fixed, told.broken) == ([], [])
    assert check_answers(arena=arena, candidates=[])[0].tallies == []


def test_what_was_not_recorded_is_unknown_not_failed(arena: Arena) -> None:
    add(arena, "latency", "3")
    before, after = report(arena).tallies
    assert (before.passed, len(before.failed), len(before.unknown)) == (0, 0, 4)
    assert before.unknown[0].reason == "Its time is not recorded."
    assert (after.passed, len(after.failed), len(after.unknown)) == (3, 0, 0)


def test_a_check_of_one_prompt_asks_nothing_of_others(arena: Arena) -> None:
    add(arena, prompt=prompt(arena, "p1"))
    before, after = report(arena).tallies
    assert (before.passed, len(before.failed), after.passed) == (0, 1, 1)
    assert check_answers(arena=arena, candidates=[], prompts=[prompt(arena, "p2").pk]) == []


def test_only_the_chosen_prompts_or_else_the_active_ones_are_checked(arena: Arena) -> None:
    add(arena)
    archived = prompt(arena, "p1")
    Prompt.objects.filter(pk=archived.pk).update(retired_at=arena.created_at)
    assert names(report(arena).tallies[0].failed) == ["p2", "p3"]
    assert names(report(arena, prompts=[archived.pk]).tallies[0].failed) == ["p1"]
    assert report(arena, prompts=[]).tallies[0].results == {}


def test_a_check_may_use_the_prompt_s_text_and_variables(arena: Arena) -> None:
    Prompt.objects.filter(arena=arena).update(variables={"word": "refund"})
    add(arena, expected="{{ word }}")
    add(arena, expected="{{ prompt }}", negated=True)
    candidates = list(arena.candidates.order_by("pk"))
    first, second = check_answers(arena=arena, candidates=candidates)
    assert [tally.passed for tally in first.tallies] == [1, 2]
    assert [tally.passed for tally in second.tallies] == [4, 3]


def test_guards_are_stored_with_their_prompt_and_not_asked_of_answers(arena: Arena) -> None:
    with pytest.raises(CheckError, match="Choose the prompt"):
        add(arena, "guard", "")
    add(arena, "guard", "", prompt=prompt(arena, "p0"))
    assert check_answers(arena=arena, candidates=list(arena.candidates.all())) == []


def test_answers_that_pass_every_check_are_counted(arena: Arena) -> None:
    add(arena)
    add(arena, "length", "at most 12")
    add(arena, "latency", "3")
    reports = check_answers(arena=arena, candidates=list(arena.candidates.order_by("pk")))
    before, after = count_passing(reports)
    assert (before.passing, before.failing, before.unknown, before.answers) == (0, 3, 1, 4)
    assert (after.passing, after.failing, after.unknown) == (0, 3, 0)
    assert count_passing([]) == []


def test_hundreds_of_prompts_take_four_queries_and_less_than_a_second() -> None:
    arena = make_arena(2, 300)
    for number in range(20):
        add(arena, "regex", f"Answer [{number}-9]")
    add(arena, "contains", "Answer", prompt=prompt(arena, "p7"))
    candidates = list(arena.candidates.all())
    check_answers(arena=arena, candidates=candidates)
    began = time.perf_counter()
    with CaptureQueriesContext(connection) as queries:
        reports = check_answers(arena=arena, candidates=candidates)
    assert time.perf_counter() - began < 1
    assert len(queries) <= 4
    assert len(reports) == 21
    assert sum(len(tally.results) for tally in reports[0].tallies) == 600


def test_what_is_not_checked_in_time_is_unknown(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "MOST_SECONDS", -1.0)
    add(arena)
    assert report(arena).tallies[0].unknown[0].reason.startswith("There was no time left")


def test_a_check_has_a_name_and_is_in_the_audit_log(arena: Arena) -> None:
    check = add(arena, prompt=prompt(arena, "p0"))
    assert str(check) == "Contains “refund”"
    assert str(add(arena, name=" Names the refund ")) == "Names the refund"
    checks.delete_check(check=check, by=CLI)
    checks.delete_check(check=check, by=CLI)
    entries = AuditEntry.objects.filter(action__endswith="a check").order_by("pk")
    assert [(entry.action, entry.subject) for entry in entries] == [
        ("added a check", "Contains “refund”"),
        ("added a check", "Names the refund"),
        ("deleted a check", "Contains “refund”"),
    ]


def test_the_same_check_is_added_once_for_all_and_once_for_a_prompt(arena: Arena) -> None:
    add(arena, "cost", "$0.010")
    with pytest.raises(CheckError, match="already exists"):
        add(arena, "cost", "0.01", name="Another name")
    add(arena, "cost", "0.01", prompt=prompt(arena, "p0"))
    with pytest.raises(CheckError, match="already exists"):
        add(arena, "cost", "0.01", prompt=prompt(arena, "p0"))


def test_what_is_no_check_is_refused_in_a_sentence_at_its_field(arena: Arena) -> None:
    for fields, field, sentence in (
        ({"kind": "regex", "expected": "("}, "expected", "The expected value is not a valid regul"),
        ({"kind": "like"}, "kind", "The kind is 'like', which is not one of"),
        ({"allowed": -1}, "allowed", "The number that may fail is -1"),
        ({"name": "x" * 121}, "name", "The name is 121 characters long"),
    ):
        with pytest.raises(CheckError) as refused:
            add(arena, **fields)
        assert refused.value.field == field
        assert refused.value.message.startswith(sentence)
        assert refused.value.message.endswith(".")


def test_an_arena_and_a_prompt_have_at_most_a_hundred_checks(arena: Arena) -> None:
    for owner in (None, prompt(arena, "p0")):
        AnswerCheck.objects.bulk_create(
            AnswerCheck(arena=arena, prompt=owner, kind="contains", expected=f"{n}", digest=f"{n}")
            for n in range(MOST_CHECKS)
        )
        with pytest.raises(CheckError, match=f"already has {MOST_CHECKS} checks"):
            add(arena, prompt=owner)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"kind": "like"}, "check_kind_known"),
        ({"kind": "guard"}, "check_guard_has_a_prompt"),
        ({"allowed": 10_001}, "check_allows_so_many"),
    ],
)
def test_the_database_refuses_what_is_no_check(
    arena: Arena, fields: dict[str, Any], name: str
) -> None:
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        AnswerCheck.objects.create(**{"arena": arena, "kind": "contains", "digest": "x"} | fields)


def test_the_database_refuses_the_same_check_twice(arena: Arena) -> None:
    for owner in (None, prompt(arena, "p0")):
        values = {"arena": arena, "prompt": owner, "kind": "contains", "digest": "x"}
        AnswerCheck.objects.create(**values)
        with pytest.raises(IntegrityError), transaction.atomic():
            AnswerCheck.objects.create(**values)


def test_a_deleted_prompt_takes_its_checks_along(arena: Arena) -> None:
    add(arena, prompt=prompt(arena, "p0"))
    delete_prompt(prompt=prompt(arena, "p0"), by=CLI)
    assert not AnswerCheck.objects.exists()


def test_long_texts_are_compared_whole(arena: Arena) -> None:
    add(arena, expected="x" * 19_999 + "a")
    add(arena, expected="x" * 19_999 + "b")
    assert arena.checks.count() == 2
    assert Rule("contains", "a").digest != Rule("contains", "a", negated=True).digest
