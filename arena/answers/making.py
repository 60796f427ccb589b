"""One answer asked for, and kept."""

from django.utils import timezone

from arena.answers.asking import AnswerAsking
from arena.answers.keeping import keep_answer, nothing_waits, tend_run
from arena.calls.making import make_call
from arena.calls.models import Call
from arena.models import Run

ASKING = AnswerAsking()


def make_answer(*, call_id: int) -> Call | None:
    """Make one call for an answer, if it is due, and keep what comes of it.

    The last one of a run closes it. Returns the call as it stands; None when it was not ours to
    make.
    """
    call = make_call(call_id=call_id, asking=ASKING, kind=Run.Kind.ANSWERS)
    if call is None or not call.has_ended:
        return call
    if call.state == Call.State.DONE:
        keep_answer(call=call)
    if call.run_id is not None and nothing_waits(call.run_id):
        tend_run(run_id=call.run_id, now=timezone.now())
    return call
