"""Every address of an arena that is open to teams, for its guests, and of guests' candidates.

`tests.security.table_guests` says what is expected; an address of a candidate without a row fails.
"""

import pytest

from tests.security.asking import ADDRESSES, ask, path_of
from tests.security.table import ROWS
from tests.security.table_guests import GUESTS_ROWS, as_guests
from tests.security.world import make_world, welcome_guests

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


def test_guests_get_what_the_table_says_of_the_arena() -> None:
    world = make_world()
    welcome_guests(world)
    wrong = []
    for (name, method), row in ROWS.items():
        if not row.arena:
            continue
        path = path_of(name, world.at)
        for caller, expected in as_guests((name, method)).items():
            found = ask(world.callers[caller], method, path, row.body).status_code
            if found != expected:
                wrong.append(f"{method} {name}: {caller} got {found}, not {expected}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", ["disclosed", "undisclosed"])
def test_a_guests_candidate_answers_as_the_table_says(kind: str) -> None:
    world = make_world()
    at = welcome_guests(world)[kind]
    wrong = []
    for (name, method), row in GUESTS_ROWS.items():
        path, body = path_of(name, at), ROWS[name, method].body
        for caller, expected in row.expected(kind).items():
            found = ask(world.callers[caller], method, path, body).status_code
            if found != expected:
                wrong.append(f"{method} {name}: {caller} got {found}, not {expected}")
    assert not wrong, "\n".join(wrong)


def test_every_address_of_a_candidate_has_its_rows() -> None:
    world = make_world()
    at = welcome_guests(world)["disclosed"]
    theirs = {name for name in ADDRESSES if path_of(name, at) != path_of(name, world.at)}
    wanted = {(name, method) for name, method in ROWS if name in theirs}
    assert wanted == GUESTS_ROWS.keys()
