"""A run's money: reserved before a request, settled after it, never more than its cap together.

Whoever books here holds the lock on the call's row, in the same transaction: so a run's three
sums are always those of its calls.
"""

from django.core.exceptions import ValidationError

from arena.calls.money import dollars
from arena.models import Run
from arena.services import statements

# Written out, because the ORM sends a number beside F() as one of 32 bits: $2.15 would overflow.
RESERVE = """
    UPDATE arena_run SET reserved = reserved + %s
    WHERE id = %s AND state = 'open' AND cap >= settled + reserved + uncertain + %s
    RETURNING id
"""
# The row names the run: calls move between runs while a worker asks.
BOOK = """
    UPDATE arena_run SET
        reserved = reserved - %s, settled = settled + %s, uncertain = uncertain + %s
    WHERE id = (SELECT run_id FROM arena_call WHERE id = %s)
    RETURNING id
"""
MOVE = """
    UPDATE arena_run SET
        reserved = reserved + %s, settled = settled + %s, uncertain = uncertain + %s,
        cap = cap + %s
    WHERE id = %s
    RETURNING id
"""
RAISE_CAP = """
    UPDATE arena_run SET cap = %s WHERE id = %s AND settled + reserved + uncertain <= %s
    RETURNING id
"""
IS_OVER = "SELECT 1 FROM arena_run WHERE id = %s AND cap < settled + reserved + uncertain"


class Denied(Exception):
    """A run has no money for a request, or is not open any more.

    `passes`: it may have it when the requests that are under way have been settled.
    """

    def __init__(self, reason: str, *, passes: bool = False) -> None:
        super().__init__(reason)
        self.passes = passes


def reserve(*, run_id: int | None, amount: int) -> None:
    """Hold `amount` nano-dollars of an open run's cap, or raise Denied; one statement decides."""
    if not statements.one(RESERVE, amount, run_id, amount):
        raise _denial(run_id, amount)


def book(call_id: int, *, released: int, cost: int, uncertain: int) -> None:
    """Give back what was reserved for a call's request, and count what it cost, or may have."""
    statements.one(BOOK, released, cost, uncertain, call_id)


def move(run_id: int, *, reserved: int, cost: int, uncertain: int) -> None:
    """Count what calls hold and have cost in their run's sums; negative where they leave it.

    So much of the cap moves with them: that money was allowed once, and neither run has more or
    less to spend than before.
    """
    moved = reserved + cost + uncertain
    statements.one(MOVE, reserved, cost, uncertain, moved, run_id)


def is_over_its_cap(run_id: int) -> bool:
    """Did a server bill more than a request could cost, so that the cap was passed?"""
    return statements.one(IS_OVER, run_id) is not None


def raise_cap(*, run_id: int, cap: int) -> None:
    """Set a run's cap in nano-dollars; raises ValidationError below what is spent or reserved."""
    with statements.alone():
        if statements.one(RAISE_CAP, cap, run_id, cap):
            return
    run = Run.objects.get(pk=run_id)
    raise ValidationError(
        f"{dollars(committed(run))} of this run are spent or reserved:"
        f" its cap cannot be {dollars(cap)}."
    )


def committed(run: Run) -> int:
    """Return what counts against a run's cap, in nano-dollars."""
    return run.settled + run.reserved + run.uncertain


def _denial(run_id: int | None, amount: int) -> Denied:
    if run_id is None:
        return Denied("This call belongs to no run, so there is no money for it.")
    run = Run.objects.get(pk=run_id)
    if run.state != Run.State.OPEN:
        return Denied("The run is not open any more.", passes=True)
    if run.cap is None:
        return Denied("This run has no spending cap, and its model costs money: give it a cap.")
    spent = run.settled + run.uncertain
    return Denied(
        f"The cap of {dollars(run.cap)} is reached: {dollars(spent)} are spent, and the next"
        f" request may cost up to {dollars(amount)}. Raise the cap and resume the run.",
        passes=spent + amount <= run.cap,
    )
