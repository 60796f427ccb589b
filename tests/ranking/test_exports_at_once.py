"""A web process builds two exports at a time; whoever comes later is told to wait."""

import gc
import json
from collections.abc import Iterator

import pytest
from django.core.signals import request_finished
from django.test import Client
from django.urls import reverse

from arena.models import Arena, Membership, Role
from arena.services import exports
from ranking.api.exports import ExportEndpoint
from tests.factories import make_team, make_user

ROOT = "/api/v1/arenas/support/exports/"
SENTENCE = "Two exports are being built already. Try again in a minute."

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _kept_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is closed by hand would close the test's connection."""
    monkeypatch.setattr(request_finished, "send", lambda **_: None)


def test_a_third_export_waits_until_one_has_ended(client: Client, arena: Arena) -> None:
    first, second = client.get(f"{ROOT}battles.csv"), client.get(f"{ROOT}dataset.zip")
    for file in ("battles.csv", "log.jsonl", "leaderboard.html"):
        refused = client.get(f"{ROOT}{file}")
        assert (refused.status_code, refused["Retry-After"]) == (429, "60")
        assert refused["Content-Type"] == "application/problem+json"
        assert json.loads(refused.content)["detail"] == SENTENCE
    assert client.get("/a/support/about/").status_code == 200
    assert client.head(f"{ROOT}battles.csv").status_code == 200
    assert first.getvalue().startswith(b"comparison,")
    third = client.get(f"{ROOT}battles.csv")
    assert third.status_code == 200
    assert client.get(f"{ROOT}battles.csv").status_code == 429
    second.close()
    third.close()


@pytest.mark.parametrize("chunks_read", [0, 1])
def test_a_client_that_hangs_up_frees_its_place(
    client: Client, arena: Arena, chunks_read: int
) -> None:
    for _ in range(3):
        answer = client.get(f"{ROOT}battles.csv")
        assert answer.status_code == 200
        for _ in range(chunks_read):
            next(iter(answer.streaming_content))
        answer.close()


def test_an_answer_that_is_dropped_unsent_frees_its_place(client: Client, arena: Arena) -> None:
    for _ in range(3):
        assert client.get(f"{ROOT}battles.csv").status_code == 200
        gc.collect()  # the test client's answers refer to themselves


def fail() -> Iterator[bytes]:
    yield b"first"
    raise ValueError("a broken row")


@pytest.mark.parametrize("write", [fail, lambda: 1 / 0], ids=["while sent", "before"])
def test_an_export_that_fails_frees_its_place(
    client: Client, arena: Arena, monkeypatch: pytest.MonkeyPatch, write: object
) -> None:
    send = ExportEndpoint.send
    with monkeypatch.context() as patch:
        patch.setattr(ExportEndpoint, "send", lambda self, *about: send(self, *about[:2], write))
        for _ in range(3):
            answer = client.get(f"{ROOT}battles.csv")
            if answer.streaming:
                with pytest.raises(ValueError, match="a broken row"):
                    answer.getvalue()
            else:
                assert answer.status_code == 500
    assert client.get(f"{ROOT}battles.csv").status_code == 200


def test_the_zip_of_an_arena_is_an_export_too(client: Client, arena: Arena) -> None:
    owner, team = make_user("ann"), make_team()
    Membership.objects.create(team=team, user=owner, role=Role.OWNER)
    Arena.objects.filter(pk=arena.pk).update(team=team)
    client.force_login(owner)
    held = [exports.ExportPlace(), exports.ExportPlace()]
    page = client.get(reverse("download_arena", args=["support"]))
    assert (page.status_code, page["Retry-After"]) == (429, "60")
    assert SENTENCE in page.text
    assert "<h1>" in page.text
    answer = client.get(f"{ROOT}arena.zip")
    assert (answer.status_code, answer["Retry-After"]) == (429, "60")
    for place in held:
        place.close()
    for _ in range(3):
        assert client.get(reverse("download_arena", args=["support"])).status_code == 200
        assert client.get(f"{ROOT}arena.zip").status_code == 200
