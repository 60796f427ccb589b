"""Exclusive work: the lock lasts until what was written is visible."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import DatabaseError, connection, transaction

from arena.services.locks import exclusive_lock

pytestmark = pytest.mark.django_db(transaction=True)


class Busy(Exception):
    pass


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    """A thread with a connection of its own."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def is_free(elsewhere: ThreadPoolExecutor) -> bool:
    def take() -> bool:
        try:
            with exclusive_lock("tests", busy=Busy()):
                return True
        except Busy:
            return False
        finally:
            connection.close()

    return elsewhere.submit(take).result(10)


def test_one_has_it_at_a_time(elsewhere: ThreadPoolExecutor) -> None:
    with exclusive_lock("tests", busy=Busy()):
        assert not is_free(elsewhere)
    assert is_free(elsewhere)


def test_in_a_transaction_it_is_held_until_the_commit(elsewhere: ThreadPoolExecutor) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite's writers take turns by transactions anyway")
    with transaction.atomic():
        with exclusive_lock("tests", busy=Busy()):
            assert not is_free(elsewhere)
        assert not is_free(elsewhere)
    assert is_free(elsewhere)


def test_it_does_not_depend_on_the_session_of_whoever_has_it(elsewhere: ThreadPoolExecutor) -> None:
    """PgBouncer hands out another one for each transaction."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite's lock is a file")
    with exclusive_lock("tests", busy=Busy()):
        connection.close()
        connection.close_pool()
        assert not is_free(elsewhere)
    assert is_free(elsewhere)


def test_a_transaction_that_fails_gives_it_back(elsewhere: ThreadPoolExecutor) -> None:
    with (
        pytest.raises(DatabaseError),
        transaction.atomic(),
        exclusive_lock("tests", busy=Busy()),
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT nothing FROM nowhere")
    assert is_free(elsewhere)


def test_no_file_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new arena has a lock of its own, and they would add up."""
    if connection.vendor == "postgresql":
        pytest.skip("PostgreSQL's locks are no files")
    monkeypatch.setitem(connection.settings_dict, "NAME", str(tmp_path / "database"))
    with exclusive_lock("arena/with a slash", busy=Busy()):
        assert len(list(tmp_path.iterdir())) == 1
    assert not list(tmp_path.iterdir())
