"""Preferences between two answers, as rows for training."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from django.db.models import Count

from arena.actors import Actor
from arena.models import Arena, Outcome, Prompt, Rater, Response
from arena.permissions import FieldVisibility
from ranking.exported_votes import answer_of, asked_of, messages_before, one_by_one
from ranking.streamed_files import Row, batches

PROMPTS_AT_ONCE, PAIRS_AT_ONCE = 50, 20_000
Votes = Counter[tuple[int, int]]
PREFERENCES = {
    "prompt": "text",
    "chosen": "text",
    "rejected": "text",
    "prompt_id": "name",
    "category": "name",
    "document": "name",
    "chosen_candidate": "name",
    "rejected_candidate": "name",
    "votes_for": "integer",
    "votes_against": "integer",
    "decided_by": "name",
}
CHATS = PREFERENCES | dict.fromkeys(("prompt", "chosen", "rejected"), "messages")
# Whose votes decide, in this order.
DECIDED_BY = {
    "people": [Rater.Kind.PERSON],
    "juries": [Rater.Kind.JURY],
    "both": [Rater.Kind.PERSON, Rater.Kind.JURY],
}
KIND_NAMES = {Rater.Kind.PERSON: "people", Rater.Kind.JURY: "juries"}


def readable_prompts(arena: Arena, actor: Actor, size: int) -> Iterator[dict[int, Prompt]]:
    """Yield the prompts, by id and a few at a time, whose answers' authors `actor` may know."""
    reader = FieldVisibility(actor, arena)
    for prompts in batches(one_by_one(arena.prompts.revealed().defer("html")), size):
        yield {prompt.pk: prompt for prompt in prompts if reader.reads_authors(prompt)}


def preferences(
    arena: Arena, actor: Actor, raters: str = "people", *, as_chats: bool = False
) -> Iterator[Row]:
    """Yield, for each prompt and two answers to it, which one more raters preferred.

    Only decisive votes count; if they are level, there is no row. With "both", juries decide if
    people do not. Answers of undisclosed candidates, and those whose authors `actor` may not know,
    are left out.
    """
    n_pairs = arena.candidates.count() ** 2
    size = min(PROMPTS_AT_ONCE, PAIRS_AT_ONCE // n_pairs + 1) if n_pairs else 1
    for prompts in readable_prompts(arena, actor, size):
        decided: set[frozenset[int]] = set()
        for kind in DECIDED_BY[raters]:
            votes = count_preferences(arena, prompts, kind)
            pairs = [pair for pair, n in votes.items() if n > votes[pair[::-1]]]
            pairs = [pair for pair in pairs if frozenset(pair) not in decided]
            decided |= {frozenset(pair) for pair in pairs}
            for prompt, chosen, rejected in _texts_of_pairs(prompts, pairs):
                pair = chosen.pk, rejected.pk
                yield {
                    "prompt": messages_before(asked_of(prompt), answer_of(chosen))
                    if as_chats
                    else prompt.text,
                    "chosen": answer_of(chosen) if as_chats else chosen.text,
                    "rejected": answer_of(rejected) if as_chats else rejected.text,
                    "prompt_id": prompt.external_id,
                    "category": prompt.category,
                    "document": prompt.document,
                    "chosen_candidate": str(chosen.candidate),
                    "rejected_candidate": str(rejected.candidate),
                    "votes_for": votes[pair],
                    "votes_against": votes[pair[::-1]],
                    "decided_by": KIND_NAMES[kind],
                }


def chat_preferences(arena: Arena, actor: Actor, raters: str = "people") -> Iterator[Row]:
    """Yield preferences whose texts are messages of a chat."""
    return preferences(arena, actor, raters, as_chats=True)


def _texts_of_pairs(
    prompts: Mapping[int, Prompt], pairs: Iterable[tuple[int, int]]
) -> Iterator[tuple[Prompt, Response, Response]]:
    ids = {response for pair in pairs for response in pair}
    texts = Response.objects.select_related("candidate").defer("html").in_bulk(sorted(ids))
    for better, worse in sorted(pairs):
        yield prompts[texts[better].prompt_id], texts[better], texts[worse]


def count_preferences(arena: Arena, prompts: Mapping[int, Prompt], kind: str) -> Votes:
    """How often raters of a kind preferred one answer to another, by (preferred id, other id)."""
    rows = (
        arena.votes.live()
        .filter(
            rater__kind=kind,
            outcome__in=[Outcome.LEFT, Outcome.RIGHT],
            comparison__prompt__in=list(prompts),
            comparison__left_response__isnull=False,
            comparison__left__disclosed_at__isnull=False,
            comparison__right__disclosed_at__isnull=False,
        )
        .values_list("comparison__left_response", "comparison__right_response", "outcome")
        .annotate(n=Count("pk"))
        .order_by()
    )
    counted: Votes = Counter()
    for left, right, outcome, n in rows:
        counted[(left, right) if outcome == Outcome.LEFT else (right, left)] += n
    return counted
