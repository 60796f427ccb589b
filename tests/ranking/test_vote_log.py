"""The vote log: rewritten votes are found, reported, and never adopted."""

import json
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from arena.actors import CLI
from arena.models import (
    Arena,
    AuditEntry,
    Comparison,
    Import,
    Membership,
    Notice,
    Prompt,
    Rater,
    Run,
    Vote,
    Webhook,
)
from arena.services.deliveries import delivery_body
from arena.services.orders import reconcile_people_run
from arena.services.runs import cancel_run
from arena.services.voting import undo_vote, void_rater
from ranking.log import links, verification
from ranking.log.links import Kind
from ranking.models import ArenaRefresh, LogLink, Snapshot, VoteLog
from ranking.services import refresh
from ranking.votes import VoteTable
from tests.factories import make_person, make_team, void_vote
from tests.ranking.helpers import (
    cast,
    claim,
    fill,
    hidden_import,
    make_voted_arena,
    publish,
    reveal,
    update_log,
)

pytestmark = pytest.mark.django_db
ANOTHER_KEY = "A" * 43 + "="


@pytest.fixture
def arena(db: None) -> Arena:
    """Three candidates, four prompts, 24 votes of one person."""
    return make_voted_arena(n_prompts=4, rounds=2)


def found(arena: Arena) -> list[str]:
    return verification.verify(arena_id=arena.pk, token=claim(arena)).sentences


def repair(arena: Arena, reason: str = "mistake corrected") -> list[str]:
    return verification.repair(arena=arena, reason=reason, by=CLI, token=claim(arena)).sentences


def kinds(arena: Arena) -> list[str]:
    return list(arena.log_links.order_by("number").values_list("kind", flat=True))


def run_sql(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def test_outcomes_flipped_in_the_database_are_not_adopted(capsys: Any) -> None:
    arena = make_voted_arena(n_prompts=60, rounds=3)
    publish(arena)
    ids = list(arena.votes.filter(outcome="right").values_list("pk", flat=True)[:100])
    ids += list(arena.votes.filter(outcome="left").values_list("pk", flat=True)[:200])
    flip = "UPDATE arena_vote SET outcome = CASE outcome WHEN 'left' THEN 'right' ELSE 'left' END"
    run_sql(f"{flip} WHERE id IN ({', '.join(map(str, ids))})")
    with pytest.raises(CommandError, match="do not match the log"):
        call_command("verify_log", arena.slug)
    printed = capsys.readouterr().out
    assert "differs from the log: right instead of left." in printed
    assert "280 more" in printed
    assert "300 faults" in printed


def test_an_honest_history_verifies(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "BATCH", 5)
    monkeypatch.setattr(verification, "BATCH", 5)
    chance = random.Random(3)
    for turn in range(20):
        vote = cast(arena, preference=chance.choice([None, chance.random()]))
        if turn % 4 == 0:
            void_vote(vote)
        if turn % 3 == 0:
            live = chance.choice(list(arena.votes.filter(voided_at=None)))
            void_vote(live)
        if turn % 10 == 5:
            reveal(hidden_import(arena, turn, 7))
        if chance.random() < 0.4:
            update_log(arena)
        if turn % 10 == 9:
            assert found(arena) == []
    update_log(arena)
    assert found(arena) == []
    assert set(links.logged_votes(arena.pk)) == set(arena.votes.live())
    assert {Kind.START, Kind.CAST, Kind.VOIDED, Kind.IMPORT, Kind.IMPORTED} == set(kinds(arena))


def delete(vote: Vote) -> None:
    run_sql(f"DELETE FROM arena_vote WHERE id = {vote.pk}")


def swap_sides(vote: Vote) -> None:
    comparison = vote.comparison
    Comparison.objects.filter(pk=comparison.pk).update(
        left=comparison.right, right=comparison.left, left_response=None, right_response=None
    )


def change_kind(vote: Vote) -> None:
    Rater.objects.filter(pk=vote.rater_id).update(kind="judge")


def add(vote: Vote) -> None:
    vote.pk, vote.logged, vote.comparison = None, True, Comparison.objects.last()
    vote.rater = make_person()
    vote.save(force_insert=True)


def of_vote(**fields: Any) -> Callable[[Vote], None]:
    return lambda vote: Vote.objects.filter(pk=vote.pk).update(**fields) and None


@pytest.mark.parametrize(
    ("rewrite", "words"),
    [
        (of_vote(outcome="tie"), "tie instead of left"),
        (of_vote(preference=0.75), "another preference"),
        (of_vote(cast_at=timezone.now()), "another time"),
        (of_vote(logged=False), "is no longer counted"),
        (lambda vote: of_vote(rater=make_person())(vote), "another rater"),
        (lambda vote: of_vote(comparison=Comparison.objects.first())(vote), "another comparison"),
        (delete, "is missing"),
        (swap_sides, "another candidate on the left"),
        (change_kind, "another kind of rater"),
        (add, "is counted, but is not in the log"),
    ],
)
def test_rewritten_votes_are_found_and_repaired_in_a_signed_entry(
    arena: Arena, rewrite: Callable[[Vote], None], words: str
) -> None:
    vote = cast(arena)
    update_log(arena)
    assert found(arena) == []
    rewrite(vote)
    faults = found(arena)
    assert any(words in fault for fault in faults), faults
    assert repair(arena) == faults
    assert found(arena) == []
    assert arena.log_links.latest("number").details["reason"] == "mistake corrected"


@pytest.mark.parametrize("later", [None, timezone.now()])
def test_a_void_taken_back_in_the_database_is_found(arena: Arena, later: Any) -> None:
    vote = cast(arena)
    update_log(arena)
    void_vote(vote, reason="a script")
    update_log(arena)
    Vote.objects.filter(pk=vote.pk).update(voided_at=later)
    assert found(arena) == [f"Vote {vote.pk} was voided, but its row says otherwise."]
    if later is None:
        update_log(arena)
        assert found(arena) == [
            f"Vote {vote.pk} is counted, although the log says that it was voided."
        ]
    repair(arena)
    assert found(arena) == []


def test_votes_that_the_database_has_logged_again_are_found(arena: Arena) -> None:
    reveal(hidden_import(arena, 5, 7))
    update_log(arena)
    run_sql("UPDATE arena_vote SET logged = false")
    run_sql("UPDATE arena_import SET logged_at = NULL")
    assert any("is no longer counted" in fault for fault in found(arena))
    update_log(arena)
    faults = found(arena)
    assert faults
    assert all("was counted more than once" in fault for fault in faults)
    repair(arena)
    assert found(arena) == []


def change_link(**fields: Any) -> Callable[[Arena], None]:
    return lambda arena: LogLink.objects.filter(arena=arena, number=2).update(**fields) and None


def forge_a_key(arena: Arena) -> None:
    """Write the log anew from the changed votes, as somebody without the site's key could."""
    from django.test import override_settings

    arena.votes.filter(outcome="left").update(outcome="tie")
    LogLink.objects.filter(arena=arena).delete()
    VoteLog.objects.filter(arena=arena).delete()
    with override_settings(VOTE_LOG_KEY=ANOTHER_KEY):
        update_log(arena)


@pytest.mark.parametrize(
    ("rewrite", "words"),
    [
        (change_link(digest="0" * 64), "Link 2 of the log was changed"),
        (change_link(kind=Kind.START), "Link 2 of the log was changed"),
        (change_link(n_rows=1), "Link 2 of the log was changed"),
        (change_link(signature="00" * 64), "Link 2 of the log has no valid signature"),
        (change_link(rows=b"nothing"), "The rows of link 2 of the log were changed"),
        (lambda arena: LogLink.objects.filter(number=2).delete(), "Link 2 of the log is missing"),
        (forge_a_key, "signed with a key other"),
    ],
)
def test_a_rewritten_log_is_found(arena: Arena, rewrite: Any, words: str) -> None:
    update_log(arena)
    cast(arena)
    update_log(arena)
    rewrite(arena)
    assert any(words in fault for fault in found(arena)), found(arena)


def test_a_log_cut_short_is_found_by_its_votes_and_by_published_heads(arena: Arena) -> None:
    publish(arena)
    vote = cast(arena)
    publish(arena)
    LogLink.objects.filter(number=3).delete()
    faults = found(arena)
    assert f"Vote {vote.pk} is counted, but is not in the log." in faults
    assert "Link 3 of the log differs from the one that leaderboards published." in faults


@pytest.mark.parametrize(
    "rewrite", ["DELETE FROM ranking_votelog", "UPDATE ranking_votelog SET is_begun = false"]
)
def test_a_log_that_is_gone_is_missed_by_published_heads(arena: Arena, rewrite: str) -> None:
    publish(arena)
    run_sql(rewrite)
    gone = "Link 2 of the log differs from the one that leaderboards published."
    assert found(arena) == [gone]
    repair(arena)
    repair(arena)  # the raters' numbers in the first log are gone with it
    assert found(arena) == []


def test_a_new_key_is_accepted_by_a_repair_and_nothing_else_with_it(
    arena: Arena, settings: Any
) -> None:
    update_log(arena)
    settings.VOTE_LOG_KEY = ANOTHER_KEY
    cast(arena)
    update_log(arena)
    assert found(arena) == ["2 links, 1 to 2, were signed with a key other than the site's."]
    repair(arena, "new key")
    assert found(arena) == []
    LogLink.objects.filter(number=1).update(details={"rows": 1})
    assert found(arena) == ["Link 1 of the log was changed."]


@pytest.mark.parametrize("fault", ["before the link", "after the link"])
def test_an_update_cut_short_leaves_neither_marks_nor_link(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    update_log(arena)
    vote = cast(arena)
    write = links.append

    def cut_short(**fields: Any) -> Any:
        if fault == "after the link":
            write(**fields)
        raise SystemExit

    monkeypatch.setattr(links, "append", cut_short)
    with pytest.raises(SystemExit):
        update_log(arena)
    assert kinds(arena) == ["start", "cast"]
    assert not Vote.objects.get(pk=vote.pk).logged
    monkeypatch.undo()
    update_log(arena)
    assert kinds(arena) == ["start", "cast", "cast"]
    assert found(arena) == []


def test_votes_from_before_the_log_are_its_first_links(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    reveal(hidden_import(arena))
    update_log(arena)
    LogLink.objects.all().delete()
    VoteLog.objects.all().delete()
    monkeypatch.setattr(links, "BATCH", 10)
    later = cast(arena)
    token = claim(arena)
    log = VoteLog.objects.create(arena=arena)
    links._begin_log(log, token)  # killed after the first of four
    update_log(arena)
    assert kinds(arena) == [*["start"] * 4, "cast"]
    assert sum(arena.log_links.filter(kind="start").values_list("n_rows", flat=True)) == 31
    assert arena.log_links.get(kind="cast").first_id == later.pk
    assert found(arena) == []


def test_a_vote_undone_before_it_was_counted_is_not_in_the_log(arena: Arena) -> None:
    vote = cast(arena)
    vote.comparison.rater = vote.rater
    undo_vote(comparison=vote.comparison, rater=vote.rater, now=timezone.now())
    update_log(arena)
    assert sum(arena.log_links.values_list("n_rows", flat=True)) == 24
    assert found(arena) == []


def test_votes_of_an_order_that_hides_names_are_counted_when_it_ends(arena: Arena) -> None:
    update_log(arena)
    order = Run.objects.create(
        arena=arena, kind="person", per_pair=1, state="open", hides_names=True
    )
    vote = cast(arena)
    Comparison.objects.filter(pk=vote.comparison_id).update(run=order)
    update_log(arena)
    assert kinds(arena) == ["start", "cast"]
    assert not Vote.objects.to_log().exists()
    Run.objects.update(state="done")
    assert Vote.objects.to_log().exists()
    update_log(arena)
    assert kinds(arena) == ["start", "cast", "cast"]
    assert found(arena) == []


@pytest.mark.parametrize("end", ["votes", "cancelled"])
def test_the_end_of_an_order_that_hides_names_marks_its_arena_stale(
    arena: Arena, django_capture_on_commit_callbacks: Any, end: str
) -> None:
    """Without a log, nothing else tells of votes that count from now on."""
    update_log(arena)
    order = Run.objects.create(
        arena=arena, kind="person", per_pair=1, state="open", hides_names=True
    )
    ArenaRefresh.objects.update(is_stale=False)
    arena.pairs.update(shared_prompts=0)  # nothing is left to vote on
    with django_capture_on_commit_callbacks(execute=True):
        if end == "votes":
            reconcile_people_run(run=order, now=timezone.now())
        else:
            cancel_run(run_id=order.pk, now=timezone.now())
    assert ArenaRefresh.objects.get(arena=arena).is_stale


def test_an_import_ends_with_one_link_about_its_file(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "BATCH", 3)
    source = hidden_import(arena)
    reveal(source)
    update_log(arena)
    link = arena.log_links.get(kind=Kind.IMPORTED)
    assert (link.details["rows"], link.details["sha256"]) == (7, source.sha256)
    assert arena.log_links.filter(kind=Kind.IMPORT).count() == 3
    update_log(arena)
    assert arena.log_links.filter(kind=Kind.IMPORTED).count() == 1


@pytest.mark.parametrize("killed_at", range(1, 6))
def test_a_half_logged_import_is_continued(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> None:
    """A kill before any of its steps, and votes of it voided meanwhile, before and after theirs."""
    monkeypatch.setattr(links, "BATCH", 3)
    update_log(arena)
    source = hidden_import(arena)
    update_log(arena)
    assert not source.arena.votes.filter(source=source, logged=True).exists()
    reveal(source)
    write, steps = links.append, iter(range(1, 6))

    def write_or_die(**fields: Any) -> None:
        if next(steps) == killed_at:
            raise SystemExit
        write(**fields)

    monkeypatch.setattr(links, "append", write_or_die)
    with suppress(SystemExit):
        update_log(arena)
    assert found(arena) == []
    for row in (2, 6):
        void_vote(Vote.objects.get(source=source, source_row=row))
    cast(arena)
    monkeypatch.setattr(links, "append", write)
    update_log(arena)
    assert set(links.logged_votes(arena.pk)) == set(arena.votes.live())
    assert Import.objects.get().logged_at
    assert arena.log_links.get(kind=Kind.IMPORTED).details["rows"] == 7
    assert found(arena) == []


def test_votes_of_a_file_that_count_again_are_released(arena: Arena) -> None:
    source = hidden_import(arena)
    Vote.objects.filter(source=source).update(uncounted="channel")
    reveal(source)
    update_log(arena)
    assert kinds(arena)[-1] == Kind.HELD
    Vote.objects.filter(source=source).update(uncounted=None)
    assert ArenaRefresh.objects.behind(timezone.now()).exists()
    update_log(arena)
    assert kinds(arena)[-1] == Kind.RELEASED
    assert set(links.logged_votes(arena.pk)) == set(arena.votes.live())
    assert found(arena) == []


def test_a_void_after_the_update_waits_for_the_next(arena: Arena) -> None:
    update_log(arena)
    vote = arena.votes.first()
    assert vote is not None
    void_vote(vote)
    assert vote in links.logged_votes(arena.pk)  # as the head says
    assert found(arena) == []
    update_log(arena)
    assert vote not in links.logged_votes(arena.pk)
    assert found(arena) == []


def test_a_vote_with_a_smaller_id_that_commits_late_is_logged(arena: Arena) -> None:
    late = cast(arena)
    arena.votes.filter(pk=late.pk).delete()
    cast(arena)
    update_log(arena)
    late.save(force_insert=True)  # as if its transaction had been open until now
    assert found(arena) == []
    update_log(arena)
    assert late in links.logged_votes(arena.pk)
    assert found(arena) == []


def test_a_vote_voided_before_its_update_is_not_in_the_log(arena: Arena) -> None:
    update_log(arena)
    head = links.head(arena.pk)
    void_vote(cast(arena))
    assert update_log(arena) == head


def test_without_a_log_votes_are_new_by_their_ids(arena: Arena, settings: Any) -> None:
    before = update_log(arena)
    settings.VOTE_LOG = False
    refresh = ArenaRefresh.objects.filter(arena=arena)
    newest = cast(arena).pk
    refresh.update(is_stale=False, token=None, leased_until=None, newest_vote_id=newest)

    def is_due() -> bool:
        now = timezone.now() + timedelta(minutes=1)
        assert ArenaRefresh.objects.behind(now).exists() == bool(ArenaRefresh.objects.due(now))
        return ArenaRefresh.objects.behind(now).exists()

    assert not is_due()
    vote = cast(arena)
    assert is_due()
    assert update_log(arena) is None
    assert links.head(arena.pk) is None
    refresh.update(token=None, leased_until=None, is_stale=False)
    vote.voided_at, vote.void_reason = timezone.now(), "a test"
    vote.save()
    assert not is_due()
    settings.VOTE_LOG = True
    refresh.update(is_stale=False)
    assert is_due()
    now = update_log(arena)
    assert now["number"] > before["number"]
    assert found(arena) == []


def test_the_log_has_no_names_and_no_ids_of_raters(arena: Arena) -> None:
    rater = make_person(name="Ada Lovelace")
    fill(arena, rounds=1, rater=rater)
    update_log(arena)
    void_rater(rater=rater, by=CLI, reason="Ada Lovelace wrote a script", now=timezone.now())
    update_log(arena)
    for row in arena.log_links.all():
        columns = links.rows_of(row)
        assert "Lovelace" not in str(row.details)
        assert rater.pk not in columns.get("rater", [])
    first, second = (make_voted_arena_numbers(arena_id) for arena_id in (1, 2))
    assert first != second
    Rater.objects.filter(pk=rater.pk).update(name="", user=None)  # forgotten
    assert found(arena) == []


def make_voted_arena_numbers(arena_id: int) -> list[int]:
    import numpy as np

    from ranking.log.chain import rater_numbers

    return list(rater_numbers(np.array([1, 2]), arena_id, b"salt").tolist())


def test_a_repair_is_in_the_teams_audit_log(arena: Arena, capsys: Any) -> None:
    Arena.objects.filter(pk=arena.pk).update(team=make_team())
    publish(arena)
    vote = arena.votes.first()
    assert vote is not None
    Vote.objects.filter(pk=vote.pk).update(outcome="both_bad")
    call_command("verify_log", arena.slug, repair="mistake corrected")
    assert "1 fault, accepted" in capsys.readouterr().out
    entry = AuditEntry.objects.get(action="repaired the log of votes")
    assert entry.details == {"arena": "support", "votes": 1, "reason": "mistake corrected"}
    call_command("verify_log", arena.slug)
    assert "correct, 24 votes in" in capsys.readouterr().out
    with pytest.raises(CommandError, match="Specify the arenas"):
        call_command("verify_log", repair="other")


def test_verifying_waits_its_turn(arena: Arena) -> None:
    claim(arena)
    with pytest.raises(CommandError, match="is being refreshed"):
        call_command("verify_log", arena.slug, wait=0.1)


def test_the_command_that_rebuilt_tallies_says_what_happens_instead(
    arena: Arena, capsys: Any
) -> None:
    call_command("rebuild_tallies", arena.slug, wait=1.0)
    assert "`verify_log` compares the votes with their log" in capsys.readouterr().out


def kill_before_publishing(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    cast(arena)
    update_log(arena)


def void_before_reading(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    vote, read = cast(arena), refresh.read

    def void_and_read(arena: Arena) -> VoteTable:
        void_vote(vote)
        return read(arena)

    monkeypatch.setattr(refresh, "read", void_and_read)
    assert publish(arena).n_votes == 25  # as its head says
    monkeypatch.setattr(refresh, "read", read)


def commit_late(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    late = cast(arena)
    Vote.objects.filter(pk=late.pk).delete()
    cast(arena)
    publish(arena)
    late.save(force_insert=True)


def log_half_of_a_file(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    reveal(hidden_import(arena))
    writers = iter([links.append])
    with monkeypatch.context() as patched, suppress(StopIteration):
        patched.setattr(links, "BATCH", 3)
        patched.setattr(links, "append", lambda **fields: next(writers)(**fields))
        update_log(arena)
    assert arena.votes.filter(source__isnull=False, logged=True).count() == 3


@pytest.mark.parametrize(
    "event", [kill_before_publishing, void_before_reading, commit_late, log_half_of_a_file]
)
def test_votes_and_an_export_agree_with_the_log_at_all_times(
    arena: Arena, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, event: Any
) -> None:
    publish(arena)
    event(arena, monkeypatch)
    for _ in range(2):
        assert found(arena) == []
        call_command("verify_log", arena.slug, export=tmp_path / "log.jsonl")
        call_command("verify", tmp_path / "log.jsonl")
        ArenaRefresh.objects.update(token=None, leased_until=None)
        publish(arena)
    assert set(links.logged_votes(arena.pk)) == set(arena.votes.live())


def test_every_snapshot_names_the_head_that_it_counts(arena: Arena) -> None:
    first = publish(arena).settings["log"]
    cast(arena)
    second = publish(arena).settings["log"]
    assert (first["number"], second["number"]) == (2, 3)
    link = LogLink.objects.get(number=3)
    assert (second["digest"], second["signature"]) == (link.digest, link.signature)
    assert Snapshot.objects.current().get(board__category="").n_votes == 25
    assert Prompt.objects.exists()


@pytest.mark.parametrize("heads", ["off", "daily"])
def test_heads_are_sent_to_webhooks_once_a_day_if_the_operator_wants(
    arena: Arena, settings: Any, heads: str
) -> None:
    settings.VOTE_LOG_HEADS = heads
    team = make_team()
    Membership.objects.filter(team=team).update(notices_by_email=True)
    Arena.objects.filter(pk=arena.pk).update(team=team)
    publish(arena)
    assert not Notice.objects.exists()  # nobody would get it
    Webhook.objects.create(team=team, url="https://example.org/hook", salt="s")
    for _ in range(2):
        cast(arena)
        publish(arena)
    if heads == "off":
        assert not Notice.objects.exists()
        return
    notice = Notice.objects.get(kind="log.head")
    content = json.loads(delivery_body(notice))
    assert content["head"]["digest"] == LogLink.objects.get(number=3).digest
    assert [delivery.webhook.url for delivery in notice.deliveries.all()] == [
        "https://example.org/hook"
    ]
    cast(arena)
    tomorrow = timezone.now() + timedelta(days=1)
    assert links.send_head(arena=Arena.objects.get(pk=arena.pk), now=tomorrow)
