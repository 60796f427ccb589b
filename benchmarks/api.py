"""Benchmarks of the REST API: bulk upserts against a bare bulk_create, and queries of a page."""

import http.client
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse

from arena.actors import Actor
from arena.models import Arena, Candidate, Membership, Prompt, Response, Role, Team
from arena.services.arenas import create_team_arena
from arena.services.teams import create_token
from benchmarks.pages import queries
from benchmarks.results import Line
from benchmarks.sample import SLUG, settle

ROWS = 10_000
WORDS_EACH = 60
SEED = 5
WORDS = ["order", "refund", "three", "days", "support", "answers", "question", "mail", "warranty"]
LEAST_SHARE = 0.25
BULK = f"Bulk upsert of {ROWS:,} answers: rows per second, as a share of bulk_create"
TEAM_ACTOR = Actor(user=None, display_name="the benchmarks")


@dataclass(frozen=True)
class Desk:
    """A team with an arena of many prompts, and the secret of its token."""

    team: Team
    arena: Arena
    secret: str
    rows: Sequence[dict[str, Any]]


def make_desk() -> Desk:
    """Create the team; its rows are answers to every prompt, as sent in a request."""
    team = Team.objects.create(slug="desk", name="Desk")
    arena = create_team_arena(team=team, by=TEAM_ACTOR, name="Desk")
    Prompt.objects.bulk_create(
        Prompt(arena=arena, external_id=f"q-{i}", text=f"Question {i}?") for i in range(ROWS)
    )
    _, secret = create_token(team=team, name="Benchmarks", scopes=["read", "submit"], by=TEAM_ACTOR)
    return Desk(team, arena, secret, _rows())


def _rows() -> list[dict[str, Any]]:
    draw = random.Random(SEED)
    return [
        {
            "prompt_id": f"q-{i}",
            "text": " ".join(draw.choices(WORDS, k=WORDS_EACH)),
            "tokens_in": 40,
            "tokens_out": 80,
            "seconds": 1.5,
            "cost": 0.0001,
        }
        for i in range(ROWS)
    ]


def decision_queries(team: Team) -> tuple[int, int]:
    """Queries for a member's decision page in the sample arena: of a new leaderboard, and again."""
    Arena.objects.filter(slug=SLUG).update(team=team)
    user = User.objects.create_user("decider")
    Membership.objects.create(team=team, user=user, role=Role.MEMBER)
    client = Client()
    client.force_login(user)
    url = reverse("decision", args=[team.slug, SLUG])
    return queries(client, url), queries(client, url)


# -- Bulk upsert -----------------------------------------------------------------------------------


def race(desk: Desk, address: tuple[str, int], rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of each round, over HTTP and for the bare insert, in turns for new candidates."""
    turns: dict[str, list[float]] = {"ours": [], "bare": []}
    for number in range(rounds + 1):  # the first one warms up
        order = ("ours", "bare") if number % 2 else ("bare", "ours")
        for name in order:
            candidate = Candidate.objects.create(
                arena=desk.arena, team=desk.team, name=f"{name}-{number}"
            )
            seconds = (
                _post(desk, address, candidate) if name == "ours" else _create(desk, candidate)
            )
            turns[name].append(seconds)
        settle()
    return turns["ours"][1:], turns["bare"][1:]


def _post(desk: Desk, address: tuple[str, int], candidate: Candidate) -> float:
    """Time a client's upload of the rows, from the first byte sent to the last byte read."""
    path = reverse("api_responses", args=[desk.arena.slug, candidate.pk])
    body = json.dumps({"responses": desk.rows}).encode()
    headers = {
        "Authorization": f"Bearer {desk.secret}",
        "Content-Type": "application/json",
        "Idempotency-Key": candidate.name,
        "Host": "localhost",
    }
    web = http.client.HTTPConnection(*address, timeout=120)
    began = time.perf_counter()
    web.request("POST", path, body, headers)
    answer = web.getresponse()
    reply = json.loads(answer.read())
    seconds = time.perf_counter() - began
    web.close()
    if answer.status != http.HTTPStatus.OK or reply["added"] != len(desk.rows):
        raise RuntimeError(f"An unexpected answer: {answer.status} {str(reply)[:2000]}")
    return seconds


def _create(desk: Desk, candidate: Candidate) -> float:
    """Time one bulk_create of the same rows as prepared objects."""
    prompts = dict(Prompt.objects.filter(arena=desk.arena).values_list("external_id", "pk"))
    answers = [
        Response(
            candidate=candidate,
            prompt_id=prompts[row["prompt_id"]],
            text=row["text"],
            tokens_in=row["tokens_in"],
            tokens_out=row["tokens_out"],
            seconds=row["seconds"],
            cost=round(row["cost"] * 10**9),
        )
        for row in desk.rows
    ]
    connection.ensure_connection()
    began = time.perf_counter()
    Response.objects.bulk_create(answers)
    return time.perf_counter() - began


def bulk_line(ours: Sequence[float], bare: Sequence[float]) -> Line:
    """The target for the API's rows per second, as a share of the bare insert in the same round."""
    shares = [theirs / own for own, theirs in zip(ours, bare, strict=True)]
    value = f"{median(shares):.0%} ({min(shares):.0%} to {max(shares):.0%})"
    return Line(BULK, f"at least {LEAST_SHARE:.0%}", value, median(shares) >= LEAST_SHARE)


def bulk_text(ours: Sequence[float], bare: Sequence[float]) -> str:
    """The seconds behind the ratio."""
    return (
        f"Bulk upsert: {ROWS:,} answers of {WORDS_EACH} words in one request, each time for a new "
        f"candidate: {median(ours):.2f} s through HTTP ({min(ours):.2f} to {max(ours):.2f}), "
        f"{median(bare):.2f} s by bulk_create of prepared objects "
        f"({min(bare):.2f} to {max(bare):.2f})."
    )
