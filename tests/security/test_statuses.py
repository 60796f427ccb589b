"""Every address of Ringside, for everybody, whether its arena is public, unlisted or private.

`tests.security.table` says what is expected; an address or a method without a row fails here.
"""

import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import get_resolver, reverse

from tests.security.requests import ADDRESSES, addresses, ask, path_of, patterns
from tests.security.table import ALSO, HIDDEN, ROWS
from tests.security.table_guests import GUESTS_ROWS, as_guests
from tests.security.world import CALLERS, OUTSIDE, PEOPLE, World, make_world, welcome_guests

pytestmark = [pytest.mark.slow, pytest.mark.any_database, pytest.mark.django_db]
METHODS = ("get", "post", "put", "patch", "delete")
# Only where an OpenID Connect server is set up, of which the tests of signing in with one tell.
WITH_OIDC = {"sign_in_elsewhere", "openid_connect_callback", "socialaccount_login_cancelled"}
# A page knows no tokens, so that one of them stands for all.
READERS = (*PEOPLE, "all")
# What another arena's address has in its place: as long, so that answers are as long too.
MISSING = {"a": "any-arena", "arenas": "any-arena", "experiments": "x-no-trial"}
BY_ID = ("boards", "snapshots", "runs", "judge-runs", "answer-runs", "judges")


def test_every_address_has_its_rows() -> None:
    assert ADDRESSES.keys() == {name for name, _ in ROWS}
    assert addresses(get_resolver("tests.arena.oidc_urls")).keys() == ADDRESSES.keys() | WITH_OIDC


def test_no_method_is_answered_that_has_no_row() -> None:
    world = make_world()
    answered = [
        f"{method} {name}: {found}"
        for name in ADDRESSES
        for method in METHODS
        if (name, method) not in ROWS
        and (found := ask(world.callers["operator"], method, path_of(name, world.at)).status_code)
        != 405
    ]
    assert not answered, "\n".join(answered)


@pytest.mark.parametrize("visibility", ["public", "unlisted", "private"])
def test_everybody_gets_what_the_table_says(visibility: str) -> None:
    world = make_world(visibility)
    wrong = []
    for (name, method), row in [*ROWS.items(), *ALSO]:
        if visibility != "public" and not row.arena:
            continue
        path = path_of(name, world.at)
        for caller in CALLERS if row.is_of_api else READERS:
            found = ask(world.callers[caller], method, path, row.body).status_code
            if found != (expected := row.expected(caller, visibility)):
                wrong.append(f"{method} {name}: {caller} got {found}, not {expected}")
    assert not wrong, "\n".join(wrong)


def test_no_browser_writes_without_its_csrf_token() -> None:
    world = make_world()
    client = world.callers["operator"]
    client.handler.enforce_csrf_checks = True
    written = [
        f"{method} {name}: {found}"
        for (name, method), row in ROWS.items()
        if method != "get"
        and (found := ask(client, method, path_of(name, world.at), row.body).status_code) != 403
    ]
    assert not written, "\n".join(written)


@pytest.mark.parametrize("caller", OUTSIDE)
def test_a_private_arena_and_a_missing_one_are_one_and_the_same(caller: str) -> None:
    """By its name, by the id of anything in it, and by what other sites show of it."""
    world = make_world("private")
    store_pages(world)
    missing = world.at | MISSING | {name: other_id(world.at[name]) for name in BY_ID}
    world.callers[caller].get("/api/v1/me/")  # so that a token's use has been noted
    told(world, caller, "cast_vote", "post", missing)  # so that the networks of today have a key
    for (name, method), row in ROWS.items():
        if not row.arena:
            continue
        answers = [told(world, caller, name, method, at) for at in (world.at, missing)]
        assert answers[0] == answers[1], f"{method} {name}"
        assert answers[0][0] == row.expected(caller, "private"), f"{method} {name}"


def store_pages(world: World) -> None:
    """Have the team's owner read everything, because stored pages must not be served to others."""
    for name, method in ROWS:
        if method == "get":
            world.callers["owner"].get(path_of(name, world.at))


def told(world: World, caller: str, name: str, method: str, at: dict[str, Any]) -> Any:
    """Status, headers, body and number of queries, without what is in the address itself."""
    path = path_of(name, at)
    with CaptureQueriesContext(connection) as queries:
        answer = ask(world.callers[caller], method, path, ROWS[name, method].body)
    text = (
        answer.whole.decode(errors="replace")
        .replace(path, "{path}")
        .replace(path.replace("/", "%2F"), "")
    )
    text = re.sub("“[^”]*”", "“…”", text)  # a problem names what the address names
    text = re.sub(r'name="csrfmiddlewaretoken" value="\w+"', "", text)
    varying = ("X-Request-ID", "RateLimit-Remaining", "RateLimit-Reset")
    headers = {name: value for name, value in answer.headers.items() if name not in varying}
    return answer.status_code, headers, text, len(queries)


def other_id(given: int) -> int:
    """An unused id with equally many digits."""
    return 10 ** len(str(given)) - 1 - (str(given).strip("9") == "")


def test_a_team_and_a_missing_one_are_one_and_the_same() -> None:
    world = make_world()
    for (name, method), row in ROWS.items():
        if (
            "teams" not in path_of(name, world.at).split("/")[1:4]
            or row.expected("stranger", "public") != HIDDEN
        ):
            continue
        missing = world.at | {"teams": "any-team"}
        answers = [told(world, "stranger", name, method, at) for at in (world.at, missing)]
        assert answers[0] == answers[1], f"{method} {name}"


def test_an_id_that_no_database_holds_is_missing() -> None:
    world = make_world()
    huge = {key: 10**30 if isinstance(value, int) else value for key, value in world.at.items()}
    wrong = []
    for (name, method), row in ROWS.items():
        if "<int:" not in ADDRESSES[name]:
            continue
        found = ask(world.callers["operator"], method, path_of(name, huge), row.body).status_code
        if found != HIDDEN:
            wrong.append(f"{method} {name}: {found}")
    assert not wrong, "\n".join(wrong)


def test_nobody_but_operators_is_let_into_the_admin() -> None:
    world = make_world()
    sign_in = reverse("admin:login")
    let_in = []
    for name, spelled in patterns(get_resolver()):
        if not spelled.startswith("admin/") or name in ("None", "admin:login", "admin:logout"):
            continue
        path = "/" + re.sub(r"\^|\(\?P.*|<[^>]*>|\$", "1", spelled)
        for caller in ("nobody", "owner", "all"):
            answer = ask(world.callers[caller], "get", path)
            if answer.status_code != 302 or sign_in not in answer["Location"]:
                let_in.append(f"{caller}: {path} ({name}) {answer.status_code}")
    assert not let_in, "\n".join(let_in)


def test_guests_get_what_the_table_says_of_the_arena() -> None:
    world = make_world()
    welcome_guests(world)
    wrong = []
    for (name, method), row in ROWS.items():
        if not row.arena:
            continue
        path = path_of(name, world.at)
        for caller, expected in as_guests((name, method)).items():
            found = ask(world.callers[caller], method, path, row.body).status_code
            if found != expected:
                wrong.append(f"{method} {name}: {caller} got {found}, not {expected}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", ["disclosed", "undisclosed"])
def test_a_guests_candidate_answers_as_the_table_says(kind: str) -> None:
    world = make_world()
    at = welcome_guests(world)[kind]
    wrong = []
    for (name, method), row in GUESTS_ROWS.items():
        path, body = path_of(name, at), ROWS[name, method].body
        for caller, expected in row.expected(kind).items():
            found = ask(world.callers[caller], method, path, body).status_code
            if found != expected:
                wrong.append(f"{method} {name}: {caller} got {found}, not {expected}")
    assert not wrong, "\n".join(wrong)


def test_every_address_of_a_candidate_has_its_rows() -> None:
    world = make_world()
    at = welcome_guests(world)["disclosed"]
    theirs = {name for name in ADDRESSES if path_of(name, at) != path_of(name, world.at)}
    wanted = {(name, method) for name, method in ROWS if name in theirs}
    assert wanted == GUESTS_ROWS.keys()
