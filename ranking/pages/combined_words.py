"""What a combined board says of those who narrow people's intervals."""

from collections.abc import Mapping
from typing import Any

from ranking.models import Raters
from ranking.pages.findings import Findings
from ranking.templatetags.numbers import signed

LEAST_GAIN = 1.05  # of judges, that is worth a number
NOBODY = (
    "No judge is trusted yet: this is people’s board, number for number. The votes of judges and"
    " juries are kept and have boards of their own; they count here once their agreement with"
    " people has been measured and is good enough."
)


def combined(findings: Findings) -> str:
    """What judges' votes are good for on a combined board; '' on any other."""
    found = findings.combined
    if not found:
        return ""
    if not _is_trusted(found):
        return NOBODY
    n = found["n_judge_votes"]
    votes = f"{n:,} vote{'' if n == 1 else 's'} of trusted {_kind(found)}"
    if found.get("reason") or found.get("gain") is None:
        return f"People decide here, and the {votes} add nothing. {found.get('reason', '')}".strip()
    if found["gain"] < LEAST_GAIN:
        return f"People decide here; the {votes} narrow the intervals by next to nothing."
    return (
        f"People decide here; the {votes} narrow the intervals as {found['gain']:.1f} times as"
        " many votes of people would."
    )


def changed(findings: Findings, names: Mapping[int, str]) -> str:
    """What differs from people's votes alone: widths, scores, and lambda; '' where nothing does."""
    found = findings.combined
    if not found or not _is_trusted(found) or found.get("gain") is None or found.get("reason"):
        return ""
    parts = [
        _narrower(found.get("narrower")),
        _moved(found.get("moved_by"), names.get(found.get("moved_most") or 0, "")),
        f"λ is {found['lambda']:.2f}: 0 would leave the {_kind(found)} out, 1 follows them fully.",
    ]
    return " ".join(filter(None, parts))


def _narrower(share: float | None) -> str:
    if share is None:
        return ""
    return f"Intervals are {max(share, 0):.0%} narrower on average than by people’s votes alone."


def _moved(by: float | None, name: str) -> str:
    if by is None or not name:
        return ""
    if abs(by) < 0.5:
        return "No score moved by a whole point."
    return f"The score that moved most is that of {name}: {signed(by)} Elo."


def counted(findings: Findings) -> str:
    """Which judges or juries these are, by name; '' where nobody is counted."""
    found = findings.combined
    if not found.get("names"):
        return ""
    return f"Trusted {_kind(found)} counted here: {', '.join(found['names'])}."


def _is_trusted(found: Mapping[str, Any]) -> bool:
    """Snapshots older than the question counted every judge."""
    return bool(found.get("trusted", True))


def _kind(found: Mapping[str, Any]) -> str:
    return str(found.get("raters", Raters.JUDGES.value))
