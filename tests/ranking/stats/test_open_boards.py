"""Leaderboards that anybody can vote on: bought ones are flagged, and honest leaders are named.

`python -m tests.ranking.stats.test_open_boards 200` prints what 200 boards a row say.
"""

import sys
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from scipy.special import expit

from ranking.leaderboard import fit_leaderboard
from ranking.question import Evidence, Question
from ranking.stats import anomalies
from ranking.stats.anomalies import GROUP_TESTS
from ranking.stats.bradley_terry import BradleyTerry
from ranking.votes import VoteTable

N_HONEST, NETWORKS, N_VOTES, N_PROMPTS = 40, 30, 1000, 60
TARGET = 4  # the fifth of eight
SCORES = np.array([1.0, 0.0, 0.5])
ELO = np.log(10) / 400
OPEN = Question(network_share=0.25, rater_share=0.1, is_open=True)


@dataclass(frozen=True)
class Attack:
    """Raters for whom the target always wins, where it is shown to them only.

    `share`: of all raters; where they are all, there are as many as there else are honest ones.
    """

    share: float = 0.0
    is_fast: bool = True
    networks: int = 1
    is_verified: bool = False
    each: int = 25

    @property
    def n_raters(self) -> int:
        return round(N_HONEST * self.share / (1 - self.share)) if self.share < 1 else N_HONEST


@dataclass(frozen=True, eq=False)
class OpenBoard:
    rater: np.ndarray
    network: np.ndarray
    left: np.ndarray
    right: np.ndarray
    outcome: np.ndarray
    prompt: np.ndarray
    is_rigged: np.ndarray
    is_verified: bool
    n_candidates: int

    def table(self, chosen: np.ndarray) -> VoteTable:
        n = int(chosen.sum())
        verified = self.is_rigged[chosen] & self.is_verified
        return VoteTable(
            pk=np.arange(1, n + 1),
            left=self.left[chosen] + 1,
            right=self.right[chosen] + 1,
            prompt=self.prompt[chosen],
            rater=self.rater[chosen] + 1,
            outcome=self.outcome[chosen],
            preference=np.full(n, np.nan),
            kind=np.zeros(n, np.int64),
            verified=verified,
            network=np.where(verified, 0, self.network[chosen] + 1),
            uncounted=np.zeros(n, np.int64),
            named=np.zeros(n, np.bool_),
            names={pk: str(pk) for pk in range(1, self.n_candidates + 1)},
        )

    def rank_of(self, candidate: int, chosen: np.ndarray) -> int:
        evidence = Evidence.of(self.table(chosen), OPEN)
        theta = np.nan_to_num(BradleyTerry().fit(evidence.battles).theta_, nan=-9.0)
        return int((theta > theta[candidate]).sum()) + 1


def cast_votes(seed: int, attack: Attack, theta: np.ndarray | None = None) -> OpenBoard:
    """A board of honest raters, who differ in taste, and those of an attack. Without `theta`,
    candidates differ by 140 Elo on average, and every tenth honest rater has views of their own.
    """
    rng = np.random.default_rng(seed)
    odd = 0.1 if theta is None else 0.0
    theta = np.sort(rng.normal(0, 0.8, 8))[::-1] if theta is None else theta
    n_honest, size = (0 if attack.share == 1 else N_HONEST), len(theta)
    counts = rng.multinomial(N_VOTES, rng.dirichlet(np.full(N_HONEST, 2.0)))
    home = rng.integers(0, NETWORKS, N_HONEST)
    began, columns = rng.uniform(0.2, 0.8), []
    for rater in range(n_honest + attack.n_raters):
        is_rigged = rater >= n_honest
        n = attack.each if is_rigged else counts[rater]
        pairs = np.array([rng.choice(size, 2, replace=False) for _ in range(n)], np.int64)
        pairs = pairs.reshape(-1, 2)
        if is_rigged:
            others = rng.choice(np.delete(np.arange(size), TARGET), n)
            pairs = rng.permuted(np.column_stack([np.full(n, TARGET), others]), axis=1)
        left, right = pairs.T
        own = rng.permutation(theta) if rng.random() < odd else theta
        own = own + rng.normal(0, 0.3, size)
        outcome = np.where(rng.random(n) < expit(own[left] - own[right]), 0, 1)
        outcome[rng.random(n) < 0.15] = 2
        network = NETWORKS + (rater - n_honest) % attack.networks if is_rigged else home[rater]
        start = rng.random()
        if is_rigged:
            outcome = np.where(left == TARGET, 0, 1)
            start = began + rng.uniform(0, 0.02) if attack.is_fast else start
        at = start + np.sort(rng.random(n)) * 0.02
        facts = (rater, network, left, right, outcome, rng.integers(1, N_PROMPTS + 1, n), is_rigged)
        columns.append([at, *(np.broadcast_to(fact, n) for fact in facts)])
    at, *facts = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.argsort(at, kind="stable")
    return OpenBoard(*(fact[order] for fact in facts), attack.is_verified, size)


@dataclass(frozen=True)
class Seen:
    """What became of a board: whether the target moved by two ranks, whether the leaderboard is
    flagged, whether the target, or the best, is named, or claimed by the votes alone, and the share
    of honest raters held."""

    moved: bool
    flagged: bool
    named: bool
    claimed: bool
    held: float


def examine(board: OpenBoard, candidate: int) -> Seen:
    cast = anomalies.Cast(
        board.rater,
        board.network,
        board.left,
        board.right,
        SCORES[board.outcome],
        np.zeros(len(board.rater), np.bool_),
    )
    found = anomalies.find(cast, board.n_candidates)
    held = anomalies.held_raters(found)
    flagged = any(each.test in GROUP_TESTS for each in found)
    everything, honest = np.full(len(board.rater), True), ~board.is_rigged
    before = board.rank_of(candidate, honest) if honest.any() else candidate + 1
    kept = ~np.isin(board.rater, list(held))
    leaders = {"leader": None, "claimed_leader": None}
    if kept.any():
        leaders = fit_leaderboard(Evidence.of(board.table(kept), OPEN)).findings
    of_honest = np.unique(board.rater[honest])
    return Seen(
        moved=before - board.rank_of(candidate, everything) >= 2,
        flagged=flagged,
        named=not flagged and leaders["leader"] == candidate + 1,
        claimed=leaders["claimed_leader"] == candidate + 1,
        held=float(np.isin(of_honest, list(held)).mean()) if len(of_honest) else 0.0,
    )


ATTACKS = [
    Attack(share, is_fast, networks, is_verified)
    for share, is_fast, networks, is_verified in product(
        (0.1, 0.5, 1.0), (True, False), (1, 10, 400), (False, True)
    )
]


def attacked(attack: Attack, n_boards: int) -> tuple[float, float, float, int]:
    """The share of moved boards that are flagged, of all where the target is named, of honest
    raters held, and how many moved."""
    seen = [examine(cast_votes(seed, attack), TARGET) for seed in range(n_boards)]
    moved = [each for each in seen if each.moved]
    flagged = float(np.mean([each.flagged for each in moved])) if moved else 1.0
    named, held = ([getattr(each, name) for each in seen] for name in ("named", "held"))
    return flagged, float(np.mean(named)), float(np.mean(held)), len(moved)


# Of eight candidates, 1,000 votes name nobody at 100 Elo; of two, always.
HONEST = ([100, 0], [100, 0, -50], [100, 0, -50, -100], [100, 0, 0, 0])


def unattacked(scores: list[int], n_boards: int) -> tuple[int, int, int]:
    """On how many boards the votes alone claim the best as leader, it is named, and the board is
    flagged."""
    theta = np.array(scores) * ELO
    seen = [examine(cast_votes(seed, Attack(), theta), 0) for seed in range(n_boards)]
    return (
        sum(each.claimed for each in seen),
        sum(each.named for each in seen),
        sum(each.flagged for each in seen),
    )


@pytest.mark.slow
@pytest.mark.parametrize("is_verified", [False, True])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_bought_leaderboards_are_flagged_and_name_nobody(share: float, is_verified: bool) -> None:
    rows = [row for row in ATTACKS if (row.share, row.is_verified) == (share, is_verified)]
    seen = [attacked(row, 20) for row in rows]
    assert min(n_moved for *_, n_moved in seen) >= 10
    for flagged, named, held, _ in seen:
        assert flagged >= 0.95
        assert named == 0
        assert held <= 0.015
    assert np.mean([held for _, _, held, _ in seen]) <= 0.01


@pytest.mark.slow
def test_honest_leaders_are_named_and_their_leaderboards_not_flagged() -> None:
    seen = np.array([unattacked(scores, 20) for scores in HONEST])
    claimed, named, flagged = seen.sum(axis=0)
    assert claimed >= 40
    assert named >= 0.8 * claimed
    assert flagged <= 1


def test_a_lead_of_ten_networks_is_not_named_and_one_of_thirty_is() -> None:
    bought = examine(cast_votes(1, Attack(1.0, networks=10)), TARGET)
    assert (bought.moved, bought.flagged, bought.named) == (True, True, False)
    honest = cast_votes(1, Attack(), np.array([300, 0, -50]) * ELO)
    assert examine(honest, 0).named
    everything = np.full(len(honest.rater), True)
    few = np.minimum(honest.network, 9)
    board = OpenBoard(**{**vars(honest), "network": few})
    findings = fit_leaderboard(Evidence.of(board.table(everything), OPEN)).findings
    assert (findings["claimed_leader"], findings["leader"], findings["provisional"]) == (1, None, 1)


if __name__ == "__main__":
    for attack in ATTACKS:
        flagged, named, held, n_moved = attacked(attack, int(sys.argv[1]))
        print(f"{attack} moved {n_moved} flagged {flagged:.3f} named {named:.3f} held {held:.4f}")
    for scores in HONEST:
        print(scores, "claimed, named, flagged:", *unattacked(scores, int(sys.argv[1])))
