"""The wheel: installed in an empty environment, without the repository, it starts and is used."""

import email
import os
import re
import signal
import subprocess
import sys
import sysconfig
import tomllib
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from arena import __version__
from tests.environment import REPOSITORY
from tests.ops.running import PATIENCE, Up, eventually

pytestmark = pytest.mark.slow
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
APPS = ("arena", "ranking", "judges", "templates", "static")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "--target=wheel", f"--directory={folder}"]
    built = subprocess.run(build, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return next(folder.glob(f"ringside_arena-{__version__}-py3-none-any.whl"))


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in an environment of its own, which sees this one's packages."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", wheel], check=True, timeout=PATIENCE)
    scheme = {"base": str(folder), "platbase": str(folder)}
    own = Path(sysconfig.get_path("purelib", "venv", scheme))
    (own / "packages.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "ringside-arena"


@pytest.fixture
def place(tmp_path: Path) -> dict[str, str]:
    """What a person's shell knows, and nothing of this test's."""
    return {"HOME": str(tmp_path), "PATH": os.defpath, "PORT": "0"}


@pytest.fixture
def running(command: Path, place: dict[str, str], tmp_path: Path) -> Iterator[Up]:
    output = tmp_path / "output.txt"
    with output.open("w") as out:
        process = subprocess.Popen(
            [command], cwd=tmp_path, env=place, stdout=out, stderr=subprocess.STDOUT, text=True
        )
    running = Up(process, output)
    try:
        eventually(lambda: running.url() or process.poll() is not None)
        assert process.poll() is None, running.said()
        yield running
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


def test_it_takes_one_name_and_has_the_whole_product(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    about = f"ringside_arena-{__version__}.dist-info"
    assert {name.partition("/")[0] for name in names} == {"ringside_arena", about}
    listed = ["git", "ls-files", *APPS]
    files = subprocess.run(listed, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    ours = {f"ringside_arena/{name}" for name in files.stdout.split()}
    added = {
        f"ringside_arena/{n}" for n in ("__init__.py", "manage.py", "static/plotly/plotly.min.js")
    }
    assert {name for name in names if not name.startswith(about)} == ours | added


def test_it_says_what_it_needs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        told = email.message_from_bytes(
            archive.read(f"ringside_arena-{__version__}.dist-info/METADATA")
        )
    assert (told["Name"], told["Version"]) == ("ringside-arena", __version__)
    needed = {str(Requirement(line)).lower() for line in told.get_all("Requires-Dist", [])}
    ours = {str(Requirement(line)).lower() for line in PROJECT["dependencies"]}
    extras = {
        f'{Requirement(line)}; extra == "{name}"'
        for name, lines in PROJECT["optional-dependencies"].items()
        for line in lines
    }
    assert needed == ours | extras


def test_it_starts_in_an_empty_folder_and_takes_a_vote(
    running: Up, command: Path, place: dict[str, str], tmp_path: Path
) -> None:
    kept = tmp_path / ".local" / "share" / "ringside"
    assert f"Everything is kept in {kept}." in running.said()
    visitor = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    ballot = f"{running.url()}a/sample/vote/"
    page = visitor.open(ballot, timeout=60).read().decode()
    files = {*re.findall(r'(?:href|src)="(/static/[^"]+)"', page), "/static/plotly/plotly.min.js"}
    for file in files:
        assert visitor.open(urllib.parse.urljoin(ballot, file), timeout=60).status == 200
    form = re.search(r'method="post"\s+action="([^"]+)"(.*?)</form>', page, re.DOTALL)
    assert form is not None
    fields = dict(re.findall(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"', form[2]))
    body = urllib.parse.urlencode(fields | {"outcome": "left"}).encode()
    request = urllib.request.Request(urllib.parse.urljoin(ballot, form[1]), body)
    request.add_header("Referer", ballot)
    after = visitor.open(request, timeout=60).read().decode()
    assert "You chose" in after

    def manage(*arguments: str) -> str:
        done = subprocess.run(
            [command, "manage", *arguments],
            cwd=tmp_path,
            env=place,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    manage("backup", "copy")  # which starts commands of its own
    assert "votes" in manage("restore", "--check", "copy")


def test_the_command_says_how_it_is_used(command: Path, place: dict[str, str]) -> None:
    def said(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [command, *arguments], env=place, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    assert said("--version") == (0, f"Ringside {__version__}\n")
    assert said("--help")[0] == 0
    assert "ringside-arena manage COMMAND" in said("--help")[1]
    assert said("start") == (1, said("--help")[1] + "\n")
    assert "usage: ringside-arena manage backup" in said("manage", "backup", "--help")[1]
