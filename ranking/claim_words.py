"""The sentences of a Claim, the same on pages, in the API, in e-mails and in commands. Pure."""

from arena.validation import numbered
from ranking.stats.claim import MIN_RATERS, Claim, Missing, Scope, Unit, Verdict

MOST_DIGITS = 3
HALF = 0.5
MOST_WORTHWHILE = 10_000  # prompts or votes; a team could not see a difference that takes more
JUDGED_BY = {"judges": "judge", "juries": "jury"}


def scope_words(claim: Claim, raters: str = "") -> str:
    """Whom the claim is about: "for these 6 raters and prompts like these".

    `raters`: of the leaderboard, to tell a jury from a judge.
    """
    n = claim.n_raters
    if claim.scope is Scope.RATERS:
        whom = "raters"
    elif claim.scope is Scope.JUDGE:
        noun = JUDGED_BY.get(raters, "judge")
        plural = "juries" if noun == "jury" else "judges"
        whom = f"these {n:,} {plural}" if n > 1 else f"this {noun}"
    elif n == 1:
        whom = "this one rater"
    else:
        whom = f"these {n:,} raters" if n else "these raters"
    return f"for {whom} and prompts like these"


def missing_words(missing: Missing) -> str:
    """What is missing, in its own unit: "about 20 more prompts"."""
    if missing.number is None:
        return "no number that can be estimated"
    number = numbered(rounded_up(missing.number), f"more {missing.unit.value[:-1]}")
    return f"about {number}{' on new prompts' if missing.on_new_prompts else ''}"


def rounded_up(number: int) -> int:
    """Round up to two significant digits; more would suggest false precision."""
    unit = int(10 ** max(0, len(str(number)) - 2))
    return -(-number // unit) * unit


def share_words(claim: Claim) -> tuple[str, str]:
    """The win rate and its interval: "75%" and "58% to 88%"; '' without votes."""
    numbers = _percents(claim)
    if not numbers:
        return "", ""
    wins, low, high = numbers
    return f"{wins}%", f"{low}% to {high}%"


def _percents(claim: Claim) -> list[str]:
    """With enough digits that only 50 % itself is written as 50."""
    if claim.win_rate is None or claim.low is None or claim.high is None:
        return []
    numbers = (claim.win_rate, claim.low, claim.high)
    for digits in range(MOST_DIGITS + 1):
        if all(value == HALF or round(100 * value, digits) != 100 * HALF for value in numbers):
            break
    else:
        digits = 0  # a half but for a trifle
    return [f"{100 * value:.{digits}f}" for value in numbers]


def claim_sentence(
    claim: Claim, candidate: str, baseline: str, *, raters: str = "", closed: str = ""
) -> str:
    """Say whether the candidate is better than the baseline, to whom that applies, and what else
    it takes to know.

    `raters`: whose votes these are. `closed`: why no more votes will come, or ''.
    """
    verdict = verdict_sentence(claim, candidate, baseline, raters=raters)
    return f"{verdict} {what_else(claim, raters, closed)}".rstrip()


def verdict_sentence(claim: Claim, candidate: str, baseline: str, *, raters: str = "") -> str:
    """Whether the candidate is better than the baseline, and to whom that applies."""
    numbers, scope = _percents(claim), scope_words(claim, raters)
    if not numbers and claim.look.looks:
        first = f"comes after {_prompts_at(claim, 1)}"
        return f"Not decided yet: the first look at {candidate} against {baseline} {first}."
    if not numbers:
        return f"No votes yet: nobody has compared {candidate} with {baseline}."
    wins = f"it wins {numbers[0]}% of the time ({numbers[1]} to {numbers[2]})"
    if claim.is_decided:
        return f"{candidate} is {claim.verdict.value} than {baseline} {scope}: {wins}."
    if claim.verdict is Verdict.NO_WORSE:
        return f"{candidate} is no worse than {baseline} by more than the margin {scope}: {wins}."
    share = f"{numbers[0]}% of the time ({numbers[1]} to {numbers[2]})"
    is_over = claim.look.looks and claim.verdict is Verdict.CANNOT_TELL
    state = "Can’t be decided this way" if is_over else "Not decided yet"
    return f"{state}: against {baseline}, {candidate} wins {share}, {scope}."


def _prompts_at(claim: Claim, number: int) -> str:
    look = claim.look
    return f"{round(look.size * number / look.looks):,} of {numbered(look.size, 'prompt')}"


def what_else(claim: Claim, raters: str = "", closed: str = "") -> str:
    """Whether newer votes support it, what is known about raters like these, or what is missing;
    '' if there is nothing to add."""
    if claim.win_rate is None:
        return ""
    if not claim.is_decided:
        return closed or what_is_missing(claim, raters)
    kept = "Newer votes no longer support it." if claim.is_kept else ""
    return f"{kept} {_wider(claim)}".strip()


def what_is_missing(claim: Claim, raters: str = "") -> str:
    """A sentence about what else it takes; '' if nothing does."""
    missing = claim.missing
    if claim.look.looks:
        return _look_words(claim)
    if missing is None:
        is_said = claim.is_decided or claim.verdict is Verdict.NO_WORSE
        return "" if is_said else "It can’t be decided this way."
    if missing.number is None or missing.number > MOST_WORTHWHILE:
        return f"The difference is too small to find with {MOST_WORTHWHILE:,} more {missing.unit}."
    if missing.unit is Unit.DOCUMENTS:
        n = numbered(claim.n_documents, "document")
        verb = "is" if claim.n_documents == 1 else "are"
        return f"{n} {verb} too few: {missing_words(missing)} would settle it."
    whom = "these raters"
    if claim.scope is Scope.JUDGE:
        whom = (
            scope_words(claim, raters).removeprefix("for ").removesuffix(" and prompts like these")
        )
    more = f"{missing_words(missing)}, judged by {whom},"
    return f"If the difference stays the same, {more} would settle it."


def _look_words(claim: Claim) -> str:
    """Of a registered run: at which look it is, or that it was too small."""
    look = claim.look
    prompts = numbered(look.size, "prompt")
    if claim.verdict is Verdict.CANNOT_TELL and look.number < look.looks:
        return f"A decision with {prompts} has become improbable."
    if claim.verdict is Verdict.CANNOT_TELL:
        return f"The difference is too small for {prompts}."
    if claim.verdict is not Verdict.OPEN or not look.number:
        return ""
    after = _prompts_at(claim, look.number)
    return f"This is look {look.number} of {look.looks}, after {after}."


def _wider(claim: Claim) -> str:
    """What is known about raters like these, where the claim is about those who voted."""
    wider = claim.wider
    if wider is None or wider.missing is None:
        return ""
    missing = missing_words(wider.missing)
    can = wider.missing.number is not None and wider.missing.number <= MOST_WORTHWHILE
    if claim.n_raters < MIN_RATERS:
        few = "One rater says" if claim.n_raters == 1 else f"{claim.n_raters:,} raters say"
        return f"{few} nothing about others."
    if wider.no_votes_settle:
        says = "For raters like these, no number of votes by these raters will settle it"
        return f"{says}; {missing} could." if can else f"{says}."
    says = "For raters like these it’s not decided yet"
    return f"{says}: it takes {missing}." if can else f"{says}."


def state_words(claim: Claim) -> str:
    """In a few words, for a table."""
    if claim.win_rate is None:
        return "no votes yet"
    if claim.is_decided:
        return f"{claim.verdict.value}{', kept' if claim.is_kept else ''}"
    if claim.missing is None or claim.missing.number is None:
        return "not decided"
    if claim.missing.number > MOST_WORTHWHILE:
        return "too small to find"
    return missing_words(claim.missing)


SOURCES = {"prompts": "between prompts", "raters": "between raters"}


def parts_sentence(claim: Claim) -> str:
    """Where the uncertainty comes from, besides single votes; '' if from nowhere else."""
    parts = {name: claim.parts.get(name, 0.0) for name in SOURCES}
    shares = [f"{100 * part:.0f}% {SOURCES[name]}" for name, part in parts.items() if part >= 0.01]
    if not shares:
        return ""
    first, *others = shares
    share, _, source = first.partition(" ")
    return " and ".join([f"{share} of the uncertainty is {source}", *others]) + "."
