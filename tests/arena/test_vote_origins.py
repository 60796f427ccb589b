"""Whose vote it is, and whether it counts: channels, seconds, networks, and an arena's rules."""

from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.apps import apps
from django.db import IntegrityError, connection, transaction
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI
from arena.models import Arena, Comparison, NetworkKey, Rater, Response, Vote
from arena.services import comparisons, rate_limits, raters, voting
from arena.services.arenas import update_arena
from arena.services.expiry import delete_old_rows
from ranking.log import verification
from ranking.models import Snapshot
from ranking.services.votes import read_only
from tests.factories import (
    known,
    make_arena,
    make_member,
    make_person,
    make_team,
    make_user,
    make_vote,
    rewrite_answers,
)
from tests.ranking.helpers import claim, make_voted_arena, publish

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def issue(arena: Arena, rater: Rater) -> Comparison:
    issued = comparisons.next_comparison(arena=arena, rater=rater, now=NOW)
    assert issued is not None
    return issued


def cast(arena: Arena, rater: Rater, **origin: Any) -> Vote:
    vote = voting.cast_vote(
        comparison=issue(arena, rater), rater=rater, outcome="left", now=NOW, **origin
    )
    told = vote.uncounted  # what the rater is told at once
    vote.refresh_from_db()
    assert vote.uncounted == told
    return vote


def person(*, verified: bool = False) -> Rater:
    user = make_user()
    if verified:
        EmailAddress.objects.create(user=user, email=user.email, verified=True)
    return raters.rater_of_person(user_id=user.pk)


def member_of(arena: Arena) -> Rater:
    return raters.rater_of_person(user_id=make_member(arena.team).user_id)


def test_every_vote_keeps_its_channel() -> None:
    arena = make_arena(team=make_team())
    named = raters.rater_of_name(arena=arena, name="anna", now=NOW)
    voters = [make_person(), person(), person(verified=True), member_of(arena), named]
    voters.append(Rater.objects.create(kind=Rater.Kind.JUDGE, name="judge"))
    votes = [cast(arena, rater) for rater in voters]
    assert [vote.channel for vote in votes] == [
        *("browser", "signed_in", "signed_in", "invited", "token", "")
    ]
    assert [vote.verified for vote in votes] == [False, False, True, True, False, False]


def test_the_page_s_seconds_are_kept_within_those_since_the_pair_was_issued() -> None:
    pair = Comparison(issued_at=NOW)
    later = NOW + timedelta(seconds=20)
    told = {"3.5": 3.5, "": 20, "99": 20, "-4": 0, "nan": 20, "inf": 20, "no": 20}
    assert {text: voting.seconds_open(pair, later, text) for text in told} == told


def test_a_vote_by_page_keeps_seconds_and_network_and_is_one_more_statement_than_before(
    client: Client,
) -> None:
    arena = make_arena()
    page = known(client).get(reverse("vote", args=[arena.slug]))
    Comparison.objects.update(issued_at=timezone.now() - timedelta(seconds=9))
    pair = Comparison.objects.get()
    assert page.status_code == 200
    address = reverse("cast_vote", args=[arena.slug, pair.key])
    client.post(address, {"outcome": "left", "seconds": "4.25"})
    vote = Vote.objects.get()
    assert (vote.seconds, len(vote.network), vote.uncounted) == (4.25, 16, None)


def test_addresses_of_one_network_have_one_hash_until_the_key_is_replaced() -> None:
    rate_limits._keys.clear()

    def hash_of(address: str, days: int = 0) -> str:
        request = RequestFactory().get("/", REMOTE_ADDR=address)
        return rate_limits.network_of(request, now=NOW + timedelta(days=days))

    assert hash_of("192.0.2.1") == hash_of("192.0.2.250") == hash_of("::ffff:192.0.2.9")
    assert hash_of("2001:db8:1:1::1") == hash_of("2001:db8:1:ffff::9")
    others = {"192.0.2.1", "192.0.3.1", "2001:db8:1::1", "2001:db8:2::1"}
    assert len({hash_of(address) for address in others}) == 4
    old = hash_of("192.0.2.1")
    first = NetworkKey.objects.get().key
    assert hash_of("192.0.2.1", days=30) != old
    assert NetworkKey.objects.get().key != first
    delete_old_rows(now=NOW + timedelta(days=90))
    assert not NetworkKey.objects.exists()
    rate_limits._keys.clear()


@pytest.mark.parametrize(
    ("seconds", "length", "is_rushed"),
    [(0.4, 20, True), (0.6, 20, False), (1.3, 4000, True), (1.6, 90_000, False), (None, 20, False)],
)
def test_what_nobody_can_have_read_does_not_count(
    seconds: float | None, length: int, is_rushed: bool
) -> None:
    arena = make_arena(2, 1)
    rewrite_answers("x" * (length // 2))
    vote = cast(arena, make_person(), seconds=seconds)
    assert (vote.rushed, vote.uncounted) == (is_rushed, "rushed" if is_rushed else None)


def test_an_arena_chooses_whose_votes_count() -> None:
    arena = make_arena(team=make_team(), counts_tokens=False)
    named = raters.rater_of_name(arena=arena, name="anna", now=NOW)
    voters = [make_person(), person(verified=True), member_of(arena), named]
    for rater in voters:
        cast(arena, rater)

    def uncounted(**fields: Any) -> list[str | None]:
        update_arena(arena=arena, by=CLI, **fields)
        return list(arena.votes.order_by("pk").values_list("uncounted", flat=True))

    assert uncounted(counts="verified") == ["tier", None, None, "channel"]
    assert uncounted(counts="invited") == ["tier", "tier", None, "channel"]
    assert uncounted(counts="anyone", counts_tokens=True) == [None] * 4
    assert uncounted(counts_tokens=False) == [None, None, None, "channel"]
    assert uncounted(visibility="unlisted") == [None] * 4  # its leaderboard is not public
    assert cast(arena, named).uncounted is None


def test_votes_on_answers_that_reveal_their_author_follow_the_setting() -> None:
    arena = make_arena(2, 4)
    Response.objects.filter(prompt__external_id="p0").update(names_itself=True)
    rater = make_person()
    votes = {cast(arena, rater).pk for _ in range(4)}
    named = Vote.objects.get(comparison__names_itself=True)
    assert named.uncounted == "named"
    assert Vote.objects.live().count() == len(votes) - 1
    for choice in ("keep", "mask"):
        update_arena(arena=arena, by=CLI, self_identifying=choice)
        assert Vote.objects.live().count() == 4
    update_arena(arena=arena, by=CLI, self_identifying="drop")
    assert Vote.objects.live().count() == 3


def test_masked_answers_are_voted_on_without_their_names(client: Client) -> None:
    arena = make_arena(2, 1, self_identifying="mask")
    text = "As Claude, I was made by Anthropic. candidate-0 says so."
    Response.objects.filter(candidate__name="candidate-0").update(text=text, names_itself=True)
    page = known(client).get(reverse("vote", args=[arena.slug])).text
    assert "[name hidden], I was made by [name hidden]. [name hidden] says so." in page
    assert "Claude" not in page
    update_arena(arena=arena, by=CLI, self_identifying="keep")
    assert "As Claude, I was made" in known(client).get(reverse("vote", args=[arena.slug])).text


def test_the_rules_move_votes_in_and_out_of_the_leaderboard_without_a_trace() -> None:
    arena = make_voted_arena()
    candidates = list(arena.candidates.order_by("pk"))
    prompt = arena.prompts.first()
    publish(arena)
    before = counts_of(arena)
    vote = make_vote(arena, candidates[0], candidates[1], "left", prompt, make_person())
    Comparison.objects.filter(pk=vote.comparison_id).update(names_itself=True)
    publish(arena)
    assert counts_of(arena) != before
    voting.apply_rules(arena=arena)
    snapshot = publish(arena)
    assert counts_of(arena) == before == recount(arena)
    assert snapshot.settings["left_out"] == {"named": 1}
    page = " ".join(Client().get(reverse("board", args=[arena.slug])).text.split())
    assert "1 vote not counted: 1 on pairs in which an answer reveals its author." in page
    update_arena(arena=arena, by=CLI, self_identifying="keep")
    publish(arena)
    assert counts_of(arena) != before
    assert counts_of(arena) == recount(arena)
    links = arena.log_links.order_by("number").values_list("kind", "n_rows")
    assert list(links)[-3:] == [("cast", 1), ("held", 1), ("released", 1)]
    assert check(arena) == []


def check(arena: Arena) -> list[str]:
    return verification.verify(arena_id=arena.pk, token=claim(arena)).sentences


def counts_of(arena: Arena) -> bytes:
    """What the people's leaderboard counts."""
    of_people = {"board__raters": "people", "board__category": ""}
    return bytes(Snapshot.objects.current().get(board__arena=arena, **of_people).matrices.cells)


def recount(arena: Arena) -> bytes:
    return read_only(arena, Vote.objects.live().filter(arena=arena)).pairs().pack()


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"channel": "pigeon"}, "vote_channel_known"),
        ({"seconds": -1.0}, "vote_seconds_not_negative"),
        ({"uncounted": "disliked"}, "vote_uncounted_known"),
        ({"rushed": True, "uncounted": None}, "vote_rushed_does_not_count"),
        ({"uncounted": "held"}, "vote_held_by_a_hold"),
    ],
)
def test_the_database_refuses(fields: dict[str, Any], constraint: str) -> None:
    cast(make_arena(), make_person())
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        Vote.objects.update(**fields)


def test_leaderboards_of_before_count_what_they_counted() -> None:
    arena, empty = make_arena(team=make_team(), counts_tokens=False), make_arena()
    voters = [make_person(), person(verified=True)]
    voters.append(raters.rater_of_name(arena=arena, name="anna", now=NOW))
    for rater in voters:
        cast(arena, rater)
    Vote.objects.update(channel="", verified=False, uncounted=None)
    with connection.cursor() as editor:
        import_module("arena.migrations.0026_votes_have_origins").fill(apps, editor)
    votes = arena.votes.order_by("pk")
    assert list(votes.values_list("channel", "verified")) == [
        ("browser", False),
        ("signed_in", True),
        ("token", False),
    ]
    arena.refresh_from_db()
    empty.refresh_from_db()
    assert (arena.self_identifying, arena.counts_tokens) == ("keep", True)
    assert empty.self_identifying == "drop"
    assert voting.apply_rules(arena=arena) == 0
