"""Asking a judge about just those pairs of answers that people voted on, to be measured by them."""

import hashlib
from collections.abc import Iterable

from arena.models import Arena
from judges.core.spec import JudgeSpec
from judges.models import Epoch
from judges.services.answers import Answers, answers_in
from judges.services.orders import Member, Order, calls_for
from judges.services.planning import Pick, Wanted, families_in, shares_of, without_family
from judges.services.readings import voted_on
from judges.services.registering import JudgeRefused
from judges.services.subjects import mark_of

LISTWISE = (
    "A listwise judge is asked about whole lists: order a run in the arena, then measure it here."
)


def order_of_voted(
    *, arena: Arena, spec: JudgeSpec, epoch: Epoch | None, limit: int | None, seed: str
) -> Order | None:
    """Return an ordinary order of the pairs that people voted on and the judge was not asked.

    At most `limit` of them, drawn by seed; None where nothing is left. Pairs with an answer of the
    judge's own family are left out: its votes count in the arena like any others. Raises
    JudgeRefused for a listwise judge.
    """
    picks = _picks(arena, spec, _asked(epoch, arena))
    fair = without_family(picks, spec.family, families_in(arena))
    drawn = sorted(fair, key=lambda pick: _draw(seed, pick.responses))
    chosen = drawn if limit is None else drawn[:limit]
    if not chosen:
        return None
    if spec.protocol == "listwise":
        raise JudgeRefused(LISTWISE)
    mark = mark_of(arena.criteria)
    member = Member(spec, epoch, False, chosen, calls_for(spec, chosen, mark), mark)
    said = []
    if own := len(picks) - len(fair):
        said.append(
            f"{own} pairs have an answer of the judge's own model family, and are left out."
        )
    return Order(arena, Wanted(per_pair=1), [member], chosen, shares_of(chosen), None, said)


def _asked(epoch: Epoch | None, arena: Arena) -> set[str]:
    if epoch is None:
        return set()
    asked = epoch.judgements.filter(sample=0, run__arena=arena).not_free()
    return set(asked.values_list("responses", flat=True))


def _picks(arena: Arena, spec: JudgeSpec, asked: set[str]) -> list[Pick]:
    answers = answers_in(arena, needs_reference=spec.rubric.reference == "required")
    pairs = {(pair.low_id, pair.high_id): pair for pair in arena.pairs.all()}
    found = []
    for key, (prompt, *candidates) in voted_on(arena).items():
        pair = pairs.get((min(candidates), max(candidates)))
        if pair is None or key in asked:
            continue
        low, high = (_answer(answers, pk, prompt) for pk in (pair.low_id, pair.high_id))
        if low and high and {low, high} == set(_ids(key)):
            found.append(Pick(pair, prompt, low, high))
    return found


def _answer(answers: Answers, candidate: int, prompt: int) -> int | None:
    return answers.by_candidate.get(candidate, {}).get(prompt)


def _ids(key: str) -> Iterable[int]:
    return (int(part) for part in key.split(","))


def _draw(seed: str, responses: str) -> bytes:
    return hashlib.sha256(f"{seed} {responses}".encode()).digest()
