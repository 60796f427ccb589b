"""What a run would compare: the pairs with the fewest judgements first, and their prompts."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from arena.models import Arena, Comparison, Pair, Run
from judges.models import Judgement
from judges.services.subjects import ArenaAnswers, answers_in, key_of_pair, labelled_pairs
from judges.wording import more_with_votes
from ranking.comparison import load_difference_boards
from ranking.models import Snapshot
from ranking.services.pair_weights import PairFacts, pair_facts

PairIds = tuple[int, int]
Which = Literal["all", "neighbours", "new", "voted"]
SHORTEST_LIST, LONGEST_LIST = 3, 8
PER_PAIR, MOST_PER_PAIR = 5, 10_000  # comparisons per pair: the default and the most
UNLESS_AGAIN = "left out unless ordered again"
VOTES = {"people": "human votes", "judges": "LLM-judge votes", "juries": "jury votes"}


@dataclass(frozen=True)
class PlannedComparison:
    """A comparison to buy: a pair of candidates on one prompt, as response ids.

    `shown` is the list in which a listwise judge sees the two; empty for the other protocols.
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
class OrderOptions:
    """What to compare.

    per_pair: comparisons of each pair.
    pairs: all, neighbours on the leaderboard, those with a new candidate or with human votes.
    again: include pairs that are already decided.
    like_run: the comparisons of this run instead, to be judged by another judge.
    candidates: ids; only pairs of two of them. Empty for all.
    undecided: of the comparisons of `like_run`, only those on which it came to no verdict.
    """

    per_pair: int
    pairs: Which = "all"
    again: bool = False
    like_run: Run | None = None
    candidates: frozenset[int] = frozenset()
    undecided: bool = False

    def is_about(self, pair: Pair) -> bool:
        """Whether both candidates of the pair are included."""
        return not self.candidates or self.candidates.issuperset(_ids_of_pair(pair))


@dataclass(frozen=True)
class PlanOptions:
    """What a plan needs to know about its judges; `raters` is their board, `seed` is for draws."""

    seed: str
    listwise: bool = False
    need_reference: bool = False
    raters: str = "judges"


@dataclass(frozen=True)
class RunPlan:
    """What a run would buy, of how many pairs, and what it leaves out, in sentences."""

    picks: list[PlannedComparison]
    pairs: int
    left_out: list[str] = field(default_factory=list)


def shares_of(picks: Sequence[PlannedComparison]) -> dict[int, float]:
    """Map each pair's id to its share of these comparisons."""
    counts = Counter(pick.pair.pk for pick in picks)
    return {pair: count / len(picks) for pair, count in counts.items()}


def plan_run(
    *, arena: Arena, options: OrderOptions, judges: PlanOptions, asked: Set[str]
) -> RunPlan:
    """Choose `per_pair` comparisons for each of the ordered pairs, in rounds.

    `asked` are pairs of responses that were judged before. In rounds, so that a spending cap cuts
    the last rounds rather than the last pairs.
    """
    answers = answers_in(arena, needs_reference=judges.need_reference)
    drawn_pairs = arena.pairs.filter(weight__gt=0, shared_prompts__gt=0)
    included = [pair for pair in drawn_pairs if options.is_about(pair)]
    pairs, left_out = _ordered_pairs(arena, included, options, judges.raters)
    all_picks = _picks_by_pair(pairs, answers, judges, options)
    picks_of = {
        pk: [pick for pick in picks if not answers.are_equal(pick.low_response, pick.high_response)]
        for pk, picks in all_picks.items()
    }
    equal = sum(map(len, all_picks.values())) - sum(map(len, picks_of.values()))
    new_picks = {
        pair.pk: [pick for pick in picks_of[pair.pk] if pick.responses not in asked]
        for pair in pairs
    }

    def priority(pair: Pair) -> tuple[int, float, int]:
        return len(picks_of[pair.pk]) - len(new_picks[pair.pk]), -pair.weight, pair.pk

    queues = [new_picks[pair.pk][: options.per_pair] for pair in sorted(pairs, key=priority)]
    rounds = range(max(map(len, queues), default=0))
    picks = [queue[turn] for turn in rounds for queue in queues if turn < len(queue)]
    notes = answers.left_out + _equality_note(equal) + left_out + _shortage_note(queues, options)
    left = [len(own) for own in new_picks.values()]
    if options.pairs == "voted" and sum(left) > len(picks):
        notes.append(more_with_votes(sum(left) - len(picks), max(left)))
    return RunPlan(picks, len(pairs), notes)


def _equality_note(equal: int) -> list[str]:
    if not equal:
        return []
    comparisons = "1 comparison is" if equal == 1 else f"{equal:,} comparisons are"
    return [f"{comparisons} left out because both answers are the same."]


def _shortage_note(
    queues: Sequence[Sequence[PlannedComparison]], options: OrderOptions
) -> list[str]:
    """Explain if fewer comparisons are left than ordered."""
    bought = sum(map(len, queues))
    short = sum(len(queue) < options.per_pair for queue in queues)
    if not bought or not short or options.like_run is not None:
        return []
    pairs = "1 pair has" if short == 1 else f"{short:,} pairs have"
    why = "A judge votes once on each prompt that both answer, so more votes need more prompts."
    if options.pairs == "voted":
        why = "A judge votes once on each prompt, here only on those with human votes on the pair."
    return [
        f"{pairs} fewer than {options.per_pair:,} comparisons left, so this is {bought:,} instead "
        f"of {options.per_pair * len(queues):,}. {why}"
    ]


def _ordered_pairs(
    arena: Arena, pairs: Sequence[Pair], options: OrderOptions, raters: str
) -> tuple[list[Pair], list[str]]:
    """Leave out pairs that were not ordered, and those that these raters have decided."""
    if options.like_run is not None:
        return list(pairs), []
    if options.pairs == "voted":  # however clear the lead
        return list(pairs) if labelled_pairs(arena).exists() else [], []
    facts = pair_facts(arena=arena, raters=raters)
    decided = frozenset() if options.again else _decided_pairs(arena, pairs, raters)
    ordered = [
        pair
        for pair in pairs
        if _ids_of_pair(pair) not in decided and _is_ordered(pair, options, facts)
    ]
    clear = len(decided)
    if not clear:
        return ordered, []
    votes = VOTES.get(raters, raters)
    if len(pairs) == 1:
        note = f"The {votes} have already decided between the two"
    elif clear == 1:
        note = f"1 pair is already decided by the {votes}"
    else:
        note = f"{clear:,} pairs are already decided by the {votes}"
    return ordered, [f"{note}; {UNLESS_AGAIN}."]


def _decided_pairs(arena: Arena, pairs: Sequence[Pair], raters: str) -> frozenset[PairIds]:
    """The pairs of which one is better, for these raters at least."""
    among = {pk for pair in pairs for pk in _ids_of_pair(pair)}
    current = Snapshot.objects.current().of_arena(arena).filter(board__category="")
    boards = load_difference_boards(arena, current.filter(board__raters=raters), among)
    return frozenset(
        (low, high)
        for board in boards.values()
        for low, high in map(_ids_of_pair, pairs)
        if board.is_decided(low, high)
    )


def _is_ordered(pair: Pair, options: OrderOptions, facts: PairFacts) -> bool:
    if options.pairs == "neighbours":
        return _ids_of_pair(pair) in facts.neighbours
    if options.pairs == "new":
        return bool({pair.low_id, pair.high_id} & facts.fresh)
    return True


def _ids_of_pair(pair: Pair) -> PairIds:
    return pair.low_id, pair.high_id


def _picks_by_pair(
    pairs: Sequence[Pair], answers: ArenaAnswers, judges: PlanOptions, options: OrderOptions
) -> dict[int, list[PlannedComparison]]:
    """Map each pair's id to all its comparisons, in the order in which they are bought."""
    if options.like_run is not None:
        return _picks_of_run(pairs, options.like_run, answers, options.undecided)
    lists = _draw_lists(answers, judges.seed) if judges.listwise else None
    picks = {pair.pk: _picks_of_pair(pair, answers, judges.seed, lists) for pair in pairs}
    if options.pairs != "voted" or not pairs:
        return picks
    keys = set(labelled_pairs(pairs[0].arena))
    return {pk: [pick for pick in own if pick.responses in keys] for pk, own in picks.items()}


def _picks_of_pair(
    pair: Pair,
    answers: ArenaAnswers,
    seed: str,
    lists: Mapping[tuple[int, int], tuple[int, ...]] | None,
) -> list[PlannedComparison]:
    low = answers.by_candidate.get(pair.low_id, {})
    high = answers.by_candidate.get(pair.high_id, {})
    # A list serves all its pairs, so then the prompts come in the same order for every pair.
    draw_for = 0 if lists is not None else pair.pk
    prompts = sorted(
        low.keys() & high.keys(), key=lambda prompt: _draw_place(seed, draw_for, prompt)
    )
    picks = [PlannedComparison(pair, prompt, low[prompt], high[prompt]) for prompt in prompts]
    if lists is None:
        return picks
    listed = []
    for pick in picks:
        answer_list = lists.get((pick.prompt_id, pick.low_response), ())
        if pick.high_response in answer_list:
            listed.append(replace(pick, shown=answer_list))
    return listed


def _draw_lists(answers: ArenaAnswers, seed: str) -> dict[tuple[int, int], tuple[int, ...]]:
    """Map (prompt, response) to the list it is shown in: three to eight answers, drawn by seed."""
    lists = {}
    for prompt, responses in answers.by_prompt().items():
        if len(responses) < SHORTEST_LIST:
            continue
        drawn = sorted(responses, key=lambda response: _draw_place(seed, prompt, response))
        # As few lists as possible, of nearly the same length.
        count = -(-len(drawn) // LONGEST_LIST)
        for start in range(count):
            drawn_list = tuple(drawn[start::count])
            for response in drawn_list:
                lists[prompt, response] = drawn_list
    return lists


def _picks_of_run(
    pairs: Sequence[Pair], run: Run, answers: ArenaAnswers, undecided: bool
) -> dict[int, list[PlannedComparison]]:
    """Map each pair's id to those of its comparisons in another run that can still be judged."""
    picks: dict[int, list[PlannedComparison]] = {pair.pk: [] for pair in pairs}
    pair_of = {_ids_of_pair(pair): pair for pair in pairs}
    comparisons = Comparison.objects.filter(run=run, judgement__isnull=False)
    if undecided:
        comparisons = comparisons.filter(judgement__state__in=Judgement.UNDECIDED)
    for comparison in comparisons.order_by("pk"):
        left, right = comparison.left_response_id, comparison.right_response_id
        if comparison.prompt_id is None or left is None or right is None:
            continue
        (low, low_response), (high, high_response) = sorted(
            [(comparison.left_id, left), (comparison.right_id, right)]
        )
        pair = pair_of.get((low, high))
        if pair is not None and {low_response, high_response} <= answers.lengths.keys():
            picks[pair.pk].append(
                PlannedComparison(pair, comparison.prompt_id, low_response, high_response)
            )
    return picks


def _draw_place(seed: str, pair: int, prompt: int) -> bytes:
    return hashlib.sha256(f"{seed} {pair} {prompt}".encode()).digest()


def exclude_family(
    picks: Sequence[PlannedComparison], family: str, candidate_families: Mapping[int, str]
) -> list[PlannedComparison]:
    """Drop the comparisons in which just one answer is of the judge's own model family."""
    own = {candidate for candidate, of_model in candidate_families.items() if of_model == family}
    return [pick for pick in picks if len(own & {pick.pair.low_id, pick.pair.high_id}) != 1]
