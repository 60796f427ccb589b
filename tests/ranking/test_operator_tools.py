"""What operators use: the command, the admin, and the static file that a package ships."""

from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from arena.models import Arena
from ranking import leaderboard
from ranking.finders import PlotlyFinder
from ranking.models import Snapshot
from tests.ranking.helpers import publish


def refresh(*slugs: str) -> str:
    out = StringIO()
    call_command("refresh_boards", *slugs, stdout=out)
    return out.getvalue()


@pytest.mark.django_db
def test_the_command_publishes_boards_and_says_so(arena: Arena) -> None:
    assert refresh("support") == "support: 3 leaderboards published\n"
    assert refresh() == "support: up to date\n"
    assert Snapshot.objects.current().exclude(elo_intervals_at=None).count() == 3


@pytest.mark.django_db
def test_the_command_names_a_missing_arena() -> None:
    with pytest.raises(CommandError, match=r"There is no arena 'nowhere'"):
        refresh("nowhere")


@pytest.mark.django_db
def test_the_command_says_what_kept_a_board_back(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaderboard, "largest_difference", lambda *_: 1.0)
    assert "0 leaderboards published, with problems: choix differs by 1.0000 Elo" in refresh(
        "support"
    )


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize(
    "table", ["board", "snapshot", "standing", "elointerval", "arenarefresh", "boardpage"]
)
def test_the_admin_lists_and_opens_every_table(client: Client, arena: Arena, table: str) -> None:
    publish(arena)
    refresh()
    client.get("/a/support/")
    client.force_login(User.objects.create_superuser("operator"))
    listed = client.get(f"/admin/ranking/{table}/")
    assert listed.status_code == 200
    row = listed.context["cl"].result_list[0]
    assert client.get(f"/admin/ranking/{table}/{row.pk}/change/").status_code == 200


def test_plotly_is_found_and_nothing_else_of_its_package() -> None:
    finder = PlotlyFinder()
    assert str(finder.find("plotly/plotly.min.js")).endswith("plotly.min.js")
    assert not finder.find("plotly/widgetbundle.js")
    assert not finder.find("plotly.min.js")
    assert finder.find("plotly/other.js", find_all=True) == []
    assert [(storage.prefix, name) for name, storage in finder.list(None)] == [
        ("plotly", "plotly.min.js")
    ]
