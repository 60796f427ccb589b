"""Quotes: what a judge order will cost, and whether its models respond, before it is written."""

import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db.models import Avg, QuerySet
from django.db.models.functions import Length

from arena.calls import money
from arena.calls.capabilities import (
    ROOMS,
    capability_of,
    measure,
    note_replies,
    probe_endpoint,
)
from arena.calls.execution import CannotAskError
from arena.calls.models import Call
from arena.calls.money import cost
from arena.calls.prices import Rate, price_of
from arena.calls.providers.base import (
    EndpointStoppedError,
    ProviderError,
    Reply,
    Request,
    RetryableError,
)
from arena.endpoints import endpoint_named, provider_for
from arena.models import Arena, Prompt, Response, Run
from arena.services.budgets import budget_left
from arena.shown_text import as_read
from arena.validation import numbered
from judges.core.prompts import Material, render_prompt
from judges.core.spec import JudgeSpec
from judges.models import Epoch
from judges.models.judges import SCRIPTED
from judges.services.calls import request_for
from judges.services.orders import JudgeOrder, Member
from judges.services.registry import JudgeError, max_reply_tokens
from judges.services.subjects import CallTarget, read_subject
from ranking.stats.claim import least_share

CHARACTERS_PER_TOKEN = 4
# The mean of 960 replies of GPT-4 in the Prometheus format; the others ask for brief reasoning.
FEEDBACK_TOKENS = 175
VERDICT_TOKENS = 20
REASON_TOKENS = 75
ITEM_TOKENS = 30
NOTE_TOKENS = 200
REPAIR = 400  # bytes of the message that asks for nothing but the verdict
MEASURED = 3  # requests to a new model, before its first quote
BATCH = 500
SAMPLED = 200  # texts whose mean length is taken for all


@dataclass(frozen=True)
class JudgeQuote:
    """One judge's part. Money in nano-dollars; None if no price is known."""

    label: str
    endpoint: str
    model: str
    comparisons: int
    calls: int
    tokens_in: int
    tokens_out: int
    expected: int | None
    worst: int | None


@dataclass(frozen=True)
class Quote:
    """The comparisons, calls and tokens of an order, and its cost: expected, and at worst."""

    pairs: int
    comparisons: int
    judges: list[JudgeQuote]
    left_out: list[str] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return sum(judge.calls for judge in self.judges)

    @property
    def expected(self) -> int | None:
        return _total(judge.expected for judge in self.judges)

    @property
    def worst(self) -> int | None:
        return _total(judge.worst for judge in self.judges)

    @property
    def without_price(self) -> list[JudgeQuote]:
        return [judge for judge in self.judges if judge.worst is None]

    @property
    def unpriced(self) -> tuple[str, str] | None:
        return next(((judge.endpoint, judge.model) for judge in self.without_price), None)

    @property
    def finds(self) -> float | None:
        """The smallest win rate, of decisive verdicts, that so many prompts a pair find in 4 of 5
        cases; None if they are too few for any."""
        return least_share(self.comparisons // self.pairs) if self.pairs else None

    @property
    def finds_words(self) -> str:
        n = self.comparisons // self.pairs if self.pairs else 0
        if self.finds is None:
            return f"{numbered(n, 'prompt')} a pair are too few to decide anything: it takes 8."
        return (
            f"{n:,} prompts a pair find a candidate that wins {100 * self.finds:.0f} of 100"
            " decisive verdicts in 4 of 5 cases."
        )


def _total(amounts: Iterable[int | None]) -> int | None:
    priced = list(amounts)
    return None if None in priced else sum(amount for amount in priced if amount is not None)


def quote_for(order: JudgeOrder) -> Quote:
    """Quote the calls of an order that were not made before.

    Expected: four characters per token, and replies as long as this model's were so far. Worst: a
    token for every byte, replies of the maximum length, and a repair turn for every call. Requests
    that fail and are retried cost extra; the cap limits them too.
    """
    sizes = _RequestSizes(order)
    judges = []
    for member in order.members:
        new_calls = map(read_subject, member.calls.keys() - _paid_calls(member))
        request_sizes = [sizes.of(subject, member.spec) for subject in new_calls]
        judges.append(quote_calls(member.spec, len(member.picks), request_sizes))
    pairs = len({pick.pair.pk for pick in order.picks})
    return Quote(pairs, len(order.picks), judges, order.left_out)


def smallest_quote(specs: Iterable[JudgeSpec]) -> Quote:
    """Quote one call by each judge, to know which have a price, and which are free."""
    return Quote(0, 1, [quote_calls(spec, 1, [1]) for spec in specs], [])


def quote_calls(spec: JudgeSpec, comparisons: int, sizes: Sequence[int]) -> JudgeQuote:
    """Quote a judge's calls. `sizes`: of the requests in bytes, without a grading note."""
    reply_tokens, most = typical_reply_tokens(spec), max_reply_tokens(spec.parameters)
    rate = price_of(spec.endpoint, spec.model)
    has_note = bool(spec.rubric.note)
    request_bytes = [size + has_note * NOTE_TOKENS * CHARACTERS_PER_TOKEN for size in sizes]
    longest = [size + has_note * most * CHARACTERS_PER_TOKEN for size in sizes]
    return JudgeQuote(
        label=spec.label,
        endpoint=spec.endpoint,
        model=spec.model,
        comparisons=comparisons,
        calls=len(request_bytes),
        tokens_in=sum(size // CHARACTERS_PER_TOKEN for size in request_bytes),
        tokens_out=reply_tokens * len(request_bytes),
        expected=expected_cost(rate, request_bytes, reply_tokens),
        worst=worst_cost(rate, longest, most),
    )


def expected_costs(
    *, arena: Arena, specs: Iterable[JudgeSpec], unanswered: int = 0
) -> list[int | None]:
    """Return what each judge is expected to cost per comparison of the arena, in nano-dollars: two
    calls on a prompt and answers of average length, or of `unanswered` characters before there are
    any. None without a price."""
    prompts = Prompt.objects.filter(arena=arena, retired_at=None)
    answers = Response.objects.filter(prompt__arena=arena, candidate__retired_at=None)
    prompt, answer = _typical_length(prompts), _typical_length(answers) or unanswered
    costs = []
    for spec in specs:
        n_shown = {"direct": 1, "listwise": 3}.get(spec.protocol, 2)
        size = prompt_overhead(spec, arena) + prompt + n_shown * answer
        costs.append(quote_calls(spec, 1, [size, size] * spec.readings).expected)
    return costs


def _typical_length(texts: QuerySet[Any]) -> int:
    newest = texts.order_by("-pk")[:SAMPLED].values_list(Length("text"), flat=True)
    lengths = list(newest)
    return round(sum(lengths) / len(lengths)) if lengths else 0


def expected_cost(rate: Rate | None, sizes: Iterable[int], reply_tokens: int) -> int | None:
    """Return the expected cost of calls of these sizes (bytes); None without a price."""
    if rate is None:
        return None
    return sum(cost(rate, size // CHARACTERS_PER_TOKEN, reply_tokens) for size in sizes)


def worst_cost(rate: Rate | None, sizes: Iterable[int], reply_tokens: int) -> int | None:
    """Return the most that calls of these sizes can cost; None without a price.

    A byte may be a token, and every reply may need a repair turn, which repeats the request with
    the reply.
    """
    if rate is None:
        return None
    return sum(
        cost(rate, size, reply_tokens) + cost(rate, size + reply_tokens + REPAIR, reply_tokens)
        for size in sizes
    )


def _paid_calls(member: Member) -> set[str]:
    """Return the calls that were answered in any run; their replies are copied."""
    if member.epoch is None:
        return set()
    calls = Call.objects.filter(requester=member.epoch.requester, sample=0)
    return (
        set(calls.filter(state__in=Call.ANSWERED).values_list("subject", flat=True))
        & member.calls.keys()
    )


def typical_reply_tokens(spec: JudgeSpec) -> int:
    """Return the mean length of replies so far, thought included: by this judge; else by this model
    with this rubric, by this model when it was measured, by any model with the rubric, by this
    model as a judge."""
    epochs = Epoch.objects.filter(judge__rubric=spec.rubric.slug, judge__effort=spec.effort)
    own_model: dict[str, Any] = {"endpoint": spec.endpoint, "model": spec.model}
    of_model: list[dict[str, Any]] = [
        own_model | {"requester__in": epochs.filter(judge__digest=spec.digest).values("requester")},
        own_model | {"requester__in": epochs.values("requester")},
    ]
    of_others: list[dict[str, Any]] = [
        {"requester__in": epochs.exclude(judge__endpoint=SCRIPTED).values("requester")},
        own_model | {"requester__in": Epoch.objects.values("requester")},
    ]
    mean = _mean_tokens(of_model) or _measured_tokens(spec) or _mean_tokens(of_others)
    return min(round(mean or _reply_tokens_asked(spec)), max_reply_tokens(spec.parameters))


def _mean_tokens(alike: Sequence[dict[str, Any]]) -> float | None:
    """Return the mean over the first of these kinds of calls that were answered, read or not."""
    answered = Call.objects.filter(state__in=Call.ANSWERED, copied=False, tokens_out__gt=0)
    means = (answered.filter(**calls).aggregate(mean=Avg("tokens_out"))["mean"] for calls in alike)
    return next((float(mean) for mean in means if mean), None)


def is_measured(spec: JudgeSpec) -> bool:
    """Whether it is known how much this model writes and thinks."""
    alike = {"endpoint": spec.endpoint, "model": spec.model}
    return spec.endpoint == SCRIPTED or bool(_measured_tokens(spec) or _mean_tokens([alike]))


def _measured_tokens(spec: JudgeSpec) -> float | None:
    capability = capability_of(spec.endpoint, spec.model)
    measured = capability.replies.get(spec.effort) if capability else None
    return float(measured["mean"]) if measured else None


def _reply_tokens_asked(spec: JudgeSpec) -> int:
    """Return how long a reply to this rubric should be, before there are any to measure."""
    if spec.rubric.is_prometheus:
        return FEEDBACK_TOKENS
    if spec.rubric.items:
        return len(spec.rubric.items) * (VERDICT_TOKENS + ITEM_TOKENS)
    answers = {"direct": 1, "listwise": 4}.get(spec.protocol, 2)
    return VERDICT_TOKENS + answers * REASON_TOKENS


class _RequestSizes:
    """The bytes of each call's request, from the sizes of its texts, each read once."""

    def __init__(self, order: JudgeOrder) -> None:
        subjects = [read_subject(subject) for member in order.members for subject in member.calls]
        self._answers = _sizes_of_answers({pk for subject in subjects for pk in subject.shown})
        prompts = Prompt.objects.filter(pk__in={pick.prompt_id for pick in order.picks})
        self._prompts = {  # of the texts without the reference answer, and of that answer
            pk: (_size_in_bytes(text) + _size_in_bytes(rubric), _size_in_bytes(reference))
            for pk, text, rubric, reference in prompts.values_list(
                "pk", "text", "rubric", "reference"
            )
        }
        self._prompt_of = {
            response: pick.prompt_id
            for pick in order.picks
            for response in (pick.low_response, pick.high_response, *pick.shown)
        }
        self._overheads: dict[str, int] = {}

    def of(self, subject: CallTarget, spec: JudgeSpec) -> int:
        if spec.digest not in self._overheads:
            self._overheads[spec.digest] = prompt_overhead(spec)
        prompt = subject.prompt or self._prompt_of[subject.shown[0]]
        answers = sum(self._answers.get(pk, 0) for pk in subject.shown)
        text, reference = self._prompts.get(prompt, (0, 0))
        needed = reference if spec.rubric.reference == "required" else 0
        return self._overheads[spec.digest] + text + needed + answers


def prompt_overhead(spec: JudgeSpec, arena: Arena | None = None) -> int:
    """Return the bytes of a request around the prompt and the answers, in an arena or in any."""
    answers = {"direct": 1, "listwise": 3}.get(spec.protocol, 2)
    question, criteria = (arena.question, arena.criteria) if arena else ("?" * 200, "")
    material = Material(question, criteria, "?", ("?",) * answers, reference="?", note="?")
    messages = render_prompt(spec, material, nonce="0" * 16)
    return sum(len(text.encode()) for _, text in messages)


def _sizes_of_answers(ids: set[int]) -> dict[int, int]:
    sorted_ids = sorted(ids)
    sizes: dict[int, int] = {}
    for start in range(0, len(sorted_ids), BATCH):
        rows = Response.objects.filter(pk__in=sorted_ids[start : start + BATCH])
        sizes |= {pk: _size_in_bytes(as_read(text)) for pk, text in rows.values_list("pk", "text")}
    return sizes


def _size_in_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def probe_judges(*, specs: Iterable[JudgeSpec], now: datetime) -> None:
    """Probe each model that was never probed: a few short requests, once per model.

    Raises JudgeError if one does not answer.
    """
    for endpoint, model in sorted({(spec.endpoint, spec.model) for spec in specs}):
        capability = capability_of(endpoint, model)
        if capability is not None and capability.probed_at is not None:
            continue
        try:
            probe_endpoint(endpoint=endpoint, model=model, now=now)
        except EndpointStoppedError as error:
            raise JudgeError(f"{endpoint}:{model} cannot be asked: {error}") from None


def prepare_measured(
    prepare: Callable[[], JudgeOrder], *, cap: int | None, now: datetime
) -> JudgeOrder:
    """Return the order, prepared again if its models had to be measured first: what was learned may
    give a new judge more room. Nothing is measured for a team that could not pay for the run."""
    order = prepare()
    team = order.arena.team
    if team and budget_left(team) < (cap or 1):
        return order
    new = [member for member in order.members if member.epoch is None]
    learned = [
        measure_if_new(spec=member.spec, subjects=list(member.calls), now=now) for member in new
    ]
    return prepare() if any(learned) else order


def measure_if_new(*, spec: JudgeSpec, subjects: Sequence[str], now: datetime) -> bool:
    """Send three requests about these subjects to a judge's model if it was never measured.

    The site pays for them, once for each model and effort, because all its teams learn from it: the
    cost is booked as a run without calls. A model without a price or an answer is not measured.
    Returns whether anything was learned.
    """
    rate, endpoint = price_of(spec.endpoint, spec.model), endpoint_named(spec.endpoint)
    if rate is None or endpoint.provider == SCRIPTED or _measured_tokens(spec):
        return False
    try:
        probe_judges(specs=[spec], now=now)
    except JudgeError:
        return False  # the order says why, if it is made
    requests = _samples_of(spec, subjects)
    if not requests:
        return False
    wide = [replace(one, parameters={"max_tokens": ROOMS[0]}) for one in requests]
    cap = sum(money.worst_cost(rate, one) for one in wide)
    # Until they are answered, the most that the requests can cost is uncertain.
    booked = Run.objects.create(
        kind=Run.Kind.JUDGE,
        state=Run.State.DONE,
        cap=cap,
        uncertain=cap,
        closed_at=now,
        counted_at=now,
    )
    known = capability_of(spec.endpoint, spec.model)
    outcomes = measure(provider_for(endpoint), requests, known)
    _book_measurement(booked, rate, outcomes, cap // len(requests))
    tokens = [one.tokens_out for one in outcomes if isinstance(one, Reply) and one.tokens_out]
    if not tokens:
        return False
    note_replies(endpoint=spec.endpoint, model=spec.model, effort=spec.effort, tokens=tokens)
    return True


def _samples_of(spec: JudgeSpec, subjects: Sequence[str]) -> list[Request]:
    """Three requests, from all over the subjects; fewer if some cannot be built."""
    verdicts = [name for name in subjects if not read_subject(name).is_note]
    requests = []
    for name in verdicts[:: max(1, len(verdicts) // MEASURED)][:MEASURED]:
        with suppress(CannotAskError):
            note = "?" if spec.rubric.note else ""
            subject, nonce = read_subject(name), secrets.token_hex(8)
            requests.append(request_for(spec, subject, nonce=nonce, note=note))
    return requests


def _book_measurement(
    run: Run, rate: Rate, outcomes: Sequence[Reply | ProviderError], each: int
) -> None:
    """Book what the replies were billed; a request that was lost stays uncertain."""
    run.settled = sum(money.billed(rate, one, each) for one in outcomes if isinstance(one, Reply))
    lost = [one for one in outcomes if isinstance(one, RetryableError) and one.maybe_billed]
    run.uncertain = each * len(lost)
    if run.settled or run.uncertain:
        run.save(update_fields=["settled", "uncertain"])
    else:
        run.delete()
