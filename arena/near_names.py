"""Names that may be of one candidate: equal but for case, separators and a vendor's prefix. Pure.

Only names of candidates are compared; ids of prompts and raters are taken as they are.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable

SEPARATORS = re.compile(r"[\s_-]+")


def bare_name(name: str) -> str:
    """Return what near-equal names have in common; the name itself if nothing is left of it."""
    without_vendor = name.rpartition("/")[2]
    return SEPARATORS.sub("", without_vendor.casefold()) or name


def near_names(names: Iterable[str], first: Collection[str] = ()) -> list[list[str]]:
    """Return groups of near-equal names, each with those of `first` before others."""
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for name in names:
        groups[bare_name(name)].add(name)
    near = [
        sorted(group, key=lambda name: (name not in first, len(name), name.swapcase()))
        for group in groups.values()
        if len(group) > 1
    ]
    return sorted(near)
