"""Recomputing the tallies: only drift is found, reported and corrected."""

from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from arena.models import Arena
from ranking.models import Board, ClusterTally, EloCheckpoint, Tally, TallyDelta
from ranking.services import cluster_tallies
from ranking.tallies import VoteCounts
from tests.ranking.helpers import cast, claim, drift, make_voted_arena, publish

pytestmark = pytest.mark.django_db


@pytest.fixture
def arena(db: None) -> Arena:
    """Three candidates, four prompts in two categories, 24 votes of one person."""
    return make_voted_arena(n_prompts=4, rounds=2)


def test_drift_is_found_reported_and_mended(arena: Arena, capsys: Any) -> None:
    publish(arena)
    good = bytes(Tally.objects.get(arena=arena, raters="people", category="").cells)
    Tally.objects.filter(category="").update(cells=VoteCounts.none().pack())
    with pytest.raises(CommandError, match="had drifted"):
        call_command("rebuild_tallies", arena.slug)
    assert "people, all categories: 0 votes instead of 24" in capsys.readouterr().out
    assert bytes(Tally.objects.get(arena=arena, raters="people", category="").cells) == good
    call_command("rebuild_tallies")
    assert "support: correct" in capsys.readouterr().out


def test_a_rebuild_finds_drift_by_prompt_in_members_and_in_elo(arena: Arena) -> None:
    publish(arena)
    ClusterTally.objects.filter(prompt=arena.prompts.first()).update(cells=VoteCounts.none().pack())
    Tally.objects.filter(category="category-0").update(n_raters=5)
    newest = EloCheckpoint.objects.filter(board__category="category-1")
    newest.update(ratings=np.full(3, 1000.0).tobytes())
    found = drift(arena)
    assert len(found) == 3
    assert drift(arena) == []


def test_a_rebuild_waits_its_turn(arena: Arena) -> None:
    claim(arena)
    with pytest.raises(CommandError, match="is being refreshed"):
        call_command("rebuild_tallies", arena.slug, wait=0.1)


# -- What an operator may do -----------------------------------------------------------------------


@pytest.mark.parametrize("model", [Tally, ClusterTally])
def test_tallies_cannot_be_deleted_in_the_admin(
    admin_client: Client, arena: Arena, model: Any
) -> None:
    publish(arena)
    row = model.objects.first()
    url = f"/admin/ranking/{model._meta.model_name}/{row.pk}/delete/"
    assert admin_client.post(url, {"post": "yes"}).status_code == 403
    assert model.objects.filter(pk=row.pk).exists()


def test_a_lost_tally_is_not_mistaken_for_an_earlier_one(arena: Arena) -> None:
    publish(arena)
    Tally.objects.all().delete()
    cast(arena)
    assert publish(arena).n_votes == 1  # what is left of it is told, and a rebuild mends it
    with pytest.raises(CommandError, match="had drifted"):
        call_command("rebuild_tallies", arena.slug)
    assert publish(arena).n_votes == 25


def test_a_changed_setting_is_no_drift(arena: Arena) -> None:
    cast(arena, "both_bad")
    publish(arena)
    Board.objects.filter(arena=arena).update(both_bad="tie")
    assert drift(arena) == []


def test_rebuilt_rows_are_merged_in_pieces(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(arena)
    monkeypatch.setattr(cluster_tallies, "CELLS_AT_ONCE", {"sqlite": 5, "postgresql": 5})
    ClusterTally.objects.all().delete()
    assert len(drift(arena)) == 1
    assert TallyDelta.objects.count() == 3  # 12 cells
    assert max(TallyDelta.objects.values_list("n_cells", flat=True)) == 5
    publish(arena)
    assert drift(arena) == []
