"""Everything that is served together does not reveal who wrote an answer on the ballot."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI
from arena.models import Arena, Candidate, Comparison, Prompt, Rater
from arena.services import comparisons
from arena.services.arenas import update_arena
from arena.services.prompts import retire_prompt
from ranking.exports import EXPORTS, file_names
from tests.arena.rest import token_of
from tests.factories import known, make_arena, make_person, make_team
from tests.judges.helpers import join, order, work_off
from tests.ranking.helpers import fill, publish
from tests.rows import written_once
from tests.security.requests import ask, path_of
from tests.security.table import ROWS
from tests.security.world import OUTSIDE, make_world

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


@pytest.fixture
def blind_arena() -> Arena:
    """Three candidates and twelve prompts of a team, with votes by people and by a judge."""

    def write() -> Arena:
        arena = make_arena(3, 12, slug="blind", team=make_team(), open_answers=False, held_out=20)
        fill(arena, rounds=1)
        for comparison in arena.comparisons.select_related("prompt"):
            for side in ("left", "right"):
                answer = comparison.prompt.responses.get(candidate=getattr(comparison, side))
                setattr(comparison, f"{side}_response", answer)
            comparison.save()
        work_off(order(arena, "scripted", per_pair=4))
        publish(arena)
        return arena

    return written_once("blind arena", write)


def served(client: Client, arena: Arena) -> Iterator[str]:
    """Each page, API answer and file with answers that this reader can get."""
    base = f"/api/v1/arenas/{arena.slug}"
    addresses = [f"{base}/battles/?texts=true&page_size=100", f"{base}/exports/dpo.jsonl"]
    addresses += [
        f"{base}/exports/{name}" for name in ("battles.jsonl", "battles.csv", "log.jsonl")
    ]
    addresses.append(f"{base}/exports/dpo.jsonl?raters=both")
    addresses += [f"{base}/exports/{name}" for name in file_names(EXPORTS) if "parq" not in name]
    for comparison in arena.comparisons.exclude(votes=None):
        addresses.append(reverse("comparison", args=[arena.slug, comparison.key]))
    for run in arena.runs.all():
        for judgement in run.judgements.all():
            names = reverse("judge_verdict", args=[arena.slug, run.pk, judgement.pk])
            addresses += [names, f"{names}?names=1"]
    for candidate in arena.candidates.all():
        addresses.append(reverse("candidate", args=[arena.slug, candidate.pk]))
    for address in addresses:
        answer = client.get(address)
        assert answer.status_code == 200, address
        content = answer.streaming_content if answer.streaming else [answer.content]
        yield b"".join(content).decode()


def answers_in(pages: Iterator[str]) -> set[str]:
    """Every answer of `make_arena` that the pages hold."""
    return set(re.findall(r"Answer \d+-\d+ of somebody\.", "\n".join(pages)))


def test_nothing_served_to_a_stranger_identifies_authors_better_than_chance(
    blind_arena: Arena, client: Client
) -> None:
    pages = list(served(client, blind_arena))
    assert answers_in(iter(pages)) == set()
    # A judge's input tokens, of a few pairs beside their names, give the length of each answer.
    assert not any("output tokens" in page or "<dt>Time</dt>" in page for page in pages)
    assert identified(blind_arena, "".join(pages)) <= 0.55
    for rater in (make_person() for _ in range(3)):
        assert comparisons.next_comparison(arena=blind_arena, rater=rater, now=timezone.now())
    assert answers_in(served(client, blind_arena)) == set()  # while they are on ballots
    update_arena(arena=blind_arena, by=CLI, open_answers=True, held_out=20)
    everything = "".join(served(client, blind_arena))
    assert identified(blind_arena, everything) > 0.6  # what an open arena's leaderboard says


def identified(arena: Arena, everything: str) -> float:
    """The share of pairs whose authors everything served reveals; a coin decides the rest."""
    rater, shares = make_person(), []
    while pair := comparisons.next_comparison(arena=arena, rater=rater, now=timezone.now()):
        shown = Comparison.objects.with_texts().get(pk=pair.pk)
        texts = (shown.left_response.text, shown.right_response.text)
        shares.append(1.0 if any(text in everything for text in texts) else 0.5)
        Comparison.objects.filter(pk=pair.pk).update(skipped_at=timezone.now())
    assert len(shares) == 36
    return sum(shares) / len(shares)


def test_where_nobody_can_vote_answers_are_open(blind_arena: Arena, client: Client) -> None:
    blind_arena.pairs.update(shared_prompts=0)
    Arena.objects.filter(pk=blind_arena.pk).update(held_out=0)
    assert len(answers_in(served(client, blind_arena))) == 36


def test_the_team_reads_the_authors(blind_arena: Arena) -> None:
    pages = list(served(join(blind_arena.team), blind_arena))
    assert len(answers_in(iter(pages))) == 36
    assert any("output tokens" in page for page in pages)
    battles = token_of(blind_arena.team).get(f"arenas/{blind_arena.slug}/battles/?texts=true")
    assert all(row["texts"]["left"] for row in battles.json()["results"])


def test_a_guest_reads_its_own_answers_alone(blind_arena: Arena) -> None:
    guest = make_team()
    own = blind_arena.candidates.order_by("pk")[1]
    Candidate.objects.filter(pk=own.pk).update(team=guest)
    found = answers_in(served(join(guest), blind_arena))
    assert found == {f"Answer {i}-1 of somebody." for i in range(12)}


def test_voters_see_the_authors_of_their_pair(blind_arena: Arena) -> None:
    client = join(make_team())
    vote = reverse("vote", args=[blind_arena.slug])
    key = re.findall(r'data-key="([0-9a-f-]{36})"', known(client).get(vote).text)[0]
    page = reverse("comparison", args=[blind_arena.slug, key])
    long_ago = timezone.now() - timedelta(seconds=9)
    Comparison.objects.filter(key=key).update(issued_at=long_ago)  # or the vote is too fast
    client.post(reverse("cast_vote", args=[blind_arena.slug, key]), {"outcome": "left"})
    assert len(answers_in(iter([client.get(page).text]))) == 2
    stranger = Client().get(page)
    assert answers_in(iter([stranger.text])) == set()
    assert "Hidden while people still vote on this prompt" in " ".join(stranger.text.split())
    assert "public" not in client.get(page).headers["Cache-Control"]
    rater = Rater.objects.get(user=client.session["_auth_user_id"])
    battles = client.get(f"/api/v1/arenas/{blind_arena.slug}/battles/?texts=true&page_size=100")
    mine = [row for row in battles.json()["results"] if row["texts"]["left"]]
    assert [row["comparison"] for row in mine] == [key]
    assert rater.comparisons.get(key=key)


@pytest.mark.parametrize("is_showcased", [False, True])
def test_answers_to_archived_prompts_are_everybodys(
    blind_arena: Arena, client: Client, is_showcased: bool
) -> None:
    prompt = blind_arena.prompts.order_by("pk")[3]
    retire_prompt(prompt=prompt, by=CLI, now=timezone.now())
    if is_showcased:
        since = {"in_showcase": True, "showcased_at": timezone.now()}
        Prompt.objects.filter(pk=prompt.pk).update(**since)
    assert answers_in(served(client, blind_arena)) == {
        f"Answer 3-{j} of somebody." for j in range(3)
    }


def test_open_answers_are_everybodys_but_those_held_out(blind_arena: Arena, client: Client) -> None:
    update_arena(arena=blind_arena, by=CLI, open_answers=True, held_out=40)
    blind_arena.refresh_from_db()
    kept = {p.pk for p in blind_arena.prompts.all() if p.is_held_out(blind_arena)}
    assert 0 < len(kept) < 12
    found = answers_in(served(client, blind_arena))
    texts = Prompt.objects.exclude(pk__in=kept).filter(arena=blind_arena)
    assert found == set(texts.values_list("responses__text", flat=True))
    board = client.get(f"/a/{blind_arena.slug}/about/")
    assert "Everyone can read who wrote which answer" in " ".join(board.text.split())


def test_about_the_share_asked_for_is_held_out(blind_arena: Arena) -> None:
    prompts = [Prompt(arena=blind_arena, external_id=f"p-{i}") for i in range(2000)]
    n = sum(prompt.is_held_out(blind_arena) for prompt in prompts)
    assert 330 <= n <= 470  # 20 % of 2,000, five standard errors either way


def test_a_new_arena_is_blind(db: Any) -> None:
    arena = Arena.objects.create(slug="new", name="New")
    assert (arena.open_answers, arena.held_out) == (False, 20)


@pytest.mark.slow
def test_each_address_shows_people_outside_what_its_row_says_of_answers() -> None:
    """The column `answers` of the table is exact: no more is shown, and no less."""
    world = make_world()
    names = [candidate.name for candidate in world.arena.candidates.all()]
    wrong = []
    for (name, method), row in ROWS.items():
        if method != "get":
            continue
        path = path_of(name, world.at)
        pages = [
            ask(world.callers[caller], "get", path).whole.decode(errors="replace")
            for caller in OUTSIDE
        ]
        with_texts = [page for page in pages if answers_in(iter([page]))]
        named = [page for page in with_texts if any(author in page for author in names)]
        if named or bool(with_texts) != (row.answers == "unnamed"):
            wrong.append(f"{name}: {len(with_texts)} with texts, {len(named)} with authors")
    assert not wrong, "\n".join(wrong)
