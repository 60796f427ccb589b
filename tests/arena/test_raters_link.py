"""The link that lets raters from outside vote in a private arena, and see nothing else of it."""

import re
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from arena.actors import CLI
from arena.models import Arena, AuditEntry, Vote
from arena.services.arenas import create_raters_link, revoke_raters_link
from tests.arena.teams import signed_in
from tests.factories import known, make_arena, make_member, make_user
from tests.security.requests import ADDRESSES

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


@pytest.fixture
def private(team: Any) -> Arena:
    arena = make_arena(2, 4, slug="ours", team=team, visibility="private")
    for number, candidate in enumerate(arena.candidates.all()):
        candidate.name = f"secretname{number}"
        candidate.save()
    return arena


def link_of(arena: Arena) -> str:
    create_raters_link(arena=arena, by=CLI)
    arena.refresh_from_db()
    return reverse("raters_link", args=[arena.slug, arena.raters_secret])


def holder_of(arena: Arena) -> Client:
    client = Client()
    assert client.get(link_of(arena)).url == reverse("vote", args=[arena.slug])
    return client


def vote(client: Client, arena: Arena, page: str = "cast_vote", **how: Any) -> Any:
    shown = known(client).get(reverse("vote", args=[arena.slug])).context["ballot"]
    address = reverse(page, args=[arena.slug, shown.key])
    return client.post(address, {"outcome": "left", "seconds": 9}, **how)


def test_who_follows_the_link_votes_undoes_and_goes_on(private: Arena) -> None:
    client = holder_of(private)
    cast = vote(client, private)
    page = client.get(cast.url)
    assert "Vote saved." in page.text
    assert Vote.objects.get().channel == "browser"
    last = Vote.objects.get().comparison
    client.post(reverse("undo_vote", args=[private.slug, last.key]))
    assert not Vote.objects.live().exists()
    ahead = reverse("next_pair", args=[private.slug])
    shown = known(client).get(reverse("vote", args=[private.slug])).context["ballot"]
    assert client.get(ahead, {"besides": shown.key}).status_code == 200
    after = vote(client, private, headers=HTMX, query_params={"with_next": "1"})
    assert "Vote saved." in after.text


def test_a_preview_becomes_a_vote_of_the_links_holder(private: Arena) -> None:
    client = holder_of(private)
    preview = client.get(reverse("vote", args=[private.slug])).text
    key = re.search(r'data-key="([0-9a-f-]{36})"', preview)
    sealed = re.search(r'name="sealed" value="([^"]+)"', preview)
    assert key
    assert sealed
    form = {"outcome": "left", "sealed": sealed[1]}
    address = reverse("cast_vote", args=[private.slug, key[1]])
    assert Client().post(address, form).status_code == 404
    assert client.post(address, form).status_code == 302
    assert Vote.objects.count() == 1


def test_the_pages_of_a_holder_name_no_candidate_and_lead_nowhere_else(private: Arena) -> None:
    client = holder_of(private)
    pages = [known(client).get(reverse("vote", args=[private.slug])).text]
    for outcome in ("left", "right", "tie", "both_bad"):
        shown = known(client).get(reverse("vote", args=[private.slug])).context["ballot"]
        address = reverse("cast_vote", args=[private.slug, shown.key])
        pages.append(client.post(address, {"outcome": outcome}, headers=HTMX).text)
        pages.append(
            known(client).get(reverse("vote", args=[private.slug]), {"after": shown.key}).text
        )
        undone = client.post(reverse("undo_vote", args=[private.slug, shown.key]), headers=HTMX)
        pages.append(undone.text)
    pages.append(client.get(reverse("vote", args=[private.slug])).text)
    assert "All done" in pages[-1]
    for page in pages:
        assert "secretname" not in page
        links = set(re.findall(r'(?:href|action)="(/a/[^"]*)"', page))
        assert all(link.startswith(reverse("vote", args=[private.slug])) for link in links)
        assert "data-facts" not in page


VOTING = {"vote", "next_pair", "cast_vote", "undo_vote", "give_reasons", "object_to_hold"}


def test_a_holder_finds_nothing_but_voting(private: Arena) -> None:
    client, other = holder_of(private), make_arena(2, 2, slug="other", team=private.team)
    vote(client, private)
    key = Vote.objects.get().comparison.key
    at = {"slug": private.slug, "pk": private.candidates.all()[0].pk, "key": key}
    tried = 0
    for name, spelled in ADDRESSES.items():
        if not re.match("(a|api/v1/arenas)/<slug", spelled) or name in VOTING:
            continue
        path = "/" + re.sub(r"<\w+:(\w+)>", lambda found: str(at.get(found[1], 1)), spelled)
        assert client.get(path).status_code in (401, 404, 405), name
        assert client.post(path).status_code in (401, 404, 405), name
        tried += 1
    assert tried > 40
    Arena.objects.filter(pk=other.pk).update(visibility="private")
    assert known(client).get(reverse("vote", args=[other.slug])).status_code == 404


def test_a_stranger_gets_what_a_missing_arena_answers(private: Arena) -> None:
    holder_of(private)
    missing = Client().get("/a/no-such-arena/vote/")
    stranger = Client()
    stranger.cookies["invitation"] = "x" * 64
    for client in (Client(), stranger, signed_in(make_user())):
        assert known(client).get(reverse("vote", args=[private.slug])).status_code == 404
    wrong = Client().get(reverse("raters_link", args=[private.slug, "x" * 64]))
    assert wrong.status_code == missing.status_code == 404
    assert not wrong.cookies
    plain = Client().get(reverse("vote", args=[private.slug])).text
    assert plain.replace(private.slug, "no-such-arena") == missing.text


def test_the_secret_stays_within_the_voting_addresses(private: Arena) -> None:
    client = holder_of(private)
    cookie = client.cookies["invitation"]
    assert cookie["path"] == reverse("vote", args=[private.slug])
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    assert private.raters_secret not in known(client).get(reverse("vote", args=[private.slug])).text


def test_a_revoked_link_works_no_more_and_a_new_one_is_another(private: Arena) -> None:
    client, link = holder_of(private), link_of(private)
    client.get(link)
    shown = known(client).get(reverse("vote", args=[private.slug])).context["ballot"]
    revoke_raters_link(arena=private, by=CLI)
    assert client.get(link).status_code == 404
    for page in ("vote", "next_pair"):
        assert client.get(reverse(page, args=[private.slug])).status_code == 404
    address = reverse("cast_vote", args=[private.slug, shown.key])
    assert client.post(address, {"outcome": "left"}).status_code == 404
    assert link_of(private) != link
    assert client.get(link).status_code == 404


def test_an_arena_for_members_takes_no_votes_by_link(private: Arena) -> None:
    client = holder_of(private)
    Arena.objects.filter(pk=private.pk).update(voters="members")
    assert known(client).get(reverse("vote", args=[private.slug])).status_code == 404


def test_an_owner_creates_shows_and_revokes_the_link(private: Arena, owner: Client) -> None:
    orders = reverse("vote_orders", args=[private.slug])
    page = owner.get(orders).text
    assert "Create a link for raters" in page
    change = reverse("change_raters_link", args=[private.slug])
    owner.post(change, {"action": "create"})
    private.refresh_from_db()
    link = reverse("raters_link", args=[private.slug, private.raters_secret])
    assert f"{settings.SITE_URL}{link}" in owner.get(orders).text
    assert f"{settings.SITE_URL}{link}" in owner.get(f"/a/{private.slug}/manage/").text
    viewer = signed_in(make_member(private.team, "viewer").user)
    assert link not in viewer.get(orders).text
    assert link not in viewer.get(f"/a/{private.slug}/manage/").text
    owner.post(change, {"action": "revoke"})
    assert link not in owner.get(orders).text
    done = AuditEntry.objects.filter(action__endswith="link for raters").order_by("pk")
    assert [entry.action.split()[0] for entry in done] == ["created", "revoked"]


def test_a_private_arenas_pages_send_no_rater_to_a_missing_page(
    private: Arena, owner: Client
) -> None:
    page = owner.get(f"/a/{private.slug}/manage/").text
    assert "Send raters this link" not in page
    assert reverse("vote_orders", args=[private.slug]) in page
    Arena.objects.filter(pk=private.pk).update(visibility="unlisted")
    assert "Send raters this link" in owner.get(f"/a/{private.slug}/manage/").text
