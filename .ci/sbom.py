"""`make sbom`: lists the parts of the product, as CycloneDX 1.5 (sbom.json) and as a list of
licences.

Names, versions and digests are those of requirements.txt, licences those that the installed
packages state.
"""

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

PINNED = re.compile(r"^([\w.-]+)==([^\s;\\]+)")
DIGEST = re.compile(r"--hash=sha256:([0-9a-f]{64})")
UNKNOWN = "not stated"


def packages(lock: str) -> list[dict[str, Any]]:
    """Return name, version and digests of every package in a lock file."""
    pinned_packages: list[dict[str, Any]] = []
    for line in lock.splitlines():
        if pinned := PINNED.match(line):
            pinned_packages.append({"name": pinned[1], "version": pinned[2], "digests": []})
        if pinned_packages and (digest := DIGEST.search(line)):
            pinned_packages[-1]["digests"].append(digest[1])
    return pinned_packages


def licence_of(name: str) -> str:
    """Return the licence that the installed package states, on one line."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return "not installed here"
    stated = about.get("License-Expression") or about.get("License") or ""
    classified = [
        line.rpartition(" :: ")[2]
        for line in about.get_all("Classifier") or []
        if line.startswith("License ::")
    ]
    short = stated if 0 < len(stated) <= 60 and "\n" not in stated else ""
    return short or ", ".join(classified) or UNKNOWN


def component(package: dict[str, Any]) -> dict[str, Any]:
    name, version = package["name"], package["version"]
    return {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name.lower().replace('_', '-')}@{version}",
        "hashes": [{"alg": "SHA-256", "content": digest} for digest in package["digests"]],
        "licenses": [{"license": {"name": licence_of(name)}}],
    }


def main(lock: Path, folder: Path) -> None:
    components = [component(package) for package in packages(lock.read_text())]
    bom = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components}
    (folder / "sbom.json").write_text(json.dumps(bom, indent=1) + "\n")
    lines = [
        f"{entry['name']} {entry['version']}: {entry['licenses'][0]['license']['name']}"
        for entry in components
    ]
    (folder / "licences.txt").write_text("\n".join(lines) + "\n")
    print(f"sbom.json and licences.txt: {len(components)} packages")


if __name__ == "__main__":
    main(Path("requirements.txt"), Path(*sys.argv[1:2]))
