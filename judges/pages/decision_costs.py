"""What more votes of judges cost, and how many there can be, by the run that was ordered last."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import (
    BooleanField,
    Count,
    Exists,
    ExpressionWrapper,
    OuterRef,
    Q,
    Subquery,
    Value,
)
from django.db.models.expressions import Combinable
from django.urls import reverse
from django.utils.text import get_text_list

from arena.models import Arena, Candidate, Response, Run
from judges.models import Judgement, JuryVerdict, RunJudge
from judges.pages.decision_words import MOST_WORTHWHILE

FREE_AGAIN = Q(state=JuryVerdict.State.WAITING, run__state=Run.State.CANCELLED)


@dataclass(frozen=True)
class JudgePrice:
    """Who was asked last, and what a vote of theirs costs in nano-dollars: what it did cost where
    there are votes, else what the quote said; None where nobody has entered a price.

    `epoch` is the one that votes, the jury's where several were asked.
    """

    labels: list[str]
    per_vote: int | None
    epoch: int

    @property
    def names(self) -> str:
        return get_text_list(self.labels, "and")


@dataclass(frozen=True)
class Supply:
    """The prompts that both of two candidates answer, and those about which the judges that were
    asked last have not been asked yet."""

    prompts: int
    left: int


@dataclass(frozen=True)
class Needed:
    """What it takes to know, at the difference of today: `votes` of people, or money for as many
    of judges; `cost` is None where no judge has been priced, `supply` where none can be asked."""

    votes: int
    price: JudgePrice | None
    supply: Supply | None = None

    @property
    def cost(self) -> int | None:
        if self.price is None or self.price.per_vote is None:
            return None
        return self.price.per_vote * self.votes

    @property
    def is_too_many(self) -> bool:
        return self.votes > MOST_WORTHWHILE

    @property
    def is_short(self) -> bool:
        """Are there too few prompts left for so many votes of judges?"""
        return self.supply is not None and self.supply.left < self.votes


def last_price(arena: Arena) -> JudgePrice | None:
    """Read the judges that were asked last in the arena in one query; None before the first."""
    newest = Run.objects.filter(arena=arena, kind=Run.Kind.JUDGE, run_judges__isnull=False)
    part = RunJudge.objects.filter(run=Subquery(newest.order_by("-pk").values("pk")[:1]))
    asked = list(part.select_related("run", "epoch__judge").order_by("pk"))
    if not asked:
        return None
    labels = [str(one.epoch) for one in asked if not one.epoch.judge.is_jury]
    votes = next((one for one in asked if one.epoch.judge.is_jury), asked[0])
    return JudgePrice(labels, _per_vote(asked[0].run), votes.epoch_id)


def _per_vote(run: Run) -> int | None:
    """Rounded up, so that no forecast is too low by that."""
    if run.votes_done:
        return -(-(run.settled + run.uncertain) // run.votes_done)
    if run.expected_cost is None or not run.votes_wanted:
        return None
    return -(-run.expected_cost // run.votes_wanted)


def supply_for(
    two: tuple[Candidate, Candidate], price: JudgePrice | None, category: str = ""
) -> Supply | None:
    """Count in one query; None for candidates that are not judged any more."""
    if any(one.retired_at for one in two):
        return None
    answered = Response.objects.revealed().filter(candidate__in=two, prompt__retired_at=None)
    answered = answered.exclude(Q(prompt__text="") | Q(text=""))
    if category:
        answered = answered.filter(prompt__category=category)
    by_both = answered.values("prompt").annotate(answers=Count("pk")).filter(answers=len(two))
    asked = list(by_both.annotate(asked=_asked(two, price)).values_list("asked", flat=True))
    return Supply(len(asked), asked.count(False))


def _asked(two: tuple[Candidate, Candidate], price: JudgePrice | None) -> Combinable:
    """Whether this judge, or this very jury, has been asked about the two on a prompt."""
    if price is None:
        return Value(False)
    about = Q(comparison__left__in=two, comparison__right__in=two, epoch=price.epoch)
    on_it = Q(comparison__prompt=OuterRef("prompt"))
    judged = Judgement.objects.filter(about, on_it).not_free()
    decided = JuryVerdict.objects.filter(about, on_it).exclude(FREE_AGAIN)
    return ExpressionWrapper(Exists(judged) | Exists(decided), BooleanField())


def order_url(two: tuple[Candidate, Candidate], arena: Arena, needed: Needed | None) -> str:
    """Where judges are asked about these two alone, told apart already or not; '' where they have
    been asked about all prompts."""
    filled: list[tuple[str, int]] = [("candidate", one.pk) for one in two] + [("again", 1)]
    if needed and needed.supply:
        if not needed.supply.left:
            return ""
        filled.append(("per_pair", min(needed.votes, needed.supply.left)))
    return f"{reverse('order_run', args=[arena.slug])}?{urlencode(filled)}"
