"""compose.yaml and the Dockerfile: each service has what it needs, and no more.

There is no Docker where tests run, so they read the files.
"""

import re
from typing import Any

import pytest
import yaml

from tests.environment import REPOSITORY

SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(
    (REPOSITORY / "compose.yaml").read_text(encoding="utf-8")
)["services"]
OURS = {name: each for name, each in SERVICES.items() if each["image"] == "ringside:local"}
IMAGE = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
LAST_STAGE = IMAGE[IMAGE.rindex("\nFROM ") :]
EXACT = re.compile(r"[\w./]+:\d+\.\d+(\.\d+)?(-[\w-]+)?(@sha256:[0-9a-f]{64})?")
CALLERS = {"web", "judge-worker", "backup"}  # judges call models; people test them
KEYS = [".env", {"path": "models.env", "required": False}]


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_a_service_has_no_rights_and_its_memory_and_logs_have_limits(
    service: dict[str, Any],
) -> None:
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert re.fullmatch(r"(\$\{\w+:-)?\d+[mg]\}?", service["mem_limit"])
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}


def test_only_caddy_gets_a_capability_back() -> None:
    given = {name: each["cap_add"] for name, each in SERVICES.items() if "cap_add" in each}
    assert given == {"caddy": ["NET_BIND_SERVICE"]}
    # The entrypoints of these would change the owner of their files, and then themselves.
    assert {SERVICES[name]["user"] for name in ("postgres", "redis")} == {"postgres", "redis"}


def test_each_image_is_one_release() -> None:
    bases = re.findall(r"^FROM (\S+)", IMAGE, re.MULTILINE)
    others = [each["image"] for each in SERVICES.values() if each["image"] != "ringside:local"]
    assert len(set(bases)) == 1
    assert len(others) == 3
    assert all(map(EXACT.fullmatch, [*bases, *others]))


def test_the_client_of_postgresql_is_as_new_as_the_server() -> None:
    server = re.match(r"postgres:(\d+)", SERVICES["postgres"]["image"])
    client = re.search(r"postgresql-client-(\d+)", IMAGE)
    assert server is not None
    assert client is not None
    assert server[1] == client[1]


@pytest.mark.parametrize("name", OURS)
def test_keys_of_providers_are_only_where_models_are_called(name: str) -> None:
    assert OURS[name]["env_file"] == (KEYS if name in CALLERS else ".env")
    assert OURS[name]["environment"]["RINGSIDE_ENV"] == "production"


def test_health_checks_end_nothing() -> None:
    checks = [
        each["healthcheck"].get("test", []) for each in SERVICES.values() if "healthcheck" in each
    ]
    assert len(checks) >= 6
    assert not re.search(r"kill|reboot|exit", str(checks) + LAST_STAGE)


def test_a_backup_is_made_each_night_and_exports_have_a_place() -> None:
    nightly = SERVICES["nightly-backup"]
    assert nightly["restart"] == "unless-stopped"
    assert "python manage.py backup --keep" in nightly["command"][-1]
    assert nightly["volumes"] == ["./backups:/backups"]
    assert "./exports:/exports" in SERVICES["backup"]["volumes"]


def test_files_that_a_worker_exports_are_those_that_the_web_server_sends() -> None:
    sharing = {name for name in OURS if "exports:/data/exports" in OURS[name].get("volumes", [])}
    assert sharing == {"web", "export-worker"}
    assert "--queues=exports" in SERVICES["export-worker"]["command"]
    assert "--owner=10001" in LAST_STAGE.partition("/data/exports")[0]


@pytest.mark.parametrize("verb", ["stop", "restart"])
def test_the_page_for_operators_names_every_process_of_the_site(verb: str) -> None:
    page = (REPOSITORY / "docs/how-to/operate.md").read_text(encoding="utf-8")
    command = re.search(rf"docker compose {verb} ([a-z -]+)", page)
    assert command is not None
    assert set(command[1].split()) == OURS.keys() - {"migrate", "nightly-backup", "backup"}


def test_the_image_alone_is_the_one_machine_mode() -> None:
    assert 'CMD ["python", "manage.py", "up"]' in LAST_STAGE
    assert "RINGSIDE_ENV" not in LAST_STAGE
    assert "HOST=0.0.0.0" in LAST_STAGE
    assert "VOLUME /data" in LAST_STAGE
    assert SERVICES["web"]["command"] == ["python", "manage.py", "serve"]
