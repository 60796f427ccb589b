"""What an order will cost, before a cent is spent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from django.db.models import Avg, Q

from arena.calls.models import Call
from arena.calls.money import DEFAULT_MAX_TOKENS, cost
from arena.calls.prices import Rate, price_of
from arena.models import Prompt, Response
from judges.core.protocols import Material, render
from judges.core.spec import JudgeSpec
from judges.services.orders import Member, Order
from judges.services.subjects import Subject, read_subject

CHARACTERS_PER_TOKEN = 4
USUAL_ANSWER = 300
REPAIR = 400
BATCH = 500


@dataclass(frozen=True)
class JudgeQuote:
    """One judge's part. Money in nano-dollars; None where no price is known."""

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
    """Pairs x orders x judges, tokens and money: expected, and the worst that can come."""

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


def _total(amounts: Iterable[int | None]) -> int | None:
    known = list(amounts)
    return None if None in known else sum(amount for amount in known if amount is not None)


def quote_for(order: Order) -> Quote:
    """Count the calls of an order that were not made before, and what they cost.

    Expected: four characters a token, and answers as long as this model's were so far. Worst: a
    token for every byte, answers as long as they may be, and every call asked for its verdict
    once more. Requests that fail and are made again come on top; the cap holds them too.
    """
    sizes = _Sizes(order)
    judges = [_judge_quote(member, sizes) for member in order.members]
    pairs = len({pick.pair.pk for pick in order.picks})
    return Quote(pairs, len(order.picks), judges, order.left_out)


def _judge_quote(member: Member, sizes: "_Sizes") -> JudgeQuote:
    spec = member.spec
    new = [read_subject(subject) for subject in member.calls.keys() - _made(member)]
    inputs = [sizes.of(subject, spec) for subject in new]
    usual, most = usual_answer(spec), most_tokens(spec.parameters)
    rate = price_of(spec.endpoint, spec.model)
    return JudgeQuote(
        label=spec.label,
        endpoint=spec.endpoint,
        model=spec.model,
        comparisons=len(member.picks),
        calls=len(new),
        tokens_in=sum(size // CHARACTERS_PER_TOKEN for size in inputs),
        tokens_out=usual * len(new),
        expected=expected_of(rate, inputs, usual),
        worst=worst_of(rate, inputs, most),
    )


def expected_of(rate: Rate | None, sizes: Iterable[int], usual: int) -> int | None:
    """Return what calls of these sizes (bytes) are expected to cost; None without a price."""
    if rate is None:
        return None
    return sum(cost(rate, size // CHARACTERS_PER_TOKEN, usual) for size in sizes)


def worst_of(rate: Rate | None, sizes: Iterable[int], most: int) -> int | None:
    """Return what calls of these sizes cost at most; None without a price."""
    return None if rate is None else sum(worst_of_call(rate, size, most) for size in sizes)


def worst_of_call(rate: Rate, size: int, most: int) -> int:
    """Return what a call costs at most: its request, and once more with its reply to repair."""
    return cost(rate, size, most) + cost(rate, size + most + REPAIR, most)


def most_tokens(parameters: Mapping[str, object]) -> int:
    """Return how long a reply may be, in tokens."""
    found = parameters.get("max_tokens") or parameters.get("max_completion_tokens")
    return int(str(found or DEFAULT_MAX_TOKENS))


def _made(member: Member) -> set[str]:
    """Calls that are answered, or that an open run pays for: they are not bought again."""
    if member.epoch is None:
        return set()
    calls = Call.objects.filter(asker=member.epoch.asker, sample=0)
    to_be_made = Q(state__in=Call.GOING_ON)
    made = calls.exclude(state=Call.State.FAILED).exclude(to_be_made & ~Q(run__state="open"))
    return set(made.values_list("subject", flat=True)) & member.calls.keys()


def usual_answer(spec: JudgeSpec) -> int:
    """Return how long this model's replies were so far, in tokens."""
    done = Call.objects.filter(
        endpoint=spec.endpoint, model=spec.model, state=Call.State.DONE, tokens_out__gt=0
    )
    seen = done.aggregate(mean=Avg("tokens_out"))["mean"]
    return min(round(seen or USUAL_ANSWER), most_tokens(spec.parameters))


class _Sizes:
    """How many bytes each call sends, from the sizes of its texts, each read once."""

    def __init__(self, order: Order) -> None:
        subjects = [read_subject(one) for member in order.members for one in member.calls]
        self._answers = _answer_bytes({pk for subject in subjects for pk in subject.shown})
        self._prompts = _prompt_bytes({pick.prompt_id for pick in order.picks})
        self._prompt_of = {
            response: pick.prompt_id
            for pick in order.picks
            for response in (pick.low_response, pick.high_response, *pick.shown)
        }
        self._frames: dict[str, int] = {}

    def of(self, subject: Subject, spec: JudgeSpec) -> int:
        """Return the bytes of one call's request."""
        if spec.digest not in self._frames:
            self._frames[spec.digest] = frame_bytes(spec)
        prompt = subject.prompt or self._prompt_of[subject.shown[0]]
        note = most_tokens(spec.parameters) * CHARACTERS_PER_TOKEN if spec.rubric.note else 0
        answers = sum(self._answers.get(pk, 0) for pk in subject.shown)
        return self._frames[spec.digest] + self._prompts.get(prompt, 0) + answers + note


def frame_bytes(spec: JudgeSpec) -> int:
    """Return the bytes of what this judge is sent around the texts."""
    answers = {"direct": 1, "listwise": 3}.get(spec.protocol, 2)
    material = Material("?" * 200, "", "?", ("?",) * answers, reference="?", note="?")
    messages = render(spec, material, nonce="0" * 16)
    return sum(len(text.encode()) for _, text in messages)


def _answer_bytes(ids: set[int]) -> dict[int, int]:
    wanted = sorted(ids)
    found: dict[int, int] = {}
    for start in range(0, len(wanted), BATCH):
        rows = Response.objects.filter(pk__in=wanted[start : start + BATCH])
        found |= {pk: _bytes(text) for pk, text in rows.values_list("pk", "text")}
    return found


def _prompt_bytes(ids: set[int]) -> dict[int, int]:
    rows = Prompt.objects.filter(pk__in=ids).values_list("pk", "text", "reference", "rubric")
    return {pk: sum(map(_bytes, texts)) for pk, *texts in rows}


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
