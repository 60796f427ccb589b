"""Ranking of a file of votes, or of a folder in the native format, without a database.

Votes are ranked by the same estimators as on the website's leaderboards.
"""

import json
import math
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.file_votes import PEOPLE, BadFileError, FileVotes
from ranking.stats.agreement import nominal_agreement
from ranking.stats.arrays import codes
from ranking.stats.battles import Battles
from ranking.stats.bootstrap import Bootstrap
from ranking.stats.bradley_terry import BradleyTerry, NotConvergedError, largest_difference
from ranking.stats.connectivity import transitivity
from ranking.stats.differences import neighbour_findings, neighbours
from ranking.stats.elo import Elo
from ranking.stats.intervals import MIN_CLUSTERS, Dependence, NoInterval, Sandwich, known_among
from ranking.stats.ranks import (
    Places,
    clear_number_one,
    direct_wins,
    independent_groups,
    leader_among,
    other_groups,
    place,
    rank_intervals,
)
from ranking.stats.robustness import Robustness, Stability, measure_robustness
from ranking.stats.ties import RaoKupper

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# -- Ranking ---------------------------------------------------------------------------------------

N_THREADS = 2
MOST_CANDIDATES = 2_000  # about a minute; the time grows with the cube


@dataclass(frozen=True)
class Settings:
    """How to rank. `cluster`: one of CLUSTERS; "unit" is the same as "prompt_pair"."""

    cluster: str = "auto"
    n_resamples: int = 1000
    seed: int = 0
    confidence: float = 0.95


@dataclass(frozen=True, eq=False)
class FileBoard:
    """The result for K candidates; arrays are (K,), NaN if unknown.

    `bootstrap` has scores and their intervals, `sandwich` standard errors and covariance. `low` and
    `high` are marginal rank intervals, `sure_low` and `sure_high` simultaneous ones. `leader`: the
    index of the clear number one, or None. `places`: of all candidates. `measured`: whether a
    candidate has votes in enough clusters for an interval. `direct`: (K, K) of `direct_wins`.
    """

    votes: FileVotes
    settings: Settings
    battles: Battles
    groups: Dependence
    bootstrap: Bootstrap
    sandwich: Sandwich
    low: Floats
    high: Floats
    sure_low: Floats
    sure_high: Floats
    places: Places
    leader: int | None
    robustness: Robustness
    counts: Ints
    measured: Bools
    direct: Bools

    @property
    def covariance(self) -> Floats:
        """(K, K) of theta; NaN for candidates that are not measured."""
        return known_among(self.sandwich.covariance_, self.measured)

    def name(self, place: int | None) -> str | None:
        """The name of the candidate at this index."""
        return None if place is None else self.votes.names[place]

    @property
    def as_published(self) -> bool:
        """Whether errors are those of a leaderboard, not of clusters of the user's choice."""
        return self.settings.cluster == "auto"

    @property
    def standard_errors(self) -> Floats:
        model = self.bootstrap if self.as_published else self.sandwich
        return model.standard_errors_

    @property
    def n_clusters(self) -> int | None:
        """The number of clusters; None if too few, so that the covariance is unknown."""
        return self.sandwich.n_clusters_ if self.sandwich.n_clusters_ > 1 else None


def rank_votes(votes: FileVotes, settings: Settings) -> FileBoard:
    """Fit scores, intervals and ranks.

    Raises BadFileError if a column for the clusters is missing, for too many candidates, or if the
    fit does not converge.
    """
    if len(votes.names) > MOST_CANDIDATES:
        raise BadFileError(
            f"{len(votes.names):,} candidates are too many: intervals and ranks can be computed "
            f"for at most {MOST_CANDIDATES:,}."
        )
    groups = _dependence(votes, settings.cluster)
    battles = groups.groupings[0]
    confidence, seed = settings.confidence, settings.seed
    # With clusters of the user's choice, errors are those of textbooks.
    sandwich = Sandwich(confidence, jackknifed=settings.cluster == "auto", n_threads=N_THREADS)
    bootstrap = Bootstrap(settings.n_resamples, confidence, seed, n_threads=N_THREADS)
    with ThreadPoolExecutor(N_THREADS) as pool:
        try:
            sandwich.fit(*groups.groupings)
            possible_ranks = partial(
                rank_intervals,
                np.where(groups.measurable, sandwich.model_.theta_, np.nan),
                sandwich.covariance_,
                confidence=confidence,
                n_clusters=sandwich.n_clusters_ if sandwich.n_clusters_ > 1 else None,
            )
            simultaneous = pool.submit(possible_ranks, simultaneous=True)
            wins = pool.submit(direct_wins, battles, confidence)
            bootstrap.fit(sandwich.strongest_, sandwich)
        except NotConvergedError as problem:
            raise BadFileError(str(problem)) from None
        model, measured = bootstrap.model_, groups.measurable
        places = place(
            battles.wins(weighted=False),
            bootstrap.ratings_,
            independent_groups(
                votes.left, votes.right, votes.prompt, groups.clusters_per_candidate
            ),
            np.where(measured, bootstrap.low_, np.nan),
            np.where(measured, bootstrap.high_, np.nan),
            confidence,
        )
        robustness = (
            Robustness(Stability.NO_SCORE, of=0)
            if places.n_above
            else measure_robustness(battles, model)
        )
    marginal, sure, direct = possible_ranks(), simultaneous.result(), wins.result()
    (low, high), (sure_low, sure_high) = places.among_all(*marginal), places.among_all(*sure)
    scored = leader_among(sure[1])
    leader = None if groups.n_raters else clear_number_one(places, scored, direct)
    if leader is None:
        _share_first_place(places.rank, sure_low, sure_high)
    return FileBoard(
        votes=votes,
        settings=settings,
        battles=battles,
        groups=groups,
        bootstrap=bootstrap,
        sandwich=sandwich,
        low=low,
        high=high,
        sure_low=sure_low,
        sure_high=sure_high,
        places=places,
        leader=leader,
        robustness=robustness,
        counts=battles.votes_per_candidate(),
        measured=measured,
        direct=direct,
    )


def _share_first_place(rank: Floats, low: Floats, high: Floats) -> None:
    """Without a clear leader, at least two ranges of ranks include the first place, as on a
    board.
    """
    order = [int(i) for i in np.argsort(rank, kind="stable") if not np.isnan(rank[i])]
    known = [i for i in order if not np.isnan(low[i])]
    if not known or len(order) < 2 or high[known[0]] != 1:
        return
    second = known[1] if len(known) > 1 else next(i for i in order if i != known[0])
    high[known[0]] = max(rank[second], 2.0)
    low[second] = np.fmin(low[second], 1.0) if not np.isnan(low[second]) else np.nan


# -- Clusters --------------------------------------------------------------------------------------


def _dependence(votes: FileVotes, cluster: str) -> Dependence:
    """The votes in the clusters that the user has chosen, or by default by prompt and by rater."""
    if cluster != "auto":
        rule = {"unit": "prompt_pair", "none": "vote"}.get(cluster, cluster)
        return Dependence((_grouped(votes, _chosen(votes, cluster)),), rule)
    people = votes.raters == PEOPLE
    clusters = {}
    if (votes.prompt >= 0).any():
        clusters["prompt"] = _prompts(votes)
    if people and (votes.rater >= 0).any():
        clusters["rater"] = _or_alone(votes.rater)
    with ThreadPoolExecutor(N_THREADS) as pool:
        folded = pool.map(partial(_grouped, votes), clusters.values())
        known = dict(zip(clusters, folded, strict=True))
    by_prompt = known.get("prompt")
    return Dependence.choose(by_prompt, known.get("rater"), by_prompt or _grouped(votes, None))


def _grouped(votes: FileVotes, cluster: Ints | None) -> Battles:
    weight, size = votes.capped[0], len(votes.names)
    return Battles.from_arrays(votes.left, votes.right, votes.score, weight, cluster, size)


def _prompts(votes: FileVotes) -> Ints:
    """The prompt of each vote. If it is unknown, the rater's votes on a pair share a number, as in
    tallies; if the rater is unknown too, the vote has a number of its own.
    """
    if (votes.prompt >= 0).all():
        return votes.prompt
    of_rater = _units(votes.rater, votes.left, votes.right, len(votes.names))
    below = -1 - len(votes.prompt)  # lower than the numbers of single votes
    alone = np.where(votes.rater >= 0, below - of_rater, _or_alone(votes.rater))
    return np.where(votes.prompt >= 0, votes.prompt, alone)


def _or_alone(column: Ints) -> Ints:
    """The column, with a separate number for each vote whose value is unknown."""
    known = column >= 0
    return column if known.all() else np.where(known, column, -1 - np.arange(len(column)))


def _chosen(votes: FileVotes, cluster: str) -> Ints | None:
    if cluster in ("none", "rater"):
        return None if cluster == "none" else _known(votes.rater, "rater")
    prompt = _known(votes.prompt, "prompt")
    if cluster == "prompt":
        return prompt
    return _units(prompt, votes.left, votes.right, len(votes.names))


def _units(prompt: Ints, first: Ints, second: Ints, n_candidates: int) -> Ints:
    """The same number for votes on the same prompt and the same two candidates."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    return (prompt.astype(np.int64) * n_candidates + low) * n_candidates + high


def _known(column: Ints, name: str) -> Ints:
    if missing := int((column < 0).sum()):
        raise BadFileError(f"{missing:,} of {len(column):,} votes have no {name} to cluster by.")
    return column


# -- Findings --------------------------------------------------------------------------------------

DIGITS = 6


def find(board: FileBoard) -> dict[str, Any]:
    """Everything except the standings, as JSON; null is unknown."""
    triads, robustness = transitivity(board.battles.wins()), board.robustness
    return {
        "clear_leader": board.name(board.leader),
        "neighbours": _neighbours(board),
        "fragility": {
            "votes": robustness.votes,
            "of": robustness.of,
            "rival": board.name(robustness.rival),
            "words": robustness.words,
        },
        "agreement": _agreement(board.votes),
        "transitivity": {
            "share": rounded(triads.share),
            "triads": triads.triads,
            "transitive": triads.transitive,
        },
        "ties": _ties(board.battles),
        "groups": [[_rounded(place) for place in group] for group in _other_groups(board)],
    }


def elo(votes: FileVotes) -> list[float | None]:
    """(K,) online Elo in the order of the file; None for candidates without votes."""
    model = Elo().fit(votes.left, votes.right, votes.score, len(votes.names))
    return [rounded(model.ratings_[i]) if n else None for i, n in enumerate(model.votes_)]


def rounded(value: float) -> float | None:
    """A number for output; None for NaN."""
    return None if isnan(value) else round(float(value), DIGITS)


def _other_groups(board: FileBoard) -> list[list[dict[str, Any]]]:
    components = board.bootstrap.model_.components_
    return other_groups(components, board.groups, board.votes.names, board.settings.confidence)


def _rounded(place: dict[str, Any]) -> dict[str, Any]:
    return {k: rounded(v) if isinstance(v, float) else v for k, v in place.items()}


def _neighbours(board: FileBoard) -> list[dict[str, Any]]:
    model, confidence = board.bootstrap.model_, board.settings.confidence
    order = neighbours(
        model.theta_,
        board.covariance,
        model.covariance_,
        confidence,
        board.n_clusters,
        direct=board.direct,
    )
    return neighbour_findings(order, board.votes.names)


def _agreement(votes: FileVotes) -> dict[str, Any] | None:
    """The agreement of votes on the same prompt and pair; None without two such votes."""
    is_known = votes.prompt >= 0
    prompt, left, right = (column[is_known] for column in (votes.prompt, votes.left, votes.right))
    score = votes.score[is_known]
    for_low = np.where(left < right, score, 1 - score)
    outcome = np.select([for_low > 0.5, for_low < 0.5], [0, 1], 2)
    code, n_units = codes(_units(prompt, left, right, len(votes.names)))
    cells = np.bincount(code * 3 + outcome, minlength=3 * n_units)
    counts = cells.reshape(-1, 3)  # per prompt and pair: votes for one, for the other, and ties
    all_three, decisive = nominal_agreement(counts), nominal_agreement(counts[:, :2])
    if not all_three.n_pairs:
        return None
    return {
        "share": rounded(all_three.share),
        "n_pairs": all_three.n_pairs,
        "alpha": rounded(all_three.alpha),
        "decisive_share": rounded(decisive.share),
        "decisive_n_pairs": decisive.n_pairs,
    }


def _ties(battles: Battles) -> dict[str, Any] | None:
    """The tie model; None with soft verdicts."""
    if not np.isin(battles.score, (0.0, 0.5, 1.0)).all():
        return None
    model = RaoKupper().fit(battles)
    return {
        "eta": rounded(model.eta_),
        "error": rounded(model.eta_error_),
        "log_likelihood": rounded(model.log_likelihood_),
        "reason": model.reason_.reason if model.reason_ else "",
    }


NONE = "-"
RULES = {
    "prompt_rater": "Votes on the same prompt or by the same rater are treated as dependent",
    "prompt": "Votes on the same prompt are treated as dependent",
    "prompt_pair": "Votes on the same prompt and the same two candidates are treated as dependent",
    "rater": "Votes by the same rater are treated as dependent",
    "vote": "All votes are treated as independent",
}
HEAD = ("rank", "candidate", "score", "interval", "ranks", "votes")
LEFT_ALIGNED = "candidate"


def as_json(board: FileBoard) -> str:
    """One JSON object; null is unknown, with a reason next to it."""
    ratings = elo(board.votes)
    result = {
        "standings": [_standing(board, i) | {"elo": ratings[i]} for i in _order(board)],
        "n_votes": len(board.votes.score),
        "n_both_bad": board.votes.n_both_bad,
        "n_left_out": board.votes.n_left_out,
        "interval_reason": _interval_reason(board),
        **find(board),
        "choix_difference": largest_difference(board.battles, board.bootstrap.model_),
        "log_likelihood": rounded(board.bootstrap.model_.log_likelihood_),
        "settings": _settings(board),
    }
    return json.dumps(result, ensure_ascii=False, allow_nan=False, indent=1)


def _order(board: FileBoard) -> list[int]:
    """The indices of the candidates: the placed from the top, then the others by name."""
    ranks = board.places.rank
    return sorted(range(len(ranks)), key=lambda i: (math.isnan(ranks[i]), ranks[i], i))


def _standing(board: FileBoard, i: int) -> dict[str, Any]:
    status = board.bootstrap.model_.status_[i]
    has_interval = bool(board.measured[i])
    own = (board.bootstrap.low_[i], board.bootstrap.high_[i]) if has_interval else (math.nan,) * 2
    return {
        "rank": _whole(board.places.rank[i]),
        "candidate": board.votes.names[i],
        "score": rounded(board.bootstrap.ratings_[i]),
        "low": rounded(np.fmax(own[0], board.places.low[i])),
        "high": rounded(np.fmax(own[1], board.places.high[i])),
        "se": rounded(board.standard_errors[i]) if has_interval else None,
        "rank_low": _whole(board.low[i]),
        "rank_high": _whole(board.high[i]),
        "sure_rank_low": _whole(board.sure_low[i]),
        "sure_rank_high": _whole(board.sure_high[i]),
        "votes": int(board.counts[i]),
        "status": status.value,
        "reason": status.reason,
    }


def _whole(value: float) -> int | None:
    return None if math.isnan(value) else int(value)


def _interval_reason(board: FileBoard) -> str:
    reason = board.bootstrap.reason_
    if reason is None and not (board.measured & board.bootstrap.model_.ranked_).any():
        reason = NoInterval.FEW_CLUSTERS
    return reason.reason if reason else ""


def _settings(board: FileBoard) -> dict[str, Any]:
    return {
        "method": "Bradley-Terry, a tie as half a win for each side",
        "scale": BradleyTerry.scale,
        "center": BradleyTerry.center,
        "raters": board.votes.raters,
        "both_bad": "separate",
        "clusters": board.groups.rule,
        "clusters_note": _note(board),
        "capped_note": board.votes.capped[1],
        "n_clusters": board.bootstrap.n_clusters_,
        "effective": dict(board.groups.effective),
        "interval": "cluster bootstrap with exponential weights",
        "standard_error": "of the interval" if board.as_published else "cluster-robust sandwich",
        "confidence": board.settings.confidence,
        "n_resamples": board.settings.n_resamples,
        "seed": board.settings.seed,
    }


def _note(board: FileBoard) -> str:
    """Why the default rule chose these clusters; '' if the user has chosen."""
    return board.groups.note if board.settings.cluster == "auto" else ""


def as_table(board: FileBoard) -> str:
    """A table of the placed candidates, and a line for each further finding."""
    ranked = [i for i in _order(board) if not isnan(board.places.rank[i])]
    rows = [HEAD, *(_table_row(board, i) for i in ranked)] if ranked else []
    return "\n".join([*_align(rows), *([""] if rows else []), *_sentences(board)])


def _table_row(board: FileBoard, i: int) -> tuple[str, ...]:
    row = _standing(board, i)
    return (
        str(row["rank"]),
        row["candidate"],
        NONE if row["score"] is None else f"{row['score']:.1f}",
        _span(row["low"], row["high"], ".1f"),
        _span(row["rank_low"], row["rank_high"], "d"),
        f"{row['votes']:,}",
    )


def _span(low: float | None, high: float | None, style: str) -> str:
    if low is None or high is None:
        return NONE if low is high else f"< {high:{style}}" if low is None else f"> {low:{style}}"
    return f"{low:{style}} to {high:{style}}" if low != high else f"{low:{style}}"


def _align(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = [map(_pad, HEAD, row, widths) for row in rows]
    return ["  ".join(line).rstrip() for line in lines]


def _pad(column: str, text: str, width: int) -> str:
    blank = " " * (width - _width(text))
    return text + blank if column == LEFT_ALIGNED else blank + text


def _width(text: str) -> int:
    """The width in terminal columns: accents take none, East Asian characters two."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _sentences(board: FileBoard) -> Iterator[str]:
    yield _vote_counts(board.votes)
    n_groups = board.bootstrap.n_clusters_
    rule = f"{RULES[board.groups.rule]} ({n_groups:,} group{'' if n_groups == 1 else 's'})."
    yield " ".join(filter(None, [rule, _note(board), board.votes.capped[1]]))
    if reason := _interval_reason(board):
        yield f"No intervals: {reason}"
    elif (board.bootstrap.model_.ranked_ & ~board.measured).any():
        yield f"{NONE}: no interval, because it has fewer than {MIN_CLUSTERS} groups of votes."
    yield f"Clear number one: {board.name(board.leader) or 'none'}."
    if not board.places.n_above and board.bootstrap.model_.ranked_.any():
        words = board.robustness.words
        yield words if words.endswith(".") else f"{words}."
    for i in _order(board):
        if reason := board.bootstrap.model_.status_[i].reason:
            apart = isnan(board.places.rank[i])
            yield f"{'Not ranked' if apart else 'No score'}: {board.votes.names[i]}. {reason}"
    for group in _other_groups(board):
        scores = ", ".join(f"{place['candidate']} {place['score']:.1f}" for place in group)
        yield f"A group with scores of its own, which cannot be compared with others: {scores}."


def _vote_counts(votes: FileVotes) -> str:
    n = len(votes.score)
    parts = [f"{n:,} vote{'' if n == 1 else 's'} by {votes.raters}"]
    if votes.n_both_bad:
        parts.append(f'{votes.n_both_bad:,} more "both bad", which do not affect the scores')
    if votes.n_left_out:
        parts.append(f"{votes.n_left_out:,} votes by other raters left out")
    return "; ".join(parts) + "."
