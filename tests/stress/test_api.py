"""The API under load: limits, and keys that are sent ten times at once."""

import json
from collections import Counter
from typing import Any

import pytest
from django.db import connection

from arena.actors import CLI
from arena.models import Arena
from arena.services.tokens import create_token
from benchmarks.load import Answer, Script, play, request
from tests.arena.teams import make_team
from tests.stress.helpers import count_codes

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
LIMIT, AT_ONCE = 40, 120
# SQLite has one writer at a time, so that more keys try nothing else there.
KEYS, TIMES = {"postgresql": 200, "sqlite": 40}, 10
PATIENCE = 300.0
LIMITS = ("API_READS_PER_MINUTE", "API_SUBMITS_PER_MINUTE", "API_JUDGE_ORDERS_PER_MINUTE")
UNLIMITED = dict.fromkeys(LIMITS, "100000000")


def secret_of(team: Any) -> str:
    scopes = ["read", "submit", "judge"]
    return create_token(team=team, name="CI", scopes=scopes, by=CLI)[1]


def post(path: str, body: Any, **headers: str) -> bytes:
    sent = json.dumps(body).encode()
    length = str(len(sent))
    head = {"Content_Type": "application/json", "Content_Length": length}
    return request("POST", path, **head, **headers) + sent


def all_of(many: list[bytes]) -> Script:
    for asked in many:
        _ = yield asked


def test_exactly_as_many_reads_as_a_minute_allows(serve: Any) -> None:
    """A token, and an address, which no header that it sends changes."""
    secret = secret_of(make_team())
    of_token = request("GET", "/api/v1/me/", Authorization=f"Bearer {secret}")
    of_address = [
        request("GET", "/api/v1/arenas/", X_Forwarded_For=f"10.1.{i // 256}.{i % 256}")
        for i in range(AT_ONCE)
    ]

    with serve(API_READS_PER_MINUTE=str(LIMIT)) as web:
        codes = [count_codes(web, [of_token] * AT_ONCE), count_codes(web, of_address)]

    assert codes == [{200: LIMIT, 429: AT_ONCE - LIMIT}] * 2


def test_each_key_runs_once_and_everybody_gets_its_answer(serve: Any) -> None:
    secret, keys = secret_of(make_team()), KEYS[connection.vendor]
    answers: list[Answer] = []

    def asked(i: int) -> bytes:
        headers = {"Authorization": f"Bearer {secret}", "Idempotency_Key": f"key-{i}"}
        return post("/api/v1/arenas/", {"name": f"Arena {i}"}, **headers)

    # Four groups of keys; in each of them ten connections send the same key at the same time.
    groups = [[asked(i) for i in range(start, keys, 4)] for start in range(4)]
    scripts = [all_of(group) for group in groups for _ in range(TIMES)]
    with serve(**UNLIMITED) as web:
        play(web.address, scripts, seconds=PATIENCE, on_answer=answers.append)

    assert Counter(answer.status for answer in answers) == {201: keys * TIMES}
    assert Arena.objects.count() == keys
    bodies = Counter(answer.body for answer in answers)
    assert len(bodies) == keys
    assert set(bodies.values()) == {TIMES}
