"""People's feedback on a judge's reasoning."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, Q, QuerySet

from arena.models import Run
from judges.models import Judgement, Mark


class FeedbackError(Exception):
    """Feedback that cannot be stored; the message is a sentence for the user."""


@dataclass(frozen=True)
class FeedbackShare:
    """How often people agreed with one statement about a judge's reasoning, of `n` answers."""

    kind: str
    label: str
    n: int
    holds: int

    @property
    def share(self) -> float | None:
        return self.holds / self.n if self.n else None


@transaction.atomic
def give_feedback(
    *, judgement: Judgement, user: Any, kind: str, holds: bool, now: datetime
) -> Mark:
    """Store whether a judge's reasoning is consistent, specific or critical.

    A second answer of the same person replaces the first. Raises FeedbackError.
    """
    if kind not in Mark.Kind.values:
        raise FeedbackError(f"{kind!r} is not one of {', '.join(Mark.Kind.values)}.")
    if judgement.state in Judgement.UNSETTLED:
        raise FeedbackError("There is no reasoning yet: the judge has not answered.")
    mark, _ = Mark.objects.update_or_create(
        judgement=judgement, user=user, kind=kind, defaults={"holds": holds, "made_at": now}
    )
    return mark


def count_feedback(
    judge_ids: list[int], runs: QuerySet[Run]
) -> dict[int, dict[str, tuple[int, int]]]:
    """Map judge -> kind -> (answers, those that agree) in `runs`, in one query."""
    rows = (
        Mark.objects.filter(judgement__epoch__judge__in=judge_ids, judgement__run__in=runs)
        .values_list("judgement__epoch__judge", "kind")
        .annotate(n=Count("pk"), n_holds=Count("pk", filter=Q(holds=True)))
        .order_by()
    )
    counts: dict[int, dict[str, tuple[int, int]]] = {}
    for judge, kind, n, holds in rows:
        counts.setdefault(judge, {})[kind] = (n, holds)
    return counts


def feedback_shares(counts: dict[str, tuple[int, int]]) -> list[FeedbackShare]:
    """Turn one judge's counts into a row for each kind."""
    return [
        FeedbackShare(kind.value, str(kind.label), *counts.get(kind.value, (0, 0)))
        for kind in Mark.Kind
    ]
