"""Writes the reference from the code: `python .ci/reference.py`; with --check, fails if it is old.

Settings are the comments `#: NAME (default): meaning` where they are read, the API its OpenAPI
schema, and commands what their parsers say.
"""

import argparse
import ast
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")

WHERE_READ = ("settings.py", "conf.py", "endpoints.py", "celery.py")
COMMENT = re.compile(r"^ *#: ?(.*)$", re.MULTILINE)
SETTING = re.compile(r"([A-Z][A-Z0-9_]+) \((.+?)\): (.+)", re.DOTALL)
APPS = ("arena", "ranking", "judges")
METHODS = ("get", "post", "put", "patch", "delete")


def settings_page() -> str:
    documented: dict[str, tuple[str, str]] = {}
    for name in WHERE_READ:
        text = (ROOT / "arena" / name).read_text(encoding="utf-8")
        entries = "\n".join(COMMENT.findall(text))
        for entry in re.split(r"\n(?=[A-Z][A-Z0-9_]+ \()", entries):
            if found := SETTING.fullmatch(entry.strip()):
                documented[found[1]] = (found[2], " ".join(found[3].split()))
    if undocumented := set(names_read()) - set(documented):
        raise SystemExit(f"Settings without a comment `#: NAME (default): meaning`: {undocumented}")
    rows = [
        f"| `{name}` | {default} | {meaning} |"
        for name, (default, meaning) in sorted(documented.items())
    ]
    return "\n".join(
        [
            "# Settings",
            "",
            "Environment variables, read at the start; an invalid value stops it with an"
            " explanation. Some can be set on the operators' pages instead, without a restart;"
            " what the environment sets is shown there and cannot be changed.",
            "",
            "| name | default | meaning |",
            "|---|---|---|",
            *rows,
        ]
    )


def names_read() -> Iterator[str]:
    """Names in calls of `env.str("NAME")` and the like, and of `text_of_file(env, "NAME")`."""
    for name in WHERE_READ:
        tree = ast.parse((ROOT / "arena" / name).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            of_env = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "env"
            given = node.args[:1] if of_env else node.args[1:2]
            if of_env or ast.unparse(node.func).endswith(("text_of_file", "dollars")):
                yield from (
                    each.value
                    for each in given
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                )


def commands_page() -> str:
    from django.core.management import BaseCommand, get_commands, load_command_class

    usual = {each.dest for each in BaseCommand().create_parser("", "")._actions}
    page = [
        "# Commands",
        "",
        "`.venv/bin/python manage.py COMMAND` in the folder of the code, `ringside-arena manage"
        " COMMAND` from the package; `--help` explains each.",
    ]
    for name, app in sorted(get_commands().items()):
        if app not in APPS:
            continue
        command = load_command_class(app, name)
        parser = command.create_parser("manage.py", name)
        own = [each for each in parser._actions if each.dest not in usual and each.help]
        page += ["", f"## {name}", "", sentence(command.help)]
        if own:
            page += ["", "| argument | meaning |", "|---|---|"]
        page += [f"| `{written(each)}` | {cell(expanded(each, parser))} |" for each in own]
    return "\n".join(page)


def written(action: argparse.Action) -> str:
    value = action.metavar or (
        r" \| ".join(map(str, action.choices)) if action.choices else action.dest.upper()
    )
    if isinstance(value, tuple):
        value = " ".join(value)
    if not action.option_strings:
        return str(value if action.metavar else action.dest.upper())
    name = max(action.option_strings, key=len)
    return name if action.nargs == 0 else f"{name} {value}"


def expanded(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    return (action.help or "") % {**vars(action), "prog": parser.prog}


def api_page() -> str:
    from drf_spectacular.generators import SchemaGenerator

    schema: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    page = [
        "# The REST API",
        "",
        "`/api/v1/docs/` on your Ringside lets you try it, and `/api/v1/schema/` is the same as"
        " OpenAPI 3.1. [Use the API](../how-to/use-the-api.md) shows it at work.",
        "",
        schema["info"]["description"].strip(),
    ]
    by_tag: dict[str, list[str]] = {}
    for path, methods in schema["paths"].items():
        for method in METHODS:
            if method in methods:
                operation = methods[method]
                by_tag.setdefault(operation["tags"][0], []).extend(
                    describe(f"{method.upper()} {path.removeprefix('/api/v1')}", operation)
                )
    for tag in schema["tags"]:
        page += ["", f"## {tag['name']}", "", tag["description"], *by_tag.pop(tag["name"], [])]
    assert not by_tag, by_tag.keys()
    page += ["", "## Objects", "", "What requests and responses are made of."]
    for name, component in sorted(schema["components"]["schemas"].items()):
        if not name.startswith("Paginated"):
            page += describe_object(name, component)
    return "\n".join(page)


def describe(address: str, operation: dict[str, Any]) -> list[str]:
    lines = ["", f"### {address}", "", sentence(operation["summary"])]
    if operation.get("description", operation["summary"]) != operation["summary"]:
        lines[-1] += f" {sentence(operation['description'])}"
    if scope := operation.get("x-required-scope"):
        lines += ["", f"Scope: `{scope}`."]
    if given := [each for each in operation.get("parameters", ()) if each["in"] == "query"]:
        lines += ["", "| in the query | type | |", "|---|---|---|"]
        for each in given:
            lines.append(member(each["name"], each["schema"], each.get("description", "")))
    if body := operation.get("requestBody"):
        lines += ["", f"Body: {kinds(body['content'])}."]
    answers = [
        f"{status}: {kinds(answer['content']) if answer.get('content') else 'no body'}"
        for status, answer in operation["responses"].items()
        if status.startswith("2")
    ]
    return [*lines, "", f"Returns {'; '.join(answers)}."]


def kinds(content: dict[str, Any]) -> str:
    found = {type_of(each.get("schema", {})): kind for kind, each in content.items()}
    return " or ".join(
        text if kind == "application/json" else f"`{kind}`" for text, kind in found.items()
    )


def describe_object(name: str, component: dict[str, Any]) -> list[str]:
    lines = ["", f"### {name}", ""]
    if component.get("description"):
        lines += [sentence(component["description"]), ""]
    members = component.get("properties")
    if not members:
        return [*lines, type_of(component)]
    required = set(component.get("required", ()))
    lines += ["| member | type | |", "|---|---|---|"]
    for key, value in members.items():
        optional = name.endswith("Request") and key not in required
        lines.append(member(key, value, value.get("description", ""), optional=optional))
    return lines


def member(name: str, schema: dict[str, Any], meaning: str, *, optional: bool = False) -> str:
    default = f" Default: `{schema['default']}`." if schema.get("default") not in (None, "") else ""
    kind = f"{type_of(schema)}{', optional' if optional else ''}"
    return f"| `{name}` | {cell(kind)} | {cell(meaning + default)} |"


def type_of(schema: dict[str, Any]) -> str:
    if reference := schema.get("$ref"):
        return link(reference.rpartition("/")[2])
    if several := schema.get("allOf") or schema.get("oneOf") or schema.get("anyOf"):
        return " or ".join(map(type_of, several))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    kind = schema.get("type", "any value")
    if isinstance(kind, list):
        return " or ".join(
            "null" if each == "null" else type_of(schema | {"type": each}) for each in kind
        )
    if kind == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    return {"date-time": "time", "uri": "address"}.get(schema.get("format", ""), str(kind))


def link(name: str) -> str:
    if name.startswith("Paginated"):
        return f"a page of {link(name.removeprefix('Paginated').removesuffix('List'))}"
    return f"[{name}](#{name.lower()})"


def sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if not text or text.endswith((".", "?", ":")) else f"{text}."


def cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\|", " ".join(text.split()))


def main() -> None:
    django.setup()
    pages = {"settings.md": settings_page, "commands.md": commands_page, "api.md": api_page}
    note = "<!-- written by `make docs` -->\n\n"
    old = []
    for name, write in pages.items():
        path, text = FOLDER / name, f"{note}{write()}\n"
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        old.append(name)
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
    if old and "--check" in sys.argv:
        raise SystemExit(f"docs/reference is old ({', '.join(old)}). Run: make docs")


if __name__ == "__main__":
    main()
