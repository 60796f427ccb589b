"""Whichever door one comes through, the same votes say the same about two candidates."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arena.models import Arena, Team
from judges.services.decisions import write_decisions
from ranking.board_data import Findings
from ranking.claim_words import claim_sentence
from ranking.leaderboard import fit_leaderboard
from ranking.question import Evidence, Question
from ranking.stats.bradley_terry import NotConvergedError
from ranking.stats.claim import DirectVotes, Verdict, claim
from ranking.votes import LEFT, RIGHT, TIE, VoteTable
from tests.arena.rest import token_of
from tests.factories import make_arena, make_person, make_votes
from tests.judges.helpers import candidates_of
from tests.ranking.helpers import get_page, publish, words
from tests.ranking.test_rank_command import rank

SCOPE = "and prompts like these"


def drawn(seed: int) -> VoteTable:
    """Votes of 1 to 20 raters of some taste on 2 to 5 candidates of some strength."""
    rng = np.random.default_rng(seed)
    n_candidates, n_raters = rng.integers(2, 6), rng.integers(1, 21)
    n_prompts, size = rng.integers(5, 60), rng.integers(10, 250)
    strength = rng.normal(0, 0.8, n_candidates)
    taste = rng.normal(0, 0.5, (n_raters, n_candidates))
    left = rng.integers(0, n_candidates, size)
    right = (left + rng.integers(1, n_candidates, size)) % n_candidates
    rater = rng.integers(0, n_raters, size)
    gap = (strength[left] + taste[rater, left]) - (strength[right] + taste[rater, right])
    won = np.where(rng.random(size) < 1 / (1 + np.exp(-gap)), LEFT, RIGHT)
    none = np.zeros(size, np.int64)
    return VoteTable(
        pk=np.arange(1, size + 1),
        left=left + 1,
        right=right + 1,
        prompt=rng.integers(1, n_prompts + 1, size),
        rater=rater + 1,
        outcome=np.where(rng.random(size) < 0.2, TIE, won),
        preference=np.full(size, np.nan),
        kind=none,
        verified=np.zeros(size, np.bool_),
        network=none,
        uncounted=none,
        named=np.zeros(size, np.bool_),
        names={pk: f"candidate-{pk}" for pk in range(1, int(n_candidates) + 1)},
    )


@pytest.mark.slow
def test_of_four_hundred_boards_none_contradicts_itself() -> None:
    decided = led = 0
    for seed in range(400):
        evidence = Evidence.of(drawn(seed), Question(n_resamples=50))
        ids = evidence.candidates.tolist()
        claims = {(b, a): claim(evidence.between(b, a)) for b in ids for a in ids if a != b}
        for (b, a), found in claims.items():
            other = claims[a, b]
            assert found.verdict is other.reversed.verdict, seed
            assert found.scope is other.scope, seed
            assert found.low == pytest.approx(other.reversed.low, abs=1e-6), seed
            sentence = claim_sentence(found, "B", "A")
            assert SCOPE in sentence or not found.n_votes, seed
            if found.wider and found.is_decided:
                assert "raters like these" in sentence or "about others" in sentence
            decided += found.is_decided
        try:
            leader = fit_leaderboard(evidence).findings["leader"]
        except NotConvergedError:
            continue
        led += leader is not None
        for pk in ids if leader else ():
            assert pk == leader or claims[leader, pk].verdict is not Verdict.WORSE, seed
    assert decided > 200
    assert led > 20


@pytest.mark.slow
def test_a_vote_for_b_never_weakens_the_claim_of_these_raters() -> None:
    rng = np.random.default_rng(7)
    for _ in range(400):
        n = int(rng.integers(1, 80))
        prompt, rater = rng.integers(0, 20, n), rng.integers(0, rng.integers(1, 21), n)
        score = rng.choice([-1.0, 0.0, 1.0], n, p=[0.25, 0.15, 0.6])
        before = claim(DirectVotes(score, prompt, rater, is_judged=True))
        at, by = rng.integers(0, 25), rng.integers(0, 21)
        more = DirectVotes(
            np.append(score, 1.0), np.append(prompt, at), np.append(rater, by), is_judged=True
        )
        after = claim(more)
        assert after.for_b >= before.for_b * (1 - 1e-9)
        assert after.low is not None
        assert before.low is not None
        assert after.low >= before.low - 1e-9


@pytest.mark.django_db
@pytest.mark.usefixtures("quiet_boards")
@pytest.mark.parametrize(
    ("wins", "n", "n_raters"), [(8, 8, 8), (30, 40, 12), (60, 80, 12), (65, 100, 12), (18, 60, 2)]
)
def test_page_decision_command_and_notice_say_the_same(
    team: Team, wins: int, n: int, n_raters: int, client: Any, tmp_path: Path
) -> None:
    arena: Arena = make_arena(2, n, team=team)
    arena.candidates.update(team=team)
    old, new = candidates_of(arena)
    raters = [make_person() for _ in range(n_raters)]
    has_won = np.random.default_rng(1).permutation(n) < wins
    for turn, prompt in enumerate(arena.prompts.order_by("pk")):
        outcome = "left" if has_won[turn] else "right"
        make_votes(arena, [(new, old, outcome, prompt)], raters[turn % n_raters])
    publish(arena)
    caller = token_of(team, "read")
    asked = f"arenas/{arena.slug}/decision/?candidate={new.pk}&baseline={old.pk}"
    decision = caller.get(asked).json()
    page = words(get_page(client, f"/a/{arena.slug}/compare/?a={new.pk}&b={old.pk}"))
    for sentence in re.split(r"(?<=\.) ", decision["sentence"]):
        assert sentence in page
    file = tmp_path / "votes.csv"
    file.write_text(
        "left,right,winner,prompt,rater\n"
        + "".join(
            f"{new},{old},{'left' if has_won[turn] else 'right'},p{turn},r{turn % n_raters}\n"
            for turn in range(n)
        )
    )
    found = json.loads(rank(file, "--compare", str(new), str(old), "--json"))
    assert found["sentence"] == decision["sentence"]
    assert found["claim"] == decision["claim"]
    verdict = found["claim"]["verdict"]
    assert decision["verdict"] == (verdict if verdict in ("better", "worse") else "unknown")
    write_decisions(now=arena.votes.latest("pk").cast_at, seen={})
    told = [one.sentence for one in team.decisions.all()]
    assert told == ([decision["sentence"]] if verdict in ("better", "worse") else [])
    leader = Findings.of(arena.boards.get(raters="people", category="").snapshots.get()).leader
    if leader:
        assert (verdict, found["claim"]["scope"]) == ("better", "raters")
