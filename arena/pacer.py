"""How much of two answers is shown while both are being written, so that time tells nothing (pure).

Both show the same number of characters, never more than the slower has, at an even pace that
follows the slower a little behind. Once the shorter has ended, the longer one goes on at that pace,
however much of it has been written already: a jump would tell that its model is the faster one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

LAG = 0.5  # seconds behind the slower answer, within which its hesitations do not show
FIRST = 4  # characters that are shown at once: one token
SHORT = 1.0  # seconds of writing together that are too few to know a pace
DEFAULT_PACE = 120.0  # characters a second
LEAST_PACE = 40.0  # of what is left once the shorter has ended, or nobody would wait for it
PATIENCE = 180.0  # seconds after which all that has been written is shown


@dataclass
class Pacer:
    """The clock of one pair of answers. Times are in seconds, of any clock."""

    began: float | None = None
    shown: float = 0.0
    pace: float = 0.0
    _before: float = 0.0
    _is_kept: bool = False

    def advance(self, lengths: Sequence[int], ended: Sequence[bool], now: float) -> int:
        """Return how many characters of each answer may be shown now.

        `lengths`: how many characters of each have been written; `ended`: whether that is all.
        """
        if self.began is None:
            if not all(lengths):
                return 0
            self.began = self._before = now
        elapsed, passed = now - self.began, now - self._before
        self._before = now
        slower = min(lengths)
        has_ended = any(
            end and length == slower for end, length in zip(ended, lengths, strict=True)
        )
        if not has_ended:
            self.pace = slower / (elapsed + LAG)
        elif not self._is_kept:
            self._is_kept = True
            self.pace = max(self.pace, DEFAULT_PACE if elapsed < SHORT else LEAST_PACE)
        open_lengths = [n for n, end in zip(lengths, ended, strict=True) if not end]
        ready = min(open_lengths) if open_lengths else max(lengths)
        goal = self.shown + self.pace * passed if has_ended else self.pace * elapsed
        if elapsed > PATIENCE and all(ended):
            goal = ready
        self.shown = max(self.shown, min(ready, max(goal, FIRST)))
        return int(self.shown)
