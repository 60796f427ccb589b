"""Sentences about judges and decisions that pages, API, commands and notifications share. Pure."""

from ranking.claim_words import verdict_sentence, what_else
from ranking.comparison import CandidateDifference
from ranking.models import Raters
from ranking.stats.claim import Verdict

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
    Raters.JURIES.value: "By jury votes",
    "verified": "By verified raters’ votes",
    "combined": "By human votes",
}
NO_MORE_VOTES = "No more votes will come, because {name} is archived."


def headline(candidate: str, baseline: str, difference: CandidateDifference, **more: str) -> str:
    """Say in one to three sentences whether the candidate is better than the baseline, to whom that
    applies, and what else it takes to know; `more` as for `headline_parts`."""
    return " ".join(filter(None, headline_parts(candidate, baseline, difference, **more)))


def headline_parts(
    candidate: str,
    baseline: str,
    difference: CandidateDifference,
    *,
    raters: str = "",
    category: str = "",
    retired: str = "",
) -> tuple[str, str]:
    """The verdict, and what there is to add.

    The votes are on all prompts unless the sentence says otherwise. `retired`: the name of the
    archived one of the two, if any, so that no more votes will come.
    """
    claim = difference.claim
    if difference.both_bad and not difference.between:
        votes = f"all {difference.both_bad:,} votes" if difference.both_bad > 1 else "the only vote"
        says = f"Not decided yet: {votes} on {candidate} and {baseline} rated both answers bad."
        return says, ""
    closed = NO_MORE_VOTES.format(name=retired) if retired else ""
    says, more = (
        verdict_sentence(claim, candidate, baseline, raters=raters),
        what_else(claim, raters, closed),
    )
    if difference.is_decided and difference.family > 1 and not difference.holds_together:
        more += (
            f" Taken together with the other {difference.family - 1:,} candidates compared with"
            f" {baseline}, it’s not certain enough yet."
        )
    opening = VOTES_BY.get(raters, "")
    if category:
        opening = f"{opening} on “{category}” prompts" if opening else f"On “{category}” prompts"
    if opening:
        is_name = claim.is_decided or claim.verdict is Verdict.NO_WORSE
        says = f"{opening}, {says if is_name else uncapped(says)}"
    return says, more.strip()


def uncapped(sentence: str) -> str:
    """The sentence as it continues after a comma."""
    return sentence[:1].lower() + sentence[1:]


# By the rule of trust, with independent labels.
HOW_MANY = (
    "To be trusted, a judge that agrees with people on 85% of the labels needs about 70 of them, "
    "and one that agrees on 80% about 280."
)


def more_with_votes(left_out: int, per_pair: int) -> str:
    """Say that an order of pairs with human votes leaves some out."""
    noun = "comparison" if left_out == 1 else "comparisons"
    return (
        f"{left_out:,} more {noun} with human votes; {per_pair:,} comparisons per pair would "
        f"include them. {HOW_MANY}"
    )
