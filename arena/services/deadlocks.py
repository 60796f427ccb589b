"""How deadlocks are kept from happening, and what is done about those that do.

Whoever locks several of an arena's rows takes them in one order: the arena, its candidates or
prompts, runs and answers, pairs, and ranking's row of refreshes. All are locked NO KEY, so that
nobody waits who only refers to them, as every vote does.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from django.db import OperationalError, connection

from arena.models import Arena

# PostgreSQL's codes for a deadlock, and for a transaction that was overtaken.
UNDONE = ("40P01", "40001")
P = ParamSpec("P")
R = TypeVar("R")


def hold_arena(arena_id: int) -> Arena:
    """Lock an arena's row until the transaction's end: the first lock of whoever takes several."""
    return Arena.objects.select_for_update(no_key=True).get(pk=arena_id)


def tried_twice(work: Callable[P, R]) -> Callable[P, R]:
    """Do `work` once more where the database undid it for another's sake.

    Only for work that is one transaction and nothing besides. Within a greater one nothing is tried
    again: that one is undone too, and is for its owner to try.
    """

    @wraps(work)
    def tried(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return work(*args, **kwargs)
        except OperationalError as error:
            if connection.in_atomic_block or not was_undone(error):
                raise
        return work(*args, **kwargs)

    return tried


def was_undone(error: OperationalError) -> bool:
    """Did the database undo a transaction that would have succeeded alone?"""
    return getattr(error.__cause__, "sqlstate", None) in UNDONE
