"""Experiments through the client: from the quote to the promotion, with a Ringside that answers."""

from typing import Any

import pytest

from arena.models import Arena
from clients.python.ringside_client import Ringside, RingsideError, StillWaiting
from judges.models import Experiment
from tests.clients.test_pull_requests import PROMPTS, arena, token
from tests.judges.helpers import LOCAL

__all__ = ["arena", "token"]
DRAFT = {"name": "greet", "system_prompt": "GOOD"}


@pytest.fixture
def client(live_server: Any, token: str) -> Ringside:
    return Ringside(live_server.url, token)


def test_a_draft_is_measured_and_promoted(client: Ringside, arena: Arena) -> None:
    made = client.create_experiment(arena.slug, drafts=[DRAFT], name="Greetings")
    slug = made["slug"]
    assert (made["name"], made["state"]) == ("Greetings", "draft")
    assert client.create_experiment(arena.slug, drafts=[DRAFT])["slug"] == slug
    assert client.create_experiment(arena.slug, drafts=[DRAFT], reuse=False)["slug"] != slug

    quote = client.quote_experiment(slug, judges=[LOCAL], detect=0.9)
    assert (quote["available"], quote["at_most"]) == (PROMPTS, 0)
    plan = {"judges": [LOCAL], "size": 20, "cap": 1.0}
    assert client.run_experiment(slug, **plan)["state"] == "running"
    assert client.stop_experiment(slug)["state"] == "stopped"
    with pytest.raises(RingsideError, match="Only a running experiment"):
        client.stop_experiment(slug)
    client.run_experiment(slug, **plan)
    with pytest.raises(StillWaiting):
        client.wait_for_experiment(slug, patience=0)

    done = client.wait_for_experiment(slug, patience=600)
    [draft] = done["drafts"]
    assert (done["state"], draft["verdict"]) == ("done", "better")
    entered = client.enter_draft(slug, draft["id"], "Greet by name")
    assert entered["name"] == "Greet by name"
    promoted = client.promote_draft(slug, draft["id"], "It greets people.")["promoted"]
    assert promoted is not None
    assert (promoted["name"], promoted["why"]) == ("concise v2", "It greets people.")


def test_the_baseline_is_compared_with_itself(client: Ringside, arena: Arena) -> None:
    slug = client.create_experiment(arena.slug, drafts=[DRAFT])["slug"]
    client.run_experiment(slug, judges=[LOCAL])
    client.wait_for_experiment(slug, patience=600)
    client.test_baseline(slug, cap=0.0)

    client.wait_for_experiment(Experiment.objects.get(twin=True).arena.slug, patience=600)
    twin = client.experiment(slug)["twin"]
    assert twin is not None
    assert (twin["state"], twin["flips"]) == ("done", 0)


def test_an_experiment_may_be_about_some_prompts_only(client: Ringside, arena: Arena) -> None:
    ids = [row["external_id"] for row in client.prompts(arena.slug)][:6]
    made = client.create_experiment(arena.slug, drafts=[DRAFT], prompts=ids)
    assert {row["external_id"] for row in client.prompts(made["slug"])} == {*ids}
    tried = client.try_experiment(made["slug"], prompts=ids[:2], cap=1.0)
    assert tried["state"] == "draft"
