"""Errors of an order are shown where the page lands, and a valid quote stays."""

from typing import Any

import pytest
from django.test import Client

from arena.calls.models import Price
from arena.models import Run
from tests.factories import make_arena
from tests.judges.helpers import add_endpoint, post_order, quote_mark, quote_page

pytestmark = pytest.mark.django_db


def paid_judge(settings: Any) -> dict[str, Any]:
    """Fields that name a judge that costs money."""
    add_endpoint(settings, "paid", timeout=0.5)
    Price.objects.create(
        endpoint="paid", model="judge-2024-07-01", input_per_million=10**9, output_per_million=10**9
    )
    return {"scripted": [], "typed": "paid:judge-2024-07-01"}


def offer_part(html: str) -> str:
    """The page from the form's target on."""
    assert '/runs/new/#offer"' in html
    return html[html.index('<div id="offer" tabindex="-1">') :]


def test_an_error_is_reported_where_the_page_lands(staff: Client) -> None:
    html = offer_part(quote_page(staff, make_arena(), per_pair="0"))
    assert "No run was started." in html
    assert '<a href="#id_per_pair">Comparisons per pair</a>' in html
    assert "Choose at least one judge" in offer_part(quote_page(staff, make_arena(), scripted=[]))


def test_an_order_that_changed_is_reported_where_the_page_lands(staff: Client) -> None:
    answer = post_order(staff, make_arena(), do="order", quoted="of something else")
    assert "have changed since the quote" in offer_part(answer.content.decode())


@pytest.mark.parametrize(
    ("cap", "said"),
    [("", "Enter a spending cap"), ("-1", "No run was started."), ("0", "enter a cap above $0")],
)
def test_the_quote_stays_when_the_cap_is_wrong(
    staff: Client, settings: Any, cap: str, said: str
) -> None:
    arena, fields = make_arena(), paid_judge(settings)
    mark = quote_mark(quote_page(staff, arena, cap="5", **fields))
    html = post_order(staff, arena, do="order", quoted=mark, cap=cap, **fields).content.decode()
    assert said in offer_part(html)
    assert 'id="quote">Quote<' in html
    assert quote_mark(html) == mark
    assert not Run.objects.exists()


def test_a_missing_cap_is_asked_for_in_words_of_the_page(staff: Client, settings: Any) -> None:
    html = quote_page(staff, make_arena(), **paid_judge(settings))
    assert html.count("Enter a spending cap") == 1
    assert "--cap" not in html


def test_a_wrong_cap_does_not_hide_that_nobody_is_to_judge(staff: Client) -> None:
    html = offer_part(quote_page(staff, make_arena(), scripted=[], cap="-1"))
    assert "Choose at least one judge" in html
    assert 'id="quote">Quote<' not in html


def test_pairs_with_human_votes_need_some(staff: Client) -> None:
    html = offer_part(quote_page(staff, make_arena(3, 2), pairs="voted"))
    assert "No pair with human votes is left to judge." in html
    assert "has already judged" not in html


def test_neighbours_without_a_board_are_explained(staff: Client) -> None:
    html = offer_part(quote_page(staff, make_arena(3, 2), pairs="neighbours"))
    assert "empty until judges have voted here" in html
    assert "Choose “All pairs” instead." in html


def test_decided_pairs_are_bought_by_the_tick_box(
    staff: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena = make_arena(3, 2)
    every = frozenset(arena.pairs.values_list("low_id", "high_id"))
    monkeypatch.setattr("judges.services.planning._decided_pairs", lambda *_: every)
    tick = "Tick “Include decided pairs”"
    assert tick in offer_part(quote_page(staff, arena))
    assert 'id="quote">Quote<' in quote_page(staff, arena, again="on")
    assert "and tick “Include decided" in offer_part(quote_page(staff, arena, pairs="neighbours"))


def test_nothing_is_proposed_where_nothing_would_help(staff: Client) -> None:
    html = offer_part(quote_page(staff, make_arena(1, 2), pairs="neighbours"))
    assert "there is nothing to compare" in html
    assert "instead" not in html
