"""`make sbom` names every pinned package; `make audit` asks a database of advisories about them."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.environment import REPOSITORY


class Database(BaseHTTPRequestHandler):
    """Answers like OSV, which knows one advisory, about Django."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        assert all(query["package"]["ecosystem"] == "PyPI" for query in asked)
        known = {"django": {"vulns": [{"id": "PYSEC-2099-1", "modified": "2099-01-01T00:00:00Z"}]}}
        self.send_response(200)
        self.end_headers()
        results = [known.get(query["package"]["name"], {}) for query in asked]
        self.wfile.write(json.dumps({"results": results}).encode())


@pytest.fixture
def database() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Database)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def audit(service: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ".ci/advisories.py"],
        cwd=REPOSITORY,
        env=os.environ | {"ADVISORIES_URL": service, "no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_an_advisory_about_a_pinned_package_is_named(database: str) -> None:
    done = audit(database)
    assert done.returncode == 1, done.stderr
    first, last = done.stdout.splitlines()
    assert first.startswith("django ")
    assert first.endswith(": PYSEC-2099-1")
    assert last.endswith("packages checked, with known advisories: 1")


def test_without_a_database_nothing_is_called_safe() -> None:
    done = audit("http://127.0.0.1:9/")
    assert done.returncode == os.EX_TEMPFAIL, done.stderr
    assert done.stdout.startswith("Nothing was checked: http://127.0.0.1:9/ does not answer")


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
