"""What more LLM-judge votes on two candidates cost, and how many prompts are left for them."""

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
from ranking.claim_words import MOST_WORTHWHILE

TwoCandidates = tuple[Candidate, Candidate]


@dataclass(frozen=True)
class JudgePrice:
    """The judges of the newest run, and what one of their votes costs in nano-dollars.

    `per_vote` is the mean cost of votes so far, or else the quoted one; None without a price.
    `epoch` is the one that votes: the jury's if there are several judges.
    """

    labels: list[str]
    per_vote: int | None
    epoch: int

    @property
    def names(self) -> str:
        return get_text_list(self.labels, "and")


@dataclass(frozen=True)
class Supply:
    """How many prompts both candidates answer, and how many of them these judges have `left`."""

    prompts: int
    left: int


@dataclass(frozen=True)
class Needed:
    """The votes still needed to decide if the difference stays the same.

    `price` is None before the first judge run, `supply` if judges cannot be asked.
    """

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
        """Whether there are too few prompts left for so many LLM-judge votes."""
        return self.supply is not None and self.supply.left < self.votes

    @property
    def shortage(self) -> str:
        """Why there are too few prompts, and what that means; '' if there are enough."""
        if self.supply is None or not self.is_short:
            return ""
        prompts, left = self.supply.prompts, self.supply.left
        if not prompts:
            return "The two share no prompts, and votes need answers to the same prompt."
        if self.price and not left:
            judged = "the only shared prompt" if prompts == 1 else f"all {prompts:,} shared prompts"
            return f"The judges have already judged {judged}: more votes need more prompts."
        what = "shared prompt is" if left == 1 else "shared prompts are"
        return (
            f"A judge votes once per prompt, and only {left:,} {what} left: more votes need more "
            "prompts."
        )


def find_last_price(arena: Arena) -> JudgePrice | None:
    """Read the judges of the newest run in one query; None before the first run."""
    newest = Run.objects.filter(arena=arena, kind=Run.Kind.JUDGE, run_judges__isnull=False)
    of_newest = RunJudge.objects.filter(run=Subquery(newest.order_by("-pk").values("pk")[:1]))
    members = list(of_newest.select_related("run", "epoch__judge").order_by("pk"))
    if not members:
        return None
    labels = [str(member.epoch) for member in members if not member.epoch.judge.is_jury]
    voter = next((member for member in members if member.epoch.judge.is_jury), members[0])
    return JudgePrice(labels, _price_per_vote(members[0].run), voter.epoch_id)


def _price_per_vote(run: Run) -> int | None:
    """Rounded up, so that rounding never makes a forecast too low."""
    if run.votes_done:
        return -(-run.settled // run.votes_done)
    if run.expected_cost is None or not run.votes_wanted:
        return None
    return -(-run.expected_cost // run.votes_wanted)


def count_supply(
    pair: TwoCandidates, price: JudgePrice | None, category: str = ""
) -> Supply | None:
    """Count in one query; None for archived candidates, which are not judged."""
    if any(candidate.retired_at for candidate in pair):
        return None
    responses = Response.objects.revealed().filter(candidate__in=pair, prompt__retired_at=None)
    responses = responses.exclude(Q(prompt__text="") | Q(text=""))
    if category:
        responses = responses.filter(prompt__category=category)
    shared = responses.values("prompt").annotate(answers=Count("pk")).filter(answers=len(pair))
    judged = list(shared.annotate(judged=_is_judged(pair, price)).values_list("judged", flat=True))
    return Supply(len(judged), judged.count(False))


def _is_judged(pair: TwoCandidates, price: JudgePrice | None) -> Combinable:
    """Whether this judge or jury has been asked about the pair on a prompt."""
    if price is None:
        return Value(False)
    of_pair = Q(comparison__left__in=pair, comparison__right__in=pair, epoch=price.epoch)
    on_prompt = Q(comparison__prompt=OuterRef("prompt"))
    judged = Judgement.objects.filter(of_pair, on_prompt).asked()
    decided = JuryVerdict.objects.filter(of_pair, on_prompt)
    decided = decided.exclude(state=JuryVerdict.State.CANCELLED)
    return ExpressionWrapper(Exists(judged) | Exists(decided), BooleanField())


def order_url(pair: TwoCandidates, arena: Arena, needed: Needed | None) -> str:
    """Where to start a judge run on these two, even if it is decided; '' without prompts left."""
    fields: list[tuple[str, int]] = [("candidate", candidate.pk) for candidate in pair]
    fields.append(("again", 1))
    if needed and needed.supply:
        if not needed.supply.left:
            return ""
        fields.append(("per_pair", min(needed.votes, needed.supply.left)))
    return f"{reverse('order_run', args=[arena.slug])}?{urlencode(fields)}"
