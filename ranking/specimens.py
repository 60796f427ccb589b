"""Specimens: what two candidates answered to a showcased prompt, with their names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import Count
from django.http import QueryDict
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from arena.language import translate_own_words
from arena.models import Arena, Candidate, Prompt, Response, Vote
from arena.outcomes import LEFT, RIGHT, TIE
from arena.services.ballots import prompt_html, response_html
from ranking.board_data import Link, choice_links, parse_id
from ranking.costs import ANSWERS
from ranking.models import Raters, Standing
from ranking.services.votes import cast_by
from ranking.wording import possible_ranks

MOST_OFFERED = 100  # candidates in a menu


@dataclass(frozen=True)
class SpecimenSide:
    """One candidate's answer; `html` is None if there is none. `tier` is 0 without tiers, `price`
    what 1,000 such answers cost, in nano-dollars."""

    candidate: Candidate
    ranks: str
    tier: int
    html: SafeString | None
    price: int | None
    seconds: float | None
    won: int


class SpecimenQuery(NamedTuple):
    """The two candidates, and the number of the specimen, that a reader asks for."""

    a: int | None = None
    b: int | None = None
    number: int | None = None

    @classmethod
    def of(cls, parameters: QueryDict) -> "SpecimenQuery":
        return cls(*(parse_id(parameters.get(name, "")) for name in ("a", "b", "specimen")))


def specimens_context(
    arena: Arena,
    standings: Sequence[Standing],
    a: int | None,
    b: int | None,
    number: int | None,
    address: Callable[..., str],
    *,
    tiers: Sequence[Sequence[int]] = (),
    chosen: str = "ab",
    category: str = "",
) -> dict[str, Any]:
    """The context of `ranking/_specimens.html`; empty if there is nothing to show.

    `standings`: the candidates of the page, the best first. `a` and `b`: the ids of the two, as the
    reader asks for them, and `number`: of the specimen, from 1. `chosen`: the sides that the reader
    can choose; unknown ids are then replaced. `category`: of the specimen, if no number is asked
    for. `address` gives the URL of the page with its parameters `a`, `b` and `specimen`, all three
    of them texts.
    """
    # Undisclosed candidates hide their texts.
    rows = {row.candidate_id: row for row in standings if row.candidate.disclosed_at}
    pair = _choose_two(list(rows), a, b, tiers, chosen)
    if pair is None:
        return {}
    showcase = arena.prompts.revealed().filter(in_showcase=True)
    prompts = list(showcase.defer(*Prompt.TEAM_ONLY).order_by("category", "pk"))
    if not prompts:
        return {}
    of_category = [n for n, each in enumerate(prompts, 1) if each.category == category]
    number = min(max(number or next(iter(of_category), 1), 1), len(prompts))
    prompt = prompts[number - 1]
    answers = Response.objects.revealed().filter(prompt=prompt, candidate__in=pair)
    by_candidate = {answer.candidate_id: answer for answer in answers}
    won, ties = _count_votes(prompt, pair)
    tier_of = {pk: tier for tier, ids in enumerate(tiers, 1) for pk in ids}
    here = {"a": str(pair[0]), "b": str(pair[1]), "specimen": str(number)}

    def side(pk: int) -> SpecimenSide:
        answer = by_candidate.get(pk)
        return SpecimenSide(
            candidate=rows[pk].candidate,
            ranks=possible_ranks(rows[pk], "–"),
            tier=min(tier_of.get(pk, 0), 4),
            html=translate_own_words(response_html(answer)) if answer else None,
            price=answer.cost * ANSWERS if answer and answer.cost is not None else None,
            seconds=answer.seconds if answer else None,
            won=won[pk],
        )

    def url(name: str) -> Callable[[str], str]:
        return lambda value: f"{address(**here | {name: value})}#specimens"

    def links(name: str, pk: int, other: int) -> list[Link]:
        offered = [each for each in list(rows)[:MOST_OFFERED] if each != other]
        choices = [(str(each), str(rows[each].candidate)) for each in dict.fromkeys([*offered, pk])]
        return choice_links(choices, str(pk), url(name))

    return {
        "specimen": {
            "prompt": prompt,
            "prompt_html": translate_own_words(prompt_html(prompt)),
            "sides": [side(pk) for pk in pair],
            "ties": ties,
            "votes": sum(won.values()) + ties,
            "a_links": links("a", *pair) if "a" in chosen else [],
            "b_links": links("b", *reversed(pair)) if "b" in chosen else [],
            "links": choice_links(
                [(str(n), _label(n, len(prompts), each)) for n, each in enumerate(prompts, 1)],
                str(number),
                url("specimen"),
            ),
        }
    }


def _choose_two(
    ids: Sequence[int],
    a: int | None,
    b: int | None,
    tiers: Sequence[Sequence[int]],
    chosen: str,
) -> tuple[int, int] | None:
    """The two to show: by default the best, and the best that it clearly differs from."""
    if any(pk not in ids for name, pk in (("a", a), ("b", b)) if name not in chosen):
        return None
    left = a if a in ids else next((pk for pk in ids if pk != b), None)
    if left is None:
        return None
    alike = next((tier for tier in tiers if left in tier), ())
    others = [pk for pk in ids if pk != left]
    right = b if b in others else next((pk for pk in others if tiers and pk not in alike), None)
    right = right or next(iter(others), None)
    return None if right is None else (left, right)


def _count_votes(prompt: Prompt, pair: tuple[int, int]) -> tuple[dict[int, int], int]:
    """How many human votes on the two answers each candidate won, and how many were ties."""
    votes = (
        Vote.objects.live().listed().filter(cast_by(Raters.PEOPLE), outcome__in=(LEFT, RIGHT, TIE))
    )
    between = votes.filter(
        comparison__prompt=prompt, comparison__left__in=pair, comparison__right__in=pair
    ).order_by()
    won, ties = dict.fromkeys(pair, 0), 0
    fields = ("comparison__left", "comparison__right", "outcome")
    for left, right, outcome, n in between.values_list(*fields).annotate(Count("pk")):
        if outcome == LEFT:
            won[left] += n
        elif outcome == RIGHT:
            won[right] += n
        else:
            ties += n
    return won, ties


def _label(number: int, total: int, prompt: Prompt) -> str:
    place = gettext("%(number)s of %(total)s") % {"number": number, "total": total}
    return f"{place} · {prompt.category}" if prompt.category else place
