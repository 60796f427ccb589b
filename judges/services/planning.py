"""Which comparisons a run buys: the pairs judged least first, with prompts drawn by seed."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from django.db.models import Q

from arena.models import Arena, Comparison, Pair, Run
from judges.core.spec import family_of
from judges.services.answers import Answers, answers_in
from judges.services.subjects import key_of_pair
from ranking.models import Snapshot
from ranking.pages.gap import with_rows
from ranking.services.pair_facts import PairFacts, pair_facts

Which = Literal["all", "neighbours", "new"]
LONGEST_LIST = 8


@dataclass(frozen=True)
class Pick:
    """One comparison to be bought: a pair of candidates on one prompt, as response ids.

    `shown` is the list that a listwise judge sees it in; empty for the other protocols.
    """

    pair: Pair
    prompt_id: int
    low_response: int
    high_response: int
    shown: tuple[int, ...] = ()

    @property
    def responses(self) -> str:
        return key_of_pair(self.low_response, self.high_response)


@dataclass(frozen=True)
class Wanted:
    """What somebody orders: which pairs, how often each, and whether those that the board tells
    apart already are bought all the same (`again`). With `candidates`, by their ids, only pairs
    of two of them."""

    per_pair: int
    pairs: Which = "all"
    again: bool = False
    like_run: Run | None = None
    candidates: frozenset[int] = frozenset()

    def is_about(self, pair: Pair) -> bool:
        """Are both of the pair among the candidates that were named, if any were?"""
        return not self.candidates or self.candidates.issuperset(_ids(pair))


@dataclass(frozen=True)
class Askers:
    """What a plan must know of the judges it is made for; `seed` draws the prompts."""

    seed: str
    listwise: bool = False
    need_reference: bool = False
    raters: str = "judges"


@dataclass(frozen=True)
class Plan:
    """What a run would buy, and what it leaves out, in sentences."""

    picks: list[Pick]
    pairs: int
    left_out: list[str] = field(default_factory=list)


def shares_of(picks: Sequence[Pick]) -> dict[int, float]:
    """Map each pair's id to the part of these comparisons that falls to it."""
    counts = Counter(pick.pair.pk for pick in picks)
    return {pair: count / len(picks) for pair, count in counts.items()}


def plan_run(*, arena: Arena, wanted: Wanted, askers: Askers, asked: Iterable[str]) -> Plan:
    """Choose `per_pair` comparisons for every pair that is wanted, in rounds.

    `asked` are the pairs of responses that need no asking again. Rounds, so that a cap that does
    not reach for all cuts the last rounds and not the last pairs.
    """
    answers = answers_in(arena, needs_reference=askers.need_reference)
    drawn = arena.pairs.filter(weight__gt=0, shared_prompts__gt=0)
    pairs = [pair for pair in drawn if wanted.is_about(pair)]
    chosen, left_out = _wanted_pairs(arena, pairs, wanted, askers.raters)
    picks = _picks(chosen, answers, askers, wanted)
    taken = frozenset(asked)
    queues = []
    for pair in chosen:
        fresh = [pick for pick in picks[pair.pk] if pick.responses not in taken]
        judged = len(picks[pair.pk]) - len(fresh)
        queues.append(((judged, -pair.weight, pair.pk), fresh[: wanted.per_pair]))
    queues.sort(key=lambda queue: queue[0])
    picked = _in_rounds([queue for _, queue in queues])
    said = answers.left_out + left_out + _cut_short([queue for _, queue in queues], wanted)
    return Plan(picked, len(chosen), said)


def _cut_short(queues: Sequence[Sequence[Pick]], wanted: Wanted) -> list[str]:
    """Say where there are fewer comparisons to buy than were asked for."""
    bought, short = sum(map(len, queues)), sum(len(one) < wanted.per_pair for one in queues)
    if not bought or not short or wanted.like_run is not None:
        return []
    pairs = "1 pair has" if short == 1 else f"{short:,} pairs have"
    return [
        f"{pairs} fewer than {wanted.per_pair:,} comparisons left, so this is {bought:,} in place "
        f"of {wanted.per_pair * len(queues):,}. A judge votes once on each prompt that both "
        "answer: more votes need more prompts."
    ]


def _in_rounds(queues: Sequence[Sequence[Pick]]) -> list[Pick]:
    rounds = range(max(map(len, queues), default=0))
    return [queue[turn] for turn in rounds for queue in queues if turn < len(queue)]


def _wanted_pairs(
    arena: Arena, pairs: Sequence[Pair], wanted: Wanted, raters: str
) -> tuple[list[Pair], list[str]]:
    """Leave out what the board of these raters tells apart, and what was not asked for."""
    if wanted.like_run is not None:
        return list(pairs), []
    facts = pair_facts(arena=arena, raters=raters)
    if len(pairs) == 1 and not wanted.again:
        facts = replace(facts, separated=_decided(arena, pairs[0], raters))
    chosen = [pair for pair in pairs if _is_wanted(pair, wanted, facts)]
    separated = 0 if wanted.again else sum(_ids(pair) in facts.separated for pair in pairs)
    return chosen, _told_apart(separated, len(pairs), raters) if separated else []


def _told_apart(count: int, of: int, raters: str) -> list[str]:
    if of == 1:
        enough = f"The two are told apart already by enough votes of {raters} to be sure"
        return [f"{enough}, and are left out unless they are wanted again."]
    if count == 1:
        told, rest = "1 pair is", "is left out unless it is wanted again."
    else:
        told, rest = f"{count:,} pairs are", "are left out unless they are wanted again."
    return [f"{told} told apart already by the votes of {raters}, and {rest}"]


def _decided(arena: Arena, pair: Pair, raters: str) -> frozenset[tuple[int, int]]:
    """The pair, where the decision between the two knows which is better; else nothing.

    Whoever orders two alone waits for their decision, and that asks for more votes than a board
    needs to tell its neighbours apart: those votes must be there to be bought.
    """
    current = Snapshot.objects.current().filter(board__arena=arena, board__category="")
    boards = with_rows(current.filter(board__raters=raters).select_related("board")).values()
    is_known = any(board.gap(*_ids(pair), forecast=False).is_known for board in boards)
    return frozenset({_ids(pair)}) if is_known else frozenset()


def _is_wanted(pair: Pair, wanted: Wanted, facts: PairFacts) -> bool:
    if _ids(pair) in facts.separated and not wanted.again:
        return False
    if wanted.pairs == "neighbours":
        return _ids(pair) in facts.neighbours
    if wanted.pairs == "new":
        return bool({pair.low_id, pair.high_id} & facts.fresh)
    return True


def _ids(pair: Pair) -> tuple[int, int]:
    return pair.low_id, pair.high_id


# -- Picks -----------------------------------------------------------------------------------------


def _picks(
    pairs: Sequence[Pair], answers: Answers, askers: Askers, wanted: Wanted
) -> dict[int, list[Pick]]:
    """Map each pair's id to all its comparisons, in the order in which they are bought."""
    if wanted.like_run is not None:
        return _picks_of_run(pairs, wanted.like_run, answers)
    lists = _lists(answers, askers.seed) if askers.listwise else None
    return {pair.pk: _picks_of(pair, answers, askers.seed, lists) for pair in pairs}


def _picks_of(
    pair: Pair, answers: Answers, seed: str, lists: Mapping[tuple[int, int], tuple[int, ...]] | None
) -> list[Pick]:
    low = answers.by_candidate.get(pair.low_id, {})
    high = answers.by_candidate.get(pair.high_id, {})
    # A list serves all its pairs, so there the prompts come in the same order for every pair.
    draw_for = 0 if lists is not None else pair.pk
    prompts = sorted(low.keys() & high.keys(), key=lambda prompt: _draw(seed, draw_for, prompt))
    picks = [Pick(pair, prompt, low[prompt], high[prompt]) for prompt in prompts]
    if lists is None:
        return picks
    shown = [(lists.get((one.prompt_id, one.low_response)), one) for one in picks]
    return [
        Pick(pair, one.prompt_id, one.low_response, one.high_response, together)
        for together, one in shown
        if together and one.high_response in together
    ]


def _lists(answers: Answers, seed: str) -> dict[tuple[int, int], tuple[int, ...]]:
    """Map (prompt, response) to the list it is shown in: three to eight answers, drawn by seed."""
    found = {}
    for prompt, responses in answers.by_prompt().items():
        drawn = sorted(responses, key=lambda response: _draw(seed, prompt, response))
        for together in _chunks(drawn):
            for response in together:
                found[prompt, response] = tuple(together)
    return found


def _chunks(drawn: Sequence[int]) -> list[Sequence[int]]:
    """Cut into as few lists as there can be, of nearly the same length; two answers are no list."""
    count = -(-len(drawn) // LONGEST_LIST)
    return [drawn[start::count] for start in range(count)] if len(drawn) >= 3 else []


def _picks_of_run(pairs: Sequence[Pair], run: Run, answers: Answers) -> dict[int, list[Pick]]:
    """What another run asked and can be judged still, to be judged by somebody else."""
    picks: dict[int, list[Pick]] = {pair.pk: [] for pair in pairs}
    of = {_ids(pair): pair for pair in pairs}
    for one in Comparison.objects.filter(run=run, judgement__isnull=False).order_by("pk"):
        left, right = one.left_response_id, one.right_response_id
        if one.prompt_id is None or left is None or right is None:
            continue
        (low, of_low), (high, of_high) = sorted([(one.left_id, left), (one.right_id, right)])
        pair = of.get((low, high))
        if pair is not None and {of_low, of_high} <= answers.lengths.keys():
            picks[pair.pk].append(Pick(pair, one.prompt_id, of_low, of_high))
    return picks


def _draw(seed: str, pair: int, prompt: int) -> bytes:
    return hashlib.sha256(f"{seed} {pair} {prompt}".encode()).digest()


# -- A judge's own family --------------------------------------------------------------------------


def without_family(
    picks: Sequence[Pick], family: str, candidate_families: Mapping[int, str]
) -> list[Pick]:
    """Drop the pairs in which an answer is of the judge's own model family."""
    own = {candidate for candidate, its in candidate_families.items() if its == family}
    return [pick for pick in picks if not own & {pick.pair.low_id, pick.pair.high_id}]


def families_in(arena: Arena) -> dict[int, str]:
    """Map each candidate to the family of its model; '' where the model is not known.

    Scripts are of no family: what a script writes gets no favour from another that judges. Nor is
    another team's candidate before it is disclosed: a quote would tell what it is made of.
    """
    guests = ~Q(team=None) & ~Q(team=arena.team_id)
    known = arena.candidates.exclude(guests, disclosed_at=None)
    rows = known.values_list("pk", "model")
    families = {pk: family_of(model) if model else "" for pk, model in rows}
    return {pk: "" if family == "scripted" else family for pk, family in families.items()}
