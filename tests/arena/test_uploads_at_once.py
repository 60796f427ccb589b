"""An answer that is shown to somebody while a new text for it is uploaded keeps the text shown."""

import threading
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.utils import timezone

from arena.actors import Actor
from arena.files.rows import ResponseRow
from arena.models import Comparison, Rater
from arena.services import responses
from arena.services.comparisons import next_comparison
from tests.factories import make_arena

pytestmark = pytest.mark.django_db(transaction=True)
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def test_a_comparison_issued_after_the_look_keeps_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ranking.signals.schedule_refresh", lambda arena_id: None)
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
