"""How much one rater may weigh, and which votes then count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from ranking.stats.intervals import capped_note, capped_weights, largest_share

CAST = st.lists(st.integers(0, 1000), min_size=1, max_size=30)


@given(CAST, st.sampled_from([0.02, 0.1, 0.3, 1.0]))
def test_nobody_weighs_more_than_the_share(cast, setting):
    votes = np.array(cast, float)
    share = largest_share(np.count_nonzero(votes), setting)
    weighed = votes * capped_weights(votes, share)
    assert (weighed <= share * weighed.sum() * (1 + 1e-9)).all()
    light = weighed < share * weighed.sum() * (1 - 1e-9)
    assert weighed[light] == pytest.approx(votes[light])  # whoever is under it counts in full


@given(CAST, st.sampled_from([0.1, 0.3]))
def test_the_cap_is_the_one_that_fits_its_own_total(cast, setting):
    votes = np.array(cast, float)
    share = largest_share(np.count_nonzero(votes), setting)
    weighed = votes * capped_weights(votes, share)
    if not (weighed < votes).any():
        return

    def surplus(limit):
        return share * np.minimum(votes, limit).sum() - limit

    limit = brentq(surplus, weighed.max() / 2, votes.max(), xtol=1e-12)
    assert weighed == pytest.approx(np.minimum(votes, limit), rel=1e-6)


def test_equal_raters_are_never_capped():
    for n_raters in (1, 2, 3, 8, 300):
        assert (capped_weights(np.full(n_raters, 7.0), largest_share(n_raters, 0.01)) == 1).all()


def test_the_note_names_how_many_and_at_what():
    assert capped_note(0, 0.1) == ""
    assert capped_note(1, 0.1) == "1 rater’s votes are capped at 10% of the weight."
    assert capped_note(2, 0.25) == "2 raters’ votes are each capped at 25% of the weight."
