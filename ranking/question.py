"""What a leaderboard asks of the votes of an arena, and the votes that answer it."""

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ranking.anchor import Anchor
from ranking.stats.arrays import codes, summed
from ranking.stats.battles import Battles
from ranking.stats.claim import DirectVotes
from ranking.stats.intervals import RATER_SHARE, Dependence, capped_weights, largest_share
from ranking.votes import (
    BOTH_BAD,
    HUMAN,
    PEOPLE,
    BadFileError,
    Bools,
    Floats,
    Ints,
    PairCounts,
    VoteTable,
)

COMBINED = "combined"
# Part of the digest. Raise it when the same votes give other numbers, with a migration that marks
# all leaderboards as stale: without it they would stay as they are until the next vote.
FIT_VERSION = 16
# Who may narrow people's intervals; a jury is never counted together with its members.
NARROWING = {"trusted_juries": "juries", "trusted_judges": "judges"}


@dataclass(frozen=True)
class GroupUnderReview:
    """Raters who may have made a candidate win, or lose, together."""

    candidate: int
    loses: bool
    raters: tuple[int, ...]


@dataclass(frozen=True)
class Question:
    """Whose votes on which prompts a leaderboard ranks, and how.

    Attributes
    ----------
    raters : "people", "verified", "judges", "juries" or "combined"
    category : of the prompts; "" is all of them
    both_bad : "separate", a rate beside the scores, or "tie"
    n_resamples, seed, confidence : of the intervals
    rater_share, network_share : of people's votes, how much one rater, and the anonymous raters of
        one network, may weigh
    keeps_named : whether people's votes on answers that reveal their author count
    cluster : which votes are dependent: those of a "prompt", "prompt_pair" (or "unit") or "rater",
        or "none"; "auto" is by document, or prompt without one, and, for people, by rater
    anchor : the candidate that is to have a given score; None: the mean is 1000
    is_open : whether anybody's votes count in public, so that a leader must not rest on few
        networks
    reviews : groups of its raters that look rigged: who leads by their favour is not named
    """

    raters: str = PEOPLE
    category: str = ""
    both_bad: str = "separate"
    n_resamples: int = 1000
    seed: int = 0
    confidence: float = 0.95
    rater_share: float = RATER_SHARE
    network_share: float = 1.0
    keeps_named: bool = False
    cluster: str = "auto"
    # Without these, digests are as before.
    anchor: Anchor | None = field(default=None, repr=False)
    is_open: bool = field(default=False, repr=False)
    reviews: tuple[GroupUnderReview, ...] = field(default=(), repr=False)

    @property
    def scored(self) -> str:
        """Whose votes the scores are fitted to: people's on a combined leaderboard."""
        return PEOPLE if self.raters == COMBINED else self.raters

    @property
    def both_bad_is_tie(self) -> bool:
        return self.both_bad == "tie"


def questions_of(table: VoteTable) -> set[tuple[str, str]]:
    """Each (raters, category) with votes: verified people's only where others voted too, and a
    combined one where both people and judges or juries did."""
    votes = table.counted
    found: set[tuple[str, str]] = set()
    for raters in (PEOPLE, "judges", "juries"):
        met = np.unique(votes.category[votes.asked(raters, "")]).tolist()
        found |= {(raters, name) for name in ["", *(votes.category_names[i] for i in met)] if met}
    people = [category for raters, category in found if raters == PEOPLE]
    for category in people:
        proven = votes.verified[votes.asked(PEOPLE, category)]
        if proven.any() and not proven.all():
            found.add(("verified", category))
        if {("judges", category), ("juries", category)} & found:
            found.add((COMBINED, category))
    return found


@dataclass(frozen=True, eq=False)
class Caps:
    """Raters whose votes weigh less than one each.

    Attributes
    ----------
    weight : (N,) of each vote; None if all weigh the same
    raters : the weight of one vote of each rater below 1, by rater
    share : the share of all votes that each rater is capped at
    n_raters, n_networks : how many raters cast, and networks sent, too many
    """

    weight: Floats | None = None
    raters: dict[int, float] = field(default_factory=dict)
    share: float = 1.0
    n_raters: int = 0
    n_networks: int = 0


@dataclass(frozen=True, eq=False)
class Evidence:
    """The votes that answer a question.

    Attributes
    ----------
    question : what is asked
    table : all votes of the arena
    votes : those that count and are asked for; on a combined leaderboard, people's
    candidates : (K,) ids, ascending: all that are active or have votes
    judged : on a combined leaderboard, the votes of trusted juries, else of trusted judges
    narrowing : whose those are, a key of NARROWING; "" if nobody is trusted
    """

    question: Question
    table: VoteTable
    votes: VoteTable
    candidates: Ints
    judged: VoteTable
    narrowing: str = ""

    @classmethod
    def of(cls, table: VoteTable, question: Question) -> "Evidence":
        votes = table.counted.of(question.scored, question.category)
        narrowing, judged = "", votes.where(np.zeros(len(votes), np.bool_))
        for name, raters in NARROWING.items() if question.raters == COMBINED else ():
            chosen = table.counted.asked(raters, question.category) & table.counted.by_trusted
            if not narrowing and chosen.any():
                narrowing, judged = name, table.counted.where(chosen)
        active = [pk for pk in table.names if pk not in table.archived]
        candidates = np.unique(
            np.concatenate([np.array(active, np.int64), votes.left, votes.right])
        )
        return cls(question, table, votes, candidates, judged, narrowing)

    @cached_property
    def pairs(self) -> PairCounts:
        return self.votes.pairs()

    @cached_property
    def scored(self) -> Bools:
        """(N,) which votes the scores are based on."""
        everything = self.question.both_bad_is_tie
        return np.full(len(self.votes), True) if everything else self.votes.outcome != BOTH_BAD

    @property
    def n_votes(self) -> int:
        """The number of votes that the scores are based on."""
        return int(np.count_nonzero(self.scored))

    @cached_property
    def left(self) -> Ints:
        """(N,) places in `candidates`."""
        return np.searchsorted(self.candidates, self.votes.left)

    @cached_property
    def right(self) -> Ints:
        return np.searchsorted(self.candidates, self.votes.right)

    @property
    def archived(self) -> list[int]:
        """The ids of candidates that have votes but are archived, or may not be shown."""
        return [
            pk
            for pk in self.candidates.tolist()
            if pk in self.table.archived or pk not in self.table.names
        ]

    @property
    def active(self) -> Bools:
        """(K,) which candidates are not archived."""
        return ~np.isin(self.candidates, self.archived)

    @cached_property
    def alphabetical(self) -> Ints:
        """(K,) each candidate's place in the order of names: it decides which side of a pair comes
        first, so that alpha is the same for an arena and for its exported votes."""
        ids, names = self.candidates.tolist(), self.table.names
        return np.argsort(sorted(range(len(ids)), key=lambda i: (names.get(ids[i], ""), i)))

    @cached_property
    def caps(self) -> Caps:
        """The weights of people's votes: no rater exceeds its share, nor does a network."""
        question, votes = self.question, self.votes
        if question.scored not in HUMAN or not votes.rater.any():
            return Caps()
        place, size = codes(self._or_alone(votes.rater))
        cast: Floats = summed(place[self.scored], np.ones(self.n_votes), size)
        share = largest_share(int((cast > 0).sum()), question.rater_share)
        weights: Floats = capped_weights(cast, share)
        n_raters, n_networks = int((weights < 1).sum()), 0
        networks = self.table.counted.networks
        rater = np.zeros(size, np.int64)
        rater[place] = votes.rater
        if len(set(networks.values())) > 1:
            # Raters without a network are groups of their own.
            own = [networks.get(pk, -1 - at) for at, pk in enumerate(rater.tolist())]
            group, n_groups = codes(np.array(own, np.int64))
            sent = summed(group, cast * weights, n_groups)
            of_group = capped_weights(sent, largest_share(n_groups, question.network_share))
            of_group[: len({number for number in own if number < 0})] = 1.0
            n_networks = int((of_group < 1).sum())
            weights *= of_group[group]
        below = np.flatnonzero(weights < 1)
        raters = dict(zip(rater[below].tolist(), weights[below].tolist(), strict=True))
        weight = weights[place] if len(below) else None
        return Caps(weight, raters, share, n_raters, n_networks)

    @cached_property
    def battles(self) -> Battles:
        """The votes without clusters, for scores."""
        return self.grouped(None)

    @property
    def mean_weight(self) -> float:
        """Of a vote in the scores: below 1 if raters or networks are capped."""
        return float(self.battles.pairs.weight.sum()) / max(self.n_votes, 1) or 1.0

    def grouped(
        self, cluster: Ints | None, *, weighted: bool = True, among: Bools | None = None
    ) -> Battles:
        """The votes in clusters; `cluster`: (N,), of any value; `among`: (N,) mask of some."""
        chosen = self.scored if among is None else self.scored & among
        everything = bool(chosen.all())

        def column(values: Any) -> Any:
            return values if everything or values is None else values[chosen]

        return Battles.from_arrays(
            column(self.left),
            column(self.right),
            column(self.votes.score),
            column(self.caps.weight) if weighted else None,
            column(cluster),
            len(self.candidates),
        )

    @cached_property
    def by_prompt(self) -> Battles:
        """The votes in clusters by prompt, numbered in the order of `prompt_codes`.

        If it is unknown, the rater's votes on a pair are a cluster; if the rater is unknown too,
        the vote is one of its own.
        """
        return self.grouped(self.prompt_codes)

    @cached_property
    def unit(self) -> Ints:
        """(N,) what the votes on a prompt are grouped by: its document, else as `prompt_codes`."""
        return self.votes.documents_of(self.prompt_codes)

    @cached_property
    def n_documents(self) -> int:
        """The number of documents that prompts with votes come from, each prompt without one as its
        own; 0 if no prompt has one, or votes are grouped in a way of the user's choice."""
        prompts, documents = np.unique(self.votes.prompt), self.table.documents
        if self.question.cluster != "auto" or documents.keys().isdisjoint(prompts.tolist()):
            return 0
        return len(np.unique(self.table.documents_of(prompts[prompts > 0])))

    @cached_property
    def by_document(self) -> Battles:
        """The votes in clusters by `unit`: by document where prompts have one, else by prompt."""
        return self.grouped(self.unit) if self.n_documents else self.by_prompt

    @cached_property
    def prompt_codes(self) -> Ints:
        """(N,) the prompt's id, or a negative number of the cluster of a vote without one."""
        prompt = self.votes.prompt
        if prompt.all():
            return prompt
        of_rater = self._units(self.votes.rater)
        below = -1 - len(prompt)  # lower than the numbers of single votes
        alone = np.where(self.votes.rater > 0, below - of_rater, self._or_alone(self.votes.rater))
        return np.where(prompt > 0, prompt, alone)

    @cached_property
    def _rows_of_pairs(self) -> dict[tuple[int, int], Ints]:
        """The votes that the scores are based on, by the two candidates in order: their rows."""
        rows = np.flatnonzero(self.scored)
        left, right = self.votes.left[rows], self.votes.right[rows]
        low, high = np.minimum(left, right), np.maximum(left, right)
        pair, size = codes(low * (high.max(initial=0) + 1) + high)
        parts = np.split(np.argsort(pair, kind="stable"), np.cumsum(np.bincount(pair))[:-1])
        of_pairs = parts if size else []
        return {(int(low[part[0]]), int(high[part[0]])): rows[part] for part in of_pairs}

    def votes_between(self, a: int, b: int) -> VoteTable:
        """The votes between two candidates that the scores are based on."""
        pair, none = (min(a, b), max(a, b)), np.zeros(0, np.int64)
        return self.votes.where(self._rows_of_pairs.get(pair, none))

    def between(self, b: int, a: int) -> DirectVotes:
        """The same as a claim about `b`, compared with `a`, needs them."""
        votes = self.votes_between(a, b)
        prompt = votes.prompt
        score = np.where(votes.left == b, 1.0, -1.0) * (2 * votes.score - 1)
        # A vote on an unknown prompt is taken as one of its own.
        unit = self._or_alone(prompt)
        has_documents = not self.table.documents.keys().isdisjoint(prompt.tolist())
        return DirectVotes(
            score,
            unit,
            self._or_alone(votes.rater) if votes.rater.any() else None,
            document=votes.documents_of(unit) if has_documents else None,
            is_judged=self.question.scored not in HUMAN,
            rater_share=self.question.rater_share,
        )

    @cached_property
    def groups(self) -> Dependence:
        """How the votes depend on one another.

        Judges and juries are not a sample of raters: their leaderboards are about those that have
        voted. Raises BadFileError if a column to cluster by is incomplete.
        """
        cluster, votes = self.question.cluster, self.votes
        if cluster != "auto":
            rule = {"unit": "prompt_pair", "none": "vote"}.get(cluster, cluster)
            return Dependence((self.grouped(self._chosen(rule)),), rule)
        by_prompt = self.by_document if votes.prompt[self.scored].any() else None
        by_rater = None
        if self.question.scored in HUMAN and votes.rater[self.scored].any():
            by_rater = self.grouped(self._or_alone(votes.rater))
        return Dependence.choose(by_prompt, by_rater, by_prompt or self.battles)

    def _chosen(self, rule: str) -> Ints | None:
        if rule == "vote":
            return None
        name = "rater" if rule == "rater" else "prompt"
        column: Ints = getattr(self.votes, name)
        if missing := int((column == 0).sum()):
            raise BadFileError(
                f"{missing:,} of {len(column):,} votes have no {name} to cluster by."
            )
        return self._units(column) if rule == "prompt_pair" else column

    def _units(self, column: Ints) -> Ints:
        """(N,) the same number for votes with the same value and the same two candidates."""
        size = len(self.candidates)
        low, high = np.minimum(self.left, self.right), np.maximum(self.left, self.right)
        return (column * size + low) * size + high

    @staticmethod
    def _or_alone(column: Ints) -> Ints:
        """The column, with a separate number for each vote whose value is unknown."""
        return column if column.all() else np.where(column > 0, column, -1 - np.arange(len(column)))

    def up_to(self, chosen: Bools) -> "Evidence":
        """The same question, when only some of these votes had been cast ((N,) mask)."""
        return replace(self, votes=self.votes.where(chosen))

    @cached_property
    def digest(self) -> str:
        """Of everything that the numbers depend on."""
        question = replace(self.question, raters="", category="")
        digest = hashlib.sha256(repr((FIT_VERSION, question, self.narrowing)).encode())
        if question.anchor:
            digest.update(repr(question.anchor).encode())
        if question.reviews:
            digest.update(repr(question.reviews).encode())
        if question.is_open and self.votes.network.any():
            digest.update(self.votes.network.tobytes())
        columns: list[Any] = [self.candidates, self.active, self.alphabetical]
        for votes in (self.votes, self.judged):
            columns += [votes.left, votes.right, votes.prompt, votes.rater, votes.outcome]
            columns += [votes.preference, votes.named]
        if self.narrowing:  # judges are compared with people within categories
            columns += [
                self.table.categories_of(votes.prompt) for votes in (self.votes, self.judged)
            ]
        columns += [] if self.caps.weight is None else [self.caps.weight]
        if self.table.documents:
            units = np.concatenate([self.prompt_codes, self.judged.prompt])
            columns.append(self.table.documents_of(units))
        for column in columns:
            digest.update(np.ascontiguousarray(column).tobytes())
        return digest.hexdigest()

    def left_out(self) -> dict[str, int]:
        """How many votes that the question is about do not count, by reason."""
        asked = self.table.asked(self.question.scored, self.question.category)
        reasons = self.table.uncounted[asked & (self.table.uncounted > 0)]
        numbers, counts = np.unique(reasons, return_counts=True)
        return {
            self.table.reasons[number - 1]: count
            for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
        }

    def names_of_raters(self, votes: VoteTable) -> list[str]:
        """The names of the judges or juries that cast these votes, in alphabetical order."""
        return sorted(self.table.raters.get(pk, "") for pk in np.unique(votes.rater).tolist())
