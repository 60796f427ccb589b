"""Two of whom one has won every vote between them: on how many prompts, for want of a score."""

from collections.abc import Iterable

import numpy as np
from django.db.models import Count, Q
from django.db.models.functions import Greatest, Least

from arena.models import Outcome, Vote
from ranking.models import Raters, Standing
from ranking.services.evidence import Evidence
from ranking.votes import KINDS, Ints


def prompts_met(evidence: Evidence, standings: Iterable[Standing]) -> list[list[int]]:
    """(lower id, higher id, prompts) of every such two of whom one has no score.

    Prompts that are not known are none. One query, and none where everybody has a score.
    """
    unscored = [one.candidate_id for one in standings if one.score is None and one.votes]
    pairs = _shut_out(evidence, np.array(unscored, np.int64))
    if not pairs:
        return []
    board, theirs = evidence.board, Q(comparison__left__in=unscored)
    votes = Vote.objects.in_tallies().filter(
        theirs | Q(comparison__right__in=unscored),
        arena=board.arena_id,
        rater__kind=KINDS.get(board.raters, KINDS[Raters.PEOPLE.value]),
    )
    if board.category:
        votes = votes.filter(comparison__prompt__category=board.category)
    counted = (
        votes.exclude(outcome=Outcome.BOTH_BAD)
        .values_list(
            Least("comparison__left", "comparison__right"),
            Greatest("comparison__left", "comparison__right"),
        )
        .annotate(prompts=Count("comparison__prompt", distinct=True))
        .order_by()
    )
    return [[low, high, n] for low, high, n in counted if (low, high) in pairs]


def _shut_out(evidence: Evidence, unscored: Ints) -> set[tuple[int, int]]:
    cells = evidence.cells
    even = cells["ties"] + cells["soft_first"] + cells["soft_second"] + cells["soft_ties"]
    if evidence.both_bad_is_tie:
        even = even + cells["both_bad"]
    one_sided = ((cells["first_wins"] > 0) ^ (cells["second_wins"] > 0)) & (even == 0)
    first, second = cells.key("first"), cells.key("second")
    found = one_sided & (np.isin(first, unscored) | np.isin(second, unscored))
    return set(zip(first[found].tolist(), second[found].tolist(), strict=True))
