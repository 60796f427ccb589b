"""`manage.py up`: everything starts, stays up, and ends together."""

import fcntl
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from arena.management.commands.up import describe_sign_in, invite_first_administrator
from arena.processes import join_log
from tests.environment import REPOSITORY
from tests.ops.running import Up, children, eventually, is_alive, manage, up

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def running(home: Path) -> Iterator[Up]:
    with up(home, is_migrated=True) as running:
        yield running


def test_prints_one_line_with_the_address_and_the_sign_in(running: Up) -> None:
    lines = [line for line in running.said().splitlines() if "running at" in line]
    assert len(lines) == 1
    assert re.search(r"admin with password \S{12,}, which changes at each start", lines[0])
    with urllib.request.urlopen(running.url() + "healthz", timeout=60) as answer:
        assert answer.status == 200


def test_the_sample_arena_has_a_board_soon_after_the_first_start(running: Up) -> None:
    board = running.url() + "a/sample/results.json"

    def standings() -> object:
        with urllib.request.urlopen(board, timeout=60) as answer:
            return json.load(answer)["raters"] == "people"

    eventually(standings)


def test_a_second_start_on_the_same_folder_says_so(running: Up, home: Path) -> None:
    second = manage("up", home=home)
    assert second.returncode == 1
    assert second.stderr.strip().startswith("Ringside is already running in")


@pytest.mark.parametrize(
    ("program", "name"), [("manage.py serve", "The web server"), ("celery", "The worker")]
)
def test_what_was_killed_is_started_again(running: Up, program: str, name: str) -> None:
    first = running.child(program)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: running.child(program) not in (0, first))
    eventually(lambda: is_healthy(running))
    assert f"{name} ended (status -9). Starting it again." in running.said()


def test_beat_comes_back_with_its_worker(running: Up) -> None:
    """Without it nothing would find the work whose message was lost."""
    worker = running.child("celery")
    eventually(lambda: children(worker))
    [beat] = children(worker)
    os.kill(beat, signal.SIGKILL)
    eventually(lambda: running.child("celery") not in (0, worker), patience=30)
    eventually(lambda: children(running.child("celery")))


def is_healthy(running: Up) -> bool:
    with suppress(OSError), urllib.request.urlopen(running.url() + "healthz", timeout=60) as answer:
        return bool(answer.status == 200)
    return False


def test_work_that_a_command_orders_is_found_within_three_seconds(running: Up, home: Path) -> None:
    eventually(lambda: not list((home / "queue").glob("*.calls.msg")))
    ordered = manage(
        *("judge", "sample", "--judge=scripted", "--per-pair=1", "--max-calls=8", "--no-wait"),
        home=home,
    )
    assert ordered.returncode == 0, ordered.stderr
    began = time.monotonic()
    with closing(sqlite3.connect(home / "ringside.sqlite3")) as database:
        done = "SELECT count(*) FROM arena_call WHERE state = 'done'"
        eventually(lambda: database.execute(done).fetchone()[0])
    assert time.monotonic() - began < 3


def whole_family(running: Up) -> list[int]:
    """The web server and its worker, Celery's worker and its beat."""
    eventually(lambda: len(running.family()) == 4)
    return running.family()


def test_the_password_is_kept_nowhere_and_all_end_together(tmp_path: Path) -> None:
    with up(tmp_path, is_migrated=True) as running:
        password = re.search(r"password (\S+),", running.said())
        assert password is not None
        family = whole_family(running)
        began = time.monotonic()
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(60) == 0
        assert time.monotonic() - began < 8
        assert not any(map(is_alive, family))
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "output.txt"]
    assert kept
    assert not any(password[1].encode() in path.read_bytes() for path in kept)
    with up(tmp_path, is_migrated=True) as running:
        again = re.search(r"password (\S+),", running.said())
        assert again is not None
        assert again[1] != password[1]
        family = whole_family(running)
        running.process.kill()
        eventually(lambda: not any(map(is_alive, family)), patience=6)


def test_killed_processes_leave_a_log_that_the_end_joins_to_the_database(tmp_path: Path) -> None:
    """Whoever copies the database after Ctrl-C must not miss the newest votes."""
    database = tmp_path / "ringside.sqlite3"
    code = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "c.execute('PRAGMA journal_mode=WAL'); c.execute('CREATE TABLE votes (n)');"
        "os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(database)], check=False)
    assert (tmp_path / "ringside.sqlite3-wal").exists()
    join_log(str(database))
    assert list(tmp_path.iterdir()) == [database]


def test_a_start_ends_what_an_earlier_one_left(tmp_path: Path) -> None:
    """Where the kernel does not end children with their parent."""
    with (tmp_path / "up.groups").open("w") as groups:
        fcntl.flock(groups, fcntl.LOCK_EX)
        left = subprocess.Popen(
            ["sleep", "600"], pass_fds=[groups.fileno()], start_new_session=True
        )
        groups.write(str(left.pid))
    (tmp_path / "queue").mkdir()
    message = tmp_path / "queue" / "1_left.fits.msg"
    message.touch()
    with up(tmp_path, is_migrated=True):
        assert left.wait(0) == -signal.SIGKILL
        assert not message.exists()


@pytest.mark.django_db
def test_a_password_lost_before_the_first_sign_in_is_replaced() -> None:
    """The first start may be killed after the account is created and before it is announced."""
    first = re.search(r"password (\S+),", describe_sign_in())
    second = re.search(r"password (\S+),", describe_sign_in())
    assert first is not None
    assert second is not None
    admin = get_user_model().objects.get()
    assert admin.check_password(second[1])
    assert not admin.check_password(first[1])
    admin.last_login = timezone.now()
    admin.save()
    assert describe_sign_in() == "sign in as admin"


@pytest.mark.django_db
def test_an_administrator_of_the_operator_keeps_the_password() -> None:
    users = get_user_model().objects
    users.create_superuser(username="root", email="root@example.org", password="their own")
    assert describe_sign_in() == "sign in as root"
    assert users.get().check_password("their own")


@pytest.mark.django_db
def test_an_ordinary_account_called_admin_stays_what_it_is() -> None:
    users = get_user_model().objects
    users.create_user("Admin", password="their own")
    first, second = describe_sign_in(), describe_sign_in()
    assert first.startswith("sign in as admin-2 with password ")
    assert second.startswith("sign in as admin-2 with password ")
    ordinary = users.get(is_superuser=False)
    assert ordinary.check_password("their own")
    users.filter(is_superuser=True).delete()
    assert "choose a password for admin-2: " in invite_first_administrator()


@pytest.mark.django_db
def test_the_first_administrator_of_a_public_site_gets_a_link_that_works_once(
    client: Client,
) -> None:
    link = first_link()
    assert first_link() != link
    assert "has expired or has already been used" in client.get(link, follow=True).text
    link = first_link()
    page = client.get(link, follow=True)
    chosen = {"password1": "river-stone-42"}
    client.post(page.redirect_chain[-1][0], chosen)

    assert client.login(username="admin", password="river-stone-42")
    assert client.get("/operators/").status_code == 200
    assert "has expired or has already been used" in Client().get(link, follow=True).text
    assert invite_first_administrator() == ""


@pytest.mark.django_db
def test_the_link_expires(client: Client, settings: Any) -> None:
    link = first_link()
    settings.PASSWORD_RESET_TIMEOUT = -1
    assert "has expired or has already been used" in client.get(link, follow=True).text


@pytest.mark.django_db
def test_a_site_with_an_administrator_prints_no_link() -> None:
    users = get_user_model().objects
    users.create_superuser(username="root", email="root@example.org", password="their own")
    assert invite_first_administrator() == ""
    assert users.get().check_password("their own")


def first_link() -> str:
    found = re.search(r"for admin: http://[^/]+(/password/new/\S+)", invite_first_administrator())
    assert found is not None
    return found[1]


def test_compose_prepares_the_database_and_its_log_has_the_link(tmp_path: Path) -> None:
    compose = yaml.safe_load((REPOSITORY / "compose.yaml").read_text())
    python, _, *arguments = compose["services"]["migrate"]["command"]
    assert python == "python"
    first, second = (manage(*arguments, home=tmp_path) for _ in range(2))
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert "/password/new/" in first.stdout
    assert "/password/new/" in second.stdout


def test_a_taken_port_stops_the_start_with_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = manage("up", home=tmp_path, PORT=port)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"Ringside cannot listen on 127.0.0.1:{port}")
    assert "Traceback" not in ended.stderr
