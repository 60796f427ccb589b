"""Rows kept for a limited time are deleted: counts, sessions, pairs nobody voted on, raters."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.db import IntegrityError, transaction
from django.utils import timezone

from arena import tasks
from arena.actors import CLI
from arena.attempts import LIMITS
from arena.models import Comparison, Delivery, KeptUpload, Notice, Pair, RateLimit, Rater, Vote
from arena.models.imports import MOST_KEPT_BYTES
from arena.services import expiry, voting
from arena.services.comparisons import next_comparison
from arena.services.expiry import delete_old_rows
from arena.services.orders import order_people_run, reconcile_people_run
from arena.services.rate_limits import KEPT_FOR, allow
from tests.factories import make_arena, make_person, make_team, make_user

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 5, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
RATERS_KEPT_FOR = UNANSWERED_KEPT_FOR = timedelta(days=30)
LONG_AGO = NOW - UNANSWERED_KEPT_FOR - HOUR


def use(key: str, now: datetime) -> bool:
    return allow(key=key, limit=1, window=HOUR, now=now)


def person(**fields) -> Rater:
    return make_person(created_at=NOW - RATERS_KEPT_FOR - HOUR, **fields)


def issue(arena, rater: Rater, now: datetime = LONG_AGO) -> Comparison:
    comparison = next_comparison(arena=arena, rater=rater, now=now)
    assert comparison is not None
    return comparison


def vote(arena, rater: Rater, now: datetime = LONG_AGO) -> Vote:
    comparison = issue(arena, rater, now)
    return voting.cast_vote(comparison=comparison, rater=rater, outcome="left", now=now)


def test_only_windows_that_began_more_than_a_day_ago_are_deleted() -> None:
    use("old", NOW - KEPT_FOR)
    use("young", NOW - KEPT_FOR + timedelta(seconds=1))
    use("came back", NOW - 2 * KEPT_FOR)
    use("came back", NOW)
    delete_old_rows(now=NOW)
    assert set(RateLimit.objects.values_list("key", flat=True)) == {"young", "came back"}


def test_a_limit_that_is_reached_stays_reached() -> None:
    use("greedy", NOW)
    delete_old_rows(now=NOW + timedelta(minutes=59))
    assert not use("greedy", NOW + timedelta(minutes=59))


def test_every_window_is_shorter_than_what_is_kept() -> None:
    assert max(limit.window for limit in LIMITS.values()) < KEPT_FOR


def test_sessions_that_expired_are_deleted_and_others_are_kept() -> None:
    for age in (-1, 3600):
        store = SessionStore()
        store.set_expiry(age)
        store.create()
    delete_old_rows(now=timezone.now())
    assert [session.expire_date > timezone.now() for session in Session.objects.all()] == [True]


def test_pairs_left_open_or_skipped_long_ago_and_their_raters_are_deleted() -> None:
    arena, left_it, skipped_it = make_arena(), person(), person()
    issue(arena, left_it)
    voting.skip_comparison(comparison=issue(arena, skipped_it), rater=skipped_it, now=LONG_AGO)
    shown = list(Pair.objects.order_by("pk").values())
    delete_old_rows(now=NOW)
    assert not Comparison.objects.exists()
    assert not Rater.objects.exists()
    assert list(Pair.objects.order_by("pk").values()) == shown
    delete_old_rows(now=NOW)


def test_votes_stay_with_their_pairs_and_raters_even_if_voided() -> None:
    arena, voter, undoer = make_arena(), person(), person()
    vote(arena, voter)
    withdrawn = vote(arena, undoer).comparison
    voting.undo_vote(comparison=withdrawn, rater=undoer, now=LONG_AGO)
    delete_old_rows(now=NOW)
    assert Vote.objects.count() == Comparison.objects.count() == Rater.objects.count() == 2


def test_young_pairs_and_raters_are_kept() -> None:
    arena, rater = make_arena(), make_person(created_at=NOW - RATERS_KEPT_FOR + HOUR)
    comparison = issue(arena, rater, NOW - UNANSWERED_KEPT_FOR)  # it expired later than that
    delete_old_rows(now=NOW)
    assert Comparison.objects.get() == comparison


def test_raters_with_an_account_of_a_team_or_blocked_are_kept() -> None:
    arena = make_arena()
    kept = {person(user=make_user()), person(arena=arena, name="crowd-1"), person(blocked_at=NOW)}
    kept.add(Rater.objects.create(kind=Rater.Kind.JUDGE, created_at=LONG_AGO))
    delete_old_rows(now=NOW)
    assert set(Rater.objects.all()) == kept


def test_pairs_of_a_run_are_kept_because_its_progress_counts_them() -> None:
    arena, rater = make_arena(), person()
    run = order_people_run(arena=arena, per_pair=1, by=CLI)
    reconcile_people_run(run=run, now=LONG_AGO)
    assert issue(arena, rater).run == run
    delete_old_rows(now=NOW)
    assert Comparison.objects.filter(run=run).exists()


def test_more_rows_than_a_batch_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "BATCH", 2)
    arena, voter = make_arena(), person()
    vote(arena, voter)
    for _ in range(5):
        issue(arena, person())
    delete_old_rows(now=NOW)
    assert list(Rater.objects.all()) == [voter]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("of", ["comparison", "rater"])
def test_the_database_refuses_to_delete_what_a_vote_refers_to(of: str) -> None:
    row = getattr(vote(make_arena(), person()), of)
    rows = type(row).objects.filter(pk=row.pk)
    with pytest.raises(IntegrityError), transaction.atomic():
        rows._raw_delete(rows.db)


@pytest.mark.django_db(transaction=True)
def test_a_vote_cast_between_finding_and_deleting_is_never_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arena, rater = make_arena(), person()
    comparison = issue(arena, rater)
    rows = Comparison.objects.filter(pk=comparison.pk)  # as if its vote were not visible yet
    monkeypatch.setattr(expiry, "unanswered_comparisons", lambda now: rows)
    voting.cast_vote(comparison=comparison, rater=rater, outcome="tie", now=LONG_AGO)
    delete_old_rows(now=NOW)
    assert Vote.objects.get().comparison == comparison


def test_uploads_of_killed_processes_are_deleted_after_a_day(tmp_path: Path, settings) -> None:
    settings.FILE_UPLOAD_TEMP_DIR = tmp_path
    names = {"tmpold.upload.csv": 25, "tmpyoung.upload.csv": 23, "old.csv": 25}
    for name, hours in names.items():
        (tmp_path / name).touch()
        touched = (NOW - hours * HOUR).timestamp()
        os.utime(tmp_path / name, (touched, touched))
    expiry.delete_old_uploads(now=NOW)
    assert {path.name for path in tmp_path.iterdir()} == {"tmpyoung.upload.csv", "old.csv"}


def test_the_task_runs_every_hour_unless_the_clock_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    use("old", timezone.now() - KEPT_FOR)
    monkeypatch.setattr(tasks, "is_clock_even", lambda: False)
    tasks.delete_old_rows()
    assert RateLimit.objects.exists()
    monkeypatch.setattr(tasks, "is_clock_even", lambda: True)
    tasks.delete_old_rows()
    assert not RateLimit.objects.exists()
    task = settings.CELERY_BEAT_SCHEDULE["arena.tasks.delete_old_rows"]
    assert task["schedule"] == HOUR.total_seconds()


def test_notices_and_audit_logs_are_kept_as_long_as_the_settings_say(settings):
    team = make_team()
    notice = Notice.objects.create(team=team, key="k", kind="test", sentence="x")
    Notice.objects.filter(pk=notice.pk).update(created_at=NOW - timedelta(days=8))
    Delivery.objects.create(notice=notice, membership=team.memberships.get())
    team.audit_entries.update(at=NOW - timedelta(days=8))
    delete_old_rows(now=NOW)
    assert (Notice.objects.count(), team.audit_entries.count()) == (1, 1)
    settings.KEEP_NOTICES_DAYS = settings.KEEP_AUDIT_DAYS = 7
    delete_old_rows(now=NOW)
    assert (Notice.objects.count(), Delivery.objects.count()) == (0, 0)
    assert not team.audit_entries.exists()


@pytest.mark.parametrize(("days", "kept"), [(30, 0), (90, 1)])
def test_how_long_unanswered_pairs_are_kept_is_a_setting(settings, days, kept):
    settings.KEEP_UNANSWERED_DAYS = settings.KEEP_RATERS_DAYS = days
    arena, rater = make_arena(), person()
    issue(arena, rater, LONG_AGO)
    delete_old_rows(now=NOW)
    assert Comparison.objects.count() == kept


def test_the_database_holds_no_larger_file():
    row = KeptUpload(key="k", place="arena 1", owner="user:1", name="a", expires_at=timezone.now())
    row.data = bytes(MOST_KEPT_BYTES + 1)
    with pytest.raises(IntegrityError, match="kept_upload_is_bounded"):
        row.save()
