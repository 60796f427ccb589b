"""Inserting rows by the million, as bare values."""

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any, cast

from django.db import connection
from django.db.models import DateTimeField, Field, JSONField, Model, UUIDField

# Fields whose values the two databases store differently.
ADAPTED = (DateTimeField, JSONField, UUIDField)
# SQLite takes 32,766 values in a statement.
ROWS_PER_STATEMENT = 500
Values = tuple[Any, ...]


def insert(model: type[Model], columns: Sequence[str], rows: Iterable[Values]) -> None:
    """Insert bare values: votes come by the million, and model instances cost most of the time.

    Columns that are not named must be nullable or have a default in the database.
    """
    fields = [cast("Field[Any, Any]", model._meta.get_field(name)) for name in columns]
    quote = connection.ops.quote_name
    names = ", ".join(quote(str(field.column)) for field in fields)
    table = quote(model._meta.db_table)
    adapted = [(i, field) for i, field in enumerate(fields) if isinstance(field, ADAPTED)]
    waiting = iter(rows)
    with connection.cursor() as cursor:
        while some := [_adapt(values, adapted) for values in islice(waiting, ROWS_PER_STATEMENT)]:
            row = f"({', '.join(['%s'] * len(fields))})"
            marks = ", ".join([row] * len(some))
            statement = " ".join(["INSERT INTO", table, "(", names, ") VALUES", marks])
            cursor.execute(statement, list(chain.from_iterable(some)))


def _adapt(values: Values, adapted: "Sequence[tuple[int, Field[Any, Any]]]") -> list[Any]:
    row = list(values)
    for i, field in adapted:
        row[i] = field.get_db_prep_save(row[i], connection)
    return row
