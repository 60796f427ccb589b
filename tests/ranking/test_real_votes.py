"""Real votes, imported by the documented command, give the reference numbers on the web page."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from arena.actors import CLI
from arena.models import Arena
from arena.services.arenas import update_arena
from ranking.models import Snapshot
from tests.ranking.helpers import get_page, publish

pytestmark = [pytest.mark.any_database, pytest.mark.django_db, pytest.mark.data]


@pytest.fixture
def board(client: Client, data_dir: Path) -> Any:
    call_command("import_arena", "llmfao", str(data_dir / "crowd-votes/llmfao.csv"), quiet=True)
    call_command("refresh_boards", "llmfao")
    return client.get("/a/llmfao/results.json").json()


def test_the_crowds_votes_give_the_reference_board(client: Client, board: Any) -> None:
    standings = board["standings"]
    scores = {row["candidate"]: row["score"] for row in standings}
    assert (board["n_votes"], board["n_raters"], board["n_prompts"]) == (8931, 124, 13)
    assert len(scores) == 59
    assert [row["candidate"] for row in standings[:4]] == [
        "GPT 4",
        "Platypus-2 Instruct (70B)",
        "command",
        "ReMM SLERP L2 13B",
    ]
    assert scores["GPT 4"] == pytest.approx(1172.13, abs=0.005)
    assert scores["Claude v1"] == pytest.approx(1093.81, abs=0.005)
    assert scores["GPT 3.5 Turbo"] == pytest.approx(1091.22, abs=0.005)
    assert standings[-1]["candidate"] == "Dolly v2 (3B)"
    assert standings[-1]["score"] == pytest.approx(845.66, abs=0.005)
    assert board["choix_difference"] < 1e-4

    best = standings[0]
    assert (best["rank"], best["rank_low"], best["rank_high"]) == (1, 1, 18)
    assert best["standard_error"] == pytest.approx(43.69, rel=0.1)  # bootstrap; the sandwich's
    assert best["elo"] == pytest.approx(1095.5935, abs=5e-5)
    assert best["elo_low"] < best["elo"] < best["elo_high"]
    assert {row["candidate"]: row["elo"] for row in standings}["command"] == pytest.approx(
        1094.5451, abs=5e-5
    )
    page, about = (get_page(client, f"/a/llmfao/{name}") for name in ("", "about/"))
    assert " candidates share the lead." in page
    assert "Removing just 13 of 8,931 votes would put Platypus-2 Ins" in page
    assert "agree in 53% of cases (15,112 pairs of votes)" in page
    assert "the same one in 70% of cases (6,755)" in page
    assert "alpha is 0.29" in page
    assert "Of the 5,249 sets of three with a winner in each pair, 90%" in page
    assert "Controlled for style" not in page
    assert (best["sure_rank_low"], best["sure_rank_high"]) == (1, 53)
    assert "Controlling for style" in about
    assert "GPT 4" in page
    assert "Results only" in page


@pytest.mark.slow
def test_refresh_of_the_crowd_s_votes_takes_under_ten_seconds(
    board: Any, django_assert_max_num_queries: Any
) -> None:
    arena = Arena.objects.get(slug="llmfao")
    arena.votes.last().comparison.votes.update(void_reason="a test", voided_at="2026-01-01T00:00Z")
    with django_assert_max_num_queries(77):
        snapshot = publish(arena)
    assert snapshot.n_votes == 8930
    assert snapshot.seconds < 10


def import_variants(data_dir: Path) -> None:
    """All verdicts count, those on answers that name their model too."""
    call_command("import_arena", "variants", str(data_dir / "prompt-variants"), quiet=True)
    arena = Arena.objects.get(slug="variants")
    update_arena(arena=arena, by=CLI, self_identifying="keep")


@pytest.mark.slow
def test_soft_verdicts_of_a_real_judge_make_a_judges_board(client: Client, data_dir: Path) -> None:
    import_variants(data_dir)
    call_command("refresh_boards", "variants")
    found = client.get("/a/variants/results.json").json()
    assert (found["raters"], found["n_votes"], found["n_prompts"]) == ("judges", 4830, 805)
    assert found["settings"]["clusters"] == "prompt"
    ranked = [row for row in found["standings"] if row["rank"]]
    assert (len(ranked), len(found["standings"])) == (7, 12)
    assert ranked[0]["candidate"] == "gpt4_1106_preview"
    categories = Snapshot.objects.current().filter(board__raters="judges")
    assert categories.count() == 6
    board = get_page(client, "/a/variants/")
    assert "gpt4_1106_preview is the clear leader." in board
    about = get_page(client, "/a/variants/about/")
    assert "An answer twice as long scores about 124 Elo higher than" in about
    assert "Nobody has compared their answers yet." in board
