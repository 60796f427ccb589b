"""What generating a candidate's answers takes and costs, before a cent is spent."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from django.db.models import Avg, Q

from arena.answers.asking import request_for
from arena.answers.refusals import AnswersRefused, NothingToAsk
from arena.answers.subjects import prompt_of
from arena.calls import money
from arena.calls.endpoints import UnknownEndpoint, endpoint_named
from arena.calls.models import Call
from arena.calls.prices import Rate, price_of
from arena.calls.providers.base import Request
from arena.models import Candidate, Prompt
from arena.prompting import TemplateError

USUAL_ANSWER = 300
# What such a call would come to once more: the same request has the same limits.
NOT_AGAIN = [Call.State.REFUSED, Call.State.TOO_LONG, Call.State.UNREADABLE]


@dataclass(frozen=True)
class Quote:
    """Calls, tokens and money (nano-dollars): expected, and the worst; None without a price."""

    calls: int
    tokens_in: int
    tokens_out: int
    expected: int | None
    worst: int | None

    @property
    def is_free(self) -> bool:
        return self.worst == 0


@dataclass(frozen=True)
class Order:
    """The prompts that a candidate is to answer, and sentences about those that are left out."""

    candidate: Candidate
    prompts: Sequence[Prompt]
    quote: Quote
    left_out: list[str] = field(default_factory=list)


def prepare_order(*, candidate: Candidate, prompts: Sequence[Prompt] | None = None) -> Order:
    """Work out what is to be asked, of the active prompts or of those named; nothing is written.

    Raises AnswersRefused with a sentence when there is nothing to ask.
    """
    _check(candidate)
    open_prompts = unanswered_prompts(candidate)
    if prompts is not None:
        named = {prompt.pk for prompt in prompts}
        open_prompts = [prompt for prompt in open_prompts if prompt.pk in named]
    if not open_prompts:
        raise NothingToAsk(_nothing_to_ask(candidate))
    left_out: list[str] = []
    asked = _without_text(_without_ended(candidate, open_prompts, left_out), left_out)
    requests = _requests(candidate, asked, left_out)
    if not requests:
        # Templates that cannot be filled are to be mended; the rest was asked before.
        refusal = AnswersRefused if asked else NothingToAsk
        raise refusal(" ".join(["There is no prompt left to ask about.", *left_out]))
    chosen = [prompt for prompt in asked if prompt.pk in requests]
    return Order(candidate, chosen, _quote(candidate, list(requests.values())), left_out)


def unanswered_prompts(candidate: Candidate) -> list[Prompt]:
    """Return the arena's active prompts to which the candidate has no answer."""
    active = Prompt.objects.active().filter(arena=candidate.arena_id)
    return list(active.filter(~Q(responses__candidate=candidate)).order_by("pk"))


def _check(candidate: Candidate) -> None:
    if candidate.retired_at is not None:
        raise AnswersRefused("This candidate is retired, so nothing is generated for it.")
    if not candidate.endpoint:
        raise AnswersRefused("This candidate names no endpoint: its answers are uploaded.")
    try:
        endpoint_named(candidate.endpoint)
    except UnknownEndpoint as error:
        raise AnswersRefused(str(error)) from None


def _nothing_to_ask(candidate: Candidate) -> str:
    if not Prompt.objects.active().filter(arena=candidate.arena_id).exists():
        return "This arena has no prompts yet. Add some, then generate the answers."
    return "This candidate has answered every prompt."


# -- What is left out ------------------------------------------------------------------------------


def _without_ended(
    candidate: Candidate, prompts: Sequence[Prompt], left_out: list[str]
) -> list[Prompt]:
    """Leave out what the model has turned down, or could not finish, and would again."""
    ended = Call.objects.filter(asker=candidate.asker, sample=0, state__in=NOT_AGAIN)
    closed = {prompt_of(subject) for subject in ended.values_list("subject", flat=True)}
    left = [prompt for prompt in prompts if prompt.pk not in closed]
    if n := len(prompts) - len(left):
        left_out.append(
            f"{_prompts(n)} left out, because the model refused, or its answer did not fit its "
            "limit. A new version of the candidate asks again."
        )
    return left


def _without_text(prompts: Sequence[Prompt], left_out: list[str]) -> list[Prompt]:
    left = [prompt for prompt in prompts if prompt.text.strip() or prompt.variables]
    if n := len(prompts) - len(left):
        left_out.append(f"{_prompts(n)} left out, because the text is not known here.")
    return left


def _requests(
    candidate: Candidate, prompts: Sequence[Prompt], left_out: list[str]
) -> dict[int, Request]:
    """Map each prompt that can be put to what is sent, and say what is wrong with the others."""
    found, problems = {}, []
    for prompt in prompts:
        try:
            found[prompt.pk] = money.limited(request_for(candidate, prompt))
        except TemplateError as error:
            problems.append(str(error))
    if problems:
        left_out.append(
            f"{_prompts(len(problems))} left out, because the templates cannot be filled. The "
            f"first: {problems[0]}"
        )
    return found


def _prompts(n: int) -> str:
    return "1 prompt is" if n == 1 else f"{n:,} prompts are"


# -- Money -----------------------------------------------------------------------------------------


def _quote(candidate: Candidate, requests: Sequence[Request]) -> Quote:
    """Expected: four characters a token, and answers as long as this model's were so far.

    Worst: a token for every byte, and answers as long as they may be. Requests that fail and are
    made again come on top; the cap holds them too.
    """
    rate = price_of(candidate.endpoint, candidate.model)
    usual = min(_usual_answer(candidate), max(map(money.most_out, requests)))
    return Quote(
        calls=len(requests),
        tokens_in=sum(map(money.expected_tokens_in, requests)),
        tokens_out=usual * len(requests),
        expected=_total(rate, lambda known, one: money.expected_cost(known, one, usual), requests),
        worst=_total(rate, money.worst_cost, requests),
    )


def _total(
    rate: Rate | None, cost: Callable[[Rate, Request], int], requests: Sequence[Request]
) -> int | None:
    return None if rate is None else sum(cost(rate, one) for one in requests)


def _usual_answer(candidate: Candidate) -> int:
    """Return how long this model's answers were so far, in tokens."""
    done = Call.objects.filter(
        run__kind="answers",
        endpoint=candidate.endpoint,
        model=candidate.model,
        state=Call.State.DONE,
        tokens_out__gt=0,
    )
    return round(done.aggregate(mean=Avg("tokens_out"))["mean"] or USUAL_ANSWER)
