"""A run that could not be written whole holds nobody's money."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime

from django.db import DatabaseError, InterfaceError

from arena.calls.services import cancel_run
from arena.models import Run


@contextmanager
def given_up_on_failure(*, run: Run, now: datetime) -> Iterator[None]:
    """Cancel `run` when what is done within fails, however it fails.

    Where not even that can be written, the sweep gives up what nobody is writing any more.
    """
    try:
        yield
    except BaseException:  # whoever presses Ctrl-C has given up, too
        with suppress(DatabaseError, InterfaceError):
            cancel_run(run_id=run.pk, now=now)
        raise
