"""No way of adding or changing prompts leaves two with one text, whatever the order of the rows."""

import pytest

from arena.actors import Actor
from arena.files.rows import PromptRow
from arena.models import Arena, Prompt
from arena.services.prompts import PromptError, revise_prompt, upsert_prompts
from arena.services.responses import UploadReport
from tests.factories import make_arena, make_team, make_vote

pytestmark = pytest.mark.django_db


@pytest.fixture
def xz_arena() -> Arena:
    """Two prompts, p1 = X and p2 = Z."""
    arena = make_arena(0, 0, team=make_team())
    arena.prompts.create(external_id="p1", text="X")
    arena.prompts.create(external_id="p2", text="Z")
    return arena


def upsert(arena: Arena, *rows: tuple[str, str], atomic: bool = False) -> UploadReport:
    """Upload rows with a text, and an id or none."""
    prompts = [PromptRow(i, text, name) for i, (name, text) in enumerate(rows, start=1)]
    return upsert_prompts(arena=arena, rows=prompts, by=Actor(), atomic=atomic)


def texts(arena: Arena) -> dict[str, str]:
    return dict(arena.prompts.order_by("pk").values_list("external_id", "text"))


def refused(report: UploadReport) -> dict[int, str]:
    return {problem.row: problem.sentence for problem in report.problems}


def counts(report: UploadReport) -> tuple[int, int, int]:
    return report.added, report.changed, report.unchanged


def double_of(name: str) -> str:
    return f"Prompt '{name}' already has this text."


def fix(arena: Arena, name: str) -> None:
    """Use a prompt."""
    prompt = arena.prompts.get(external_id=name)
    first, second = (arena.candidates.create(name=f"{name}-{i}") for i in range(2))
    make_vote(arena, first, second, "left", prompt)


def test_several_rows_of_one_text_give_it_to_the_first(xz_arena: Arena) -> None:
    report = upsert(xz_arena, ("p1", "Y"), ("p2", "Y"), ("p3", "Y"))
    assert texts(xz_arena) == {"p1": "Y", "p2": "Z"}
    assert refused(report) == {2: double_of("p1"), 3: double_of("p1")}
    assert (counts(report), report.refused[0].column) == ((0, 1, 0), "text")


def test_with_atomic_none_of_them_gets_it(xz_arena: Arena) -> None:
    report = upsert(xz_arena, ("p1", "Y"), ("p2", "Y"), ("p3", "Y"), ("p4", "New"), atomic=True)
    assert texts(xz_arena) == {"p1": "X", "p2": "Z"}
    assert (report.written, counts(report)) == (False, (0, 0, 0))
    assert list(refused(report)) == [2, 3]


@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("order", [1, -1])
def test_two_prompts_swap_their_texts(xz_arena: Arena, atomic: bool, order: int) -> None:
    report = upsert(xz_arena, *[("p1", "Z"), ("p2", "X")][::order], atomic=atomic)
    assert texts(xz_arena) == {"p1": "Z", "p2": "X"}
    assert (counts(report), refused(report)) == ((0, 2, 0), {})


@pytest.mark.parametrize("order", [1, -1])
def test_a_text_is_passed_on_to_a_new_prompt(xz_arena: Arena, order: int) -> None:
    upsert(xz_arena, *[("p1", "Z"), ("p2", "Y"), ("p3", "X")][::order])
    assert texts(xz_arena) == {"p1": "Z", "p2": "Y", "p3": "X"}


@pytest.mark.parametrize("order", [1, -1])
def test_a_text_that_its_prompt_keeps_is_nobody_elses(xz_arena: Arena, order: int) -> None:
    """p1 has answers, so it keeps X; p2 may not have it, so it keeps Z, and p3 gets nothing."""
    fix(xz_arena, "p1")
    report = upsert(xz_arena, *[("p1", "Y"), ("p2", "X"), ("p3", "Z"), ("p4", "Y")][::order])
    assert texts(xz_arena) == {"p1": "X", "p2": "Z", "p4": "Y"}
    assert counts(report) == (1, 0, 0)
    sentences = [refused(report)[row] for row in sorted(refused(report))][::order]
    assert "has answers or comparisons" in sentences[0]
    assert sentences[1:] == [double_of("p1"), double_of("p2")]


def test_a_long_chain_of_doubles_is_refused_in_one_go(xz_arena: Arena) -> None:
    n = 2000
    Prompt.objects.bulk_create(
        Prompt(arena=xz_arena, external_id=f"q{i}", text=f"{i}") for i in range(n)
    )
    before = texts(xz_arena)
    fix(xz_arena, f"q{n - 1}")
    report = upsert(xz_arena, *[(f"q{i}", f"{(i + 1) % n}") for i in range(n)])
    assert (texts(xz_arena), len(report.refused)) == (before, n)


def test_a_row_without_an_id_is_known_by_the_text_left_so_far(xz_arena: Arena) -> None:
    report = upsert(xz_arena, ("p1", "Y"), ("", "X"), ("", "Y"), ("", "Z"), ("", "X"))
    assert texts(xz_arena) == {"p1": "Y", "p2": "Z", "p3": "X"}
    assert (counts(report), refused(report)) == ((1, 1, 3), {})


def test_a_row_without_an_id_gets_none_that_a_later_row_names(xz_arena: Arena) -> None:
    report = upsert(xz_arena, ("", "New"), ("p3", "Named"))
    assert texts(xz_arena) == {"p1": "X", "p2": "Z", "p4": "New", "p3": "Named"}
    assert (counts(report), refused(report)) == ((2, 0, 0), {})


def test_a_row_without_an_id_changes_nothing_of_its_text(xz_arena: Arena) -> None:
    xz_arena.prompts.filter(external_id="p2").update(text=" Y\r\nY\n")
    fix(xz_arena, "p2")
    assert counts(upsert(xz_arena, ("", "Y\nY"))) == (0, 0, 1)
    assert texts(xz_arena) == {"p1": "X", "p2": " Y\r\nY\n"}


def test_a_row_that_repeats_a_refused_one_is_refused_with_it(xz_arena: Arena) -> None:
    report = upsert(xz_arena, ("p3", "X"), ("p3", "X"), ("p1", "Z"), ("p1", "Z"))
    assert texts(xz_arena) == {"p1": "X", "p2": "Z"}
    assert (counts(report), list(refused(report))) == ((0, 0, 0), [1, 2, 3, 4])


def test_variables_that_a_row_leaves_count_with_its_text(xz_arena: Arena) -> None:
    xz_arena.prompts.update(variables={"a": "1"})
    report = upsert(xz_arena, ("p2", "X"), ("p3", "X"))
    assert refused(report) == {1: double_of("p1")}
    assert texts(xz_arena) == {"p1": "X", "p2": "Z", "p3": "X"}
    assert xz_arena.prompts.get(external_id="p3").variables == {}


def test_imported_doubles_stay_and_take_other_changes(xz_arena: Arena) -> None:
    xz_arena.prompts.update(text="Twin")
    rows = [PromptRow(1, "Twin", "p1", category="c"), PromptRow(2, "Twin", "p2", category="d")]
    report = upsert_prompts(arena=xz_arena, rows=rows, by=Actor(), atomic=True)
    assert (counts(report), refused(report)) == ((0, 2, 0), {})
    revise_prompt(prompt=xz_arena.prompts.get(external_id="p1"), by=Actor(), category="e")
    said = xz_arena.prompts.order_by("pk").values_list("text", "category")
    assert list(said) == [("Twin", "e"), ("Twin", "d")]
    assert refused(upsert(xz_arena, ("p3", "Twin"))) == {1: double_of("p1")}


@pytest.mark.parametrize("stored", ["Y\nY", " Y\r\nY\n"])
def test_a_single_change_and_a_row_are_refused_in_the_same_words(
    xz_arena: Arena, stored: str
) -> None:
    """Imported texts are kept as they came, and only their ends and line ends may differ."""
    xz_arena.prompts.filter(external_id="p2").update(text=stored)
    prompt = xz_arena.prompts.get(external_id="p1")
    with pytest.raises(PromptError) as single:
        revise_prompt(prompt=prompt, by=Actor(), text="Y\r\nY")
    assert (single.value.message, single.value.field) == (double_of("p2"), "text")
    assert refused(upsert(xz_arena, ("p1", "Y\r\nY"))) == {1: double_of("p2")}
    assert texts(xz_arena)["p1"] == "X"
