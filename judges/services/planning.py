"""Which comparisons a run buys: the pairs judged least first, with prompts drawn by seed."""

import hashlib
from collections import Counter
from dataclasses import dataclass

from arena.models import Arena, Pair, Response
from judges.core.spec import JudgeSpec
from judges.models import Judgement

Answers = dict[int, dict[int, int]]


@dataclass(frozen=True)
class Pick:
    """One comparison to be bought: a pair of candidates on one prompt, as response ids."""

    pair: Pair
    prompt_id: int
    low_response: int
    high_response: int

    @property
    def responses(self) -> str:
        return responses_key(self.low_response, self.high_response)


@dataclass(frozen=True)
class Plan:
    """What a run would buy, and what it was asked for."""

    picks: list[Pick]
    pairs: int
    per_pair: int
    max_calls: int

    @property
    def calls(self) -> int:
        return 2 * len(self.picks)

    @property
    def wanted_calls(self) -> int:
        return 2 * self.pairs * self.per_pair

    def shares(self) -> dict[int, float]:
        """Map each pair's id to the part of the run's comparisons that falls to it."""
        counts = Counter(pick.pair.pk for pick in self.picks)
        return {pair: count / len(self.picks) for pair, count in counts.items()}


def plan_run(*, arena: Arena, spec: JudgeSpec, per_pair: int, max_calls: int) -> Plan:
    """Choose `per_pair` comparisons for every pair, in rounds, within `max_calls` calls.

    What this judge was asked before is left out, so the same order again brings new items; what
    a cancelled run left waiting is not. A cap that does not reach for all cuts the last rounds,
    not the last pairs.
    """
    asked = Judgement.objects.filter(judge__digest=spec.digest, run__arena=arena)
    judged = set(asked.not_free().values_list("responses", flat=True))
    answers = _answers(arena)
    pairs = list(arena.pairs.filter(weight__gt=0, shared_prompts__gt=0))
    queues = []
    for pair in pairs:
        picks = _picks_of(pair, answers, spec.digest)
        fresh = [pick for pick in picks if pick.responses not in judged]
        queues.append(((len(picks) - len(fresh), -pair.weight, pair.pk), fresh[:per_pair]))
    queues.sort(key=lambda queue: queue[0])
    rounds = range(max((len(picks) for _, picks in queues), default=0))
    in_rounds = [picks[turn] for turn in rounds for _, picks in queues if turn < len(picks)]
    return Plan(in_rounds[: max_calls // 2], len(pairs), per_pair, max_calls)


def responses_key(first: int, second: int) -> str:
    """Name two responses whatever their order."""
    return f"{min(first, second)},{max(first, second)}"


def _answers(arena: Arena) -> Answers:
    """Map candidate -> prompt -> response, where both prompt and response have a text."""
    answers: Answers = {}
    rows = (
        Response.objects.revealed()
        .filter(
            candidate__arena=arena,
            candidate__retired_at=None,
            prompt__retired_at=None,
        )
        .exclude(text="")
        .exclude(prompt__text="")
        .values_list("candidate", "prompt", "pk")
    )
    for candidate, prompt, response in rows:
        answers.setdefault(candidate, {})[prompt] = response
    return answers


def _picks_of(pair: Pair, answers: Answers, seed: str) -> list[Pick]:
    """All comparisons of a pair, in an order drawn by the judge's digest and the pair."""
    low, high = answers.get(pair.low_id, {}), answers.get(pair.high_id, {})
    prompts = sorted(low.keys() & high.keys(), key=lambda prompt: _draw(seed, pair.pk, prompt))
    return [Pick(pair, prompt, low[prompt], high[prompt]) for prompt in prompts]


def _draw(seed: str, pair: int, prompt: int) -> bytes:
    return hashlib.sha256(f"{seed} {pair} {prompt}".encode()).digest()
