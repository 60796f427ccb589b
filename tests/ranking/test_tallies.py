"""Vote counts: adding votes up to whole numbers, and back to the battles of the same votes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.stats.battles import Battles
from ranking.stats.intervals import Dependence, Sandwich
from ranking.tallies import (
    CappedRaters,
    PackError,
    VoteCounts,
    dependence,
    pack,
    pair_battles,
    unpack,
)

IDS = np.array([3, 5, 8, 13])


@st.composite
def votes(draw, max_votes=40, n_prompts=3, soft=True):
    """Columns of `VoteCounts.count`: left, right, outcome, preference, prompt, rater."""
    n = draw(st.integers(0, max_votes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    left = rng.integers(0, len(IDS), n)
    right = (left + rng.integers(1, len(IDS), n)) % len(IDS)
    outcome = rng.integers(0, 4, n)
    preference = np.where(rng.random(n) < (0.3 if soft else 0.0), rng.random(n), np.nan)
    prompt = rng.integers(1, n_prompts + 1, n)
    return IDS[left], IDS[right], outcome, preference, prompt, rng.integers(1, 4, n)


def score(outcome, preference):
    hard = np.array([1.0, 0.0, 0.5, 0.5])[outcome]
    return np.where(np.isnan(preference) | (outcome == 3), hard, preference)


def battles_of(columns, both_bad_is_tie=False, cluster=None):
    left, right, outcome, preference, _, _ = columns
    counted = np.ones(len(left), bool) if both_bad_is_tie else outcome != 3
    return Battles.from_arrays(
        np.searchsorted(IDS, left[counted]),
        np.searchsorted(IDS, right[counted]),
        score(outcome, preference)[counted],
        cluster=None if cluster is None else cluster[counted],
        n_candidates=len(IDS),
    )


@given(votes(), st.integers(0, 40))
def test_votes_added_in_two_parts_are_votes_added_at_once(columns, cut):
    parts = [[c[:cut] for c in columns], [c[cut:] for c in columns]]
    joined = VoteCounts.joined(VoteCounts.count(*part) for part in parts).merged()
    assert joined == VoteCounts.count(*columns)


@given(votes(), st.sampled_from([(1, 1), (10**9, 10**6), (2**40, 2**20)]))
def test_counts_are_merged_alike_however_large_the_ids(columns, scale):
    left, right, outcome, preference, prompt, rater = columns
    wide = (left * scale[1], right * scale[1], outcome, preference, prompt * scale[0], rater)
    near, far = VoteCounts.count(*columns), VoteCounts.count(*wide)
    assert (far.keys == near.keys * [scale[0], 1, scale[1], scale[1]]).all()
    assert (far.counts == near.counts).all()
    totals: dict = {}
    for key, row in zip(near.keys.tolist(), near.counts.tolist(), strict=True):
        total = totals.setdefault(tuple(key[2:]), np.zeros(len(row), np.int64))
        total += row
    pairs = near.per_pair()
    assert [tuple(key) for key in pairs.keys[:, 2:].tolist()] == sorted(totals)
    assert pairs.counts.tolist() == [totals[key].tolist() for key in sorted(totals)]


@given(votes(), votes())
def test_removing_votes_leaves_what_was_there(kept, passing):
    before, extra = VoteCounts.count(*kept), VoteCounts.count(*passing)
    assert VoteCounts.joined([before, extra, -extra]).merged() == before


@given(votes())
def test_sides_do_not_matter(columns):
    left, right, outcome, preference, prompt, rater = columns
    swapped = np.array([1, 0, 2, 3])[outcome]
    turned = VoteCounts.count(right, left, swapped, 1 - preference, prompt, rater)
    counts = VoteCounts.count(*columns)
    assert (turned.keys == counts.keys).all()
    assert np.abs(turned.counts - counts.counts).max(initial=0) <= len(left)  # in 2^-32 of a point


@given(votes())
def test_every_vote_is_somewhere_once(columns):
    counts = VoteCounts.count(*columns)
    assert counts.votes.sum() == len(columns[0])
    assert counts.decided.sum() == (columns[2] != 3).sum()
    assert sum(part.votes.sum() for _, part in counts.by_owner()) == len(columns[0])


@given(votes(), st.booleans())
def test_the_battles_are_those_of_the_votes(columns, tie):
    counts = VoteCounts.count(*columns).per_pair()
    ours = pair_battles(counts, IDS, both_bad_is_tie=tie)
    true = battles_of(columns, tie)
    assert ours.n_votes == true.n_votes
    assert ours.wins() == pytest.approx(true.wins(), abs=1e-8)


@given(votes(max_votes=300, n_prompts=60, soft=False), st.booleans())
def test_clustered_errors_are_those_of_the_votes(columns, some_unknown):
    left, right, outcome, preference, prompt, rater = columns
    if some_unknown:
        prompt[::9] = 0
    counts = VoteCounts.count(left, right, outcome, preference, prompt, rater)
    by_rater = VoteCounts.count(left, right, outcome, preference, np.zeros_like(prompt), rater)
    ours = dependence(counts, by_rater, IDS, both_bad_is_tie=False)
    alone = np.where(prompt > 0, prompt, -1 - np.arange(len(prompt)))
    ways = [battles_of(columns, cluster=codes) for codes in (alone, rater)]
    true = Dependence.choose(ways[0] if (prompt[outcome != 3] > 0).any() else None, *ways[1:] * 2)
    assert (ours.rule, ours.n_raters) == (true.rule, true.n_raters)
    if some_unknown:  # equal votes of one rater without a prompt are one row of counts
        return
    mine, theirs = Sandwich().fit(*ours.groupings), Sandwich().fit(*true.groupings)
    assert mine.n_clusters_ == theirs.n_clusters_
    np.testing.assert_allclose(mine.standard_errors_, theirs.standard_errors_, rtol=1e-6)


@given(votes(max_votes=300, n_prompts=60), st.booleans())
def test_capped_raters_weigh_as_much_as_their_votes_would_one_by_one(columns, tie):
    left, right, outcome, preference, prompt, rater = columns
    rater = np.where(np.arange(len(rater)) % 2, 1, rater * 10 + np.arange(len(rater)) % 9)
    columns = (left, right, outcome, preference, prompt, rater)
    by_rater = VoteCounts.count(*columns[:4], np.zeros_like(prompt), rater)
    capped = CappedRaters.of(by_rater, 0.1, tie)
    weight = capped.weight_of(rater)
    counts = VoteCounts.count(*columns)
    ours = pair_battles(counts.per_pair(), IDS, tie, capped)
    true = weighted_battles(columns, tie, weight)
    assert ours.n_votes == true.n_votes
    assert ours.wins() == pytest.approx(true.wins(), abs=1e-8)
    ways = dependence(counts.per_prompt(), by_rater, IDS, tie, capped)
    by_prompt = ways.groupings[0] if ways.rule.startswith("prompt") else None
    for grouping in ways.groupings:  # by prompt, soft verdicts weigh as the pair's do on average
        soft = not np.isnan(preference).all() and grouping is by_prompt
        found = grouping.wins() + grouping.wins().T if soft else grouping.wins()
        wanted = true.wins() + true.wins().T if soft else true.wins()
        assert found == pytest.approx(wanted, abs=1e-8)


def weighted_battles(columns, tie, weight):
    left, right, outcome, preference, _, _ = columns
    counted = np.ones(len(left), bool) if tie else outcome != 3
    sides = (np.searchsorted(IDS, side[counted]) for side in (left, right))
    return Battles.from_arrays(
        *sides, score(outcome, preference)[counted], weight[counted], None, len(IDS)
    )


# -- Packing ---------------------------------------------------------------------------------------


@given(st.lists(st.tuples(*[st.integers(-(2**63), 2**63 - 1)] * 3), max_size=20))
def test_columns_come_back_as_they_went(rows):
    columns = list(np.array(rows, np.int64).reshape(-1, 3).T)
    for there, back in zip(columns, unpack(pack(columns)), strict=True):
        assert there.tolist() == back.tolist()


@given(votes())
def test_cells_come_back_as_they_went(columns):
    counts = VoteCounts.count(*columns)
    assert VoteCounts.of_bytes(counts.pack()) == counts


def test_small_numbers_take_few_bytes():
    column = np.arange(100)
    assert len(pack([column, column * 0])) == 6 + 2 + 100


@pytest.mark.parametrize("spoil", [lambda b: b[:-1], lambda b: b"", lambda b: b"\x09" + b[1:]])
def test_bytes_that_are_something_else_are_refused(spoil):
    packed = VoteCounts.count(*[np.array([v]) for v in (3, 5, 0, np.nan, 1, 1)]).pack()
    with pytest.raises(PackError):
        VoteCounts.of_bytes(spoil(packed))


def test_anonymous_raters_of_one_network_weigh_no_more_than_its_share():
    n = 400  # 100 raters of one network with 3 votes each, and 25 of as many others with 4
    rater = np.r_[np.repeat(np.arange(1, 101), 3), np.repeat(np.arange(101, 126), 4)]
    left, right = np.full(n, 3), np.full(n, 5)
    counts = VoteCounts.count(
        left, right, np.zeros(n, np.int64), np.full(n, np.nan), np.zeros(n, np.int64), rater
    )
    networks = dict.fromkeys(range(1, 101), "one") | {pk: f"n{pk}" for pk in range(101, 113)}
    capped = CappedRaters.of(counts, 1.0, False, networks, 0.1)
    weight = capped.weight_of(rater)
    assert weight[rater <= 100].sum() == pytest.approx(0.1 * weight.sum())
    assert set(weight[rater > 100]) == {1.0}
    assert (capped.n_raters, capped.n_networks) == (0, 1)
    alone = dict.fromkeys(range(1, 126), "one")
    assert CappedRaters.of(counts, 1.0, False, alone, 0.1).n_networks == 0
    battles = pair_battles(counts, IDS, False, capped)
    assert (battles.weight * battles.count).sum() == pytest.approx(weight.sum())
