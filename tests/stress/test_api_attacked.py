"""Whatever is sent to the API, allowed by its description or not: no answer is an internal error.

Schemathesis sends it to a server with something at every address: with a team's token, as the
team's owner in a browser, and as nobody. Answers are held against the description too.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from arena.actors import CLI
from arena.services import comparisons
from arena.services.raters import rater_of_name, rater_of_person
from arena.services.tokens import create_token
from ranking.models import Board, Snapshot
from tests.security.world import World, make_world

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
SEED = 20261122
REQUESTS = 5_000  # always the same, for a seed: more in every run would find nothing new
MOSTLY = 0.9  # how often a path names something that is there
UNLIMITED = dict.fromkeys(
    ("API_READS_PER_MINUTE", "API_SUBMITS_PER_MINUTE", "API_JUDGE_ORDERS_PER_MINUTE"), "100000000"
)
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)
# Examples of each operation, and phases: that of coverage sends the same for everybody.
EXTENTS = {
    "token": (28, "examples,coverage,fuzzing"),
    "owner": (20, "examples,fuzzing"),
    "nobody": (11, "examples,fuzzing"),
}
CSRF = "c" * 32


def test_nothing_that_can_be_sent_is_an_internal_error(serve: Any, tmp_path: Path) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time.")
    world = make_world("private")
    with serve(**UNLIMITED) as web, ThreadPoolExecutor() as threads:
        url = "http://{}:{}/api/v1/schema/".format(*web.address)
        runs = [
            threads.submit(attack, url, tmp_path, caller, headers, there(world, caller))
            for caller, headers in headers_of(world).items()
        ]
        sent = sum(run.result() for run in runs)

    assert sent >= REQUESTS


def headers_of(world: World) -> dict[str, dict[str, str]]:
    """What each caller sends with every request."""
    scopes = ["read", "submit", "judge"]
    secret = create_token(team=world.team, name="CI", scopes=scopes, by=CLI)[1]
    session = world.callers["owner"].cookies["sessionid"].value
    cookies = f"sessionid={session}; csrftoken={CSRF}"
    return {
        "token": {"Authorization": f"Bearer {secret}"},
        "owner": {"Cookie": cookies, "X-CSRFToken": CSRF},
        "nobody": {},
    }


def attack(
    url: str, home: Path, caller: str, headers: dict[str, str], names: dict[str, list[Any]]
) -> int:
    """Send Schemathesis' requests; return their number."""
    folder, (examples, phases) = home / caller, EXTENTS[caller]
    folder.mkdir()
    (folder / "schemathesis.toml").write_text("\n".join(configuration(names)))
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", url]
    command += [f"--header={name}:{value}" for name, value in headers.items()]
    command += [
        f"--checks={','.join(CHECKS)}",
        f"--max-examples={examples}",
        f"--seed={SEED}",
        f"--phases={phases}",
        # Two threads that describe lambdas to Hypothesis meet a fault of Python's ast.parse
        # (https://github.com/python/cpython/issues/106905); the callers run side by side anyway.
        "--workers=1",
        "--request-timeout=60",  # seconds: other tests keep the processors busy
        "--continue-on-failure",
        "--no-shrink",
        "--no-color",
        "--warnings=off",
        "--suppress-health-check=all",
    ]
    with (folder / "said").open("w") as said_to:
        done = subprocess.run(command, cwd=folder, stdout=said_to, stderr=said_to, check=False)
    said = (folder / "said").read_text()
    assert done.returncode == 0, said[-20_000:]
    sent = re.search(r"([\d,]+) generated", said)
    assert sent is not None, said[-2000:]
    return int(sent[1].replace(",", ""))


def there(world: World, caller: str) -> dict[str, list[Any]]:
    """Ids and keys by the parameter of a path, or by a part of the path and the parameter."""
    arena = world.arena
    return {
        "slug": [arena.slug],
        "external_id": list(arena.prompts.values_list("external_id", flat=True)),
        "key": waiting(world) if caller != "nobody" else [str(world.at["vote"])],
        "teams slug": [world.team.slug],
        "candidates id": list(arena.candidates.values_list("pk", flat=True)),
        "boards id": list(Board.objects.filter(arena=arena).values_list("pk", flat=True)),
        "snapshots id": list(
            Snapshot.objects.filter(board__arena=arena).values_list("pk", flat=True)
        ),
        "judge-runs id": [world.at["judge-runs"]],
        "answer-runs id": [world.at["answer-runs"]],
    }


def waiting(world: World) -> list[str]:
    """Comparisons that wait for raters of the token, and for the team's owner."""
    now = timezone.now()
    owner = world.team.memberships.get(role="owner")
    raters = [rater_of_name(arena=world.arena, name=f"rater-{i}", now=now) for i in range(4)]
    raters.append(rater_of_person(user_id=owner.user_id))
    issued = [comparisons.next_comparison(arena=world.arena, rater=r, now=now) for r in raters]
    return [str(comparison.key) for comparison in issued if comparison is not None]


def configuration(names: dict[str, list[Any]]) -> Iterable[str]:
    """The lines of a schemathesis.toml in which paths mostly name what is there."""
    yield from ("[dictionaries]",)
    for name, values in names.items():
        yield f"{json.dumps(name)} = {{values = {json.dumps(values)}}}"
    yield "[parameters]"
    yield from (bound(name, name) for name in names if " " not in name)
    for name in names:
        if " " in name:
            part, parameter = name.split()
            yield from ("[[operations]]", f'include-path-regex = "/{part}/\\\\{{"')
            yield f"parameters = {{ {bound(parameter, name)} }}"


def bound(parameter: str, dictionary: str) -> str:
    source = f"dictionary = {json.dumps(dictionary)}, probability = {MOSTLY}"
    return f'"path.{parameter}" = {{ {source} }}'
