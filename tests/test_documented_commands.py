"""Commands in the documentation exist, and take the options that are shown."""

import re
import shlex

import pytest
from django.core.management import get_commands, load_command_class

from tests.environment import REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
COMMAND = re.compile(r"^ {4,}\.venv/bin/python manage\.py (\w.+)$", re.MULTILINE)
DOCUMENTED = [
    pytest.param(line, id=f"{page.name}: {line[:60]}")
    for page in PAGES
    for line in COMMAND.findall(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("line", DOCUMENTED)
def test_a_documented_command_takes_its_arguments(line: str) -> None:
    required = re.sub(r"\[[^]]*\]", "", line)  # what stands in brackets may be left out
    name, *arguments = shlex.split(required, comments=True)
    command = load_command_class(get_commands()[name], name)
    command.create_parser("manage.py", name).parse_args(arguments)


def test_the_documentation_has_commands() -> None:
    assert len(DOCUMENTED) > 20
