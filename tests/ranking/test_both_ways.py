"""Leaderboards made from all votes equal those made from tallies."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from arena.models import Arena, Hold, Rater, Run, Vote
from arena.services.imports import Options, import_files
from ranking.leaderboard import leaderboard
from ranking.models import Board, Snapshot
from ranking.question import questions_of
from ranking.services.votes import question_of, read
from tests.factories import make_person
from tests.ranking.helpers import fill, make_judged_arena, make_voted_arena, publish

pytestmark = pytest.mark.django_db


def differences(one: Any, other: Any, at: str = "") -> list[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            found
            for key in sorted(one.keys() | other.keys(), key=str)
            for found in differences(one.get(key, "-"), other.get(key, "-"), f"{at}.{key}")
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            found
            for n, pair in enumerate(zip(one, other, strict=True))
            for found in differences(*pair, f"{at}[{n}]")
        ]
    if isinstance(one, float) or isinstance(other, float):
        if None not in (one, other) and one != "-" and other != "-" and abs(one - other) <= 1e-5:
            return []
        return [] if one == other else [f"{at}: {one} -> {other}"]
    return [] if one == other else [f"{at}: {one} -> {other}"]


def compare(arena: Arena) -> list[str]:
    table = read(arena)
    found = []
    current = Snapshot.objects.current().filter(board__arena=arena).select_related("board")
    boards = {(s.board.raters, s.board.category) for s in current}
    if boards - {("people", "")} != questions_of(table) - {("people", "")}:
        found.append(f"questions {boards} -> {questions_of(table)}")
    for snapshot in current:
        if snapshot.board.raters == "combined" and not snapshot.findings["combined"]["trusted"]:
            continue
        made = leaderboard(table, question_of(snapshot.board, arena))
        name = f"{snapshot.board.raters}/{snapshot.board.category}"
        standings = {row.candidate_id: row for row in snapshot.standings.all()}
        for row in made.rows:
            old = {key: getattr(standings[row.candidate_id], key) for key in vars(row)}
            found += differences(old, vars(row), f"{name} row {row.candidate_id}")
        found += differences(
            {key: getattr(snapshot, key) for key in made.fields}, made.fields, f"{name} fields"
        )
        settings = json.loads(json.dumps(made.settings))
        old_settings = {k: v for k, v in snapshot.settings.items() if k not in ("log", "runs")}
        found += differences(old_settings, settings, f"{name} settings")
        findings = json.loads(json.dumps(made.findings))
        found += differences(dict(snapshot.findings), findings, f"{name} findings")
        if bytes(snapshot.matrices.cells) != made.pairs.pack():
            found.append(f"{name}: pairs differ")
    return found


def known(found: list[str]) -> list[str]:
    """The differences without those that have a reason.

    The tie model's likelihood is new. Each soft verdict is now a vote of its own, where the mean
    of those on a pair and prompt stood for all of them: scores are the same, but robustness sees
    single votes, and the search for the spread of scores stops elsewhere. An empty board says
    nothing about its raters. The newest vote is the newest one that counts.
    """
    reasons = ("ties.log_likelihood", "fragility", "shrunk", "shrinkage", "effective.raters: 0 ")
    reasons += ("last_vote_id",)
    return [line for line in found if not any(reason in line for reason in reasons)]


def judge(kind: str, **fields: Any) -> Rater:
    now = timezone.now()
    return Rater.objects.create(kind=kind, name=kind, created_at=now, trusted_at=now, **fields)


def test_a_voted_arena() -> None:
    arena = make_voted_arena()
    publish(arena)
    assert known(compare(arena)) == []


@pytest.mark.parametrize("kind", ["judge", "jury"])
def test_a_judged_arena(kind: str) -> None:
    arena = make_judged_arena(judge(kind))
    fill(arena, 1, judge("judge" if kind == "jury" else "jury"))
    publish(arena)
    assert known(compare(arena)) == []


def test_held_voided_rushed_hidden_late_and_verified_votes() -> None:
    arena = make_judged_arena(judge("judge"))
    for _ in range(8):
        fill(arena, 1, make_person())
    ids = list(
        Vote.objects.filter(rater__kind="person").order_by("pk").values_list("pk", flat=True)
    )
    votes = Vote.objects.filter(arena=arena)
    hold = Hold.objects.create(
        arena=arena,
        rater=Vote.objects.get(pk=ids[0]).rater,
        evidence={},
        last_vote_id=ids[0],
        held_at=timezone.now(),
    )
    votes.filter(pk__in=ids[::7]).update(verified=True)
    votes.filter(pk__in=ids[1::7]).update(channel="browser", network="one")
    votes.filter(pk__in=ids[2::7]).update(channel="browser", network="two")
    publish(arena)
    assert known(compare(arena)) == []
    votes.filter(pk__in=ids[3::11]).update(uncounted="held", hold=hold)
    votes.filter(pk__in=ids[4::11]).update(uncounted="rushed", rushed=True)
    votes.filter(pk__in=ids[5::11]).update(voided_at=timezone.now(), void_reason="a test")
    run = Run.objects.create(arena=arena, kind="person", per_pair=1, state="open", hides_names=True)
    for vote in votes.filter(pk__in=ids[6::11]):
        vote.comparison.run = run
        vote.comparison.save()
    fill(arena, 1, make_person())
    publish(arena)
    assert known(compare(arena)) == []


def test_both_bad_as_ties_and_one_who_cast_most_votes() -> None:
    arena = make_voted_arena(5, 12)
    for _ in range(30):
        fill(arena, 1, make_person())
    fill(arena, 20)
    ids = list(Vote.objects.values_list("pk", flat=True))
    Vote.objects.filter(pk__in=ids[::9]).update(outcome="both_bad")
    Board.objects.filter(arena=arena).update(both_bad="tie")
    publish(arena)
    errors = ("low", "high", "standard_error", "sure_", "leader", "neighbours", "tiers", "style")
    groups = (*errors, "effective", "n_clusters", "groups", "rank_")
    assert [
        line for line in known(compare(arena)) if not any(name in line for name in groups)
    ] == []


@pytest.mark.parametrize("name", ["crowd-votes/llmfao.csv", "prompt-variants"])
@pytest.mark.data
def test_real_votes(name: str, data_dir: Path) -> None:
    import_files(slug="real", paths=[data_dir / name], now=timezone.now(), options=Options())
    arena = Arena.objects.get(slug="real")
    publish(arena)
    assert known(compare(arena)) == []
