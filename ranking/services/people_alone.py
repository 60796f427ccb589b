"""The combined board while nobody is trusted: people's board, number for number."""

from copy import copy

from ranking.models import Board, Counted, Raters, Snapshot, SnapshotMatrices, Standing
from ranking.services.evidence import Evidence
from ranking.services.fitting import Fitted

FIELDS = (
    "digest",
    "n_votes",
    "n_both_bad",
    "n_raters",
    "n_prompts",
    "last_vote_id",
    "settings",
    "choix_difference",
    "interval_reason",
    "measured_digest",
    "measured_at",
    "measured_seconds",
    "measured_votes",
)
FINDINGS = ("leader", "neighbours")  # as far as combined boards have any


def is_shown(evidence: Evidence) -> bool:
    """Whether the board is a combined one with nobody to narrow its intervals."""
    return evidence.board.raters == Counted.COMBINED and not evidence.narrowing


def newer(board: Board, current: Snapshot | None) -> Snapshot | None:
    """People's snapshot, unless there is none or the board shows it already."""
    source = (
        Snapshot.objects.current()
        .filter(
            board__arena=board.arena_id,
            board__raters=Raters.PEOPLE,
            board__category=board.category,
        )
        .first()
    )
    if source and current and _made_of(source) == _made_of(current):
        return None
    return source


def _made_of(snapshot: Snapshot) -> tuple[str, str]:
    return snapshot.digest, snapshot.measured_digest


def copied(source: Snapshot) -> Fitted:
    """What people's snapshot says, without Elo, as another one will say it."""
    fields = {name: getattr(source, name) for name in FIELDS}
    fields["findings"] = {name: source.findings.get(name) for name in FINDINGS} | {
        "combined": {"trusted": False, "lambda": 0.0, "n_judge_votes": 0}
    }
    standings = [_copied(standing) for standing in source.standings.all()]
    kept = source.matrices
    matrices = SnapshotMatrices(
        cells=kept.cells, candidates=kept.candidates, covariance=kept.covariance
    )
    return Fitted(fields, standings, matrices)


def _copied(standing: Standing) -> Standing:
    same = copy(standing)
    same.pk, same.elo = None, None
    same._state = copy(standing._state)
    same._state.adding = True
    return same
