"""What people say of a judge's reasoning."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, Q, QuerySet

from arena.models import Run
from judges.models import Judgement, Mark


class MarkRefused(Exception):
    """A mark that cannot be made; the message is a sentence for whoever made it."""


@dataclass(frozen=True)
class MarkShare:
    """Of `n` marks of one kind, how many hold; `share` is None without marks."""

    kind: str
    label: str
    n: int
    holds: int

    @property
    def share(self) -> float | None:
        return self.holds / self.n if self.n else None


@transaction.atomic
def mark_reasoning(
    *, judgement: Judgement, user: Any, kind: str, holds: bool, now: datetime
) -> Mark:
    """Note whether a judge's reasoning is coherent, suitable or critical; a second mark of the
    same person and kind replaces the first. Raises MarkRefused."""
    if kind not in Mark.Kind.values:
        raise MarkRefused(f"{kind!r} is none of {', '.join(Mark.Kind.values)}.")
    if judgement.state == Judgement.State.WAITING:
        raise MarkRefused("There is no reasoning yet: the judge has not answered.")
    mark, _ = Mark.objects.update_or_create(
        judgement=judgement, user=user, kind=kind, defaults={"holds": holds, "made_at": now}
    )
    return mark


def mark_counts(judge_ids: list[int], runs: QuerySet[Run]) -> dict[int, dict[str, tuple[int, int]]]:
    """Map judge -> kind -> (marks, those that hold) in `runs`; one query for all of them."""
    rows = (
        Mark.objects.filter(judgement__epoch__judge__in=judge_ids, judgement__run__in=runs)
        .values_list("judgement__epoch__judge", "kind")
        .annotate(n=Count("pk"), n_holds=Count("pk", filter=Q(holds=True)))
        .order_by()
    )
    found: dict[int, dict[str, tuple[int, int]]] = {}
    for judge, kind, n, holds in rows:
        found.setdefault(judge, {})[kind] = (n, holds)
    return found


def shares_of(counts: dict[str, tuple[int, int]]) -> list[MarkShare]:
    """Turn the counts of one judge into a row for each kind."""
    return [
        MarkShare(kind.value, str(kind.label), *counts.get(kind.value, (0, 0)))
        for kind in Mark.Kind
    ]
