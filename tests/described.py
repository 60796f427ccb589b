"""What the fields of a page say that they are described by."""

import re


def undescribed(page: str) -> set[str]:
    """The ids that something is described by, and that nothing on the page has."""
    named = " ".join(re.findall(r'aria-describedby="([^"]*)"', page)).split()
    return set(named) - set(re.findall(r'\sid="([^"]*)"', page))
