"""Rows that are written once and copied from then on."""

import pytest
from django.db import transaction

from arena.models import Arena
from tests import rows
from tests.factories import make_arena, make_candidate

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


def test_copies_are_the_same_and_another_state_is_written_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows, "_written", {})
    arena, written = make_arena(2, 1), []

    def write() -> Arena:
        Arena.objects.update(name="Renamed")
        written.append(make_arena(3, 4))
        return written[-1]

    seen = []
    for _ in range(2):
        with transaction.atomic():
            made = rows.written_once("two arenas", write)
            seen.append((made, rows.all_rows()))
            transaction.set_rollback(True)
    assert len(written) == 1
    assert seen[0] == seen[1]
    make_candidate(arena)
    assert rows.written_once("two arenas", write) == written[1]
