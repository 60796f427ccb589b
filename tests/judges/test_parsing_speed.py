"""The longest reply that a hostile answer can cause is read in a moment, whatever it contains."""

import time
from collections.abc import Callable

import pytest

from judges.core.parsing import (
    LONGEST_REPLY,
    Asked,
    ReadReply,
    parse_direct,
    parse_listwise,
    parse_pairwise,
    parse_prometheus_pairwise,
    parse_prometheus_score,
    parse_structured,
)

pytestmark = pytest.mark.slow

NONCE = "0f1e2d3c4b5a6978"
V = f"VERDICT-{NONCE}"
HUNDRED = tuple(map(str, range(101)))
UNITS = {
    "letters": "A",
    "emphasis": "*",
    "spaces": " ",
    "new lines": "\n",
    "marked lines": "**\n",
    "angles": "<",
    "angle pairs": "<>",
    "verdicts": f"{V}: A\n",
    "verdicts in turn": f"{V}: A\nLong words.\n{V}: B\nif so, {V}: B\nLong words.\n",
    "verdicts without an end": f"{V}: ",
    "chains": f"{V}: A > B = ",
    "one long chain": "A > ",
    "results": "[RESULT] 4 ",
    "results without an end": "[RESULT] ** ",
    "scores": "[RESULT] score: ",
    "braces": '{"verdict": ',
    "lists": "[",
    "open thoughts": "<think>",
    "closed thoughts": "</think>",
    "end tokens": "<|im_end|>",
    "pictures": "✅",
    "values without marks": "A\n",
    "fences": "```json\n",
    "zero width": "\u200b",
    "full width": "Ａ",
    "refusals": "i can't ",
}
PARSERS: dict[str, Callable[[str], ReadReply]] = {
    "pairwise": lambda text: parse_pairwise(text, NONCE),
    "direct": lambda text: parse_direct(text, NONCE, HUNDRED),
    "listwise": lambda text: parse_listwise(text, NONCE, 3),
    "prometheus score": lambda text: parse_prometheus_score(text, HUNDRED),
    "prometheus pairwise": parse_prometheus_pairwise,
    "structured": lambda text: parse_structured(text, Asked("pairwise", NONCE)),
}


@pytest.mark.parametrize("parser", PARSERS)
def test_the_longest_hostile_replies_are_read_within_a_moment(parser: str) -> None:
    """Quadratic time would be minutes; a few seconds of the processor leave room."""
    for name, unit in UNITS.items():
        for prefix in ("", f"{V}: ", "[RESULT] "):
            text = (prefix + unit * LONGEST_REPLY)[:LONGEST_REPLY]
            started = time.process_time()
            read = PARSERS[parser](text)
            taken = time.process_time() - started
            assert taken < 3, f"{name}: {taken:.2f} s"
            assert read.state in ("unreadable", "refused", "done")


@pytest.mark.parametrize("parser", PARSERS)
def test_100_kilobytes_are_unreadable_at_once(parser: str) -> None:
    assert PARSERS[parser](f"{'long ' * 20_000}\n{V}: A\n[RESULT] 4").state == "unreadable"
