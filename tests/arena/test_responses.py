"""Answers that a team uploads: matched, distinguished, written once and all together."""

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from arena.actors import Actor
from arena.files.rows import ResponseRow
from arena.files.tables import Problem
from arena.models import Arena, AuditEntry, Candidate, Comparison, Pair, Prompt, Rater, Response
from arena.services import responses
from arena.services.candidate_checks import CandidateError
from arena.services.comparisons import next_comparison
from arena.services.responses import upsert_responses
from tests.factories import make_arena, make_candidate, make_empty_team, make_vote

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def upload(candidate: Candidate, *rows: ResponseRow, **options: Any) -> Any:
    return upsert_responses(candidate=candidate, rows=rows, by=Actor(), **options)


@pytest.fixture
def candidate(arena_of_one: Arena) -> Candidate:
    return make_candidate(arena_of_one, "ours", team=arena_of_one.team, model="house-7b")


def test_answers_go_to_the_prompts_that_they_name(
    arena_of_one: Arena, candidate: Candidate
) -> None:
    report = upload(
        candidate,
        ResponseRow(2, "By its id.", prompt_id="p0", tokens_out=5, seconds=1.5, cost=70),
        ResponseRow(3, "By its text.", prompt=" Question 1?\r\n"),
        ResponseRow(4, "By its id, in the other column.", prompt="p2"),
    )
    assert (report.added, report.changed, report.unchanged, report.missing) == (3, 0, 0, ["p3"])
    texts = candidate.responses.order_by("prompt").values_list("prompt__external_id", "text")
    assert list(texts) == [
        ("p0", "By its id."),
        ("p1", "By its text."),
        ("p2", "By its id, in the other column."),
    ]
    first = candidate.responses.get(prompt__external_id="p0")
    assert (first.tokens_in, first.tokens_out, first.seconds, first.cost) == (None, 5, 1.5, 70)
    assert Pair.objects.get(arena=arena_of_one).shared_prompts == 3
    entry = AuditEntry.objects.get(action="uploaded answers")
    assert (entry.action, entry.subject, entry.details["added"]) == ("uploaded answers", "ours", 3)


def test_the_same_upload_twice_changes_nothing(candidate: Candidate) -> None:
    rows = [ResponseRow(2, "One.", prompt_id="p0"), ResponseRow(3, "Two.", prompt_id="p1")]
    upload(candidate, *rows)
    before = list(candidate.responses.order_by("pk").values())
    report = upload(candidate, *rows)
    assert (report.added, report.changed, report.unchanged) == (0, 0, 2)
    assert report.missing == ["p2", "p3"]
    assert list(candidate.responses.order_by("pk").values()) == before
    assert AuditEntry.objects.filter(action="uploaded answers").count() == 1


def test_a_new_text_replaces_figures_and_stored_page(candidate: Candidate) -> None:
    upload(candidate, ResponseRow(2, "Old.", prompt_id="p0", seconds=3.0, cost=9))
    candidate.responses.update(html="<p>Old.</p>", html_version=3)
    report = upload(candidate, ResponseRow(2, "New.", prompt_id="p0", cost=4))
    answer = candidate.responses.get()
    assert (report.changed, answer.text, answer.html) == (1, "New.", None)
    assert (answer.seconds, answer.cost) == (None, 4)


def test_figures_may_come_later_than_the_text(candidate: Candidate) -> None:
    upload(candidate, ResponseRow(2, "One.", prompt_id="p0", seconds=3.0))
    report = upload(candidate, ResponseRow(2, "One.", prompt_id="p0", cost=4))
    answer = candidate.responses.get()
    assert (report.changed, answer.seconds, answer.cost) == (1, 3.0, 4)


def test_a_row_for_no_prompt_is_reported_and_the_others_go_in(candidate: Candidate) -> None:
    report = upload(
        candidate,
        ResponseRow(2, "Fine.", prompt_id="p0"),
        ResponseRow(3, "Lost.", prompt_id="p9"),
        ResponseRow(4, "Lost too.", prompt="Who is there?"),
    )
    assert (report.added, report.written) == (1, True)
    assert [(one.row, one.column, one.sentence) for one in report.unmatched] == [
        (3, "prompt_id", "There is no prompt 'p9' in this arena."),
        (4, "prompt", "There is no prompt 'Who is there?' in this arena."),
    ]
    assert report.missing == ["p1", "p2", "p3"]


def test_one_bad_row_keeps_all_out_where_that_is_wanted(candidate: Candidate) -> None:
    rows = [ResponseRow(2, "Fine.", prompt_id="p0"), ResponseRow(3, "Lost.", prompt_id="p9")]
    report = upload(candidate, *rows, atomic=True)
    assert (report.written, report.added, len(report.problems)) == (False, 0, 1)
    assert not candidate.responses.exists()
    assert report.missing == ["p0", "p1", "p2", "p3"]


def test_a_row_that_could_not_be_read_is_a_bad_row(candidate: Candidate) -> None:
    rows = [ResponseRow(2, "Fine.", prompt_id="p0"), ResponseRow(4, "Lost.", prompt_id="p9")]
    unread = [Problem(3, "text", "The column 'text' is empty.")]
    report = upload(candidate, *rows, unread=unread, atomic=True)
    assert [problem.row for problem in report.problems] == [3, 4]
    assert (report.written, candidate.responses.count()) == (False, 0)
    report = upload(candidate, *rows, unread=unread)
    assert [problem.row for problem in report.problems] == [3, 4]
    assert (report.written, candidate.responses.count()) == (True, 1)


def test_what_was_compared_stays(arena_of_one: Arena, candidate: Candidate) -> None:
    upload(candidate, ResponseRow(2, "Seen.", prompt_id="p0"), ResponseRow(3, "b", prompt_id="p1"))
    seen = candidate.responses.get(prompt__external_id="p0")
    other = Response.objects.get(candidate__name="candidate-0", prompt=seen.prompt)
    vote = make_vote(arena_of_one, other.candidate, candidate, "left", seen.prompt)
    vote.comparison.left_response, vote.comparison.right_response = other, seen
    vote.comparison.save()
    report = upload(
        candidate,
        ResponseRow(2, "Rewritten.", prompt_id="p0"),
        ResponseRow(3, "Rewritten too.", prompt_id="p1"),
    )
    assert (report.changed, len(report.refused)) == (1, 1)
    assert report.refused[0].sentence == (
        "The row changes an answer that has already been compared."
    )
    assert set(candidate.responses.values_list("text", flat=True)) == {"Seen.", "Rewritten too."}
    assert upload(candidate, ResponseRow(2, "Seen.", prompt_id="p0", cost=5)).changed == 1


def test_two_rows_for_one_prompt_are_not_a_race(candidate: Candidate) -> None:
    report = upload(
        candidate,
        ResponseRow(2, "First.", prompt_id="p0"),
        ResponseRow(3, "Second.", prompt="Question 0?"),
    )
    assert candidate.responses.get().text == "First."
    assert report.refused[0].sentence == "The row answers prompt 'p0' again, after row 2."


def test_a_text_that_two_prompts_have_names_neither(
    arena_of_one: Arena, candidate: Candidate
) -> None:
    arena_of_one.prompts.create(external_id="twin", text="Question 0?", variables={"x": "y"})
    report = upload(candidate, ResponseRow(2, "Whose?", prompt="Question 0?"))
    assert "several prompts share: p0, twin" in report.refused[0].sentence


def test_retired_prompts_take_no_new_answers(arena_of_one: Arena, candidate: Candidate) -> None:
    upload(candidate, ResponseRow(2, "Before.", prompt_id="p0"))
    arena_of_one.prompts.filter(external_id__in=["p0", "p1"]).update(retired_at=NOW)
    report = upload(
        candidate,
        ResponseRow(2, "Before.", prompt_id="p0"),
        ResponseRow(3, "After.", prompt_id="p1"),
    )
    assert (report.unchanged, report.added) == (1, 0)
    assert report.refused[0].sentence == "The row answers prompt 'p1', which is archived."
    assert report.missing == ["p2", "p3"]


def test_who_names_itself_is_flagged(candidate: Candidate) -> None:
    upload(
        candidate,
        ResponseRow(2, "As house-7b, I advise rest.", prompt_id="p0"),
        ResponseRow(3, "Rest.", prompt_id="p1"),
    )
    flags = candidate.responses.order_by("prompt").values_list("names_itself", flat=True)
    assert list(flags) == [True, False]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"retired_at": NOW}, "is archived"),
        ({"endpoint": "scripted", "model": "m"}, "are generated at scripted"),
    ],
)
def test_some_candidates_take_no_answers(
    candidate: Candidate, fields: dict[str, Any], words: str
) -> None:
    Candidate.objects.filter(pk=candidate.pk).update(**fields)
    with pytest.raises(CandidateError, match=words):
        upload(candidate, ResponseRow(2, "Late.", prompt_id="p0"))


def test_many_rows_take_few_queries(
    arena_of_one: Arena, candidate: Candidate, django_assert_max_num_queries: Any
) -> None:
    arena_of_one.prompts.bulk_create(
        [Prompt(arena=arena_of_one, external_id=f"q{i}", text=f"Q{i}?") for i in range(1200)]
    )
    rows = [ResponseRow(i + 2, f"Answer {i}.", prompt_id=f"q{i}") for i in range(1200)]
    with django_assert_max_num_queries(40):
        assert upload(candidate, *rows).added == 1200
    with django_assert_max_num_queries(45):  # each batch is looked at twice
        changed = [ResponseRow(row.row, row.text + "!", prompt_id=row.prompt_id) for row in rows]
        assert upload(candidate, *changed).changed == 1200
    assert set(candidate.responses.values_list("text", flat=True)) == {r.text for r in changed}


def test_a_closed_arena_takes_no_answers_of_its_guests(arena_of_one: Arena) -> None:
    theirs = make_empty_team(slug="guests", name="Guests")
    guest = make_candidate(arena_of_one, "theirs", team=theirs)
    with pytest.raises(CandidateError, match="closed to candidates from other teams"):
        upload(guest, ResponseRow(2, "Late.", prompt_id="p0"))
    Arena.objects.filter(pk=arena_of_one.pk).update(open_to_teams=True)
    assert upload(guest, ResponseRow(2, "In time.", prompt_id="p0")).added == 1


@pytest.mark.usefixtures("no_doorbell")
@pytest.mark.django_db(transaction=True)
def test_a_comparison_issued_after_the_look_keeps_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    arena = make_arena(2, 1)
    candidate = arena.candidates.order_by("pk")[0]
    before = candidate.responses.get().text
    rater = Rater.objects.create(kind="person")
    threads: list[threading.Thread] = []
    look = responses.compared

    def issue() -> None:
        try:
            next_comparison(arena=arena, rater=rater, now=timezone.now())
        finally:
            connection.close()

    def look_then_issue(ids: Sequence[int]) -> set[int]:
        found = look(ids)
        if not threads:
            threads.append(threading.Thread(target=issue))
            threads[0].start()
            # On SQLite it waits for its turn to write, until the upload has ended.
            threads[0].join(0.3 if connection.vendor == "sqlite" else 10)
        return found

    monkeypatch.setattr(responses, "compared", look_then_issue)
    row = ResponseRow(1, "Another text.", prompt_id=arena.prompts.get().external_id)
    report = responses.upsert_responses(candidate=candidate, rows=[row], by=Actor())
    threads[0].join(10)
    assert Comparison.objects.count() == 1
    was_first = connection.vendor != "sqlite"
    assert (len(report.refused), report.changed) == ((1, 0) if was_first else (0, 1))
    assert candidate.responses.get().text == (before if was_first else "Another text.")
