"""`make sbom` names every pinned package."""

import json
import subprocess
import sysconfig
from pathlib import Path

from tests.environment import REPOSITORY


def test_the_bill_of_materials_names_every_pinned_package(tmp_path: Path) -> None:
    told = subprocess.run(
        ["make", "--dry-run", "sbom"], cwd=REPOSITORY, check=True, capture_output=True, text=True
    )
    [command] = [line for line in told.stdout.splitlines() if "cyclonedx-py" in line]
    _, *arguments = command.split()
    target = tmp_path / "sbom.json"
    program = Path(sysconfig.get_path("scripts")) / "cyclonedx-py"
    subprocess.run([program, *arguments[:-1], str(target)], cwd=REPOSITORY, check=True, timeout=300)
    bill = json.loads(target.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    lock = (REPOSITORY / "requirements.txt").read_text().splitlines()
    pinned = {
        tuple(line.split(" ")[0].split("==")) for line in lock if "==" in line and line[0].isalpha()
    }
    assert {(one["name"], one["version"]) for one in bill["components"]} == pinned
    assert "django" in dict(pinned)
