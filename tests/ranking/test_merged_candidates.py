"""A merged candidate is one on leaderboards: as if the file had been written with one name, and
without the votes between the two."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.actors import CLI
from arena.models import Arena, Candidate, Rater
from arena.services.candidates import merge_candidates, undo_merges
from arena.services.imports import BadRowsError, import_files, preview_files
from ranking.exports import EXPORTS, write_file
from ranking.leaderboard import Leaderboard, leaderboard
from ranking.leaderboard_copy import read_votes
from ranking.models import ArenaRefresh, LogLink, Snapshot
from ranking.question import Question
from ranking.services.votes import read, read_only
from ranking.votes import VoteTable, read_file
from tests.factories import make_person, make_vote
from tests.ranking.helpers import fill, make_voted_arena, publish

pytestmark = pytest.mark.django_db

NAMES = ["ash", "elm", "fir", "oak", "oak 2", "Oak"]
ALIASES = {"Oak": "oak", "oak 2": "oak"}
PROMPTS, RATERS = 6, 5
Battle = tuple[str, str, str, int, int]
BATTLES = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        st.sampled_from(["left", "right", "tie", "both_bad"]),
        st.integers(0, PROMPTS - 1),
        st.integers(0, RATERS - 1),
    ).filter(lambda battle: battle[0] != battle[1]),
    max_size=80,
)
# Every prompt and rater appears first in these, so that both files number them alike.
FIRST: list[Battle] = [
    (*(("elm", "fir"), ("fir", "ash"), ("ash", "elm"))[n % 3], "left", n % PROMPTS, n % RATERS)
    for n in range(PROMPTS * RATERS)
]


def as_table(path: Path, battles: list[Battle]) -> VoteTable:
    rows = [f"{a},{b},{outcome},p{prompt},r{rater}\n" for a, b, outcome, prompt, rater in battles]
    path.write_text("left,right,winner,prompt,worker\n" + "".join(rows))
    return read_file(path)[0]


def by_name(made: Leaderboard, votes: VoteTable) -> dict[str, Any]:
    return {
        votes.names[row.candidate_id]: {
            name: pytest.approx(value, abs=1e-6) if isinstance(value, float) else value
            for name, value in vars(row).items()
            if name not in ("candidate_id", "reason")
        }
        for row in made.rows
    }


@given(BATTLES)
@settings(max_examples=25)
def test_aliases_rank_as_if_the_file_had_one_name(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[Battle]
) -> None:
    folder, question = tmp_path_factory.mktemp("files"), Question(n_resamples=50)
    battles = [*FIRST, *drawn, ("oak", "ash", "tie", 0, 0), ("Oak", "oak 2", "left", 0, 0)]
    written = as_table(folder / "written.csv", battles)
    numbers = {name: pk for pk, name in written.names.items()}
    merged = written.merge(
        {numbers[name]: numbers[into] for name, into in ALIASES.items() if name in numbers}
    )
    rewritten = [(ALIASES.get(a, a), ALIASES.get(b, b), *rest) for a, b, *rest in battles]
    by_hand = as_table(folder / "by_hand.csv", [row for row in rewritten if row[0] != row[1]])
    made, oracle = leaderboard(merged, question), leaderboard(by_hand, question)
    assert by_name(made, merged) == by_name(oracle, by_hand)
    assert made.fields["n_votes"] == oracle.fields["n_votes"]
    n_between = sum(row[0] == row[1] for row in rewritten)
    assert made.settings["left_out"] == {"merged": n_between}


def test_a_merge_of_nothing_is_the_same_table(tmp_path: Path) -> None:
    votes = as_table(tmp_path / "votes.csv", FIRST)
    assert votes.merge({}) is votes


@pytest.fixture
def arena(db: None) -> Arena:
    """Five candidates, named as in `NAMES`, before people and a judge."""
    arena = make_voted_arena(5, 8)
    for candidate, name in zip(arena.candidates.order_by("pk"), NAMES[1:], strict=True):
        Candidate.objects.filter(pk=candidate.pk).update(name=name)
    for _ in range(5):
        fill(arena, rounds=1, rater=make_person())
    fill(arena, rounds=1, rater=Rater.objects.create(kind=Rater.Kind.JUDGE, name="A judge"))
    return arena


def named(arena: Arena, name: str) -> Candidate:
    return arena.candidates.get(name=name)


def merge(arena: Arena) -> None:
    aliases = [named(arena, name) for name in ALIASES]
    into = named(arena, "oak")
    merge_candidates(candidates=aliases, into=into, by=CLI, now=timezone.now())


def shown(snapshot: Snapshot) -> dict[str, tuple[Any, ...]]:
    fields = ("candidate__name", "votes", "score", "low", "high", "rank", "elo")
    return {name: numbers for name, *numbers in snapshot.standings.values_list(*fields)}


@pytest.mark.parametrize("with_log", [True, False])
def test_an_alias_is_no_row_from_the_next_refresh_and_back_after_the_undoing(
    arena: Arena, settings: Any, with_log: bool
) -> None:
    settings.VOTE_LOG = with_log
    before = publish(arena)
    bytes_before = list(LogLink.objects.order_by("pk").values_list("digest", "rows", "signature"))
    votes_before = list(arena.votes.order_by("pk").values())
    merge(arena)
    assert ArenaRefresh.objects.get(arena=arena).is_stale
    merged = publish(arena)
    assert set(shown(merged)) == {"elm", "fir", "oak"}
    between = 3 * 8 * 6  # pairs of three candidates, before six people
    assert merged.settings["left_out"] == {"merged": between}
    assert merged.n_votes + merged.n_both_bad == 10 * 8 * 6 - between
    assert list(arena.votes.order_by("pk").values()) == votes_before
    links = LogLink.objects.order_by("pk").values_list("digest", "rows", "signature")
    assert list(links[: len(bytes_before)]) == bytes_before
    undo_merges(candidates=list(arena.candidates.all()), by=CLI)
    after = publish(arena)
    assert after.digest == before.digest
    assert shown(after) == shown(before)
    assert "merged" not in after.settings


def test_votes_on_an_issued_pair_of_an_alias_count_for_the_other(arena: Arena) -> None:
    merge(arena)
    n_votes = publish(arena).n_votes
    elm, alias, oak = (named(arena, name) for name in ("elm", "Oak", "oak"))
    make_vote(arena, elm, alias, "right", arena.prompts.first(), make_person())
    make_vote(arena, oak, alias, "right", arena.prompts.first(), make_person())
    assert publish(arena).n_votes == n_votes + 1


def test_intervals_of_before_a_merge_are_not_kept(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(arena)
    Snapshot.objects.current().update(measured_seconds=3600.0)  # the next ones would wait
    merge(arena)
    snapshot = publish(arena)
    assert snapshot.measured_digest == snapshot.digest


def test_the_log_and_its_file_prove_a_leaderboard_with_aliases(
    arena: Arena, tmp_path: Path, capsys: Any
) -> None:
    publish(arena)
    merge(arena)
    call_command("verify_log", arena.slug, export=tmp_path / "early.jsonl")  # before the refresh
    publish(arena)
    call_command("verify_log", arena.slug, export=tmp_path / "log.jsonl")
    capsys.readouterr()
    for name in ("early.jsonl", "log.jsonl"):
        call_command("verify", tmp_path / name)
        assert capsys.readouterr().out.count("numbers match the published") == 6
    call_command("verify", tmp_path / "log.jsonl")
    printed = capsys.readouterr().out
    assert "Counted as oak: oak 2, Oak." in printed
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    [forged] = [
        json.dumps(line | {"merged": []})
        for line in lines
        if line["type"] == "leaderboard" and (line["raters"], line["category"]) == ("people", "")
    ]
    kept = [json.dumps(line) for line in lines if line["type"] != "leaderboard"]
    place = next(n for n, line in enumerate(kept) if json.loads(line)["type"] == "link")
    path = tmp_path / "forged.jsonl"
    path.write_text("\n".join([*kept[:place], forged, *kept[place:]]) + "\n")
    with pytest.raises(Exception, match="failed the check"):
        call_command("verify", path)


def test_the_copy_of_the_page_has_the_votes_as_they_count(arena: Arena) -> None:
    publish(arena)
    merge(arena)
    snapshot = publish(arena)
    ids = {named(arena, name).pk for name in ("elm", "fir", "oak")}
    votes = read_votes(arena, snapshot)
    assert {pk for left, right, *_ in votes for pk in (left, right)} == ids
    assert len(votes) == snapshot.n_votes


@pytest.mark.parametrize("with_log", [True, False])
def test_claims_count_an_aliases_votes(arena: Arena, settings: Any, with_log: bool) -> None:
    settings.VOTE_LOG = with_log
    merge(arena)
    publish(arena)
    elm, oak = named(arena, "elm").pk, named(arena, "oak").pk
    direct = {name: getattr(read(arena, [elm, oak]).counted, name) for name in ("pk", "left")}
    whole = read(arena).counted
    chosen = ((whole.left == elm) | (whole.right == elm)) & (
        (whole.left == oak) | (whole.right == oak)
    )
    assert direct["pk"].tolist() == whole.pk[chosen].tolist()
    assert len(direct["pk"]) == 3 * 8 * 7
    assert len(read_only(arena, arena.votes.live())) == len(whole)


def test_the_style_of_answers_is_unknown_where_both_answered(arena: Arena) -> None:
    arena.prompts.order_by("pk").last().responses.filter(candidate__name="oak").delete()
    only_alias = arena.prompts.order_by("pk").last()
    only_alias.responses.filter(candidate__name="oak 2").delete()
    publish(arena)
    merge(arena)
    oak, table = named(arena, "oak").pk, read(arena)
    styled = table.answers[table.answers[:, 1] == oak]
    assert styled[:, 0].tolist() == [only_alias.pk]
    assert len(table.answers) == len(table.features) == 2 * 8 + 1


def test_an_export_ranks_and_comes_back_as_the_arena(arena: Arena, tmp_path: Path) -> None:
    merge(arena)
    published = shown(publish(arena))
    folder = tmp_path / "out"
    call_command("export_arena", arena.slug, folder)
    lines = [json.loads(line) for line in (folder / "candidates.jsonl").read_text().splitlines()]
    assert [line.get("merged_into") for line in lines] == [None, None, None, "oak", "oak"]
    out, err = StringIO(), StringIO()
    call_command("rank", folder, "--json", stdout=out, stderr=err)
    ranked = {row["candidate"]: row["score"] for row in json.loads(out.getvalue())["standings"]}
    assert ranked == pytest.approx({name: row[1] for name, row in published.items()}, abs=1e-5)
    assert "Near-equal" not in err.getvalue()
    assert preview_files(slug="back", paths=[folder]).warnings == []
    back = import_files(slug="back", paths=[folder], now=timezone.now()).arena
    aliases = dict(back.candidates.merged().values_list("name", "merged_into__name"))
    assert aliases == ALIASES
    again = shown(publish(back))
    assert {name: row[1] for name, row in again.items()} == pytest.approx(
        {name: row[1] for name, row in published.items()}, abs=1e-5
    )


def test_a_file_s_aliases_of_no_earlier_candidate_are_refused(tmp_path: Path) -> None:
    rows = [
        {"name": "oak"},
        {"name": "Oak", "merged_into": "oak"},
        {"name": "OAK", "merged_into": "Oak"},
        {"name": "elm", "merged_into": "elm"},
        {"name": "fir", "merged_into": "ash"},
        {"name": "ash"},
    ]
    path = tmp_path / "candidates.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadRowsError) as refused:
        import_files(slug="mine", paths=[path], now=timezone.now())
    assert [line.partition(", column")[0][-6:] for line in refused.value.rejected.first] == [
        "line 3",
        "line 4",
        "line 5",
    ]


def test_pages_point_at_the_candidate_that_it_was_merged_into(arena: Arena, client: Client) -> None:
    publish(arena)
    merge(arena)
    publish(arena)
    oak, alias, elm = (named(arena, name) for name in ("oak", "Oak", "elm"))
    page = client.get(reverse("candidate", args=[arena.slug, alias.pk])).text
    assert f'Merged into <a href="/a/support/candidates/{oak.pk}/">oak</a> on ' in page
    page = client.get(reverse("candidate", args=[arena.slug, oak.pk])).text
    assert "Votes for these candidates count here, too:" in page
    for a, b in [(alias.pk, elm.pk), (elm.pk, alias.pk)]:
        response = client.get(reverse("compare", args=[arena.slug]), {"a": a, "b": b})
        assert {side.pk for side in response.context["sides"]} == {oak.pk, elm.pk}
    alone = client.get(reverse("compare", args=[arena.slug]), {"a": alias.pk})
    assert alone.context["sides"][0].pk == oak.pk
    assert not alone.context["same"]
    methodology = client.get(reverse("about", args=[arena.slug])).text
    assert "144 between candidates that were merged" in methodology


def test_exported_battles_name_the_candidates_that_were_voted_on(arena: Arena) -> None:
    publish(arena)
    before = b"".join(write_file(EXPORTS["battles"], "csv", arena, CLI))
    merge(arena)
    publish(arena)
    assert b"".join(write_file(EXPORTS["battles"], "csv", arena, CLI)) == before
