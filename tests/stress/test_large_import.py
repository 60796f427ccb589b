"""An arena of a million new votes, beside the sample: who votes there sees it on time."""

import os
import subprocess
import sys
import time
from datetime import datetime
from typing import Any

import numpy as np
import pytest
import yaml
from django.db import connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from arena.models import Arena, Vote
from benchmarks.freshness import _vote
from benchmarks.sample import load as load_sample
from benchmarks.stored import Sizes, store
from ranking.models import ArenaRefresh, Snapshot
from tests.environment import REPOSITORY
from tests.ops.running import eventually
from tests.stress.installation import QUIET, Installation

pytestmark = [
    pytest.mark.slow,
    pytest.mark.services,
    # It takes ten minutes of both processors, which tests beside it would not survive.
    pytest.mark.skipif("TEST_MILLION" not in os.environ, reason="TEST_MILLION=1 runs it alone"),
]
MILLION = 1_000_000
FRESH = 5.0  # seconds
VOTES, EVERY = 40, 2.0  # about as often as a small crowd votes
COMPARISONS = """
    WITH had AS (
        SELECT (SELECT array_agg(id) FROM arena_candidate WHERE arena_id = %(arena)s) AS candidates,
            (SELECT array_agg(id) FROM arena_prompt WHERE arena_id = %(arena)s) AS prompts,
            (SELECT array_agg(id) FROM arena_rater WHERE arena_id = %(arena)s) AS raters
    ), drawn AS (
        SELECT n, n %% cardinality(candidates) AS first,
            (n + 1 + n / 7 %% (cardinality(candidates) - 1)) %% cardinality(candidates) AS second
        FROM had, generate_series(1, %(votes)s) AS n
    )
    INSERT INTO arena_comparison
        (key, arena_id, rater_id, prompt_id, left_id, right_id, names_itself)
    SELECT gen_random_uuid(), %(arena)s, raters[1 + n / 11 %% cardinality(raters)],
        prompts[1 + n / 13 %% cardinality(prompts)], candidates[1 + first], candidates[1 + second],
        false
    FROM had, drawn
"""
CAST = """
    INSERT INTO arena_vote (arena_id, comparison_id, rater_id, outcome, cast_at, void_reason)
    SELECT arena_id, id, rater_id, (ARRAY['left', 'right', 'tie'])[1 + floor(random() * 3)],
        now(), ''
    FROM arena_comparison WHERE arena_id = %(arena)s
"""
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(
    (REPOSITORY / "compose.yaml").read_text(encoding="utf-8")
)["services"]


def start_as_compose_does(installation: Installation) -> list[subprocess.Popen[bytes]]:
    """All workers and beat. Without Docker, `nice` stands for a smaller share of processors."""
    started = []
    for service in SERVICES.values():
        command = service.get("command", [])
        if command[:1] != ["celery"]:
            continue
        more = QUIET[:-1] if "worker" in command else [f"--schedule={installation.home / 'beat'}"]
        first = ["nice", "-n", "10"] if "cpu_shares" in service else []
        started.append(installation.start(*first, sys.executable, "-m", *command, *more))
    return started


def age(arena: Arena, now: datetime) -> float:
    """For how many seconds the arena's leaderboard has lacked a vote."""
    board = {"board__arena": arena, "board__raters": "people", "board__category": ""}
    newest = Snapshot.objects.current().filter(**board).values_list("last_vote_id", flat=True)
    missing = Vote.objects.filter(arena=arena, pk__gt=newest.first() or 0).order_by("pk")
    cast_at = missing.values_list("cast_at", flat=True).first()
    return (now - cast_at).total_seconds() if cast_at else 0.0


def test_the_sample_stays_fresh_beside_a_million_votes(installation: Installation) -> None:
    sample = load_sample()
    start_as_compose_does(installation)
    _vote(sample)  # the workers are there once it is counted
    eventually(lambda: age(sample, timezone.now()) == 0, patience=600)
    # The first refresh computes everything, and rests for four times as long.
    rested = ArenaRefresh.objects.filter(arena=sample, not_before__lte=Now(), is_stale=False)
    eventually(rested.exists, patience=600)
    alone = ages_of(sample)

    began = time.monotonic()
    large = store(Sizes("large", 0, candidates=20))
    cast_a_million(large)
    print(f"a million votes stored in {time.monotonic() - began:.0f} s")
    eventually(lambda: ArenaRefresh.objects.get(arena=large).token)  # under way
    beside = ages_of(sample)
    waiting = ArenaRefresh.objects.get(arena=large)
    done = f"{waiting.seconds:.0f} s" if waiting.finished_at else "still under way"
    print(f"the refresh of the million: {done}{waiting.problem}")
    assert "Traceback" not in installation.log()
    # Whoever else uses the processors may delay one refresh, and the pause after it.
    assert np.percentile(alone, 95) < FRESH
    assert np.percentile(beside, 95) < FRESH


def cast_a_million(arena: Arena) -> None:
    """In two statements; row by row it would take minutes."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(COMPARISONS, {"arena": arena.pk, "votes": MILLION})
        cursor.execute(CAST, {"arena": arena.pk})
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def ages_of(sample: Arena) -> list[float]:
    """Cast votes, and look at the leaderboard five times a second."""
    ages = []
    for _ in range(VOTES):
        _vote(sample)
        until = time.monotonic() + EVERY
        while time.monotonic() < until:
            ages.append(age(sample, timezone.now()))
            time.sleep(0.2)
    p50, p95, most = np.percentile(ages, [50, 95, 100])
    print(f"age of the sample's leaderboard: {p50:.1f} s, 95 % {p95:.1f} s, at most {most:.1f} s")
    return ages
