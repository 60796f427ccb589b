"""Each part of the benchmarks writes its own section and leaves the others unchanged."""

import pytest

from benchmarks import results
from benchmarks.results import Line


@pytest.fixture(autouse=True)
def page(tmp_path, monkeypatch):
    path = tmp_path / "RESULTS.md"
    monkeypatch.setattr(results, "RESULTS", path)
    return path


def test_a_part_replaces_its_own_section_only(page):
    results.keep("votes", "old votes")
    results.keep("statistics", "figures\n\n| a | 95% |")
    results.keep("votes", "new votes")
    assert page.read_text() == (
        f"{results.HEAD}\n## Votes and pages\n\nnew votes\n\n"
        "## Statistics\n\nfigures\n\n| a | 95 % |\n"
    )


def test_sections_keep_their_order_whichever_was_measured_first(page):
    for part in reversed(results.TITLES):
        results.keep(part, part)
    places = [page.read_text().index(f"## {title}\n") for title in results.TITLES.values()]
    assert places == sorted(places)


def test_what_missed_its_target_is_named():
    lines = [Line("A", "at most 1", "2", met=False), Line("B", "at most 1", "1", met=True)]
    assert results.missed(lines) == "Missed: A."
    assert results.missed(lines[1:]) == ""
