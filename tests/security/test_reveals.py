"""Raters without a confirmed address see the names of 60 votes per network and hour, nowhere more.

Otherwise a few hundred throw-away votes say who wrote most answers of an arena.
"""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.signing import get_cookie_signer
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI
from arena.models import Arena, Candidate, Comparison, LiveConversation, Prompt, RateLimit, Vote
from arena.services import comparisons, voting
from arena.services.arenas import create_team_arena, update_arena
from arena.services.privacy import personal_data
from arena.services.raters import rater_of_person
from ranking.exports import EXPORTS, file_names
from tests.arena.test_live import answer, ask, open_live
from tests.factories import known, make_arena, make_person, make_team, make_user
from tests.judges.helpers import join
from tests.ranking.helpers import publish

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
HTMX = {"HX-Request": "true"}


@pytest.fixture
def arena(settings: Any) -> Arena:
    """A blind arena whose candidates are not mentioned on any page for other reasons."""
    settings.NAMES_PER_HOUR = 1
    arena = make_arena(2, 12, open_answers=False)
    for candidate, name in zip(arena.candidates.all(), ("Xylander", "Quibbler"), strict=True):
        Candidate.objects.filter(pk=candidate.pk).update(name=name)
    return arena


def names_in(text: str) -> set[str]:
    return set(re.findall(r"Xylander|Quibbler", text))


def open_pair(client: Client, arena: Arena) -> Comparison:
    page = known(client).get(reverse("vote", args=[arena.slug]))
    key = re.search(r'data-key="([0-9a-f-]{36})"', page.text)
    assert key is not None
    Comparison.objects.filter(key=key[1]).update(issued_at=timezone.now() - timedelta(seconds=9))
    return Comparison.objects.get(key=key[1])


def vote(client: Client, comparison: Comparison, **headers: str) -> Any:
    address = reverse("cast_vote", args=[comparison.arena.slug, comparison.key])
    return client.post(address, {"outcome": "left"}, headers=headers or HTMX)


def test_sixty_votes_are_shown_with_names_by_default(settings: Any) -> None:
    arena, network = make_arena(2, 62), "5" * 16
    for _ in range(61):
        rater = make_person()
        pair = comparisons.next_comparison(arena=arena, rater=rater, now=timezone.now())
        assert pair is not None
        voting.cast_vote(
            comparison=pair, rater=rater, outcome="tie", now=timezone.now(), network=network
        )
    assert list(Vote.objects.filter(names_withheld=True)) == [Vote.objects.order_by("pk").last()]
    assert RateLimit.objects.get(key=f"names:{network}").hits == 61


def test_beyond_the_limit_a_vote_counts_and_its_names_are_nowhere(arena: Arena) -> None:
    client = Client()
    first = open_pair(client, arena)
    assert len(names_in(vote(client, first).text)) == 2
    second = open_pair(client, arena)
    told = vote(client, second).text
    assert Vote.objects.filter(uncounted=None, voided_at=None).count() == 2
    assert names_in(told) == set()
    assert "Names are shown for 1 votes an hour" in " ".join(told.split())
    assert f'href="{reverse("sign_in")}?next={reverse("vote", args=[arena.slug])}"' in told
    at = [arena.slug, second.key]
    addresses = [
        f"{reverse('vote', args=[arena.slug])}?after={second.key}",
        f"{reverse('vote', args=[arena.slug])}?after={second.key}&named=1",
        reverse("vote_facts", args=at),
    ]
    for address in addresses:
        page = client.get(address)
        assert (page.status_code, names_in(page.text)) == (200, set()), address
    mine = client.get(reverse("my_votes", args=[arena.slug])).text
    assert mine.count("Xylander") == 1  # of the first vote
    assert str(second.key) not in mine
    for reader in (client, Client()):
        assert reader.get(reverse("comparison", args=at)).status_code == 404
    where = reverse("give_reasons", args=at)
    for form in ({"left": ["clear"], "show": "1"}, {"left": ["clear"]}):
        assert names_in(client.post(where, form, headers=HTMX).text) == set()


def test_whoever_withdraws_such_a_vote_is_not_told_that_they_saw_names(arena: Arena) -> None:
    client = Client()
    vote(client, open_pair(client, arena))
    second = open_pair(client, arena)
    vote(client, second)
    undo = reverse("undo_vote", args=[arena.slug, second.key])
    page = client.get(client.post(undo).url).text
    assert "Vote withdrawn." in page
    assert "seen the names" not in page
    assert names_in(page.split('class="floor"')[1]) == set()


def test_published_votes_cannot_be_looked_up_by_the_key_of_the_pair(arena: Arena) -> None:
    client = Client()
    first = open_pair(client, arena)
    vote(client, first)
    second = open_pair(client, arena)
    vote(client, second)
    base = f"/api/v1/arenas/{arena.slug}"
    addresses = [f"{base}/battles/?texts=true"]
    addresses += [f"{base}/exports/{name}" for name in file_names(EXPORTS) if "parq" not in name]
    found = ""
    for address in addresses:
        answered = client.get(address)
        assert answered.status_code == 200, address
        content = answered.streaming_content if answered.streaming else [answered.content]
        found += b"".join(content).decode()
    assert str(first.key) in found
    assert str(second.key) not in found
    assert len(client.get(addresses[0]).json()["results"]) == 2


def test_a_round_says_nothing_of_such_votes(arena: Arena, settings: Any) -> None:
    settings.NAMES_PER_HOUR = 9
    client = Client()
    for _ in range(10):
        last = open_pair(client, arena)
        told = vote(client, last).text
    assert "data-round" not in told
    page = client.get(reverse("round", args=[arena.slug, 1]))
    assert page.status_code == 200
    assert "Names not shown" in page.text
    assert str(last.key) not in page.text
    (candidate, *_) = page.context["choices"].best
    assert (candidate.shown, page.context["choices"].votes) == (9, 9)


def test_the_methodology_says_how_many_and_what_is_left(arena: Arena) -> None:
    publish(arena)
    page = " ".join(Client().get(reverse("about", args=[arena.slug])).text.split())
    assert "one network sees the names behind 1 votes an hour" in page
    assert "finds their votes among the published ones" in page


def test_an_arena_that_opens_its_answers_holds_a_fifth_out_unless_told_otherwise() -> None:
    names = {"name": "Large", "visibility": Arena.Visibility.PUBLIC}
    arena = create_team_arena(team=make_team(), by=CLI, **names)
    update_arena(arena=arena, by=CLI, open_answers=True)
    arena.refresh_from_db()
    for number in range(100):
        Prompt.objects.create(arena=arena, external_id=f"p-{number}", text="?")
    assert 8 <= sum(prompt.is_held_out(arena) for prompt in arena.prompts.all()) <= 32  # 3 SE


def test_a_confirmed_address_is_not_limited(arena: Arena) -> None:
    client = join(make_team())
    user = make_user("zoe")
    user.emailaddress_set.create(email=user.email, verified=True, primary=True)
    client.force_login(user)
    for _ in range(3):
        assert len(names_in(vote(client, open_pair(client, arena)).text)) == 2
    assert not RateLimit.objects.filter(key__startswith="names:").exists()


def test_who_is_signed_in_is_asked_to_confirm_an_address(arena: Arena) -> None:
    client, user = Client(), make_user("yan")
    client.force_login(user)
    vote(client, open_pair(client, arena))
    told = vote(client, open_pair(client, arena)).text
    assert f'href="{reverse("change_email")}"' in told
    rows = personal_data(user=user)["votes"]
    assert [bool(row.get("left")) for row in rows] == [True, False]
    rater = rater_of_person(user_id=user.pk)
    assert rater.votes.filter(names_withheld=True).count() == 1


def test_the_api_shows_no_more(arena: Arena) -> None:
    client, user = Client(), make_user("xena")
    client.force_login(user)
    base, shown = f"/api/v1/arenas/{arena.slug}/comparisons/", []
    for _ in range(2):
        pair = client.post(base, content_type="application/json").json()
        voted = client.post(
            f"{base}{pair['key']}/vote/", {"outcome": "left"}, content_type="application/json"
        ).json()
        again = client.get(f"{base}{pair['key']}/").json()
        shown.append((voted["state"], bool(voted["candidates"]), bool(again["candidates"])))
    assert shown == [("voted", True, True), ("voted", False, False)]


def test_another_network_has_names_of_its_own(arena: Arena, settings: Any) -> None:
    settings.TRUSTED_PROXIES = 1
    client = Client()
    for address, n_names in (("192.0.2.1", 2), ("192.0.2.77", 0), ("198.51.100.1", 2)):
        headers = HTMX | {"X-Forwarded-For": address}
        assert len(names_in(vote(client, open_pair(client, arena), **headers).text)) == n_names


def test_live_questions_and_their_file_show_no_more(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arena.calls.providers.scripted.SECONDS_AT_FIRST", 0.0)
    monkeypatch.setattr("arena.calls.providers.scripted.SECONDS_PER_WORD", 0.0)
    monkeypatch.setattr("arena.pacer.DEFAULT_PACE", 100_000.0)
    settings.NAMES_PER_HOUR = 1
    ring = open_live(make_arena(0, 1), 2)
    assert ring.live_of is not None
    client, pages = Client(), []
    rater = make_person()
    client.cookies["rater"] = get_cookie_signer(salt="rater").sign(f"{rater.pk}-")
    for _ in range(2):
        conversation = ask(ring, rater=rater, shared=True)
        answer(conversation)
        at = [ring.live_of.slug, conversation.key]
        client.post(reverse("live_vote", args=at), {"outcome": "left"})
        for reader in (client, Client()):
            page = reader.get(reverse("live_conversation", args=at)).text
            pages.append(set(re.findall(r"live-[12]", page.split("<main")[1])))
    assert pages == [{"live-1", "live-2"}] * 2 + [set()] * 2
    file = client.get(reverse("live_export", args=[ring.live_of.slug]))
    assert file.content.count(b"question_id") == 1
    assert LiveConversation.objects.count() == 2
