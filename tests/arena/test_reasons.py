"""Reasons for votes: tags that the arena offers, comments, and who may give and read them."""

import re

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.models import Arena, Comparison, Reason, Vote
from arena.services import comparisons, reasons, voting
from tests.factories import known, make_arena, make_person

pytestmark = pytest.mark.django_db


def voted(arena, outcome="left"):
    rater, now = make_person(), timezone.now()
    comparison = comparisons.next_comparison(arena=arena, rater=rater, now=now)
    vote = voting.cast_vote(comparison=comparison, rater=rater, outcome=outcome, now=now)
    return comparison, vote


def give(comparison, comment="", **tags):
    return reasons.give_reasons(
        comparison=comparison, rater=comparison.rater, tags=tags, comment=comment
    )


def kept(vote):
    return sorted(vote.reasons.values_list("side", "tag", "comment"))


def test_reasons_are_replaced_by_the_last_ones_given(arena):
    comparison, vote = voted(arena)
    give(comparison, left=["clear"], right=["wrong", "too long"], comment="  Step 3 is missing. ")
    give(comparison, left=["clear", "clear"], comment="Step 3.")
    assert kept(vote) == [("both", "", "Step 3."), ("left", "clear", "")]


def test_a_fault_of_the_better_answer_is_refused(arena):
    comparison, vote = voted(arena)
    with pytest.raises(reasons.UnknownReasonError):
        give(comparison, left=["wrong"])
    with pytest.raises(reasons.UnknownReasonError):
        give(comparison, both=["clear"])
    assert kept(vote) == []


def test_without_a_vote_there_is_nothing_to_explain(arena):
    comparison, _ = voted(arena)
    Vote.objects.update(voided_at=timezone.now(), void_reason="spam")
    with pytest.raises(reasons.NotVotedError):
        give(comparison, left=["clear"])


def test_undoing_the_vote_deletes_its_reasons(arena):
    comparison, _ = voted(arena)
    give(comparison, left=["clear"], comment="Private thoughts.")
    voting.undo_vote(comparison=comparison, rater=comparison.rater, now=timezone.now())
    assert not Reason.objects.exists()


def test_the_raters_data_takes_the_reasons_along(arena):
    comparison, _ = voted(arena)
    give(comparison, comment="Mine.")
    comparison.rater.delete()
    assert not Reason.objects.exists()


def test_an_arena_offers_its_own_reasons(arena):
    Arena.objects.update(strengths="cites the law")
    arena.refresh_from_db()
    comparison, vote = voted(arena)
    with pytest.raises(reasons.UnknownReasonError):
        give(comparison, left=["clear"])
    give(comparison, left=["cites the law"])
    assert kept(vote) == [("left", "cites the law", "")]


@pytest.mark.parametrize(
    "fields",
    [
        {"side": "left", "comment": "A comment on one side."},
        {"side": "both", "tag": "clear"},
        {"side": "both"},
        {"side": "mid", "tag": "clear"},
    ],
)
def test_the_database_refuses_what_is_neither_tag_nor_comment(arena, fields):
    _, vote = voted(arena)
    with pytest.raises(IntegrityError, match="reason_is_a_tag"), transaction.atomic():
        Reason.objects.create(vote=vote, **fields)


def test_the_database_refuses_the_same_tag_twice(arena):
    _, vote = voted(arena)
    Reason.objects.create(vote=vote, side="left", tag="clear")
    with pytest.raises(IntegrityError), transaction.atomic():
        Reason.objects.create(vote=vote, side="left", tag="clear")


def cast_in_browser(arena, outcome="left"):
    client = Client()
    known(client).get(reverse("vote", args=[arena.slug]))
    comparison = Comparison.objects.latest("pk")
    client.post(reverse("cast_vote", args=[arena.slug, comparison.key]), {"outcome": outcome})
    return client, comparison


def reveal(client, comparison):
    return client.get(reverse("vote", args=[comparison.arena.slug]), {"after": comparison.key}).text


def test_the_reveal_offers_reasons_and_a_click_saves_them(arena):
    client, comparison = cast_in_browser(arena)
    page = reveal(client, comparison)
    assert 'name="left" value="clear"' in page
    assert 'name="right" value="missing step"' in page
    saved = client.post(
        reverse("give_reasons", args=[arena.slug, comparison.key]),
        {"left": ["clear"], "comment": "<b>bold</b>"},
        headers={"HX-Request": "true"},
    )
    assert saved.status_code == 200
    assert kept(Vote.objects.get()) == [("both", "", "<b>bold</b>"), ("left", "clear", "")]
    page = client.get(reverse("comparison", args=[arena.slug, comparison.key])).text
    assert "&lt;b&gt;bold&lt;/b&gt;" in page


def test_somebody_else_cannot_give_reasons(arena):
    _, comparison = cast_in_browser(arena)
    where = reverse("give_reasons", args=[arena.slug, comparison.key])
    Client().post(where, {"left": ["clear"]})
    assert not Reason.objects.exists()


def test_comments_are_read_by_those_who_may_read_the_answers():
    arena = make_arena(open_answers=False)
    client, comparison = cast_in_browser(arena)
    give(comparison, comment="The second one invents a law.")
    where = reverse("comparison", args=[arena.slug, comparison.key])
    assert "invents a law" not in Client().get(where).text
    assert "invents a law" in known(client).get(where).text


def test_the_guide_is_one_line_that_opens(arena):
    Arena.objects.update(guide="Prefer **short** answers. <script>\n\nFacts come first.")
    page = Client().get(reverse("vote", args=[arena.slug])).text
    guide = page.split('<details class="guide">')[1].split("</details>")[0]
    line, whole = guide.split("</summary>")
    assert "<span>Prefer short answers." in line
    assert "Facts" not in line
    assert "<strong>short</strong>" in whole
    assert "Facts come first." in whole
    assert "<script>" not in guide


def test_the_likeliest_reasons_come_first_for_ties_too(arena):
    for outcome in ("left", "right", "left"):
        give(voted(arena, outcome)[0], **{outcome: ["good tone"]})
    for outcome, field in (("left", "left"), ("tie", "both")):
        client, comparison = cast_in_browser(arena, outcome)
        likely = reveal(client, comparison).split('class="likely"')[1].split("</fieldset>")[0]
        assert re.findall(r'name="(\w+)"\s+value="([^"]+)"', likely)[0] == (field, "good tone")
        assert likely.count("<input") == 3


def test_a_reason_for_both_answers_is_kept_for_each(arena):
    client, comparison = cast_in_browser(arena, "both_bad")
    where = reverse("give_reasons", args=[arena.slug, comparison.key])
    client.post(where, {"both": ["wrong"]})
    assert kept(Vote.objects.get()) == [("left", "wrong", ""), ("right", "wrong", "")]
