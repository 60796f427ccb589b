"""The report on a judge of pairs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from judges.core.calibration.against_people import (
    Agreement,
    Baseline,
    PeopleAgreement,
    confuse,
    longer_wins,
    measure_agreement,
    measure_people,
)
from judges.core.calibration.habits import (
    Preference,
    count_flips,
    first_position,
    own_family,
    picks_longer,
    repeated,
)
from judges.core.calibration.items import PAIR_STATES, PairItem, check_keys, majority
from judges.core.calibration.plain import Plain
from judges.core.calibration.sampling import Alpha, Sampling
from ranking.stats import Estimate


@dataclass(frozen=True)
class CategoryAgreement:
    """One category of prompts: its items, its labels, and agreement with each label."""

    category: str
    n_items: int
    n_labels: int
    decisive: Estimate
    three_way: Estimate


@dataclass(frozen=True)
class PairReport(Plain):
    """A judge beside people. Shares are 0..1, with intervals of the confidence ``level``.

    ``states``: items by how the judge's verdict ended
    ``abstention``: share of abstained among those that voted or abstained
    ``against_all``: every label counts; ``against_majority``: one label per item, the outcome that
        more people chose than any other (items where none leads alone are left out);
        ``where_all_agree``: items of at least two labels that are all the same. The last flatters
        a judge, because such items are easy: read all three
    ``people``: people's agreement among themselves on the items that the judge settled;
        ``people_everywhere``: on all items, those it left out too
    ``longer``: what "the longer answer wins" reaches, and how far the judge is above it
    ``confusion``: labels by what people said, then by what the judge did; "none" is no verdict
    ``flips``: share of items with a reading in both orders where the two differ
    ``first_position``: share of decisive readings for the response shown first; 0.5 is fair
    ``picks_longer``, ``own_family``: how often judge and people preferred the longer response, or
        the response of the judge's own family, where both decide
    ``repeats``: nominal alpha over runs of the same judge
    ``categories``: by name
    """

    level: float
    n_items: int
    n_labels: int
    states: Mapping[str, int]
    abstention: Estimate
    against_all: Agreement
    against_majority: Agreement
    where_all_agree: Agreement
    people: PeopleAgreement
    people_everywhere: PeopleAgreement
    longer: Baseline
    confusion: Mapping[str, Mapping[str, int]]
    flips: Estimate
    first_position: Estimate
    picks_longer: Preference
    own_family: Preference
    repeats: Alpha
    categories: tuple[CategoryAgreement, ...]


def calibrate_pairs(
    items: Iterable[PairItem], *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
) -> PairReport:
    """Measure a judge on labelled pairs. Raises ValueError where two items share a key."""
    known = tuple(items)
    check_keys(item.key for item in known)
    sampling = Sampling(level, n_resamples, seed)
    return PairReport(
        level=level,
        n_items=len(known),
        n_labels=_labels(known),
        states=_states(known),
        abstention=_abstention(known, sampling),
        against_all=measure_agreement(known, [item.people for item in known], sampling),
        against_majority=measure_agreement(
            known, [majority(item.people) for item in known], sampling
        ),
        where_all_agree=measure_agreement(
            known, [_common(item.people) for item in known], sampling
        ),
        people=measure_people(known, sampling, settled_only=True),
        people_everywhere=measure_people(known, sampling, settled_only=False),
        longer=longer_wins(known, sampling),
        confusion=confuse(known),
        flips=count_flips(known, sampling),
        first_position=first_position(known, sampling),
        picks_longer=picks_longer(known, sampling),
        own_family=own_family(known, sampling),
        repeats=repeated(known),
        categories=_categories(known, sampling),
    )


def _labels(items: Sequence[PairItem]) -> int:
    return sum(len(item.labels) for item in items)


def _states(items: Sequence[PairItem]) -> dict[str, int]:
    counts = Counter(item.state for item in items)
    return {state: counts[state] for state in PAIR_STATES}


def _abstention(items: Sequence[PairItem], sampling: Sampling) -> Estimate:
    rows = (
        (item.cluster, float(item.state == "abstained"), 1)
        for item in items
        if item.state in ("voted", "abstained")
    )
    return sampling.share(rows, "The judge has read no item in both orders.")


def _common(outcomes: Sequence[str]) -> tuple[str, ...]:
    """The outcome that all of at least two people chose."""
    return (outcomes[0],) if len(outcomes) > 1 and len(set(outcomes)) == 1 else ()


def _categories(items: Sequence[PairItem], sampling: Sampling) -> tuple[CategoryAgreement, ...]:
    return tuple(
        _category(name, [item for item in items if item.category == name], sampling)
        for name in sorted({item.category for item in items})
    )


def _category(name: str, items: Sequence[PairItem], sampling: Sampling) -> CategoryAgreement:
    found = measure_agreement(items, [item.people for item in items], sampling)
    return CategoryAgreement(name, len(items), _labels(items), found.decisive, found.three_way)
