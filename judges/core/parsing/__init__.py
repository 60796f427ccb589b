"""Reading a judge's reply. Total: any text gives a ReadReply, and none raises.

Only an unambiguous verdict, in the form that was asked for, is a verdict. Everything else is
unreadable or a refusal: never a tie, and never the first letter that comes along.
"""

from judges.core.parsing.lines import parse_direct, parse_listwise, parse_pairwise
from judges.core.parsing.prometheus import parse_prometheus_pairwise, parse_prometheus_score
from judges.core.parsing.replies import LETTERS, LONGEST_REPLY, Outcome, ReadReply
from judges.core.parsing.soft import TokenLogprob, read_soft_verdict
from judges.core.parsing.structured import parse_ordered_models, parse_structured

# Part of what identifies a judge: another way of reading is another judge.
PARSER_VERSION = 2

__all__ = [
    "LETTERS",
    "LONGEST_REPLY",
    "PARSER_VERSION",
    "Outcome",
    "ReadReply",
    "TokenLogprob",
    "parse_direct",
    "parse_listwise",
    "parse_ordered_models",
    "parse_pairwise",
    "parse_prometheus_pairwise",
    "parse_prometheus_score",
    "parse_structured",
    "read_soft_verdict",
]
