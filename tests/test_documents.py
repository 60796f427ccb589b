"""The documents: their links lead somewhere, and they stay short enough to be read."""

import re
from pathlib import Path

import pytest

from arena.services.imports import Options, preview_files
from tests.environment import REPOSITORY

DOCUMENTS = [
    path
    for pattern in ("*.md", "docs/**/*.md", "clients/**/*.md")
    for path in sorted(REPOSITORY.glob(pattern))
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
MOST_WORDS = 12_000
MOST_WORDS_OF_README = 900


def anchors(path: Path) -> set[str]:
    """The ids that headings get, as on GitHub."""
    headings = HEADING.findall(path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(path), f"{page.name} links to {target}"


def words(*paths: Path) -> int:
    return sum(len(path.read_text(encoding="utf-8").split()) for path in paths)


def test_documents_are_short_enough_to_be_read() -> None:
    assert words(REPOSITORY / "README.md") <= MOST_WORDS_OF_README
    docs = REPOSITORY / "docs"
    pages = [docs / "tutorial.md", *docs.glob("how-to/*.md"), *docs.glob("explanation/*.md")]
    assert words(*pages) <= MOST_WORDS


@pytest.mark.django_db
def test_the_table_shown_where_files_are_imported_can_be_imported(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "how-to" / "import.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    form = REPOSITORY / "templates" / "manage" / "import.html"
    assert example in form.read_text(encoding="utf-8")
    (tmp_path / "votes.csv").write_text(example, encoding="utf-8")
    found = preview_files(slug="own", paths=[tmp_path / "votes.csv"], options=Options())
    assert found.rows["votes"] == 2
    assert not found.rejected.count
