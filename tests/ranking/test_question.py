"""Votes as columns: counted per pair, grouped, and weighed."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.leaderboard import leaderboard
from ranking.question import Evidence, Question, questions_of
from ranking.stats.battles import Battles
from ranking.stats.intervals import Dependence, Sandwich
from ranking.votes import COLUMNS, PackError, PairCounts, VoteTable

IDS = np.array([3, 5, 8, 13])


def table(left, right, outcome, preference=None, prompt=None, rater=None, **fields):
    n = len(left)
    none = np.zeros(n, np.int64)
    columns = {
        "pk": np.arange(1, n + 1),
        "left": left,
        "right": right,
        "outcome": outcome,
        "preference": np.full(n, np.nan) if preference is None else preference,
        "prompt": none if prompt is None else prompt,
        "rater": none if rater is None else rater,
        "kind": none,
        "verified": np.zeros(n, np.bool_),
        "network": none,
        "uncounted": none,
        "named": np.zeros(n, np.bool_),
        "names": {int(pk): f"c{pk}" for pk in IDS},
    }
    return VoteTable(**columns | fields)


@st.composite
def votes(draw, max_votes=40, n_prompts=3, soft=True):
    n = draw(st.integers(0, max_votes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    left = rng.integers(0, len(IDS), n)
    right = (left + rng.integers(1, len(IDS), n)) % len(IDS)
    preference = np.where(rng.random(n) < (0.3 if soft else 0.0), rng.random(n), np.nan)
    return table(
        IDS[left],
        IDS[right],
        rng.integers(0, 4, n),
        preference,
        rng.integers(1, n_prompts + 1, n),
        rng.integers(1, 4, n),
    )


def battles_of(cast, both_bad_is_tie=False, cluster=None, weight=None):
    counted = np.ones(len(cast), bool) if both_bad_is_tie else cast.outcome != 3
    return Battles.from_arrays(
        np.searchsorted(IDS, cast.left[counted]),
        np.searchsorted(IDS, cast.right[counted]),
        cast.score[counted],
        weight=None if weight is None else weight[counted],
        cluster=None if cluster is None else cluster[counted],
        n_candidates=len(IDS),
    )


@given(votes())
def test_sides_do_not_matter(cast):
    swapped = np.array([1, 0, 2, 3])[cast.outcome]
    turned = replace(
        cast, left=cast.right, right=cast.left, outcome=swapped, preference=1 - cast.preference
    ).pairs()
    counts = cast.pairs()
    assert turned.first.tolist() == counts.first.tolist()
    assert turned.second.tolist() == counts.second.tolist()
    assert np.abs(turned.counts - counts.counts).max(initial=0) <= len(cast)  # in 2^-32 of a point


@given(votes(), st.booleans())
def test_every_vote_is_in_one_pair_with_its_points(cast, tie):
    counts, battles = cast.pairs(), battles_of(cast, tie)
    assert counts.votes.sum() == len(cast)
    assert counts.decided.sum() == (cast.outcome != 3).sum()
    assert (counts.first < counts.second).all()
    wins, scored = battles.wins(), counts.scored(tie)
    points = wins[np.searchsorted(IDS, counts.first), np.searchsorted(IDS, counts.second)]
    assert counts.wins_of_first(tie)[scored > 0] == pytest.approx(points[scored > 0], abs=1e-7)


@given(votes(), st.booleans())
def test_the_votes_between_two_are_those_on_either_side(cast, tie):
    evidence = Evidence.of(cast, Question(both_bad="tie" if tie else "separate"))
    for a, b in permutations(IDS.tolist(), 2):
        is_between = np.isin(cast.left, (a, b)) & np.isin(cast.right, (a, b))
        expected = cast.pk[is_between & (tie | (cast.outcome != 3))]
        assert evidence.votes_between(a, b).pk.tolist() == expected.tolist()


@given(votes())
def test_counts_come_back_as_they_went(cast):
    counts = cast.pairs()
    back = PairCounts.of_bytes(counts.pack())
    assert (back.first == counts.first).all()
    assert (back.second == counts.second).all()
    assert (back.counts == counts.counts).all()


def test_small_numbers_take_few_bytes():
    counts = PairCounts(np.arange(100), np.arange(1, 101), np.zeros((100, 8), np.int64))
    assert len(counts.pack()) == 6 + 12 + 2 * 100


@pytest.mark.parametrize("spoil", [lambda b: b[:-1], lambda b: b"", lambda b: b"\x09" + b[1:]])
def test_bytes_that_are_something_else_are_refused(spoil):
    packed = table(*(np.array([v]) for v in (3, 5, 0))).pairs().pack()
    with pytest.raises(PackError):
        PairCounts.of_bytes(spoil(packed))


@given(votes(max_votes=300, n_prompts=60, soft=False), st.booleans())
def test_votes_on_a_prompt_or_by_a_rater_are_dependent(cast, some_unknown):
    if some_unknown:
        cast.prompt[::9] = 0
    ours = Evidence.of(cast, Question(rater_share=1.0)).groups
    ways = [battles_of(cast, cluster=codes) for codes in (cast.prompt, cast.rater)]
    known = (cast.prompt[cast.outcome != 3] > 0).any()
    true = Dependence.choose(ways[0] if known else None, ways[1], ways[0])
    if not (cast.outcome != 3).any():
        return
    assert (ours.rule, ours.n_raters) == (true.rule, true.n_raters)
    if some_unknown:  # votes without a prompt are grouped by rater and pair
        return
    mine, theirs = Sandwich().fit(*ours.groupings), Sandwich().fit(*true.groupings)
    assert mine.n_clusters_ == theirs.n_clusters_
    np.testing.assert_allclose(mine.standard_errors_, theirs.standard_errors_, rtol=1e-9)


def of_documents(cast, n_documents):
    """The same votes on prompts of so many documents, whose names have another order."""
    prompts = np.unique(cast.prompt[cast.prompt > 0]).tolist()
    return replace(cast, documents={pk: f"d{-pk % n_documents}" for pk in prompts})


@given(votes(max_votes=300, n_prompts=60), st.booleans(), st.booleans())
def test_prompts_of_one_document_are_grouped_as_if_they_were_one(cast, some_unknown, by_judges):
    if some_unknown:
        cast.prompt[::9] = 0
    if by_judges:
        cast = replace(cast, kind=np.ones(len(cast), np.int64))
    question = Question("judges" if by_judges else "people")
    cast = of_documents(cast, 7)
    merged = replace(cast, prompt=cast.documents_of(cast.prompt), documents={})
    ours, theirs = Evidence.of(cast, question), Evidence.of(merged, question)
    assert ours.groups.rule == theirs.groups.rule
    for mine, true in zip(ours.groups.groupings, theirs.groups.groupings, strict=True):
        assert np.array_equal(mine.cluster, true.cluster)
    assert ours.groups.effective == theirs.groups.effective


def leaderboard_of(cast):
    made = leaderboard(cast, Question(n_resamples=100))
    told = {name: value for name, value in made.settings.items() if name != "documents"}
    findings = {name: value for name, value in made.findings.items() if name != "robustness"}
    return made.rows, made.fields, told, findings


def test_documents_of_one_prompt_each_change_no_number():
    rng = np.random.default_rng(5)
    left = rng.integers(0, 4, 600)
    right = (left + rng.integers(1, 4, 600)) % 4
    outcome = np.where(rng.random(600) < 0.4 + 0.1 * (left < right), 0, rng.integers(1, 4, 600))
    prompt, rater = rng.integers(0, 40, 600), rng.integers(1, 12, 600)
    cast = table(IDS[left], IDS[right], outcome, prompt=prompt, rater=rater)
    alone = leaderboard_of(of_documents(cast, 1000))
    assert repr(alone) == repr(leaderboard_of(cast))
    assert repr(alone) != repr(leaderboard_of(of_documents(cast, 8)))
    assert Evidence.of(cast, Question()).n_documents == 0


def test_the_order_of_groups_depends_on_no_name():
    rng = np.random.default_rng(6)
    left = rng.integers(0, 2, 300)
    prompt = rng.integers(1, 50, 300)
    cast = of_documents(table(IDS[left], IDS[1 - left], left, prompt=prompt), 20)
    numbers = {}
    numbered = {pk: numbers.setdefault(name, len(numbers)) for pk, name in cast.documents.items()}
    other = Evidence.of(replace(cast, documents=numbered), Question())
    evidence = Evidence.of(cast, Question())
    assert evidence.unit.tolist() == other.unit.tolist()
    assert evidence.digest == other.digest
    by_judge = {name: np.append(getattr(cast, name), getattr(cast, name)[0]) for name in COLUMNS}
    by_judge["kind"][-1] = 1
    assert Evidence.of(replace(cast, **by_judge), Question()).digest == evidence.digest


@given(votes(max_votes=300, n_prompts=60), st.booleans())
def test_no_rater_weighs_more_than_its_share(cast, tie):
    busy = np.where(np.arange(len(cast)) % 2, 1, cast.rater * 10 + np.arange(len(cast)) % 9)
    cast = replace(cast, rater=busy)
    question = Question(both_bad="tie" if tie else "separate", rater_share=0.1)
    evidence = Evidence.of(cast, question)
    weight = evidence.caps.weight
    if weight is None:
        return
    scored = np.ones(len(cast), bool) if tie else cast.outcome != 3
    per_rater = np.bincount(busy[scored], weight[scored])
    assert per_rater.max() <= evidence.caps.share * per_rater.sum() * (1 + 1e-9)
    true = battles_of(cast, tie, weight=weight)
    assert evidence.battles.wins() == pytest.approx(true.wins(), abs=1e-8)
    for grouping in evidence.groups.groupings:
        assert grouping.wins() == pytest.approx(true.wins(), abs=1e-8)


def test_votes_of_unknown_raters_count_in_full():
    rater = np.array([7] * 60 + [1] * 4 + [2] * 4 + [0] * 30)
    n = len(rater)
    cast = table(np.full(n, 3), np.full(n, 5), np.zeros(n, np.int64), rater=rater)
    caps = Evidence.of(cast, Question()).caps
    assert caps.share == 0.1
    assert caps.weight[:60] == pytest.approx(38 / 9 / 60)
    assert (caps.weight[60:] == 1).all()


def test_anonymous_raters_of_one_network_weigh_no_more_than_its_share():
    n = 400  # 100 raters of one network with 3 votes each, and 25 of as many others with 4
    rater = np.r_[np.repeat(np.arange(1, 101), 3), np.repeat(np.arange(101, 126), 4)]
    network = np.where(rater <= 100, 1, np.where(rater < 113, rater, 0))
    columns = (np.full(n, 3), np.full(n, 5), np.zeros(n, np.int64))
    cast = table(*columns, rater=rater, network=network)
    question = Question(rater_share=1.0, network_share=0.1)
    caps = Evidence.of(cast, question).caps
    assert caps.weight[rater <= 100].sum() == pytest.approx(0.1 * caps.weight.sum())
    assert set(caps.weight[rater > 100]) == {1.0}
    assert (caps.n_raters, caps.n_networks) == (0, 1)
    alone = replace(cast, network=np.ones(n, np.int64))
    assert Evidence.of(alone, question).caps.n_networks == 0


def test_a_rater_belongs_to_the_network_of_most_of_its_votes_and_then_of_the_last():
    columns = (np.full(7, 3), np.full(7, 5), np.zeros(7, np.int64))
    rater, network = np.array([1, 1, 1, 2, 2, 3, 3]), np.array([7, 8, 7, 7, 8, 0, 0])
    assert table(*columns, rater=rater, network=network).networks == {1: 7, 2: 8}


def test_questions_are_those_that_somebody_has_answered():
    kind, verified = np.array([0, 0, 1, 2]), np.array([True, False, False, False])
    columns = (np.full(4, 3), np.full(4, 5), np.zeros(4, np.int64))
    cast = table(
        *columns, prompt=np.array([1, 2, 2, 9]), kind=kind, verified=verified, categories={2: "b"}
    )
    assert questions_of(cast) == {
        *((raters, "") for raters in ("people", "verified", "judges", "juries", "combined")),
        *((raters, "b") for raters in ("people", "judges", "combined")),
    }
    out = replace(cast, uncounted=np.array([0, 1, 0, 0]))
    assert ("verified", "") not in questions_of(out)  # only verified people are left
    assert ("people", "b") not in questions_of(out)


def test_equal_evidence_has_an_equal_digest_and_no_other_has():
    columns = (np.array([3, 5]), np.array([5, 8]), np.array([0, 1]))
    cast, question = table(*columns, rater=np.array([1, 2])), Question()
    digest = Evidence.of(cast, question).digest
    assert Evidence.of(replace(cast, pk=cast.pk + 10), question).digest == digest
    changed = [
        replace(cast, outcome=np.array([0, 2])),
        replace(cast, uncounted=np.array([0, 1])),
        replace(cast, archived=frozenset({13})),
        replace(cast, prompt=np.array([1, 1])),
        replace(cast, preference=np.array([0.5, np.nan])),
    ]
    others = {Evidence.of(one, question).digest for one in changed}
    others |= {Evidence.of(cast, replace(question, **{name: 7})).digest for name in ("seed",)}
    assert len(others | {digest}) == len(changed) + 2
