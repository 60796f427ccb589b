"""What there is in an arena, and what its team does next."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from arena.models import Arena, Candidate, Rater, Response

SHARED = 2  # candidates that must have answers before anything can be compared


@dataclass(frozen=True)
class Overview:
    """How much there is of everything; `candidates` are those of the reader's teams."""

    prompts: int
    retired_prompts: int
    candidates: Sequence[Candidate]
    others: int
    others_answering: int
    people_votes: int
    judge_votes: int

    @property
    def active(self) -> list[Candidate]:
        return [one for one in self.candidates if one.retired_at is None]

    @property
    def answering(self) -> int:
        """How many candidates have answers, those of other teams included."""
        return sum(1 for one in self.active if answered(one)) + self.others_answering

    @property
    def comparable(self) -> bool:
        """Is there anything to vote on?"""
        return self.answering >= SHARED

    @property
    def unanswered(self) -> list[tuple[Candidate, int]]:
        """Candidates of which answers are missing, and of how many prompts; most first."""
        missing = [(one, self.prompts - answered(one)) for one in self.active]
        return sorted((one for one in missing if one[1] > 0), key=lambda one: -one[1])

    @property
    def votes(self) -> int:
        return self.people_votes + self.judge_votes

    @property
    def step(self) -> str:
        """What is to be done next: prompts, candidates, answers, votes, decide."""
        if not self.prompts:
            return "prompts"
        if len(self.active) + self.others < SHARED or not self.active:
            return "candidates"
        if not self.comparable or self.unanswered:
            return "answers"
        return "votes" if not self.votes else "decide"


def overview_of(arena: Arena, own: QuerySet[Candidate]) -> Overview:
    """Return what there is in `arena` for somebody whose candidates are `own`."""
    counts = arena.prompts.revealed().aggregate(
        active=Count("pk", filter=Q(retired_at=None)),
        retired=Count("pk", filter=~Q(retired_at=None)),
    )
    mine = list(with_answers(own))
    others = arena.candidates.active().exclude(pk__in=[one.pk for one in mine])
    answers = Response.objects.filter(candidate=OuterRef("pk"))
    votes = arena.votes.live().aggregate(
        people=Count("pk", filter=Q(rater__kind=Rater.Kind.PERSON)),
        others=Count("pk", filter=~Q(rater__kind=Rater.Kind.PERSON)),
    )
    return Overview(
        prompts=counts["active"],
        retired_prompts=counts["retired"],
        candidates=mine,
        others=others.count(),
        others_answering=others.filter(Exists(answers)).count(),
        people_votes=votes["people"],
        judge_votes=votes["others"],
    )


def with_answers(candidates: QuerySet[Candidate]) -> QuerySet[Candidate]:
    """`candidates`, those at work first, with how many active prompts each answers."""
    answers = Response.objects.filter(candidate=OuterRef("pk"), prompt__retired_at=None)
    number = answers.order_by().values("candidate").annotate(n=Count("pk")).values("n")
    counted = candidates.annotate(n_answers=Coalesce(Subquery(number), 0))
    order = (F("retired_at").asc(nulls_first=True), "name", "version")
    return counted.select_related("team", "created_by").order_by(*order)


def answered(candidate: Candidate) -> int:
    """How many active prompts a candidate of `with_answers` answers."""
    return int(getattr(candidate, "n_answers", 0))
