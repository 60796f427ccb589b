"""Simulation of claims about two candidates: false ones, found ones, kept ones and forecasts."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from benchmarks.simulations.boards import generators
from benchmarks.simulations.designs import ELO, TIES, Floats, Ints, sigmoid
from ranking.stats.arrays import Bools
from ranking.stats.claim import (
    ENOUGH,
    Claim,
    DirectVotes,
    Registration,
    Scope,
    Unit,
    claim,
    decides,
    registered_people,
    tests_of,
)

LOOKS = 40
PROMPT_EFFECT = 0.5  # of each candidate on a prompt, natural log-odds
TASTE = 0.3
MOST_TRIED = 5_000  # prompts, raters or votes; larger forecasts are not tried
SPREAD = 100.0  # Elo; the standard deviation of true leads where forecasts are tried


@dataclass(frozen=True)
class Pair:
    """How votes between B and A are drawn; B is `lead` Elo ahead, on average.

    `scope`: whom a claim is to be about; `n_raters`: 0 where a judge votes; `taste`: standard
    deviation of each rater's effect on each candidate, in natural log-odds; `zipf`: raters vote
    by Zipf's law; `is_level`: these raters, taken together, find both alike (plus the lead).
    `n_documents`: prompts come from so many documents, whose effects have a standard deviation of
    `document_effect`; `are_grouped`: the documents are known.
    """

    name: str
    scope: Scope
    n_votes: int = 1000
    n_prompts: int = 60
    n_raters: int = 0
    lead: float = 0.0
    taste: float = TASTE
    zipf: bool = False
    is_level: bool = False
    n_documents: int = 0
    document_effect: float = 0.0
    are_grouped: bool = True


@dataclass
class World:
    """The prompts and raters of one arena, which grows when more are asked for."""

    pair: Pair
    rng: np.random.Generator

    def __post_init__(self) -> None:
        pair = self.pair
        self.documents = self.rng.normal(0, pair.document_effect, max(pair.n_documents, 1))
        self.effects: Floats = np.zeros(0)
        self.share = 1 / np.arange(1, pair.n_raters + 1) if pair.zipf else np.ones(pair.n_raters)
        self.share /= max(self.share.sum(), 1)
        self.tastes = self._tastes(pair.n_raters)
        if pair.is_level:
            self.tastes = _levelled(self.tastes, self.share)

    def _tastes(self, size: int) -> Floats:
        taste: Floats = self.rng.normal(0, self.pair.taste * 2**0.5, size)
        return taste

    def votes(self, prompt: Ints, rater: Ints) -> DirectVotes:
        """One vote on each of these prompts, by these raters; without raters, by a judge."""
        pair, rng = self.pair, self.rng
        more = int(prompt.max()) + 1 - len(self.effects)
        self.effects = np.append(self.effects, rng.normal(0, PROMPT_EFFECT * 2**0.5, max(more, 0)))
        document = prompt % len(self.documents)
        odds = pair.lead * ELO + self.effects[prompt] + self.documents[document]
        if len(rater):
            more = int(rater.max()) + 1 - len(self.tastes)
            self.tastes = np.append(self.tastes, self._tastes(max(more, 0)))
            odds += self.tastes[rater]
        won = np.where(rng.random(len(prompt)) < sigmoid(odds), 1.0, -1.0)
        score = np.where(rng.random(len(prompt)) < TIES, 0.0, won)
        known = document if pair.n_documents and pair.are_grouped else None
        by = rater if len(rater) else None
        return DirectVotes(score, prompt, by, known, is_judged=by is None)

    def first_votes(self) -> DirectVotes:
        """Those of the design; each prompt has equally many, if they divide."""
        pair = self.pair
        prompt = self.rng.permutation(np.arange(pair.n_votes) % pair.n_prompts)
        rater = np.zeros(0, np.int64)
        if pair.n_raters:
            rater = self.rng.choice(pair.n_raters, pair.n_votes, p=self.share)
        return self.votes(prompt, rater)


def _levelled(taste: Floats, share: Floats) -> Floats:
    """These tastes, moved so that over all prompts the raters prefer neither candidate."""
    node, weight = np.polynomial.hermite_e.hermegauss(30)
    effect = PROMPT_EFFECT * 2**0.5 * node

    def won(move: float) -> float:
        odds = taste[:, None] + move + effect
        return float(share @ (sigmoid(odds) - 0.5) @ weight)

    moved: Floats = taste + brentq(won, -20, 20)
    return moved


def simulate_claims(
    pair: Pair, leads: tuple[float, ...], n_repeats: int, seed: int
) -> dict[str, float]:
    """For each lead ("equal", "100 Elo"), the share of repeats in which either was called better at
    any of 40 looks.
    """
    ends = np.linspace(0, pair.n_votes, LOOKS + 1).astype(int)[:0:-1].tolist()

    def is_called(votes: DirectVotes) -> bool:
        return any(_is_decided(pair, votes.first(n)) for n in ends)

    return _shares(pair, leads, n_repeats, seed, is_called)


def simulate_registered(
    pair: Pair, leads: tuple[float, ...], n_repeats: int, seed: int
) -> dict[str, float]:
    """The same of runs by people that registered their number of votes, and look five times."""
    run = Registration(pair.n_votes)

    def is_called(votes: DirectVotes) -> bool:
        return registered_people(votes, run).is_decided

    return _shares(pair, leads, n_repeats, seed, is_called)


def _shares(
    pair: Pair,
    leads: tuple[float, ...],
    n_repeats: int,
    seed: int,
    is_called: Callable[[DirectVotes], bool],
) -> dict[str, float]:
    found = {}
    for place, lead in enumerate(leads):
        drawn = (
            World(replace(pair, lead=lead), rng).first_votes()
            for rng in generators(n_repeats, seed + place)
        )
        found[f"{lead:g} Elo" if lead else "equal"] = sum(map(is_called, drawn)) / n_repeats
    return found


def _is_decided(pair: Pair, votes: DirectVotes) -> bool:
    tests, means = tests_of(votes)
    if pair.scope is not Scope.RATERS:
        return decides(tests)
    return means is not None and decides([*tests, means])


def simulate_added(more: int, n_arenas: int, seed: int) -> dict[str, float]:
    """Claims for B after which so many votes for B are added, all by a new rater if it is more than
    one: how many were ``made`` about these raters, and ``made_wide`` about raters like these; the
    shares that the votes took back (``lost``, ``lost_wide``), and that the page then takes back,
    although it keeps what was decided (``gone``).
    """
    made, lost, gone = np.zeros(2), np.zeros(2), 0
    for rng in generators(n_arenas, seed):
        n_raters, n_votes = int(rng.integers(3, 21)), int(rng.integers(60, 600))
        before = World(Pair("", Scope.RATERS, n_votes, 60, n_raters, 200.0), rng).first_votes()
        by = n_raters if more > 1 else int(rng.integers(n_raters))
        prompt = rng.permutation(60)[:more]
        after = _joined(before, DirectVotes(np.ones(more), prompt, np.full(more, by)))
        was, held = _for_b(before), _for_b(after)
        made += was
        lost += was & ~held
        early = claim(before)
        late = claim(after, early)
        is_same = late.verdict is early.verdict and late.scope in (early.scope, Scope.RATERS)
        gone += early.is_decided and not is_same
    return {
        "made": float(made[0]),
        "made_wide": float(made[1]),
        "lost": float(lost[0] / made[0]),
        "lost_wide": float(lost[1] / made[1]),
        "gone": gone / float(made[0]),
    }


def _for_b(votes: DirectVotes) -> Bools:
    """Whether B is better for these raters, and for raters like these."""
    tests, means = tests_of(votes)
    narrow = all(test.evidence() >= ENOUGH for test in tests)
    return np.array([narrow, narrow and means is not None and means.evidence() >= ENOUGH])


def simulate_forecast(pair: Pair, n_arenas: int, seed: int) -> dict[str, float]:
    """Of arenas that are undecided after the design's votes, where true leads are normal: the share
    that is decided after exactly as many more prompts, raters or votes as were ``said`` to be
    missing (``came``); the ``median`` of that number; and the share of which it was said that no
    number of votes by these raters will settle it (``no_votes``).
    """
    came, numbers, no_votes, n_open = [], [], 0, 0
    for rng in generators(n_arenas, seed):
        world = World(replace(pair, lead=float(rng.normal(0, SPREAD))), rng)
        votes = world.first_votes()
        found = claim(votes)
        if pair.scope is Scope.RATERS:
            found = found.wider or found
        if found.is_decided:
            continue
        n_open += 1
        no_votes += found.no_votes_settle
        number = found.missing and found.missing.number
        if number and number <= MOST_TRIED:
            numbers.append(number)
            came.append(_is_decided(pair, _with_more(world, votes, found)))
    return {
        "open": n_open / n_arenas,
        "said": len(came) / n_open,
        "came": float(np.mean(came)),
        "median": float(np.median(numbers)),
        "no_votes": no_votes / n_open,
    }


def _with_more(world: World, votes: DirectVotes, found: Claim) -> DirectVotes:
    """These votes, and those that the claim says are missing."""
    assert found.missing
    assert votes.prompt is not None
    number, pair, rng = found.missing.number or 0, world.pair, world.rng
    rater = np.zeros(0, np.int64)
    if found.missing.unit is Unit.RATERS:  # who vote as often as the others
        rater = np.repeat(pair.n_raters + np.arange(number), pair.n_votes // pair.n_raters)
        prompt = rng.permutation(np.arange(len(rater)) * pair.n_prompts // pair.n_votes)
        prompt = (
            prompt + pair.n_prompts if found.missing.on_new_prompts else prompt % pair.n_prompts
        )
    else:
        prompt = pair.n_prompts + np.arange(number) * pair.n_prompts // pair.n_votes
        if pair.n_raters:
            rater = rng.integers(0, pair.n_raters, number)
    return _joined(votes, world.votes(prompt, rater))


def _joined(votes: DirectVotes, more: DirectVotes) -> DirectVotes:
    def columns(*both: Ints | None) -> Ints | None:
        known = [column for column in both if column is not None]
        return np.concatenate(known) if known else None

    return replace(
        votes,
        score=np.append(votes.score, more.score),
        prompt=columns(votes.prompt, more.prompt),
        rater=columns(votes.rater, more.rater),
    )


LEADS = (0.0, 100.0, 200.0)  # Elo
PEOPLE = tuple(
    Pair(
        f"{n} raters{' (Zipf)' if zipf else ''}, taste {taste:g}, {prompts} prompts",
        Scope.RATERS,
        n_prompts=prompts,
        n_raters=n,
        taste=taste,
        zipf=zipf,
    )
    for raters, prompts, tastes, zipf in (
        ((3, 4, 5, 6, 7, 8, 10, 20, 50), 60, (0.25, 0.5), False),
        ((8, 20), 15, (0.25, 0.5), False),
        ((10, 20), 200, (0.25, 0.5), False),
        ((10, 20, 50), 60, (0.5,), True),
    )
    for n in raters
    for taste in tastes
)
THESE = tuple(
    Pair(
        f"these {n} raters (Zipf), taste 0.5, 60 prompts",
        Scope.THESE_RATERS,
        n_raters=n,
        taste=0.5,
        zipf=True,
        is_level=True,
    )
    for n in (3, 6, 10)
)
JUDGES = tuple(
    Pair(f"judge, {votes:,} votes on {prompts} prompts", Scope.JUDGE, votes, prompts)
    for votes, prompts in ((400, 400), (600, 60), (1000, 200), (1000, 15))
)
DOCUMENTS = tuple(
    Pair(
        f"judge, 60 prompts of {n} documents, {'grouped' if grouped else 'not grouped'}",
        Scope.JUDGE,
        600,
        n_documents=n,
        document_effect=0.7 * 2**0.5,
        are_grouped=grouped,
    )
    for n in (6, 20)
    for grouped in (True, False)
)
# Whether a lead is found: the power that is asked for, at 100 and at 200 Elo.
POWER = {
    Pair(f"{n} raters, {prompts} prompts, {votes:,} votes", Scope.RATERS, votes, prompts, n): asked
    for n, prompts, votes, asked in (
        (5, 60, 300, {"200 Elo": 0.35}),
        (6, 60, 300, {"200 Elo": 0.53}),
        (7, 60, 300, {"200 Elo": 0.68}),
        (8, 60, 300, {"200 Elo": 0.80}),
        (10, 60, 300, {"100 Elo": 0.18, "200 Elo": 0.88}),
        (20, 100, 1000, {"100 Elo": 0.70}),
    )
}
REGISTERED = (
    *(replace(pair, n_votes=300) for pair in PEOPLE if pair.n_raters > 3 and not pair.zipf),
    *(pair for pair in POWER if pair.n_raters in (6, 20)),
    Pair("10 raters, 100 prompts, 1,000 votes", Scope.RATERS, 1000, 100, 10),
)
REGISTERED_POWER = {6: {"200 Elo": 0.93}, 10: {"100 Elo": 0.80}}
ADDED = {1: "1 vote", 10: "a new rater's 10 votes", 30: "a new rater's 30 votes"}
FORECASTS = (
    *(Pair(f"judge, {n} prompts", Scope.JUDGE, n, n) for n in (20, 50, 100, 200)),
    *(Pair(f"{n} raters, 300 votes", Scope.RATERS, 300, 60, n) for n in (6, 10)),
)
REPORTED_FORECASTS = (  # without a target
    Pair("judge, 7 prompts", Scope.JUDGE, 7, 7),
    Pair("20 raters, 1,000 votes on 100 prompts", Scope.RATERS, 1000, 100, 20),
)
