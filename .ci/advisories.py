"""`make audit`: known advisories about the packages in requirements.txt, from https://osv.dev.

Ends with status 1 if there are some, and with 75 if the database cannot be reached: then nothing
was checked.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path

from sbom import packages

SERVICE = "https://api.osv.dev/v1/querybatch"
PATIENCE = 60


def advisories(service: str, pinned: list[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the numbers of the advisories about each package that has some.

    Raises OSError or ValueError if there is no answer, or none of OSV.
    """
    queries = [
        {"package": {"ecosystem": "PyPI", "name": name}, "version": version}
        for name, version in pinned
    ]
    asked = urllib.request.Request(  # noqa: S310  (the address is ours, or the operator's)
        service, json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:  # noqa: S310  (as above)
        results = json.load(answer)["results"]
    return {
        f"{name} {version}": [advisory["id"] for advisory in result["vulns"]]
        for (name, version), result in zip(pinned, results, strict=True)
        if result.get("vulns")
    }


def main(lock: Path, service: str) -> int:
    pinned = [(package["name"], package["version"]) for package in packages(lock.read_text())]
    try:
        known = advisories(service, pinned)
    except (OSError, ValueError) as error:
        print(
            f"Nothing was checked: {service} does not answer ({error}). Run `make audit` where it"
            f" does, or give sbom.json, which names the same {len(pinned)} packages, to a scanner."
        )
        return os.EX_TEMPFAIL
    for package, numbers in known.items():
        print(f"{package}: {', '.join(numbers)}")
    print(f"{len(pinned)} packages checked, with known advisories: {len(known)}")
    return 1 if known else 0


if __name__ == "__main__":
    sys.exit(main(Path("requirements.txt"), os.environ.get("ADVISORIES_URL", SERVICE)))
