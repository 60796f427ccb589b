"""Files that are written while they are sent, in memory that does not grow with them."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from django.db.models import Count

from arena.models import Arena, Outcome, Prompt, Response
from ranking.api.rows import COLUMNS, battle, one_by_one, with_battles
from ranking.pages.results import cells

LINES_AT_ONCE = 500
PROMPTS_AT_ONCE = 50
Row = Mapping[str, Any]
Votes = Counter[tuple[int, int]]


def battles(arena: Arena) -> Iterator[Row]:
    """Yield the votes that count, in the order in which they came."""
    return map(battle, one_by_one(with_battles(arena.votes.live())))


def as_jsonl(rows: Iterable[Row]) -> Iterator[str]:
    """Yield rows as lines of JSON, many at a time."""
    for batch in _batches(rows, LINES_AT_ONCE):
        yield "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in batch)


def as_csv(rows: Iterable[Row]) -> Iterator[str]:
    """Yield battles as CSV, the line of names first; a spreadsheet runs none of the texts."""
    yield _lines([COLUMNS])
    for batch in _batches(rows, LINES_AT_ONCE):
        yield _lines(cells(row[name] for name in COLUMNS) for row in batch)


def _lines(rows: Iterable[Iterable[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()


def _batches(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    source = iter(rows)
    while batch := list(islice(source, size)):
        yield batch


# -- What people prefer, for training --------------------------------------------------------------


def preferences(arena: Arena) -> Iterator[Row]:
    """Yield, for each prompt and two answers to it, which of them more people preferred.

    Only decisive votes of people count; where as many went one way as the other, there is no row.
    Answers of candidates that are not disclosed yet stay in the house.
    """
    for prompts in _batches(one_by_one(arena.prompts.revealed().defer("html")), PROMPTS_AT_ONCE):
        yield from _of_prompts(arena, {prompt.pk: prompt for prompt in prompts})


def _of_prompts(arena: Arena, prompts: Mapping[int, Prompt]) -> Iterator[Row]:
    votes = _votes_on(arena, prompts)
    chosen = [pair for pair, n in votes.items() if n > votes[pair[::-1]]]
    ids = {response for pair in chosen for response in pair}
    texts = Response.objects.select_related("candidate").defer("html").in_bulk(sorted(ids))
    for better, worse in sorted(chosen):
        prompt = prompts[texts[better].prompt_id]
        yield _preference(prompt, texts[better], texts[worse]) | {
            "votes_for": votes[better, worse],
            "votes_against": votes[worse, better],
        }


def _votes_on(arena: Arena, prompts: Mapping[int, Prompt]) -> Votes:
    """Count how often people preferred one answer to another, by their ids."""
    rows = (
        arena.votes.live()
        .of_people()
        .filter(
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


def _preference(prompt: Prompt, better: Response, worse: Response) -> dict[str, Any]:
    return {
        "prompt": prompt.text,
        "chosen": better.text,
        "rejected": worse.text,
        "prompt_id": prompt.external_id,
        "category": prompt.category,
        "chosen_candidate": str(better.candidate),
        "rejected_candidate": str(worse.candidate),
    }
