"""`make sbom` names every pinned package with its digests and its licence."""

import json
import subprocess
import sys
from pathlib import Path

from tests.environment import REPOSITORY


def test_the_bill_of_materials_names_every_pinned_package(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, ".ci/sbom.py", str(tmp_path)], cwd=REPOSITORY, check=True, timeout=300
    )
    components = json.loads((tmp_path / "sbom.json").read_text())["components"]
    lock = (REPOSITORY / "requirements.txt").read_text().splitlines()
    pinned = {line.split("==")[0] for line in lock if "==" in line and line[0].isalpha()}
    assert {one["name"] for one in components} == pinned
    assert all(one["hashes"] for one in components)
    licences = (tmp_path / "licences.txt").read_text().splitlines()
    assert len(licences) == len(pinned)
    django = next(line for line in licences if line.startswith("django "))
    assert django.endswith("BSD-3-Clause")
    assert sum("not stated" in line for line in licences) <= 3
