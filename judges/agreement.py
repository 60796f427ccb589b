"""How far the members of a jury agree with one another."""

import math
from collections import Counter

from arena.models import Outcome, Run
from judges.models import Judgement, JuryVerdict
from judges.services.juries import seen_from
from ranking.stats import fleiss_kappa

CATEGORIES = [Outcome.LEFT, Outcome.RIGHT, Outcome.TIE]


def jury_kappa(run: Run) -> float | None:
    """Return Fleiss' kappa over the pairs on which two members or more have a verdict.

    None where there is no such pair, or where all verdicts are alike.
    """
    through = JuryVerdict.judgements.through
    voted = through.objects.filter(
        juryverdict__run=run, judgement__state=Judgement.State.VOTED
    ).values_list(
        "juryverdict",
        "juryverdict__comparison__left_response",
        "judgement__outcome",
        "judgement__comparison__left_response",
    )
    found: dict[int, Counter[str]] = {}
    for verdict, left, outcome, members_left in voted:
        found.setdefault(verdict, Counter())[seen_from(left, outcome, members_left)] += 1
    if not found:
        return None
    counts = [[votes[category] for category in CATEGORIES] for votes in found.values()]
    kappa = fleiss_kappa(counts)
    return None if math.isnan(kappa) else kappa
