"""Prompts whose answers everybody may read with their authors, and on which nobody votes."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import ANONYMOUS, CLI
from arena.management.commands.import_arena import run_import
from arena.models import Arena, Comparison, Pair, Prompt
from arena.permissions import can_read_authors, readable_votes
from arena.services import comparisons, voting
from arena.services.arenas import update_arena
from arena.services.exports import export_arena
from arena.services.imports import Options
from arena.services.pairs import sync_pairs
from arena.services.prompts import (
    PromptError,
    bring_back_prompt,
    bring_back_prompts,
    remove_from_showcase,
    retire_prompt,
    showcase_prompt,
    suggest_for_showcase,
)
from tests.arena.teams import signed_in
from tests.factories import make_arena, make_member, make_person, make_team, make_vote

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
NOW = timezone.now()


def make_large(n_prompts: int = 42, **fields: Any) -> Arena:
    return make_arena(2, n_prompts, **{"team": make_team(), "open_answers": False} | fields)


def showcase(prompt: Prompt) -> Prompt:
    showcase_prompt(prompt=prompt, by=CLI, now=NOW)
    return prompt


def test_a_showcased_prompt_leaves_voting_and_names_its_authors() -> None:
    arena = make_large()
    first, other = arena.prompts.order_by("pk")[:2]
    assert not can_read_authors(ANONYMOUS, arena, first)
    showcase(first)
    assert (first.in_showcase, first.showcased_at, first.retired_at) == (True, NOW, NOW)
    assert can_read_authors(ANONYMOUS, arena, first)
    assert not can_read_authors(ANONYMOUS, arena, other)
    assert Pair.objects.get(arena=arena).shared_prompts == 41
    assert first.pk not in [issued(arena).prompt_id for _ in range(60)]


def vote_on(prompt: Prompt) -> None:
    left, right = prompt.arena.candidates.order_by("pk")
    make_vote(prompt.arena, left, right, "left", prompt)


def issued(arena: Arena) -> Comparison:
    comparison = comparisons.next_comparison(arena=arena, rater=make_person(), now=NOW)
    assert comparison
    return comparison


def test_its_votes_still_count_and_an_open_pair_takes_none() -> None:
    arena = make_large()
    voted, waiting = issued(arena), issued(arena)
    voting.cast_vote(comparison=voted, rater=voted.rater, outcome="left", now=NOW)
    assert waiting.prompt
    for comparison in (voted, waiting):
        assert comparison.prompt
        if not comparison.prompt.in_showcase:
            showcase(Prompt.objects.get(pk=comparison.prompt.pk))
    assert arena.votes.live().count() == 1
    waiting = Comparison.objects.get(pk=waiting.pk)
    later = NOW + timedelta(seconds=9)
    with pytest.raises(voting.ExpiredError):
        voting.cast_vote(comparison=waiting, rater=waiting.rater, outcome="left", now=later)
    assert comparisons.next_comparison(arena=arena, rater=waiting.rater, now=later) != waiting


def test_at_least_forty_prompts_stay_in_voting() -> None:
    arena = make_large(41)
    first, second, third = arena.prompts.order_by("pk")[:3]
    arena.candidates.order_by("pk")[0].responses.filter(prompt=third).delete()
    sync_pairs(arena=arena)
    with pytest.raises(PromptError, match="Only 39 other prompts can be voted on"):
        showcase(first)
    retire_prompt(prompt=second, by=CLI, now=NOW)
    with pytest.raises(PromptError, match="Only 39 other prompts"):
        showcase(second)


def test_held_out_and_unanswered_prompts_and_a_third_of_a_category_are_refused() -> None:
    arena = make_large(50)
    prompts = list(arena.prompts.filter(category="category-0").order_by("pk"))
    prompts[3].responses.all()[0].delete()
    with pytest.raises(PromptError, match="fewer than two answers"):
        showcase(prompts[3])
    showcase(prompts[0])
    showcase(prompts[1])
    with pytest.raises(PromptError, match="already has 2 prompts of the category"):
        showcase(prompts[2])
    remove_from_showcase(prompt=prompts[0], by=CLI)
    showcase(prompts[2])
    update_arena(arena=arena, by=CLI, held_out=100)
    with pytest.raises(PromptError, match="held out"):
        showcase(arena.prompts.filter(category="category-1")[0])


def test_a_prompt_that_was_ever_showcased_never_comes_back() -> None:
    arena = make_large()
    prompt = showcase(arena.prompts.earliest("pk"))
    for _ in range(2):
        with pytest.raises(PromptError, match="never be voted on again"):
            bring_back_prompt(prompt=prompt, by=CLI)
        assert bring_back_prompts(arena=arena, prompts=arena.prompts.all(), by=CLI) == 0
        remove_from_showcase(prompt=prompt, by=CLI)
    assert (prompt.in_showcase, prompt.retired_at) == (False, NOW)
    assert can_read_authors(ANONYMOUS, arena, prompt)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"showcased_at": NOW}, "prompt_once_showcased_is_archived"),
        ({"in_showcase": True}, "prompt_in_the_showcase_since"),
    ],
)
def test_the_database_refuses_a_showcased_prompt_in_voting(
    fields: dict[str, Any], name: str
) -> None:
    arena = make_arena(0, 1)
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        arena.prompts.update(**fields)


def test_suggested_are_the_prompts_with_the_most_votes() -> None:
    arena = make_large(44)
    prompts = list(arena.prompts.order_by("pk")[:10])
    for n, prompt in enumerate(prompts):
        for _ in range(1 + n // 2):
            vote_on(prompt)
    prompts[9].responses.all()[0].delete()
    suggested = suggest_for_showcase(arena)
    assert [prompts.index(prompt) for prompt in suggested] == [8, 6, 7, 5]
    showcase(prompts[6])
    assert [prompts.index(prompt) for prompt in suggest_for_showcase(arena)] == [8, 7, 5]
    assert suggest_for_showcase(make_large(40)) == []


def test_votes_that_anybody_can_read_are_those_on_prompts_out_of_voting() -> None:
    arena = make_large()
    prompts = list(arena.prompts.order_by("pk")[:5])
    for prompt in prompts:
        vote_on(prompt)
    showcase(prompts[1])
    retire_prompt(prompt=prompts[2], by=CLI, now=NOW)

    def readable(arena: Arena) -> set[int]:
        votes = arena.votes.filter(readable_votes(ANONYMOUS, arena))
        voted = [vote.comparison.prompt for vote in votes]
        return {prompts.index(prompt) for prompt in voted if prompt}

    assert readable(arena) == {1, 2}
    for held_out in (0, 60):
        update_arena(arena=arena, by=CLI, open_answers=True, held_out=held_out)
        arena = Arena.objects.get(pk=arena.pk)
        by_row = {n for n, p in enumerate(prompts) if _reads(arena, p)}
        assert {1, 2} <= by_row
        assert readable(arena) == by_row
    assert arena.votes.filter(readable_votes(CLI, arena)).count() == 5


def _reads(arena: Arena, prompt: Prompt) -> bool:
    return can_read_authors(ANONYMOUS, arena, Prompt.objects.get(pk=prompt.pk))


def test_the_showcase_is_kept_in_an_export(tmp_path: Path) -> None:
    arena = make_large(held_out=0)
    showcase(arena.prompts.earliest("pk"))
    export_arena(arena=arena, target=tmp_path / "out")
    assert '"showcased": true' in (tmp_path / "out" / "prompts.jsonl").read_text()
    run_import("other", [tmp_path / "out"], Options(format_name="native"), quiet=True)
    other = Arena.objects.get(slug="other")
    showcased = [p.external_id for p in other.prompts.filter(in_showcase=True)]
    held_out = other.prompts.get(external_id="p0").is_held_out(other)
    assert showcased == ([] if held_out else ["p0"])


def test_the_team_chooses_on_its_page() -> None:
    team = make_team()
    arena, member = make_large(team=team), signed_in(make_member(team).user)
    prompt = arena.prompts.earliest("pk")
    vote_on(prompt)
    page = reverse("manage_prompts", args=[arena.slug])
    url = reverse("showcase_prompt", args=[arena.slug, prompt.pk])
    assert "Visitors will see who wrote each answer" in member.get(page).content.decode()
    shown = member.post(url, follow=True).content.decode()
    assert "is in the showcase" in shown
    prompt.refresh_from_db()
    assert prompt.in_showcase
    restore = reverse("retire_prompts", args=[arena.slug]) + "?state=all"
    refused = member.post(restore, {"do": "bring_back", "prompt": prompt.pk}, follow=True)
    assert "never be voted on again" in refused.content.decode()
    own = member.get(reverse("edit_prompt", args=[arena.slug, prompt.pk])).content.decode()
    assert "In the showcase" in own
    assert "Restore prompt" not in own
    assert (
        "removed from the showcase"
        in member.post(url, {"action": "remove"}, follow=True).content.decode()
    )
    assert Client().post(url).status_code in (302, 403)
