"""Reading a board in several queries while refreshes go on."""

from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from arena.models import Arena
from ranking import board_data
from ranking.models import BoardPage
from tests.factories import make_arena
from tests.ranking.helpers import cast, publish

pytestmark = pytest.mark.django_db


def test_a_snapshot_replaced_while_it_is_read_is_read_again(
    client: Client, arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(arena)
    cast(arena)
    publish(arena)  # not history: it goes when the next one comes
    real = board_data.choose_snapshot

    def choose_and_lose(*arguments: Any) -> Any:
        chosen = real(*arguments)
        monkeypatch.setattr(board_data, "choose_snapshot", real)
        cast(arena)
        publish(arena)
        return chosen

    monkeypatch.setattr(board_data, "choose_snapshot", choose_and_lose)
    assert "<strong>26</strong> votes" in client.get("/a/support/").content.decode()
    assert not BoardPage.objects.fresh("support", "html||rank|").exists()  # its epoch is over


def test_an_empty_board_costs_no_more_than_nine_queries(
    client: Client, django_assert_max_num_queries: Any
) -> None:
    publish(make_arena(n_candidates=0, slug="empty"))
    with django_assert_max_num_queries(9):
        client.get("/a/empty/")


def test_a_new_release_makes_every_page_anew(client: Client, arena: Arena) -> None:
    publish(arena)
    client.get("/a/support/")
    assert BoardPage.objects.exists()
    call_command("migrate", verbosity=0)
    assert not BoardPage.objects.exists()
