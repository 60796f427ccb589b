"""A scale on which one candidate has a given score: everything moves, and no difference changes."""

import csv
import io
import json
import re
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import call_command
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from arena.actors import CLI
from arena.models import Arena, Candidate, Rater
from arena.services.arenas import update_arena
from arena.services.candidates import retire_candidate
from ranking import wording
from ranking.anchor import ON_SCALE, Anchor
from ranking.board_data import Findings
from ranking.leaderboard import leaderboard
from ranking.leaderboard_copy import write_copy
from ranking.log import file as log_file
from ranking.models import Snapshot
from ranking.question import Evidence, Question
from ranking.services import refresh
from ranking.stats.bradley_terry import BradleyTerry
from tests.factories import (
    make_arena,
    make_candidate,
    make_person,
    make_vote,
    make_votes,
    void_vote,
)
from tests.ranking.helpers import (
    cast,
    fill,
    get_page,
    make_judged_arena,
    make_past,
    make_voted_arena,
    publish,
    words,
)
from tests.ranking.test_question import IDS, table, votes

DIGITS = 1e-9


def anchored(candidate: Any, score: float = 1114.0, **fields: Any) -> Question:
    return Question(n_resamples=20, anchor=Anchor(int(candidate), score), **fields)


@given(votes(), st.sampled_from(IDS.tolist()), st.sampled_from([0.0, 1000.0, 1114.0, 9999.5]))
def test_no_difference_ever_changes(cast, candidate, score):
    free = leaderboard(cast, Question(n_resamples=20))
    fixed = leaderboard(cast, anchored(candidate, score))
    stored = fixed.settings["anchor"]
    offset = fixed.settings["center"] - 1000
    if stored["reason"]:
        assert offset == 0
    else:
        own = next(row for row in fixed.rows if row.candidate_id == candidate)
        assert own.score == pytest.approx(score, abs=DIGITS)
    for before, after in zip(free.rows, fixed.rows, strict=True):
        for name, value in asdict(before).items():
            moved = value + offset if name in ON_SCALE and value is not None else value
            assert asdict(after)[name] == pytest.approx(moved, abs=DIGITS), name
    assert fixed.findings == free.findings


@given(votes(), st.integers(0, len(IDS) - 1))
def test_the_scores_are_those_of_a_fit_with_that_candidate_fixed(cast, place):
    made = leaderboard(cast, anchored(IDS[place]))
    evidence = Evidence.of(cast, Question())
    oracle = BradleyTerry(center=1114.0, anchor=place).fit(evidence.battles)
    assert (made.settings["anchor"]["reason"] == "") == oracle.anchored_
    if oracle.anchored_:
        scores = [np.nan if row.score is None else row.score for row in made.rows]
        assert scores == pytest.approx(oracle.ratings_, abs=1e-6, nan_ok=True)


def cast_votes(left, right, outcome, **fields):
    return table(*map(np.array, (left, right, outcome)), **fields)


@pytest.mark.parametrize(
    ("candidate", "reason"),
    [
        *[(3, ""), (5, "archived"), (8, "unconnected"), (13, "no_votes"), (99, "gone")],
        (21, "merged"),
    ],
)
def test_an_anchor_that_cannot_be_used_leaves_the_mean_in_charge(candidate: int, reason: str):
    cast = cast_votes([3, 5, 3, 8], [5, 3, 5, 3], [0, 0, 2, 0], archived=frozenset({5}))
    cast = replace(cast, merged={21: 3})
    made = leaderboard(cast, anchored(candidate))
    assert made.settings["anchor"] == {"candidate": candidate, "score": 1114.0, "reason": reason}
    scores = {row.candidate_id: row.score for row in made.rows if row.score is not None}
    assert np.mean(list(scores.values())) == pytest.approx(made.settings["center"])
    assert (made.settings["center"] == 1000) == (reason != "")


def test_another_scale_is_another_digest():
    cast = cast_votes([3, 5], [5, 3], [0, 0])
    questions = (Question(n_resamples=20), anchored(3), anchored(5), anchored(3, 1000.0))
    assert len({Evidence.of(cast, question).digest for question in questions}) == 4


@pytest.fixture
def arena(db: None) -> Arena:
    """Several people voted on eight prompts, enough for intervals."""
    arena = make_voted_arena(3, 8)
    for _ in range(5):
        fill(arena, rounds=1, rater=make_person())
    return arena


def candidate(arena: Arena, place: int = 0) -> Candidate:
    return arena.candidates.order_by("pk")[place]


def fix(arena: Arena, place: int = 0, score: int = 1114) -> Candidate:
    """Fix one of its candidates."""
    chosen = candidate(arena, place)
    update_arena(arena=arena, by=CLI, anchor=chosen, anchor_score=score)
    return chosen


def scores_of(snapshot: Snapshot) -> dict[int, float | None]:
    return dict(snapshot.standings.values_list("candidate", "score"))


@pytest.mark.django_db
@pytest.mark.any_database
def test_the_next_refresh_publishes_and_stores_the_scale(arena: Arena) -> None:
    before = publish(arena)
    chosen = fix(arena)
    assert scores_of(Snapshot.objects.get(pk=before.pk)) == scores_of(before)
    after = publish(arena)
    assert after.pk != before.pk
    old, new = scores_of(before), scores_of(after)
    assert new[chosen.pk] == pytest.approx(1114)
    for pk, score in old.items():
        assert new[pk] - score == pytest.approx(after.center - 1000)
    assert after.anchor == Anchor(chosen.pk, 1114.0)
    rows = zip(before.standings.order_by("pk"), after.standings.order_by("pk"), strict=True)
    for one, other in rows:
        assert other.high - other.low == pytest.approx(one.high - one.low)
        assert (one.rank, one.sure_rank_high, one.win_rate, one.elo) == (
            *(other.rank, other.sure_rank_high, other.win_rate, other.elo),
        )
    assert publish(arena).pk == after.pk  # and nothing more happens
    update_arena(arena=arena, by=CLI, anchor=None)
    assert scores_of(publish(arena)) == pytest.approx(old)


def test_slow_intervals_do_not_keep_the_scale_waiting(arena: Arena) -> None:
    snapshot = publish(arena)
    Snapshot.objects.filter(board__arena=arena).update(measured_seconds=3600)
    chosen = fix(arena)
    after = publish(arena)
    assert after.measured_at == snapshot.measured_at  # borrowed
    assert scores_of(after)[chosen.pk] == pytest.approx(1114)
    rows = zip(snapshot.standings.order_by("pk"), after.standings.order_by("pk"), strict=True)
    for one, other in rows:
        assert other.high - other.low == pytest.approx(one.high - one.low)


@pytest.mark.parametrize("is_slow", [False, True])
def test_every_leaderboard_of_the_arena_has_the_scale(trusted_judge: Rater, is_slow: bool) -> None:
    arena = make_judged_arena(trusted_judge)
    publish(arena)
    if is_slow:
        Snapshot.objects.filter(board__arena=arena).update(measured_seconds=3600)
    chosen = fix(arena)
    publish(arena)
    current = Snapshot.objects.current().filter(board__arena=arena)
    assert {snapshot.board.raters for snapshot in current} == {"people", "judges", "combined"}
    for snapshot in current:
        assert scores_of(snapshot)[chosen.pk] == pytest.approx(1114), snapshot.board


def test_a_copy_of_peoples_leaderboard_has_the_scale(judge: Rater) -> None:
    arena = make_judged_arena(judge)
    publish(arena)
    fix(arena)
    human = publish(arena)
    combined = Snapshot.objects.current().get(
        board__arena=arena, board__raters="combined", board__category=""
    )
    assert scores_of(combined) == scores_of(human)
    assert combined.center == human.center != 1000


def test_pages_and_files_show_one_scale(arena: Arena, client: Client) -> None:
    chosen = fix(arena)
    publish(arena)
    name = str(chosen)
    board = get_page(client, "/a/support/")
    assert f"The scale is fixed: {name} scores 1114." in words(board)
    data = json.loads(client.get("/a/support/results.json").content)
    row = next(row for row in data["standings"] if row["candidate"] == name)
    assert row["score"] == 1114
    assert data["settings"]["anchor"]["candidate"]["candidate"] == name
    lines = list(csv.DictReader(io.StringIO(client.get("/a/support/results.csv").text)))
    assert {line["candidate"]: float(line["score"]) for line in lines}[name] == 1114
    about = words(get_page(client, "/a/support/about/"))
    assert f"The scale is fixed: {name} scores 1114." in about
    assert f"average {data['settings']['center']:.0f}" in about


def test_the_copy_of_a_leaderboard_fits_the_same_scores(arena: Arena) -> None:
    fix(arena)
    snapshot = publish(arena)
    embedded = re.search(r'id="data"[^>]*>(.+?)</script>', write_copy(arena), re.DOTALL)
    assert embedded
    data = json.loads(embedded[1])
    scores = [score for _, score in data["candidates"]]
    assert np.mean(scores) == pytest.approx(data["center"])
    assert data["center"] == pytest.approx(snapshot.center)


@pytest.mark.parametrize("case", ["archived", "no_votes", "unconnected"])
def test_a_leaderboard_says_why_the_mean_is_in_charge(
    arena: Arena, client: Client, case: str
) -> None:
    before = publish(arena)
    chosen = fix(arena) if case == "archived" else make_candidate(arena, "newcomer")
    if case == "archived":
        publish(arena)
        retire_candidate(candidate=chosen, by=CLI, now=timezone.now())
        says = f"{chosen} should score 1114, but it is archived."
    else:
        update_arena(arena=arena, by=CLI, anchor=chosen, anchor_score=1114)
        says = "newcomer should score 1114, but it has no votes on this leaderboard."
    if case == "unconnected":
        make_vote(arena, chosen, candidate(arena), "left", arena.prompts.first(), make_person())
        says = "newcomer should score 1114, but no chain of wins and losses connects it"
    after = publish(arena)
    assert after.center == 1000
    if case != "unconnected":
        assert scores_of(after)[candidate(arena, 1).pk] == pytest.approx(
            scores_of(before)[candidate(arena, 1).pk]
        )
    for page in ("", "about/"):
        shown = words(get_page(client, f"/a/support/{page}"))
        assert says in shown
        assert "The mean score is 1000 instead." in shown


def test_a_deleted_anchor_leaves_the_mean_in_charge(arena: Arena) -> None:
    chosen = make_candidate(arena, "newcomer")
    update_arena(arena=arena, by=CLI, anchor=chosen, anchor_score=1114)
    publish(arena)
    chosen.delete()
    snapshot = publish(arena)
    assert (snapshot.anchor, snapshot.center) == (None, 1000)


def history_of(client: Client, chosen: Candidate) -> list[float]:
    page = get_page(client, f"/a/support/candidates/{chosen.pk}/")
    data = re.search(r'<script id="history-data"[^>]*>(.+?)</script>', page)
    assert data
    scores: list[float] = json.loads(data[1])[0]["score"]
    return scores


def test_older_scores_are_moved_where_they_are_shown_beside_new_ones(
    arena: Arena, client: Client
) -> None:
    """Twice the same votes: on either scale the history of every candidate is a level line."""
    old = publish(arena)
    old.published_at -= timedelta(days=2)
    old.save()
    Snapshot.objects.filter(pk=old.pk).update(is_history=True)
    stored = scores_of(old)
    chosen = fix(arena)
    now = scores_of(publish(arena))
    for one in arena.candidates.all():
        score = now[one.pk]
        assert score is not None
        assert history_of(client, one) == [round(score)] * 2
    rows = get_page(client, "/a/support/?columns=details")
    lines = re.findall(r'points="([^"]+)"', rows)
    assert lines
    for line in lines:
        assert len({point.split(",")[1] for point in line.split()}) == 1
    assert scores_of(Snapshot.objects.get(pk=old.pk)) == stored  # for display only
    update_arena(arena=arena, by=CLI, anchor=None)
    Snapshot.objects.filter(board=old.board_id, is_current=True).update(is_history=True)
    publish(arena)
    score = stored[chosen.pk]
    assert score is not None
    assert history_of(client, chosen) == [round(score)] * 3


def test_before_it_had_a_score_the_anchor_stands_where_it_began(arena: Arena) -> None:
    fix(arena)
    snapshot = publish(arena)
    older = make_past(snapshot, 5, by=10.0)  # the anchor is 10 below its score
    oldest = make_past(snapshot, 9, by=30.0)
    oldest.standings.filter(candidate=candidate(arena)).delete()
    moves = snapshot.moves([oldest.pk, older.pk, snapshot.pk])
    assert moves == pytest.approx({oldest.pk: 10.0, older.pk: 10.0, snapshot.pk: 0.0})


def test_the_style_controlled_scores_move_too(arena: Arena) -> None:
    fix(arena)
    snapshot = publish(arena)
    scores = {"7": {"score": 990.0, "low": 980.0, "high": 1001.0, "rank_low": 1, "rank_high": 2}}
    snapshot.findings["style"] = {"scores": scores}
    found = Findings.of(snapshot).style_scores[7]
    move = snapshot.center - 1000
    assert (found.score, found.low, found.high) == (990 + move, 980 + move, 1001 + move)
    assert (found.rank_low, found.rank_high) == (1, 2)


def test_scores_without_the_votes_that_reveal_an_author_move_too() -> None:
    named = {"votes": 3, "without": [[7, 1, 1020.0]]}
    says = wording.self_identified({"center": 1100.0, "named": named}, {7: "gpt-4"})
    assert "gpt-4 would rank 1 (1,120)" in says


@pytest.mark.django_db
def test_the_anchor_is_not_called_better_in_a_category_for_being_fixed(client: Client) -> None:
    """What is said of categories is about candidates, so the scale has no part in it."""
    arena = make_arena(3, 80, slug="support")
    first, *others = arena.candidates.order_by("pk")
    for _ in range(8):
        wins = [
            (first, other, "left" if (number % 2 == 0) == (number % 10 < 8) else "right", prompt)
            for number, prompt in enumerate(arena.prompts.order_by("pk"))  # of categories in turn
            for other in others
        ]
        make_votes(arena, wins, make_person())
    publish(arena)

    def says() -> list[str]:
        """What each candidate's page says of categories."""
        pages = [get_page(client, f"/a/support/candidates/{pk}/") for pk in ids]
        found = [re.findall(r"[^.]*(?:than usual|differs clearly)[^.]*", page) for page in pages]
        return [" ".join(one) for one in found]

    ids = [one.pk for one in arena.candidates.order_by("pk")]
    before = says()
    assert "Clearly better than usual in “category-0”" in before[0]
    fix(arena)
    publish(arena)
    assert says() == before


@pytest.mark.django_db
@pytest.mark.any_database
def test_the_log_proves_scores_on_their_scale(arena: Arena, tmp_path: Path, capsys: Any) -> None:
    fix(arena)
    publish(arena)
    path = tmp_path / "log.jsonl"
    call_command("verify_log", arena.slug, export=path)
    assert json.loads(path.read_text().partition("\n")[0])["version"] == log_file.VERSION
    call_command("verify", path)
    printed = capsys.readouterr().out
    assert printed.count("numbers match the published") == 3
    assert "  1114.0  " in printed
    retire_candidate(candidate=candidate(arena), by=CLI, now=timezone.now())
    publish(arena)
    call_command("verify_log", arena.slug, export=path)
    call_command("verify", path)
    assert capsys.readouterr().out.count("numbers match the published") == 3


def test_an_export_ranked_with_the_anchor_agrees_with_the_page(
    arena: Arena, client: Client, tmp_path: Path, capsys: Any
) -> None:
    chosen = fix(arena)
    void_vote(cast(arena))
    published = {
        row.candidate.name: row.score
        for row in publish(arena).standings.select_related("candidate")
    }
    path = tmp_path / "battles.csv"
    path.write_bytes(client.get("/api/v1/arenas/support/exports/battles.csv").getvalue())
    call_command("rank", str(path), "--json", f"--anchor={chosen}=1114")
    found = json.loads(capsys.readouterr().out)
    scores = {row["candidate"]: row["score"] for row in found["standings"]}
    assert scores == pytest.approx(published, abs=1e-3)


@pytest.mark.django_db
@pytest.mark.any_database
@pytest.mark.parametrize("score", [-1, 10_001])
def test_the_database_refuses_a_score_outside_its_limits(arena: Arena, score: int) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Arena.objects.filter(pk=arena.pk).update(anchor_score=score)


def test_a_past_that_is_made_of_imported_votes_has_the_scale(arena: Arena) -> None:
    now = timezone.now()
    for number, vote in enumerate(arena.votes.order_by("pk")):
        vote.cast_at = now - timedelta(days=30) + timedelta(hours=number)
        vote.save(update_fields=["cast_at"])
    chosen = fix(arena)
    publish(arena)
    past = Snapshot.objects.filter(board__arena=arena, digest="")
    scored = [scores_of(snapshot).get(chosen.pk) for snapshot in past]
    assert len(scored) == refresh.PAST_SNAPSHOTS - 1
    assert {round(score, 6) for score in scored if score is not None} == {1114.0}
