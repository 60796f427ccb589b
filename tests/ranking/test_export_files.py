"""Exports as files: built once, served in parts, and never with more than their reader may see."""

import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from django.core.files.base import File
from django.core.files.storage import FileSystemStorage
from django.core.signals import request_finished
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI, Actor
from arena.models import Arena, Import, Membership, Prompt, Role
from arena.services.arenas import update_arena
from arena.services.candidates import disclose_due
from arena.services.checks import add_check
from arena.services.imports import import_files
from arena.services.privacy import forget_rater
from arena.services.prompts import bring_back_prompt, retire_prompt
from ranking import stored_files, tasks
from ranking.exports import export_kinds
from ranking.models import Audience, ExportFile
from ranking.services import exports
from tests.arena.rest import Caller, member_of, token_of, undisclosed
from tests.deadlocks import at_once
from tests.factories import make_arena, make_team, make_user, void_vote
from tests.ranking.helpers import publish
from tests.ranking.test_api_battles import vote_on

ROOT = "/api/v1/arenas/support/exports/"
State = ExportFile.State

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    """Where this test's files are stored."""
    options = {"location": str(tmp_path / "exports")}
    backend = "django.core.files.storage.FileSystemStorage"
    settings.STORAGES = settings.STORAGES | {"exports": {"BACKEND": backend, "OPTIONS": options}}
    return tmp_path / "exports"


@pytest.fixture
def support(folder: Path) -> Arena:
    arena = make_arena(slug="support", team=make_team(), open_answers=False)
    for outcome in ("left", "tie", "right"):
        vote_on(arena, 0, 1, outcome)
    return arena


@pytest.fixture
def large(support: Arena, monkeypatch: pytest.MonkeyPatch) -> Arena:
    """An arena with more votes than are exported at once."""
    monkeypatch.setattr(exports, "SMALL", 2)
    return support


def stored(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*"))


def test_a_small_file_is_sent_at_once_and_built_once(
    support: Arena, client: Client, folder: Path
) -> None:
    first, again = client.get(f"{ROOT}battles.csv"), client.get(f"{ROOT}battles.csv")
    assert first.status_code == again.status_code == 200
    assert first["Content-Type"] == "text/csv; charset=utf-8"
    assert first["Content-Disposition"] == 'attachment; filename="support-battles.csv"'
    content = first.getvalue()
    assert content == again.getvalue()
    assert int(first["Content-Length"]) == len(content)
    [file] = ExportFile.objects.all()
    assert (file.state, file.size, file.rows_done, file.rows_total) == (
        *("ready", len(content)),
        *(3, 3),
    )
    assert stored(folder) == [file.stored_as]


def test_a_vote_makes_another_file_and_two_are_kept(
    support: Arena,
    client: Client,
    folder: Path,
    django_capture_on_commit_callbacks: Any,
) -> None:
    lengths = []
    for _ in range(4):
        with django_capture_on_commit_callbacks(execute=True):
            lengths.append(len(client.get(f"{ROOT}battles.jsonl").getvalue().splitlines()))
        vote_on(support, 0, 2, "left")
    assert lengths == [3, 4, 5, 6]
    files = ExportFile.objects.order_by("pk")
    assert [file.rows_done for file in files] == [5, 6]
    assert stored(folder) == sorted(file.stored_as for file in files)


def test_a_large_file_is_begun_and_followed_to_its_address(large: Arena, client: Client) -> None:
    begun = client.get(f"{ROOT}battles.csv")
    assert (begun.status_code, begun["Retry-After"]) == (202, "5")
    progress = begun.json()
    assert progress | {"address": ""} == {
        **{"state": "waiting", "address": ""},
        **{"rows_done": 0, "rows_total": 0},
    }
    assert progress["address"].endswith(begun["Location"])
    assert client.get(f"{ROOT}battles.csv")["Location"] == begun["Location"]
    assert client.get(begun["Location"]).status_code == 202
    tasks.sweep_exports()  # tells the worker
    tasks.build_exports()
    vote_on(large, 0, 1, "left")  # the file that was begun is still there
    file = client.get(begun["Location"])
    assert file.status_code == 200
    assert len(file.getvalue().splitlines()) == 1 + 3
    assert client.get(f"{ROOT}battles.csv").status_code == 202


def test_a_browser_that_follows_a_link_gets_a_page_with_the_progress(
    large: Arena, client: Client
) -> None:
    started = client.get(f"{ROOT}battles.csv", headers={"Accept": "text/html,*/*;q=0.8"})
    assert (started.status_code, started["Content-Type"]) == (202, "text/html; charset=utf-8")
    parts = reverse("export_files", args=["support"])
    assert f'hx-get="{parts}"' in started.text
    assert f'hx-get="{parts}"' in client.get("/a/support/about/").text
    waiting = client.get(parts).text
    assert "battles.csv" in waiting
    assert "waiting" in waiting
    assert 'hx-trigger="every 2s"' in waiting
    ExportFile.objects.update(
        state="building",
        token="8e5e4f0a-6a4e-4c6c-9a36-3a4f6b1c2d3e",
        leased_until=timezone.now(),
        rows_done=1,
        rows_total=3,
    )
    building = client.get(parts).text
    assert '<progress max="3" value="1"' in building
    ExportFile.objects.update(state="waiting", token=None, leased_until=None)
    exports.build_waiting()
    ready = client.get(parts).text
    assert started["Location"] in ready
    assert "bytes" in ready
    assert "0\xa0minutes ago" in ready
    assert "hx-trigger" not in ready


def test_tags_and_ranges(support: Arena, client: Client) -> None:
    whole = client.get(f"{ROOT}battles.csv")
    content, tag = whole.getvalue(), whole["ETag"]
    size = len(content)

    def get(**headers: str) -> Any:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return client.get(f"{ROOT}battles.csv", headers=names)

    assert get(If_None_Match=tag).status_code == 304
    for asked, start, end in [
        ("bytes=0-9", 0, 10),
        ("bytes=5-", 5, size),
        ("bytes=-7", size - 7, size),
        (f"bytes=3-{size + 5}", 3, size),
        (f"bytes=-{size + 5}", 0, size),
    ]:
        part = get(Range=asked, If_Range=tag)
        assert part.status_code == 206, asked
        assert part.getvalue() == content[start:end]
        assert part["Content-Range"] == f"bytes {start}-{end - 1}/{size}"
        assert part["Content-Length"] == str(end - start)
        assert (part["ETag"], part["Accept-Ranges"]) == (tag, "bytes")
    for asked in (
        f"bytes={size}-",
        f"bytes={'9' * 5000}-",
        "bytes=9-1",
        "bytes=-0",
        "bytes=-",
        "bytes=a-b",
    ):
        refused = get(Range=asked)
        assert (refused.status_code, refused["Content-Range"]) == (416, f"bytes */{size}"), asked
    for headers in (
        {"Range": "bytes=0-9", "If_Range": '"another"'},
        {"Range": "bytes=0-9,20-29"},
        {"Range": "votes=0-9"},
    ):
        assert get(**headers).getvalue() == content
    head = client.head(f"{ROOT}battles.csv")
    assert (head.status_code, head.content) == (200, b"")
    assert (head["Content-Length"], head["ETag"]) == (str(size), tag)


def test_only_files_of_everybody_may_be_cached_by_everybody(support: Arena) -> None:
    nobody, team = Caller(), token_of(support.team)
    assert nobody.get("arenas/support/exports/battles.csv")["Cache-Control"] == "no-cache"
    for answer in (
        team.get("arenas/support/exports/battles.csv"),
        update_arena(arena=support, by=CLI, visibility="private")
        and team.get("arenas/support/exports/log.jsonl"),
    ):
        assert answer["Cache-Control"] == "private, no-cache"


def test_a_file_of_an_audience_has_what_the_least_of_its_readers_may_read(support: Arena) -> None:
    guests = make_team()
    secret = undisclosed(support, team=guests)
    own = undisclosed(support, name="our-draft")
    vote_on(support, 0, 1, "left")
    for candidate in (secret, own):
        support.prompts.first().responses.create(candidate=candidate, text="Written.")
        vote_on(support, 0, list(support.candidates.order_by("pk")).index(candidate), "left")

    def conversations(caller: Caller) -> list[bool]:
        answer = caller.get("arenas/support/exports/lmarena.jsonl")
        rows = map(json.loads, answer.getvalue().decode().splitlines())
        return [row["conversation_b"] is not None for row in rows]

    public = conversations(Caller())
    team = conversations(token_of(support.team, "read"))
    assert public == [False] * 6
    assert team == [True] * 4 + [False, True]
    assert conversations(member_of(support.team, Role.OWNER)) == team
    assert conversations(token_of(guests, "read")) == public
    assert conversations(Caller(user=make_user("root", is_staff=True))) == [True] * 6
    audiences = ExportFile.objects.order_by("pk").values_list("audience", flat=True)
    assert list(audiences) == ["public", "team", "operators"]


def test_addresses_of_files_open_them_to_their_audience_alone(support: Arena, large: Arena) -> None:
    owner, viewer = member_of(support.team, Role.OWNER), member_of(support.team, Role.VIEWER)
    outside = [Caller(), token_of(make_team(), "read")]
    for name, others in [
        ("battles.csv", [viewer, token_of(support.team, "read")]),
        ("arena.zip", []),
    ]:
        address = owner.get(f"arenas/support/exports/{name}")["Location"]
        exports.build_waiting()
        path = address.removeprefix("/api/v1/")
        for caller in [owner, *others]:
            assert caller.get(path).status_code == 200, name
        hidden_from = [*outside, *([] if others else [viewer, token_of(support.team, "read")])]
        assert {caller.get(path).status_code for caller in hidden_from} == {404}


def archive_and_bring_back(arena: Arena) -> None:
    prompt = arena.prompts.earliest("pk")
    retire_prompt(prompt=prompt, by=CLI, now=timezone.now())
    bring_back_prompt(prompt=prompt, by=CLI)


CHANGES: dict[str, Callable[[Arena], Any]] = {
    "visibility": lambda arena: update_arena(arena=arena, by=CLI, visibility="unlisted"),
    "open answers": lambda arena: update_arena(arena=arena, by=CLI, open_answers=True),
    "disclosure": lambda arena: disclose_due(
        now=undisclosed(arena, private_until=timezone.now()).private_until
    ),
    "archived prompt": lambda arena: retire_prompt(
        prompt=arena.prompts.earliest("pk"), by=CLI, now=timezone.now()
    ),
    "prompt brought back": archive_and_bring_back,
    "void": lambda arena: void_vote(arena.votes.earliest("pk")),
    "forget": lambda arena: forget_rater(
        rater=arena.votes.earliest("pk").rater, now=timezone.now()
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_may_hide_something_ends_files(
    large: Arena,
    client: Client,
    folder: Path,
    change: str,
    django_capture_on_commit_callbacks: Any,
) -> None:
    if change == "prompt brought back":
        retire_prompt(prompt=large.prompts.earliest("pk"), by=CLI, now=timezone.now())
    address = client.get(f"{ROOT}lmarena.jsonl")["Location"]
    exports.build_waiting()
    before = client.get(address).getvalue()
    with django_capture_on_commit_callbacks() as callbacks:
        if change == "prompt brought back":
            bring_back_prompt(prompt=large.prompts.earliest("pk"), by=CLI)
        else:
            CHANGES[change](large)
        # Whoever made the change may be killed now: nobody is left to delete anything.
        if change not in AFTER_COMMIT:
            assert client.get(address).status_code == 404
    with django_capture_on_commit_callbacks(execute=True):
        for callback in callbacks:
            callback()
    assert client.get(address).status_code == 404
    with django_capture_on_commit_callbacks(execute=True):
        tasks.delete_old_exports()
    assert stored(folder) == []
    assert client.get(f"{ROOT}lmarena.jsonl").status_code == 202
    exports.build_waiting()
    if change not in ("visibility", "forget"):
        assert client.get(f"{ROOT}lmarena.jsonl").getvalue() != before or change == "disclosure"


AFTER_COMMIT = {"void"}  # a sweep finds it, as the leaderboards do


def test_a_change_while_a_file_is_built_has_it_built_again(
    large: Arena, client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    retire_prompt(prompt=large.prompts.earliest("pk"), by=CLI, now=timezone.now())
    real = export_kinds()["lmarena.jsonl"]
    turns: list[int] = []

    def write(arena: Arena, actor: Actor, tick: Any) -> Iterator[bytes]:
        pieces = list(real.write(arena, actor, tick))
        if not turns:
            bring_back_prompt(prompt=large.prompts.earliest("pk"), by=CLI)
        turns.append(1)
        yield from pieces

    monkeypatch.setitem(export_kinds(), "lmarena.jsonl", replace(real, write=write))
    address = client.get(f"{ROOT}lmarena.jsonl")["Location"]
    exports.build_waiting()
    assert len(turns) == 2
    assert b"of somebody" not in client.get(address).getvalue()
    assert len(stored(folder)) == 1


def test_a_change_before_a_file_is_begun_is_in_it(
    large: Arena, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    update_arena(arena=large, by=CLI, open_answers=True)
    address, real = client.get(f"{ROOT}lmarena.jsonl")["Location"], exports.hiding_of
    begun: list[int] = []

    def close_answers_first(arena_id: int) -> str:
        if not begun:
            begun.append(arena_id)
            update_arena(arena=Arena.objects.get(), by=CLI, open_answers=False)
        return real(arena_id)

    monkeypatch.setattr(exports, "hiding_of", close_answers_first)
    exports.build_waiting()
    assert begun
    assert b"of somebody" not in client.get(address).getvalue()


def test_a_state_that_comes_back_has_its_file_built_again(large: Arena, client: Client) -> None:
    """What an import brings is not shown before it has finished, so it hides nothing either."""
    address = client.get(f"{ROOT}battles.csv")["Location"]
    about = {"file_name": "votes.csv", "sha256": "0" * 64, "started_at": timezone.now()}
    hidden = Import.objects.create(arena=large, **about)
    large.prompts.create(source=hidden, source_row=1, external_id="new", text="Why?")
    exports.build_waiting()
    Prompt.objects.filter(source=hidden).delete()
    assert client.get(address).status_code == 200
    assert client.get(f"{ROOT}battles.csv").status_code == 200
    ExportFile.objects.update(hiding="another")  # shown and hidden again, while it was built
    assert client.get(f"{ROOT}battles.csv").status_code == 202


def test_a_change_of_prompts_is_in_the_next_file_of_the_team(support: Arena) -> None:
    owner = member_of(support.team, Role.OWNER)

    def read(name: str) -> str:
        sent = owner.get(f"arenas/support/{name}").getvalue()
        if not name.endswith(".zip"):
            return sent.decode()
        with ZipFile(BytesIO(sent)) as archive:
            return archive.read("arena.json").decode()

    for name in ("exports/arena.zip", "prompt-exports/promptfoo-tests.jsonl"):
        assert "Be brief" not in read(name)
    add_check(arena=support, by=CLI, kind="contains", expected="Be brief")
    for name in ("exports/arena.zip", "prompt-exports/promptfoo-tests.jsonl"):
        assert "Be brief" in read(name)


class KilledError(BaseException):
    """Nothing of the worker goes on after it."""


def test_what_a_killed_worker_was_building_is_built_again(
    large: Arena, client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = export_kinds()["battles.jsonl"]

    def write(arena: Arena, actor: Actor, tick: Any) -> Iterator[bytes]:
        yield b"half a"
        raise KilledError

    address = client.get(f"{ROOT}battles.jsonl")["Location"]
    with monkeypatch.context() as patch:
        patch.setitem(export_kinds(), "battles.jsonl", replace(real, write=write))
        with pytest.raises(KilledError):
            exports.build_waiting()
    now = timezone.now()
    assert not exports.has_waiting(now)  # it may be at work
    assert client.get(address).status_code == 202
    assert exports.has_waiting(now + exports.LEASE + timedelta(seconds=5))
    exports.build_waiting()
    assert len(client.get(address).getvalue().splitlines()) == 3
    assert len(stored(folder)) == 1
    assert not exports.build(pk=ExportFile.objects.get().pk)  # a second message does nothing


def test_a_file_that_kills_its_workers_does_not_keep_the_others_waiting(
    large: Arena, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, now = export_kinds()["battles.jsonl"], timezone.now()

    def write(*_: Any) -> Iterator[bytes]:
        raise KilledError

    deadly, other = (client.get(f"{ROOT}battles.{name}")["Location"] for name in ("jsonl", "csv"))
    with monkeypatch.context() as patch:
        patch.setitem(export_kinds(), "battles.jsonl", replace(real, write=write))
        for _ in range(exports.MOST_ATTEMPTS):
            with pytest.raises(KilledError):
                exports.build_waiting()
            now += 2 * exports.LEASE
            assert exports.has_waiting(now)
        exports.build_waiting()
    assert client.get(other).status_code == 200
    refused = client.get(deadly)
    assert (refused.status_code, refused.json()["detail"]) == (409, exports.GIVEN_UP)


@pytest.mark.django_db(transaction=True)
def test_a_build_without_a_row_for_long_keeps_its_lease(
    large: Arena, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "RENEW_EVERY", 0.01)
    real, leases = export_kinds()["battles.jsonl"], set()

    def write(arena: Arena, actor: Actor, tick: Any) -> Iterator[bytes]:
        until = time.monotonic() + 10
        while len(leases) < 3 and time.monotonic() < until:
            leases.add(ExportFile.objects.get().leased_until)
            time.sleep(0.01)
        yield from real.write(arena, actor, tick)

    monkeypatch.setitem(export_kinds(), "battles.jsonl", replace(real, write=write))
    address = client.get(f"{ROOT}battles.jsonl")["Location"]
    exports.build_waiting()
    assert len(leases) == 3
    assert client.get(address).status_code == 200


def test_a_worker_that_was_taken_for_dead_leaves_nothing(
    large: Arena, client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = export_kinds()["battles.jsonl"]
    turns: list[int] = []

    def write(arena: Arena, actor: Actor, tick: Any) -> Iterator[bytes]:
        turns.append(1)
        if len(turns) == 1:  # it sleeps, and another one takes over
            assert exports.has_waiting(timezone.now() + 2 * exports.LEASE)
            exports.build_waiting()
        yield from real.write(arena, actor, tick)

    monkeypatch.setitem(export_kinds(), "battles.jsonl", replace(real, write=write))
    client.get(f"{ROOT}battles.jsonl")
    exports.build_waiting()
    [file] = ExportFile.objects.all()
    assert (len(turns), file.state) == (2, "ready")
    assert stored(folder) == [file.stored_as]


class FullStorage(FileSystemStorage):
    """A disk with room for half of each file."""

    def _save(self, name: str, content: File) -> str:
        Path(self.location).mkdir(exist_ok=True)
        Path(self.path(name)).write_bytes(content.read()[: content.size // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_said_and_leaves_no_half_file(
    large: Arena, client: Client, folder: Path, settings: Any
) -> None:
    usual = settings.STORAGES
    options = {"location": str(folder)}
    full = {"BACKEND": f"{__name__}.FullStorage", "OPTIONS": options}
    settings.STORAGES = usual | {"exports": full}
    address = client.get(f"{ROOT}battles.csv")["Location"]
    exports.build_waiting()
    refused = client.get(address)
    assert refused.status_code == 409
    assert refused.json()["detail"] == exports.NO_SPACE
    assert exports.NO_SPACE in client.get(reverse("export_files", args=["support"])).text
    assert stored(folder) == []
    settings.STORAGES = usual
    again = client.get(f"{ROOT}battles.csv")
    assert again.status_code == 202
    exports.build_waiting()
    assert client.get(again["Location"]).status_code == 200


def test_an_error_is_logged_and_shown_without_its_words(
    support: Arena, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Iterator[bytes]:
        raise ValueError("a broken row")

    broken = replace(export_kinds()["battles.csv"], write=fail)
    with monkeypatch.context() as patch:
        patch.setitem(export_kinds(), "battles.csv", broken)
        refused = client.get(f"{ROOT}battles.csv")
    assert (refused.status_code, refused.json()["detail"]) == (409, exports.NO_REASON)
    assert client.get(f"{ROOT}battles.csv").status_code == 200


def test_a_storage_that_takes_no_files_is_said(
    support: Arena, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> str:
        raise OSError(errno.EROFS, "Read-only file system", "/secret/path")

    monkeypatch.setattr("django.core.files.storage.FileSystemStorage.save", refuse)
    said = client.get(f"{ROOT}battles.csv").json()["detail"]
    assert said.startswith("The server could not store the file (Read-only file system).")
    assert "secret" not in said


@pytest.mark.parametrize("error", [ConnectionRefusedError(), RuntimeError("no endpoint")])
def test_a_storage_that_is_away_fails_the_file_and_not_its_worker(
    large: Arena, client: Client, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Storages of other hosts raise errors of their own, also when half a file is deleted."""

    def refuse(*_: Any, **__: Any) -> str:
        raise error

    address = client.get(f"{ROOT}battles.csv")["Location"]
    with monkeypatch.context() as patch:
        for name in ("save", "delete"):
            patch.setattr(f"django.core.files.storage.FileSystemStorage.{name}", refuse)
        exports.build_waiting()
    refused = client.get(address)
    assert (refused.status_code, refused.json()["detail"]) == (409, exports.NO_REASON)
    again = client.get(f"{ROOT}battles.csv")["Location"]
    exports.build_waiting()
    assert client.get(again).status_code == 200


def test_a_file_that_is_gone_is_built_again(support: Arena, client: Client, folder: Path) -> None:
    content = client.get(f"{ROOT}battles.csv").getvalue()
    for name in stored(folder):
        (folder / name).unlink()  # a backup was restored beside an empty folder
    assert client.get(f"{ROOT}battles.csv").getvalue() == content


def test_outdated_files_go_after_an_hour_and_unknown_ones_too(
    support: Arena, client: Client, folder: Path, django_capture_on_commit_callbacks: Any
) -> None:
    client.get(f"{ROOT}battles.csv")
    client.get(f"{ROOT}battles.jsonl")
    unknown = folder / "5f0c.export"
    unknown.write_bytes(b"of a killed worker")
    vote_on(support, 0, 1, "left")
    new = client.get(f"{ROOT}battles.csv")
    assert new.status_code == 200
    for hours, left in ((0, 4), (2, 0)):
        past = timezone.now() - timedelta(hours=hours)
        ExportFile.objects.update(built_at=past)
        os.utime(unknown, (past.timestamp(), past.timestamp()))
        with django_capture_on_commit_callbacks(execute=True):
            tasks.delete_old_exports()
        hiding = exports.hiding_of(support.pk)
        current = exports.version_of(support, export_kinds()["battles.csv"], hiding)
        kept = ExportFile.objects.filter(version=current).count()
        assert len(stored(folder)) == (left or kept)


def test_files_go_with_their_arena(
    support: Arena, client: Client, folder: Path, django_capture_on_commit_callbacks: Any
) -> None:
    client.get(f"{ROOT}battles.csv")
    with django_capture_on_commit_callbacks(execute=True):
        ExportFile.objects.filter(arena=support).delete()
    assert stored(folder) == []


def test_a_published_leaderboard_makes_another_copy(support: Arena, client: Client) -> None:
    before = client.get(f"{ROOT}leaderboard.html").getvalue()
    publish(support)
    assert client.get(f"{ROOT}leaderboard.html").getvalue() != before


@pytest.fixture
def _kept_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is closed by hand would close the test's connection."""
    monkeypatch.setattr(request_finished, "send", lambda **_: None)


@pytest.mark.usefixtures("_kept_connection")
def test_downloads_beyond_the_limit_wait_and_each_that_ends_frees_its_place(
    support: Arena, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = client.get(f"{ROOT}battles.csv")
    monkeypatch.setattr(stored_files, "_downloads", stored_files.BoundedSemaphore(1))
    first = client.get(f"{ROOT}battles.csv")
    earlier.close()  # as the garbage collector may do with what other tests left
    refused = client.get(f"{ROOT}battles.csv")
    assert (refused.status_code, refused["Retry-After"]) == (429, "5")
    assert client.head(f"{ROOT}battles.csv").status_code == 200
    first.close()
    for _ in range(2):
        answer = client.get(f"{ROOT}battles.csv")
        assert answer.status_code == 200
        next(iter(answer.streaming_content))
        answer.close()


def test_the_link_in_the_workspace_leads_to_the_arenas_file(
    support: Arena, client: Client, folder: Path
) -> None:
    owner = make_user("ann")
    Membership.objects.create(team=support.team, user=owner, role=Role.OWNER)
    client.force_login(owner)
    answer = client.get(reverse("download_arena", args=["support"]), follow=True)
    assert answer["Content-Disposition"] == 'attachment; filename="support.zip"'
    assert answer.getvalue().startswith(b"PK")
    files = client.get(reverse("export_files", args=["support"])).text
    assert "arena.zip" in files


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("folder")
def test_twenty_at_once_get_one_file(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("left,right,winner\n" + "A,B,left\n" * 200)
    import_files(slug="support", paths=[path], now=timezone.now())
    arena = Arena.objects.get()
    asked = {"arena": arena, "name": "battles.csv", "audience": Audience.PUBLIC}
    files = at_once(*[lambda: exports.request(**asked)] * 20)
    assert {file.state for file in files} == {"ready"}
    assert len({file.key for file in files}) == 1
    assert ExportFile.objects.count() == 1
    assert Prompt.objects.count() <= 1
