"""Rows that many tests begin with: services write them once, then each database gets a copy."""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from django.apps import apps
from django.db import connection, models, transaction

Written = TypeVar("Written", bound=models.Model)
Row = tuple[Any, ...]
Tables = dict[str, dict[int, Row]]

_written: dict[tuple[str, int], tuple[type[models.Model], int, Tables]] = {}


def written_once(name: str, write: Callable[[], Written]) -> Written:
    """What `write` returns. Where the database has the same rows as when a process called this
    before, the rows are copied that `write` inserted and changed then.

    Only on SQLite: its rollbacks free the ids for the next test.
    """
    if connection.vendor != "sqlite":
        return write()
    connection.ensure_connection()
    before = all_rows()
    state = name, hash(tuple((table, *rows.values()) for table, rows in before.items()))
    if state not in _written:
        made, after = write(), all_rows()
        assert all(rows.keys() <= after.get(table, {}).keys() for table, rows in before.items())
        _written[state] = type(made), made.pk, _difference(before, after)
        return made
    model, number, difference = _written[state]
    with transaction.atomic():
        for table, rows in difference.items():
            marks = ", ".join("?" * len(next(iter(rows.values()))))
            statement = f"INSERT OR REPLACE INTO {table} VALUES ({marks})"
            connection.connection.executemany(statement, rows.values())
    made = model._default_manager.get(pk=number)
    assert isinstance(made, model)
    return made


def _difference(before: Tables, after: Tables) -> Tables:
    """The rows that were inserted or changed."""
    difference = {}
    for table, rows in after.items():
        known = before.get(table, {})
        if new := {number: row for number, row in rows.items() if known.get(number) != row}:
            difference[table] = new
    return difference


def all_rows() -> Tables:
    """The rows of every table that has any, by row id."""
    found = {}
    for table, select in _selects().items():
        if rows := connection.connection.execute(select).fetchall():
            found[table] = {row[0]: row[1:] for row in rows}
    return found


@cache
def _selects() -> dict[str, str]:
    """A query for each table, but those that migrations fill; a plus keeps values unconverted."""
    selects = {}
    for model in apps.get_models(include_auto_created=True):
        if model._meta.model_name not in {"contenttype", "permission"}:
            table = model._meta.db_table
            names = connection.connection.execute(f"PRAGMA table_info({table})").fetchall()
            columns = ", ".join(f'+"{name}"' for _, name, *_ in names)
            selects[table] = f"SELECT rowid, {columns} FROM {table}"
    return selects
