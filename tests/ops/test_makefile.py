"""`make` finds a Python on machines that are not the developer's."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.environment import REPOSITORY

NEW, OLD, WITHOUT_VENV = "exit 0", "exit 1", "echo No module named ensurepip >&2; exit 1"


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ({"python3.11": NEW, "python3": NEW}, "python3.11"),
        ({"python3": NEW}, "python3"),
        ({"python3.13": WITHOUT_VENV, "python3.12": NEW}, "python3.12"),
        ({"python3": OLD}, ""),
        ({"python3.14": WITHOUT_VENV, "python3": WITHOUT_VENV}, ""),
        ({}, ""),
    ],
)
def test_it_takes_the_newest_python_that_can_make_an_environment(
    tmp_path: Path, found: dict[str, str], chosen: str
) -> None:
    shutil.copy(REPOSITORY / "Makefile", tmp_path)
    (tmp_path / "requirements.txt").touch()
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, answer in found.items():
        # Asked for an environment, it says which Python it is and fails.
        script = f'#!/bin/sh\n[ "$1" = -m ] && {{ echo made by {name} >&2; exit 3; }}\n{answer}\n'
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    done = subprocess.run(
        [str(shutil.which("make")), ".venv/.installed"],
        cwd=tmp_path,
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    if chosen:
        assert f"made by {chosen}\n" in done.stderr
    else:
        assert done.stderr.startswith("Ringside needs Python 3.11 or newer")
        assert "sudo apt install python3-venv" in done.stderr
