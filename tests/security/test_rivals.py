"""Whoever may not write changes nothing, whatever is sent: rivals, viewers and nobody.

Statuses are in `tests.security.table`; here every form is filled in, and the rows are compared.
"""

from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from arena.actors import Actor
from arena.services.tokens import create_token
from tests.factories import make_arena, make_team, make_user
from tests.rows import all_rows
from tests.security.requests import ADDRESSES, PARAMETER, path_of, send
from tests.security.table import ROWS
from tests.security.world import TOKENS, World, make_world

pytestmark = [pytest.mark.slow, pytest.mark.any_database, pytest.mark.django_db]
# Sessions, limits, and when a token was last used.
NOISE = {"django_session", "arena_ratelimit", "arena_networkkey", "arena_apitoken"}
WRITING = ("post", "patch", "delete")
FILLED_IN = {
    "name": "Taken over",
    "role": "owner",
    "budget": "9",
    "scopes": ["read", "submit", "judge"],
    "url": "https://hooks.example.org/taken",
    "slug": "the-arena",
    "question": "Whose is it?",
    "visibility": "public",
    "voters": "anyone",
    "text": "Taken?",
    "pasted": "Taken?",
    "answers": "Taken.",
    "system_prompt": "Take over.",
    "criteria": "Taken.",
    "action": "cancel",
    "do": "remove",
    "kind": "contains",
    "expected": "taken",
    "per_pair": "1",
    "external_id": "taken",
    "retired": "1",
    "mailed": "1",
    "margin": "45",
    "prompts": [{"text": "Taken?"}],
    "candidates": [{"name": "taken"}],
    "responses": [{"prompt_id": "p0", "text": "Taken."}],
    "outcome": "left",
}


# As whom the table knows them.
LIKE = {"rival": "stranger", "rival's token": "another"}


@pytest.fixture
def world() -> World:
    """With a rival, who owns another team with an arena, as a person and as its program."""
    world, owner = make_world(), make_user("rival")
    team = make_team(owner, name="Rivals")
    world.at["rivals"] = {"teams": team.slug, "a": make_arena(2, 0, team=team).slug}
    world.at["rivals"]["arenas"] = world.at["rivals"]["a"]
    _, secret = create_token(team=team, name="rival", scopes=TOKENS["all"], by=Actor(user=owner))
    world.callers["rival"] = Client()
    world.callers["rival"].force_login(owner)
    world.callers["rival's token"] = Client(headers={"Authorization": f"Bearer {secret}"})
    return world


def changed_by(client: Client, method: str, path: str, body: Any) -> tuple[int, set[str]]:
    """The status, and the tables with rows that were added, changed or deleted."""
    before = all_rows()
    with transaction.atomic():
        status = send(client, method, path, body).status_code
        after = all_rows()
        transaction.set_rollback(True)
    tables = before.keys() | after.keys()
    return status, {name for name in tables if before.get(name) != after.get(name)} - NOISE


def filled_in(name: str, method: str) -> Any:
    """What the table sends, and every other field."""
    body = ROWS[name, method].body
    if ADDRESSES[name].startswith("api/"):
        return body if isinstance(body, list) else FILLED_IN | (body or {})
    plain = {field: value for field, value in FILLED_IN.items() if not _has_rows(value)}
    return plain | (body or {})


def _has_rows(value: Any) -> bool:
    return isinstance(value, list) and isinstance(value[0], dict)


def test_whoever_is_refused_changes_nothing(world: World) -> None:
    wrong, changing = [], 0
    for (name, method), row in ROWS.items():
        if method not in WRITING:
            continue
        path, body = path_of(name, world.at), filled_in(name, method)
        _, owners = changed_by(world.callers["owner"], method, path, body)
        changing += bool(owners)
        for caller in ("nobody", "viewer", "rival", "rival's token"):
            status, tables = changed_by(world.callers[caller], method, path, body)
            like = LIKE.get(caller, caller)
            like = like if like in row.statuses else "nobody"  # pages ignore tokens
            if tables and row.statuses.get(like) != row.statuses["owner"]:
                wrong.append(f"{method} {name}: {caller} changed {tables} ({status})")
    assert not wrong, "\n".join(wrong)
    assert changing > 25, "too few of these forms would have changed something"


def test_a_rival_reaches_nothing_of_others_through_their_own_team_and_arena(world: World) -> None:
    """The first word of each address is theirs, the object that it names is not."""
    mixed, wrong, tried = world.at | world.at["rivals"], [], 0
    for name, method in ROWS:
        if len(PARAMETER.findall(ADDRESSES[name])) < 2 or method == "get":
            continue
        path, body = path_of(name, mixed), filled_in(name, method)
        for caller in ("rival", "rival's token"):
            status, tables = changed_by(world.callers[caller], method, path, body)
            tried += 1
            if tables:
                wrong.append(f"{method} {name}: {caller} changed {tables} ({status})")
    assert not wrong, "\n".join(wrong)
    assert tried > 80
