"""Pages are found one's way about by landmarks, so no two of a page carry the same name."""

import re
from collections import Counter

import pytest
from django.test import Client

from tests.ranking.helpers import make_voted_arena, publish

pytestmark = pytest.mark.django_db
LANDMARK = re.compile(r'<(?:section|[a-z]+ [^>]*role="region")[^>]*aria-labelledby="([^"]+)"')


@pytest.mark.parametrize("page", ["", "history/", "candidates/{candidate}/"])
def test_a_section_and_what_scrolls_in_it_are_not_two_landmarks_of_one_name(
    client: Client, page: str
) -> None:
    arena = make_voted_arena()
    publish(arena)
    address = page.format(candidate=arena.candidates.earliest("pk").pk)
    answer = client.get(f"/a/support/{address}")
    assert answer.status_code == 200
    found = Counter(LANDMARK.findall(answer.text))
    assert found
    assert set(found.values()) == {1}, found
