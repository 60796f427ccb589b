"""The commands of docs/how-to/use-the-api.md, as they stand there, on a new installation."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.environment import REPOSITORY
from tests.ops.running import Up, manage, up

pytestmark = pytest.mark.slow
PAGE = REPOSITORY / "docs" / "how-to" / "use-the-api.md"
CLIENT = REPOSITORY / "clients" / "python" / "ringside_client.py"
BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATIENCE = 300
MAKE_TOKEN = """
from django.contrib.auth.models import User
from arena.actors import Actor
from arena.services.teams import create_team
from arena.services.tokens import create_token
by = Actor(user=User.objects.create_user("desk"))
team = create_team(name="Search", by=by)
print(create_token(team=team, name="CI", scopes=["read", "submit", "judge"], by=by)[1])
"""


def run(script: str, running: Up, folder: Path) -> subprocess.CompletedProcess[str]:
    token = manage("shell", "-c", MAKE_TOKEN, home=folder)
    [name] = {*re.findall(r"python3 (\w+\.py) check", script)} or {CLIENT.name}
    shutil.copy(CLIENT, folder / name)
    environment = os.environ | {
        "RINGSIDE_URL": running.url().rstrip("/"),
        "RINGSIDE_TOKEN": token.stdout.strip().splitlines()[-1],
        "no_proxy": "127.0.0.1",
    }
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def the_helpers() -> str:
    return next(block for block in BLOCK.findall(PAGE.read_text()) if "done_at()" in block)


@pytest.mark.parametrize("step", ["NEW=$(api x | field id)", "api x", "done_at x"])
def test_the_page_stops_at_the_first_error_and_says_why(step: str, tmp_path: Path) -> None:
    reason = '{"title":"Refused","detail":"Another arena already has this address."}'
    said = f"api() {{ echo '{reason}'; return 22; }}\n"
    done = subprocess.run(
        ["bash", "-c", f"{the_helpers()}{said}{step}\necho It went on."],
        cwd=tmp_path,
        env=os.environ | {"RINGSIDE_URL": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "It went on." not in done.stdout
    assert reason in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("states", "code"),
    [("open done", 0), ("ordered open paused", 1), ("cancelled", 1), ("", 1)],
)
def test_the_page_waits_for_a_run_only_while_it_continues(
    states: str, code: int, tmp_path: Path
) -> None:
    (tmp_path / "states").write_text(states.replace(" ", "\n") + "\n")
    said = """api() { printf '{"state":"%s"}' "$(head -n 1 states)"; sed -i 1d states; }\n"""
    done = subprocess.run(
        ["bash", "-c", f"{the_helpers()}{said}sleep() {{ :; }}\ndone_at x"],
        cwd=tmp_path,
        env=os.environ | {"RINGSIDE_URL": ""},
        timeout=120,
        check=False,
    )
    assert done.returncode == code


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_of_the_page_lead_to_a_verdict(tmp_path: Path) -> None:
    script = "\n".join(BLOCK.findall(PAGE.read_text()))
    with up(tmp_path, is_migrated=True) as running:
        done = run(script, running, tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    decision = json.loads((tmp_path / "decision.json").read_text())
    assert decision["candidate"]["name"] == "new-draft"
    assert decision["between"] > 0
    assert "new-draft wins" in decision["sentence"]
    assert "for this judge" in decision["sentence"]
    assert "Quote: 12 prompts, about $0.00" in done.stdout
    assert "new-draft against in-production: " in done.stdout
    assert (tmp_path / "summary.md").read_text().startswith("### Ringside: **")
