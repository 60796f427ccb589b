"""The API's answers have exactly the members that its description names."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.security.requests import ADDRESSES, ask, path_of
from tests.security.world import make_world

pytestmark = [pytest.mark.any_database, pytest.mark.slow, pytest.mark.django_db]


def described_path(spelled: str) -> str:
    """An address as the description spells it."""
    return "/" + re.sub(r"<\w+:(\w+)>", r"{\1}", spelled).replace("{pk}", "{id}")


def contents(schema: Any, status: int) -> Iterator[tuple[str, str, Any]]:
    """The name, the path and the described JSON of all that is answered to a GET."""
    for name, spelled in ADDRESSES.items():
        path = described_path(spelled)
        answers = schema["paths"].get(path, {}).get("get", {}).get("responses", {})
        content = answers.get(str(status), {}).get("content", {}).get("application/json")
        if content:
            yield name, path, content


def wrong(schema: Any, said: Any, value: Any, place: str) -> Iterator[str]:
    """What `value` has that is not described, or lacks of what is; a null is always let pass."""
    if "$ref" in said:
        said = schema["components"]["schemas"][said["$ref"].rpartition("/")[2]]
    for part in (*said.get("allOf", ()), *said.get("oneOf", ())):
        yield from wrong(schema, part, value, place)
    if isinstance(value, list):
        for index, one in enumerate(value):
            yield from wrong(schema, said.get("items", {}), one, f"{place}/{index}")
    elif isinstance(value, dict) and "properties" in said:
        members = said["properties"]
        yield from (f"{place}/{name} is not described" for name in value.keys() - members)
        yield from (f"{place}/{name} lacks" for name in {*said.get("required", ())} - value.keys())
        for name in value.keys() & members:
            yield from wrong(schema, members[name], value[name], f"{place}/{name}")


def test_every_answer_has_exactly_the_members_that_are_described(api_schema: Any) -> None:
    world = make_world()
    found, asked = [], 0
    for name, _, content in contents(api_schema, 200):
        answer = ask(world.callers["all"], "get", path_of(name, world.at))
        assert answer.status_code == 200, name
        said = json.loads(answer.whole)
        assert said.get("results") != [], f"{name}: a list of nothing shows nothing"
        found += wrong(api_schema, content["schema"], said, name)
        asked += 1
    assert asked >= 25
    assert not found, "\n".join(found)


def test_every_example_has_exactly_the_described_members(api_schema: Any) -> None:
    found = []
    for path, methods in api_schema["paths"].items():
        for method, operation in methods.items():
            for status, answer in operation["responses"].items():
                content = answer.get("content", {}).get("application/json", {})
                for example in content.get("examples", {}).values():
                    place = f"{method} {path} {status}"
                    found += wrong(api_schema, content["schema"], example["value"], place)
    assert not found, "\n".join(found)


def test_a_member_too_many_and_one_too_few_are_found() -> None:
    said = {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]}
    listed = {"type": "array", "items": {"oneOf": [said, {"type": "null"}]}}
    assert list(wrong({}, listed, [{"a": 1, "b": 2}, None], "x")) == []
    assert list(wrong({}, listed, [{"a": 1, "c": 2}], "x")) == [
        "x/0/c is not described",
        "x/0/b lacks",
    ]
