"""An order of just two candidates buys votes until their decision is conclusive."""

import random
from collections.abc import Iterable
from typing import Any

import pytest
from django.core.management import CommandError

from arena.models import Arena, Candidate, Rater, Team
from judges.models import Judgement
from tests.arena.rest import team_arena, token_of
from tests.factories import make_vote, make_votes
from tests.judges.helpers import quote_page, run_command, signed_in
from tests.ranking.helpers import publish

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quiet_boards")]

SCRIPTED = "scripted:scripted-1"
PROMPTS = 120


def make_judged_arena(
    team: Team, won: int, lost: int, *, n_candidates: int = 2, kind: str = "judge"
) -> tuple[Arena, list[Candidate]]:
    """An arena where every two candidates met equally often, and the earlier one won a given
    share."""
    arena = team_arena(team, n_candidates=n_candidates, n_prompts=PROMPTS)
    candidates, prompts = list(arena.candidates.order_by("pk")), list(arena.prompts.order_by("pk"))
    other = Rater.objects.create(kind=kind, name="another judge")
    rows = [
        (upper, lower, "left" if turn < won else "right", prompt)
        for upper, lower in pairs_of(candidates)
        for turn, prompt in enumerate(prompts[: won + lost])
    ]
    make_votes(arena, rows, other)
    publish(arena)
    return arena, candidates


def pairs_of(candidates: list[Candidate]) -> Iterable[tuple[Candidate, Candidate]]:
    return ((a, b) for i, a in enumerate(candidates) for b in candidates[i + 1 :])


def quote_by_api(team: Team, arena: Arena, **body: Any) -> Any:
    usual = {"judges": [SCRIPTED], "per_pair": 50, "dry_run": True}
    return token_of(team).post(f"arenas/{arena.slug}/judge-runs/", usual | body)


def verdict(team: Team, arena: Arena, two: list[Candidate], raters: str = "judges") -> Any:
    asked = f"candidate={two[1].pk}&baseline={two[0].pk}&raters={raters}"
    return token_of(team).get(f"arenas/{arena.slug}/decision/?{asked}").json()["verdict"]


def ids(candidates: list[Candidate]) -> list[int]:
    return [one.pk for one in candidates]


def test_a_pair_is_judged_until_decided(team: Team) -> None:
    arena, two = make_judged_arena(team, 33, 17)
    assert verdict(team, arena, two) == "unknown"

    quote = quote_by_api(team, arena, candidates=ids(two)).json()
    assert (quote["comparisons"], quote["left_out"]) == (50, [])
    # What the judge was asked is not bought twice, and more of the same order is other prompts.
    quote_by_api(team, arena, candidates=ids(two), dry_run=False, cap=1)
    assert Judgement.objects.values("responses").distinct().count() == 50
    quote_by_api(team, arena, candidates=ids(two), dry_run=False, cap=1)
    assert Judgement.objects.values("responses").distinct().count() == 100


@pytest.mark.parametrize(("won", "lost"), [(90, 10), (50, 0)])
def test_what_the_decision_knows_is_not_bought(team: Team, won: int, lost: int) -> None:
    arena, two = make_judged_arena(team, won, lost)
    assert verdict(team, arena, two) == "worse"
    refused = quote_by_api(team, arena, candidates=ids(two))
    assert refused.status_code == 422
    assert refused.json()["type"] == "urn:ringside:problem:nothing-to-do"
    assert refused.json()["detail"] == (
        "This run would include no pairs. The LLM-judge votes have already decided between the two;"
        " left out unless ordered again."
    )
    assert quote_by_api(team, arena, candidates=ids(two), again=True).json()["comparisons"] == 50


def test_a_jury_asks_what_juries_know(team: Team) -> None:
    arena, two = make_judged_arena(team, 90, 10, kind="jury")
    both = [SCRIPTED, "scripted:scripted-2"]
    assert verdict(team, arena, two, "juries") == "worse"
    assert quote_by_api(team, arena, candidates=ids(two)).status_code == 200
    assert (
        "jury votes" in quote_by_api(team, arena, candidates=ids(two), judges=both).json()["detail"]
    )


def test_two_of_many_are_two_alone(team: Team) -> None:
    arena, candidates = make_judged_arena(team, 33, 17, n_candidates=3)
    assert quote_by_api(team, arena).json()["pairs"] == 3
    for two in pairs_of(candidates):
        assert quote_by_api(team, arena, candidates=ids([*two])).json()["comparisons"] == 50


def test_pairs_that_are_decided_are_left_out_whoever_else_is_ordered(team: Team) -> None:
    arena, [old, *others] = make_judged_arena(team, 0, 0, n_candidates=4)
    rater, prompts = Rater.objects.get(name="another judge"), list(arena.prompts.order_by("pk"))
    for new in others:
        won = 42 if new == others[0] else 25
        outcomes = random.Random(new.pk).sample(["left"] * won + ["right"] * (50 - won), 50)
        for outcome, prompt in zip(outcomes, prompts, strict=False):
            make_vote(arena, new, old, outcome, prompt, rater)
    publish(arena)
    assert quote_by_api(team, arena, candidates=ids([old, others[0]])).status_code == 422
    everybody = quote_by_api(team, arena, candidates=ids([old, *others])).json()
    assert everybody["pairs"] == 5
    assert "1 pair is already decided by the LLM-judge votes" in str(everybody["left_out"])


def test_the_command_and_the_page_say_the_same(team: Team, no_worker: None) -> None:
    arena, two = make_judged_arena(team, 33, 17)
    assert "50 comparisons" in quote_by_command(arena)
    page = quote_page(signed_in("boss", staff=True), arena, candidates=ids(two), per_pair="50")
    assert "<strong>1 pair</strong>, 50 comparisons" in page

    known, _ = make_judged_arena(team, 90, 10)
    with pytest.raises(CommandError, match=r"already decided between.*; --again includes them"):
        quote_by_command(known)
    page = quote_page(signed_in("chief", staff=True), known)
    assert "Tick “Include decided pairs”" in page


def quote_by_command(arena: Arena) -> str:
    return run_command("judge", arena.slug, "--judge=scripted", "--per-pair=50", "--dry-run")
