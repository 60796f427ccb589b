"""Real votes on the page: what a board and its methodology say of them, in words."""

from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client

pytestmark = [pytest.mark.django_db, pytest.mark.data]


def page(client: Client, address: str) -> str:
    return str(client.get(address).content.decode())


def test_the_crowds_board_says_how_little_is_sure(client: Client, data_dir: Path) -> None:
    call_command("import_arena", "llmfao", str(data_dir / "crowd-votes/llmfao.csv"), quiet=True)
    call_command("refresh_boards", "llmfao")
    board, methodology = (page(client, f"/a/llmfao/{name}") for name in ("", "methodology/"))
    assert "These results cover 13 prompts." in board
    assert "No clear number one yet: " in board
    assert "Removing just 13 of 8,931 votes would put Platypus-2 Ins" in board
    assert "agree in 53 % of cases (15,112 pairs of votes)" in board
    assert "the same one in 70 % of cases (6,755)" in board
    assert "alpha is 0.29" in board
    assert "Of the 5,249 sets of three with a winner in each pair, 90 %" in board
    assert "Style-controlled" not in board
    best = client.get("/a/llmfao/results.json").json()["standings"][0]
    assert (best["sure_rank_low"], best["sure_rank_high"]) == (1, 31)
    assert "η = 0.942" in methodology
    assert "not available: no votes, or too few, are on answers with texts" in methodology


@pytest.mark.slow
def test_the_judges_board_has_a_clear_number_one_and_style(client: Client, data_dir: Path) -> None:
    call_command("import_arena", "variants", str(data_dir / "prompt-variants"), quiet=True)
    call_command("refresh_boards", "variants")
    board = page(client, "/a/variants/")
    assert board.count("★ Clear number one") == 2
    assert "An answer twice as long scores about 124 Elo higher than" in board
    assert "These results cover" not in board
    assert "Nobody has compared their answers yet." in board
