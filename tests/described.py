"""The descriptions that a page's fields refer to."""

import re


def undescribed(page: str) -> set[str]:
    """The ids in `aria-describedby` that no element of the page has."""
    named = " ".join(re.findall(r'aria-describedby="([^"]*)"', page)).split()
    return set(named) - set(re.findall(r'\sid="([^"]*)"', page))
