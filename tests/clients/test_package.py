"""The client as a package: pip installs it, it is typed, and `ringside` is on the command line."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import REPOSITORY

pytestmark = pytest.mark.slow
PACKAGE = REPOSITORY / "clients" / "python"
OLDEST = shutil.which("python3.9")


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("python", [sys.executable, OLDEST])
def test_pip_installs_it_and_the_command_runs(python: str | None, tmp_path: Path) -> None:
    if python is None or subprocess.run([python, "--version"], check=False).returncode:
        pytest.skip("Python 3.9 is not installed")
    source = tmp_path / "source"
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
    run(python, "-m", "venv", tmp_path / "venv")
    home = tmp_path / "venv" / "bin"
    pip = [home / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*pip, "hatchling"], check=False, capture_output=True).returncode:
        pytest.skip("the package index does not answer")
    run(*pip, "--no-build-isolation", source)
    assert run(home / "ringside", "--version").strip() == "3.0"
    assert "exit codes:" in run(home / "ringside", "check", "--help")
    where = run(
        home / "python", "-c", "import ringside_client; print(ringside_client.__file__)"
    ).strip()
    assert (Path(where).parent / "py.typed").exists()
    needed = run(
        home / "python",
        "-c",
        "import importlib.metadata as m; print(m.requires('x'))".replace(
            "'x'", "'ringside-client'"
        ),
    )
    assert "extra == 'mcp'" in needed or 'extra == "mcp"' in needed
    assert needed.count("mcp>=2") == needed.count("extra")
