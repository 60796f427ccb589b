"""The pace at which two answers are shown: fair, even, and blind to who is faster."""

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from arena.pacer import FIRST, Pacer

Floats = NDArray[np.float64]
TICK = 0.1
LONGEST = 6_000  # ticks
Arrivals = Sequence[tuple[float, int]]  # times, and the characters that are there from then on


class AsWritten:
    """Both show what the slower has; once one has ended, the other shows all that it has."""

    def advance(self, lengths: Sequence[int], ended: Sequence[bool], now: float) -> int:
        writing = [n for n, end in zip(lengths, ended, strict=True) if not end]
        return min(lengths) if not any(ended) else min(writing, default=max(lengths))


def play(left: Arrivals, right: Arrivals, pacer: Any = None) -> list[tuple[float, int, int]]:
    """What is shown of either answer at each tick until both are shown whole."""
    pacer, shown = pacer or Pacer(), []
    totals = (left[-1][1], right[-1][1])
    times = [[at for at, _ in side] for side in (left, right)]
    for n in range(LONGEST):
        now = n * TICK
        places = [bisect_right(at, now) for at in times]
        lengths = [
            side[place - 1][1] if place else 0
            for side, place in zip((left, right), places, strict=True)
        ]
        ended = [now >= left[-1][0], now >= right[-1][0]]
        upto = pacer.advance(lengths, ended, now)
        shown.append((now, min(upto, lengths[0]), min(upto, lengths[1])))
        if shown[-1][1:] == totals:
            break
    return shown


def steady(first: float, pace: float, length: int, jitter: Sequence[float] = ()) -> Arrivals:
    """Tokens of four characters, the first after `first` seconds, then `pace` of them a second."""
    count = -(-length // 4)
    late = [*jitter, *[0.0] * count]
    times = np.maximum.accumulate([first + n / pace + late[n] for n in range(count)])
    return [(float(at), min(4 * (n + 1), length)) for n, at in enumerate(times)]


arrivals = st.builds(
    lambda first, gaps: [
        (first + float(at), 4 * (n + 1)) for n, at in enumerate(np.cumsum([0.0, *gaps]))
    ],
    st.floats(0, 5),
    st.lists(st.floats(0, 0.5), max_size=60),
)


@given(arrivals, arrivals)
def test_both_show_the_same_until_the_shorter_has_ended(left: Arrivals, right: Arrivals) -> None:
    short = min(left[-1][1], right[-1][1])
    for _, a, b in play(left, right):
        assert a == b or min(a, b) == short


@given(arrivals, arrivals)
def test_nothing_is_shown_before_both_have_begun_and_all_in_the_end(
    left: Arrivals, right: Arrivals
) -> None:
    shown = play(left, right)
    both = max(left[0][0], right[0][0])
    assert all(a == b == 0 for now, a, b in shown if now < both)
    assert shown[-1][1:] == (left[-1][1], right[-1][1])
    first = next(now for now, a, _ in shown if a)
    assert first <= both + TICK + 1e-9


@given(arrivals, arrivals)
def test_what_was_shown_is_never_taken_back(left: Arrivals, right: Arrivals) -> None:
    shown = play(left, right)
    for (_, a, b), (_, c, d) in itertools.pairwise(shown):
        assert c >= a
        assert d >= b


def test_there_is_no_gap_while_the_slower_writes() -> None:
    shown = play(steady(0.2, 100, 2_000), steady(1.0, 30, 1_200))
    grown = [now for (now, a, _), (_, b, _) in zip(shown[1:], shown, strict=False) if a > b]
    assert max(later - now for now, later in itertools.pairwise(grown)) <= 0.3
    assert grown[0] <= 1.0 + TICK + 1e-9
    assert shown[-1][0] < 1.2 * 60  # at the pace of the slower: 2,000 characters at 30 tokens


def test_a_faster_longer_answer_does_not_jump_when_the_slower_ends() -> None:
    shown = play(steady(0.1, 200, 2_000), steady(0.5, 20, 400))
    steps = [b - a for (_, a, _), (_, b, _) in itertools.pairwise(shown)]
    assert max(steps[20:]) <= 2 * (20 * 4 * TICK) + FIRST


def guess_the_slower(pacer: Any) -> float:
    """How often a classifier that knows the texts and sees every event names the slower model, in
    2,000 rounds of a fast and a slow one with jitter."""
    random = np.random.default_rng(5)
    rows, labels = [], []
    for _ in range(2_000):
        lengths = random.integers(150, 1_500, 2)
        fast = steady(0.2, 100, int(lengths[0]), random.exponential(0.01, 400).tolist())
        slow = steady(1.0, 20, int(lengths[1]), random.exponential(0.05, 400).tolist())
        shown = np.array(play(fast, slow, pacer()))
        rows.append(features(shown, lengths))
        labels.append(lengths[1] > lengths[0])  # whether the slower one wrote the longer text
    x, y = np.array(rows), np.array(labels, float)
    return classified(x[:1_000], y[:1_000], x[1_000:], y[1_000:])


def test_the_times_do_not_tell_which_model_is_slower() -> None:
    assert guess_the_slower(Pacer) <= 0.55


def test_they_would_tell_if_the_longer_answer_were_shown_as_it_is_written() -> None:
    assert guess_the_slower(AsWritten) >= 0.9


def features(shown: Floats, lengths: Floats) -> list[float]:
    """What the events of a round tell: when they came, how even they were, before and after the
    shorter had ended, and how long both texts are."""
    times, longer = shown[:, 0], shown[:, 1:].max(axis=1)
    short, long = lengths.min(), lengths.max()
    steps = np.diff(longer)
    together = longer[:-1] < short
    together &= longer[:-1] > 0
    alone = longer[:-1] >= short
    parts = [
        [part.mean(), part.std(), part.max(), (part == 0).mean()] if len(part) else [0.0] * 4
        for part in (steps[together], steps[alone])
    ]
    begun = times[np.argmax(longer > 0)]
    ratio = parts[1][0] / max(parts[0][0], 0.1)
    return [begun, times[-1] - begun, *parts[0], *parts[1], ratio, short, long, long - short]


def classified(x: Floats, y: Floats, new_x: Floats, new_y: Floats) -> float:
    """The accuracy of logistic regression on all features and their products."""
    mean, spread = x.mean(axis=0), x.std(axis=0) + 1e-9

    def widened(rows: Floats) -> Floats:
        z = np.clip((rows - mean) / spread, -4, 4)
        places = np.triu_indices(z.shape[1])
        return np.column_stack([np.ones(len(z)), z, z[:, places[0]] * z[:, places[1]]])

    wide = widened(x)
    weights = np.zeros(wide.shape[1])
    for _ in range(400):
        chance = 1 / (1 + np.exp(-np.clip(wide @ weights, -30, 30)))
        weights -= 0.3 * (wide.T @ (chance - y) / len(y) + 1e-3 * weights)
    right = (widened(new_x) @ weights > 0) == (new_y > 0)
    return float(right.mean())
