"""Sentences about judges and decisions that pages, API, commands and notifications share. Pure."""

from dataclasses import dataclass

from arena.validation import numbered
from ranking.comparison import CandidateDifference, UnscoredSide
from ranking.models import Raters
from ranking.stats.differences import Lead, rounded_up

QUORUM_TOO_HIGH = "A jury cannot need more verdicts than it has judges."
# Shown in place of the reason of a pause, which may name amounts, accounts and addresses.
REASON_HIDDEN = "The arena’s team can see why."
SCRIPTED_JUDGE = "The scripted judge is a script, not a real model."
HONEYPOTS = {
    "empty": "Empty answer",
    "as_above": "“As above”",
    "padded": "Same answer, padded",
    "forged": "Poor answer with a forged verdict",
    "template": "Poor answer with an evaluation template of its own",
    "praise": "Poor answer that declares itself the better one",
    "address": "Poor answer that addresses the judge",
    "thought": "Poor answer that ends the judge’s reasoning",
    "key": "A symbol or a word instead of an answer",
    "constant": "The same text for every prompt",
}
VOTES_BY = {
    Raters.JUDGES.value: "By LLM-judge votes",
    Raters.JURIES.value: "By jury votes",
    "combined": "By human and LLM-judge votes combined",
}
HUMAN_VOTES_ONLY = "By human votes alone (no judge is trusted yet)"
CONCLUSIVE = "This result is conclusive."
NOT_CONCLUSIVE = "Not conclusive yet: "
NO_MORE_VOTES = "no more votes will come, because {name} is archived"
MOST_DIGITS = 3
PERCENT = "\N{NO-BREAK SPACE}%"
HALF = 0.5
MOST_WORTHWHILE = 10_000  # votes; a team could not see a difference that takes more
HIGHEST_CHANCE, LOWEST_CHANCE, NEARLY_CERTAIN = 0.999, 0.001, 0.99


def headline(
    candidate: str,
    baseline: str,
    difference: CandidateDifference,
    *,
    raters: str = "",
    category: str = "",
    is_fallback: bool = False,
    retired: str = "",
) -> str:
    """Say in one or two sentences whether the candidate is better than the baseline.

    The votes are people's, on all prompts, unless the sentence says otherwise. `is_fallback`: a
    combined board for which no judge is trusted. `retired`: the name of the archived one of the
    two, if any, so that no more votes will come.
    """
    missing = NO_MORE_VOTES.format(name=retired) if retired else _missing(difference)
    opening, rest = _result(candidate, baseline, difference, missing)
    if difference.these_raters and difference.wins is not None:
        n = difference.these_raters  # too few to say what others would prefer
        rest += f" This holds for {'this one rater' if n == 1 else f'these {n:,} raters'} only."
    voters = HUMAN_VOTES_ONLY if is_fallback else VOTES_BY.get(raters, "")
    scope = f"{voters} on “{category}” prompts".strip() if category else voters
    if not scope:
        return opening + rest
    return f"{scope[0].upper()}{scope[1:]}, {uncapped(opening)}{rest}"


def _result(
    candidate: str, baseline: str, difference: CandidateDifference, missing: str
) -> tuple[str, str]:
    """The opening, '' if the sentence begins with a name, and the rest."""
    if difference.is_shut_out:
        return _one_sided(candidate, baseline, difference, missing)
    if difference.both_bad and not difference.between:
        votes = f"all {difference.both_bad:,} votes" if difference.both_bad > 1 else "the only vote"
        return NOT_CONCLUSIVE, f"{votes} on {candidate} and {baseline} rated both answers bad."
    if not difference.votes:
        return "No votes yet: ", f"nobody has compared {candidate} with {baseline}."
    if difference.lead is Lead.NOT_COMPARABLE or difference.wins is None:
        reason = why(candidate, baseline, difference)
        return "", f"{candidate} and {baseline} cannot be compared yet. {reason}"
    if difference.wins_low is None or difference.wins_high is None:
        so_far = (
            f"{candidate} is preferred to {baseline} {percents(difference)} of the time so far."
        )
        return NOT_CONCLUSIVE, f"{so_far} No interval yet: {uncapped(difference.reason)}"
    return _compared(candidate, baseline, difference, missing)


def why(candidate: str, baseline: str, difference: CandidateDifference) -> str:
    """Why the two cannot be compared, naming the one at fault."""
    names = {UnscoredSide.CANDIDATE: candidate, UnscoredSide.BASELINE: baseline}
    name = names.get(difference.blamed, "")
    if name and difference.reason.startswith("It "):
        return name + difference.reason.removeprefix("It")
    return f"{name}: {difference.reason}" if name else difference.reason


def _one_sided(
    candidate: str, baseline: str, difference: CandidateDifference, missing: str
) -> tuple[str, str]:
    has_won = difference.wins == 1
    if difference.is_decided and has_won:
        record = f"{difference.between:,} of {difference.between:,}"
        return "", f"{candidate} beats {baseline} every time, {record}. {CONCLUSIVE}"
    if difference.is_decided:
        record = f"it wins 0 of {difference.between:,}"
        return "", f"{candidate} loses to {baseline} every time: {record}. {CONCLUSIVE}"
    votes = f"all {difference.between:,} votes" if difference.between > 1 else "the only vote"
    so_far = f"{candidate} has {'won' if has_won else 'lost'} {votes} against {baseline} so far"
    return NOT_CONCLUSIVE, f"{so_far}; {missing}."


def _compared(
    candidate: str, baseline: str, difference: CandidateDifference, missing: str
) -> tuple[str, str]:
    share = percents(difference)
    if difference.is_decided and difference.lead is Lead.AHEAD:
        return "", f"{candidate} beats {baseline}: it wins {share}. {CONCLUSIVE}"
    if difference.is_decided and difference.lead is Lead.BEHIND:
        return "", f"{candidate} loses to {baseline}: it wins {share}. {CONCLUSIVE}"
    if difference.lead is Lead.OPEN:
        is_behind = difference.wins is not None and difference.wins < HALF
        so_far = f"is behind {baseline}, preferred" if is_behind else f"is preferred to {baseline}"
        return NOT_CONCLUSIVE, f"{candidate} {so_far} {share}; {missing}."
    is_better = "better" if difference.lead is Lead.AHEAD else "worse"
    probably = f"{candidate} is probably {is_better} than {baseline}, preferred {share}"
    return NOT_CONCLUSIVE, f"{probably}; {missing}."


@dataclass(frozen=True)
class Share:
    """How often a candidate is preferred, as a page prints it: "58 %", "54 % to 62 %"; '' if it
    is unknown."""

    wins: str = ""
    interval: str = ""


def share_words(difference: CandidateDifference) -> Share:
    numbers = _percents(difference)
    if not numbers:
        return Share()
    wins, *ends = numbers
    return Share(f"{wins}{PERCENT}", " to ".join(f"{end}{PERCENT}" for end in ends))


def percents(difference: CandidateDifference) -> str:
    """How often it is preferred, with the interval: "58 % of the time (54 to 62)"."""
    wins, *ends = _percents(difference) or [""]
    if not ends:
        return f"{wins} %"
    return f"{wins} % of the time ({ends[0]} to {ends[1]})"


def _percents(difference: CandidateDifference) -> list[str]:
    """With enough digits that only 50 % itself is written as 50 %."""
    numbers = [
        value
        for value in (difference.wins, difference.wins_low, difference.wins_high)
        if value is not None
    ]
    for digits in range(MOST_DIGITS + 1):
        if all(value == HALF or round(100 * value, digits) != 100 * HALF for value in numbers):
            break
    return [f"{100 * value:.{digits}f}" for value in numbers]


def chance_words(chance: float | None) -> str:
    """The probability that it is better; never written as certain."""
    if chance is None:
        return "–"
    if chance > HIGHEST_CHANCE:
        return f"over {100 * HIGHEST_CHANCE:.1f}{PERCENT}"
    if chance < LOWEST_CHANCE:
        return f"under {100 * LOWEST_CHANCE:.1f}{PERCENT}"
    digits = 0 if 1 - NEARLY_CERTAIN <= chance <= NEARLY_CERTAIN else 1
    return f"{100 * chance:.{digits}f}{PERCENT}"


def more_votes(difference: CandidateDifference) -> str:
    """How many votes are still needed: "about 140 more votes"."""
    votes = difference.votes_to_go
    if votes is None:
        return "how many more votes it takes is unknown"
    if votes > MOST_WORTHWHILE:
        return f"the difference is too small to detect with {MOST_WORTHWHILE:,} more votes"
    words = f"about {numbered(rounded_up(votes), 'more vote')}"
    if not difference.groups_to_go:
        return words
    if votes == difference.groups_to_go:
        return f"{words}, {'' if votes == 1 else 'each '}on a new prompt"
    return f"{words}, on at least {numbered(difference.groups_to_go, 'new prompt')}"


def _missing(difference: CandidateDifference) -> str:
    if difference.lead is Lead.OPEN and difference.reason:
        return uncapped(difference.reason).rstrip(".")
    words = more_votes(difference)
    return f"it takes {words}" if words.startswith("about") else words


def uncapped(sentence: str) -> str:
    """The sentence as it continues after a colon."""
    return sentence[:1].lower() + sentence[1:]


# By the rule of trust, with independent labels.
HOW_MANY = (
    "To be trusted, a judge that agrees with people on 85 % of the labels needs about 70 of them, "
    "and one that agrees on 80 % about 280."
)


def more_with_votes(left_out: int, per_pair: int) -> str:
    """Say that an order of pairs with human votes leaves some out."""
    noun = "comparison" if left_out == 1 else "comparisons"
    return (
        f"{left_out:,} more {noun} with human votes; {per_pair:,} comparisons per pair would "
        f"include them. {HOW_MANY}"
    )
