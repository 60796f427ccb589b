"""The API under load: limits, and keys that are sent ten times at once."""

import json
from collections import Counter
from typing import Any

import pytest

from arena.actors import CLI
from arena.models import Arena
from arena.services.teams import create_token
from benchmarks.load import Answer, Script, play, request
from tests.arena.teams import make_team
from tests.stress.helpers import count_codes

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
LIMIT, AT_ONCE = 40, 120
KEYS, TIMES = 200, 10
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


# -- Limits ----------------------------------------------------------------------------------------


def test_exactly_as_many_reads_as_a_minute_allows_a_token(serve: Any) -> None:
    secret = secret_of(make_team())
    asked = request("GET", "/api/v1/me/", Authorization=f"Bearer {secret}")

    with serve(API_READS_PER_MINUTE=str(LIMIT)) as web:
        codes = count_codes(web, [asked] * AT_ONCE)

    assert codes == {200: LIMIT, 429: AT_ONCE - LIMIT}


def test_a_forged_address_gets_no_more_reads(serve: Any) -> None:
    asked = [
        request("GET", "/api/v1/arenas/", X_Forwarded_For=f"10.1.{i // 256}.{i % 256}")
        for i in range(AT_ONCE)
    ]

    with serve(API_READS_PER_MINUTE=str(LIMIT)) as web:
        codes = count_codes(web, asked)

    assert codes == {200: LIMIT, 429: AT_ONCE - LIMIT}


# -- The same key, many times at once --------------------------------------------------------------


def test_each_key_runs_once_and_everybody_gets_its_answer(serve: Any) -> None:
    secret = secret_of(make_team())
    answers: list[Answer] = []

    def asked(i: int) -> bytes:
        headers = {"Authorization": f"Bearer {secret}", "Idempotency_Key": f"key-{i}"}
        return post("/api/v1/arenas/", {"name": f"Arena {i}"}, **headers)

    # Four groups of keys; in each of them ten connections send the same key at the same time.
    groups = [[asked(i) for i in range(start, KEYS, 4)] for start in range(4)]
    scripts = [all_of(group) for group in groups for _ in range(TIMES)]
    with serve(**UNLIMITED) as web:
        play(web.address, scripts, seconds=PATIENCE, on_answer=answers.append)

    assert Counter(answer.status for answer in answers) == {201: KEYS * TIMES}
    assert Arena.objects.count() == KEYS
    bodies = Counter(answer.body for answer in answers)
    assert len(bodies) == KEYS
    assert set(bodies.values()) == {TIMES}
