"""Each command of docs/how-to/operate.md works as it is written there, in a throwaway home."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands, load_command_class
from django.utils import timezone

from arena import __version__
from arena.models import Backup
from tests.environment import REPOSITORY
from tests.ops.running import PATIENCE, manage, migrated_database, settings_for

PAGE = (REPOSITORY / "docs" / "how-to" / "operate.md").read_text(encoding="utf-8")
BLOCKS = [line.strip() for line in re.findall(r"^ {4,}(?! |\d\.).+$", PAGE, re.MULTILINE)]
PYTHON = ".venv/bin/python manage.py "
WRITTEN = [line.removeprefix(PYTHON) for line in BLOCKS if line.startswith(PYTHON)]
COMMANDS = [line for line in WRITTEN if line != "--version"]  # which has a test of its own
ALERTS = "\n".join(re.findall(r"^    (- alert: .+|  expr: .+)$", PAGE, re.MULTILINE))
INLINE = re.findall(r"`((?:docker compose|make|caddy) [^`]+)`", PAGE)
COMPOSE = yaml.safe_load((REPOSITORY / "compose.yaml").read_text(encoding="utf-8"))
COMPOSED = [
    shlex.split(line)[2:] for line in (*BLOCKS, *INLINE) if line.startswith("docker compose ")
]
# Where a command needs a machine of its own: what is looked at instead.
NOT_RUN = {
    "make": "a test of its own starts it: here its target must exist",
    "docker compose": "there is no Docker where tests run: services and commands must exist",
    ("docker build", "docker run"): "there is no Docker where tests run",
    "sudo install": "no test is root",
    "(umask": "a test of its own runs it and starts production with what it wrote",
    "curl": "the tests of /healthz?full send this header",
    "- alert:": "a rule for Prometheus: its figure must be one that the site publishes",
    "expr:": "as above",
}
SITE = """
from tests.factories import make_arena, make_person, make_team, make_vote
arena, rater = make_arena(slug="page", team=make_team(name="Page")), make_person()
a, b, _ = arena.candidates.order_by("pk")
for prompt in arena.prompts.all():
    make_vote(arena, a, b, "left", prompt, rater)
    make_vote(arena, a, b, "right", prompt, make_person())
print(arena.team.slug, rater.pk)
"""
RUN = """
import sys
from django.core.management import CommandError, call_command
for words in {commands!r}:
    try:
        call_command(*words)
    except CommandError as error:
        print(words, error, file=sys.stderr)
"""
ENVIRONMENT = {
    "RINGSIDE_BACKUP_PASSPHRASE": "correct horse battery staple",
    "MODEL_ENDPOINTS": json.dumps({"local": {"provider": "openai", "base_url": "http://[::1]:9"}}),
}


def test_every_line_is_run_or_says_why_not() -> None:
    prefixes = [name for names in NOT_RUN for name in ([names] if type(names) is str else names)]
    left_out = [line for line in BLOCKS if not line.startswith((PYTHON, *prefixes))]
    assert not left_out
    assert len(COMMANDS) >= 12


@pytest.mark.slow
@pytest.mark.services
def test_each_command_works_as_it_is_written(tmp_path: Path, new_database: Any) -> None:
    """In the page's order, because commands read what earlier ones wrote."""
    home, empty = tmp_path / "home", tmp_path / "empty"
    home.mkdir()
    empty.mkdir()
    shutil.copy(migrated_database(), home)
    site = manage("shell", "--command", SITE, home=home)
    assert site.returncode == 0, site.stderr
    team, rater = site.stdout.split()[-2:]
    meant = {
        "postgres://ringside:PASSWORD@HOST/ringside": new_database(),
        "ENDPOINT MODEL": "local small",
        "/backups": str(tmp_path),
        "TEAM": team,
        "SLUG": "page",
        "4711": rater,
    }
    ours, restored = list[list[str]](), list[list[str]]()
    for line in COMMANDS:
        for written, value in meant.items():
            line = line.replace(written, value)
        words = shlex.split(line)
        # "Leave the database empty, and restore": that is another machine.
        is_elsewhere = words[0] == "restore" and "--check" not in words
        (restored if is_elsewhere else ours).append(words)
    assert restored
    assert run(ours, home, answer=rater) == run([*restored, ["verify_log"]], empty) == ""


def run(commands: list[list[str]], home: Path, answer: str = "") -> str:
    """Run commands of manage.py, one after the other in one process; return what went wrong."""
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "--command", RUN.format(commands=commands)],
        cwd=REPOSITORY,
        env=settings_for(home, **ENVIRONMENT),
        input=f"{answer}\n",
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    return done.stderr


def test_the_version_is_the_newest_of_the_changelog(tmp_path: Path) -> None:
    printed = manage("--version", home=tmp_path).stdout
    assert printed == f"Ringside {__version__}\n"
    changelog = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\d\S+), \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)
    assert released[:1] in ([], [__version__])


def test_make_has_the_targets() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w./-]+):", makefile, re.MULTILINE))
    named = {line.split()[1] for line in (*BLOCKS, *INLINE) if line.startswith("make ")}
    assert named
    assert named <= targets


@pytest.mark.parametrize("words", COMPOSED, ids=" ".join)
def test_compose_has_the_services_and_the_commands(words: list[str]) -> None:
    verb, *rest = words
    options = {word for word in rest if word.startswith("--")}
    named = [word for word in rest if not word.startswith("--")]
    assert verb in ("build", "up", "down", "stop", "logs", "restart", "run")
    assert options <= {"up": {"--build", "--detach"}, "down": {"--volumes"}}.get(verb, {"--rm"})
    services = [COMPOSE["services"][name] for name in (named[:1] if verb == "run" else named)]
    if verb == "run":
        assert services[0]["entrypoint"] == ["python", "manage.py"]
        assert named[1] == "COMMAND" or named[1] in get_commands()
        # A backup is only restored into a database without tables: nothing may migrate it before.
        assert services[0]["depends_on"].keys() == {"postgres"}


def test_the_settings_of_a_site_are_written_as_the_page_says(tmp_path: Path) -> None:
    (line,) = [line for line in BLOCKS if line.startswith("(umask")]
    subprocess.run(["bash", "-c", line], cwd=tmp_path, check=True)
    written = tmp_path / ".env"
    assert written.stat().st_mode & 0o777 == 0o600
    names = dict(row.split("=", 1) for row in written.read_text().splitlines())
    assert names.keys() == {"ALLOWED_HOSTS", "SECRET_KEY", "POSTGRES_PASSWORD"}
    assert not set(names["POSTGRES_PASSWORD"]) & set("@:/?#")
    started = manage("check", home=tmp_path, RINGSIDE_ENV="production", **names)
    assert started.returncode == 0, started.stderr


def test_the_image_changes_nothing_but_its_volume() -> None:
    ours = {
        name: service
        for name, service in COMPOSE["services"].items()
        if service["image"] == "ringside:local"
    }
    assert len(ours) >= 6
    assert all(service["read_only"] for service in ours.values())
    dockerfile = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
    assert "\nUSER 10001\n" in dockerfile
    assert "RINGSIDE_HOME=/data TMPDIR=/data" in dockerfile


def test_what_compose_starts_exists() -> None:
    managed = [
        service["command"]
        for service in COMPOSE["services"].values()
        if service.get("command", [])[:2] == ["python", "manage.py"]
    ]
    assert managed
    for _, _, name, *arguments in managed:
        command = load_command_class(get_commands()[name], name)
        command.create_parser("manage.py", name).parse_args(arguments)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("caddy"), reason="needs Caddy")
def test_caddy_accepts_its_file(tmp_path: Path) -> None:
    names = {"SITE": "arena.example.org, www.example.org", "HOME": str(tmp_path)}
    caddy = ["caddy", "validate", "--adapter", "caddyfile", "--config", "Caddyfile"]
    done = subprocess.run(
        caddy, cwd=REPOSITORY, env=os.environ | names, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.django_db
def test_the_alerts_watch_figures_that_there_are(client: Any, settings: Any) -> None:
    settings.METRICS_TOKEN = "figures"
    Backup.objects.create(made_at=timezone.now(), size=1, is_encrypted=False)
    page = client.get("/metrics", headers={"Authorization": "Bearer figures"}).text
    rules = yaml.safe_load(ALERTS)
    assert len(rules) == PAGE.count("- alert:")
    for rule in rules:
        assert f"# TYPE {rule['expr'].split()[0]} " in page
