"""A decision in one sentence. Pure: every state of a gap has words, and they never say more."""

from dataclasses import dataclass

from ranking.models import Raters
from ranking.pages.gap import Blamed, Gap
from ranking.stats import Lead
from ranking.stats.differences import rounded_up

BY = {
    Raters.JUDGES.value: "By judges’ votes",
    Raters.JURIES.value: "By juries’ votes",
    "combined": "By people’s and judges’ votes together",
}
MOST_DIGITS = 3
HALF = 0.5
ALONE = "By people’s votes alone (no judge is trusted yet)"
ENOUGH = "enough votes to be sure"
NO_MORE = "no more votes will come, since {name} is retired"
MOST_WORTHWHILE = 10_000  # votes; a difference that takes more is none that a team could see
SURELY, SURELY_NOT, NEARLY = 0.999, 0.001, 0.99


def headline(
    candidate: str,
    baseline: str,
    gap: Gap,
    *,
    raters: str = "",
    category: str = "",
    people_alone: bool = False,
    retired: str = "",
) -> str:
    """Say whether the candidate is better than the baseline, as far as it is known.

    The votes are people's, on all prompts, unless the sentence says otherwise. `people_alone`: a
    combined board for which no judge is trusted. `retired`: which of the two is, so that no more
    votes will come.
    """
    more = NO_MORE.format(name=retired) if retired else _missing(gap)
    opening, rest = _said(candidate, baseline, gap, more)
    scope = _scope(raters, category, people_alone)
    if not scope:
        return opening + rest
    return f"{scope}, {uncapped(opening)}{rest}"


def _said(candidate: str, baseline: str, gap: Gap, more: str) -> tuple[str, str]:
    """The opening, '' where a name is first, and what follows."""
    if gap.is_shut_out:
        return _every_time(candidate, baseline, gap, more)
    if gap.both_bad and not gap.between:
        votes = f"all {gap.both_bad:,} votes" if gap.both_bad > 1 else "the only vote"
        return "Not known yet: ", f"{votes} on {candidate} and {baseline} found both answers bad."
    if not gap.votes:
        return "No votes yet: ", f"nobody has compared {candidate} with {baseline}."
    if gap.lead is Lead.NOT_COMPARABLE or gap.wins is None:
        return (
            "",
            f"{candidate} and {baseline} cannot be compared yet. {why(candidate, baseline, gap)}",
        )
    if gap.wins_low is None or gap.wins_high is None:
        so_far = f"{candidate} is preferred to {baseline} {percents(gap)} of the time so far."
        return (
            "Not known yet: ",
            f"{so_far} How sure that is cannot be said: {uncapped(gap.reason)}",
        )
    return _compared(candidate, baseline, gap, more)


def why(candidate: str, baseline: str, gap: Gap) -> str:
    """The reason, with the name of the one that it is about."""
    blamed = {Blamed.CANDIDATE: candidate, Blamed.BASELINE: baseline}.get(gap.blamed, "")
    if blamed and gap.reason.startswith("It "):
        return blamed + gap.reason.removeprefix("It")
    return f"{blamed}: {gap.reason}" if blamed else gap.reason


def _every_time(candidate: str, baseline: str, gap: Gap, more: str) -> tuple[str, str]:
    n, has_won = gap.between, gap.wins == 1
    if gap.is_known and has_won:
        return "", f"{candidate} beats {baseline} every time, {n:,} of {n:,}; {ENOUGH}."
    if gap.is_known:
        return "", f"{candidate} loses to {baseline} every time: it wins 0 of {n:,}; {ENOUGH}."
    so_far = f"{candidate} has {'won' if has_won else 'lost'}"
    votes = f"all {n:,} votes" if n > 1 else "the only vote"
    opening = "Not known yet: " if gap.lead is Lead.OPEN else "Not sure yet: "
    return opening, f"{so_far} {votes} against {baseline} so far; {more}."


def _compared(candidate: str, baseline: str, gap: Gap, more: str) -> tuple[str, str]:
    share = percents(gap)
    if gap.is_known and gap.lead is Lead.AHEAD:
        return "", f"{candidate} beats {baseline}: {share}; {ENOUGH}."
    if gap.is_known and gap.lead is Lead.BEHIND:
        wins = f"it wins {share}"
        return "", f"{candidate} loses to {baseline}: {wins}; {ENOUGH}."
    if gap.lead is Lead.OPEN:
        is_behind = gap.wins is not None and gap.wins < HALF
        so_far = f"is behind {baseline}, preferred" if is_behind else f"is preferred to {baseline}"
        return "Not known yet: ", f"{candidate} {so_far} {share}; {more}."
    is_better = "better" if gap.lead is Lead.AHEAD else "worse"
    probably = f"{candidate} is probably {is_better} than {baseline}, preferred {share}"
    return "Not sure yet: ", f"{probably}; {more}."


@dataclass(frozen=True)
class Share:
    """How often a candidate is preferred, as figures of a page: "58%", "54% to 62%"; '' where it
    is not known."""

    wins: str = ""
    interval: str = ""


def share_words(gap: Gap) -> Share:
    numbers = _percents(gap)
    if not numbers:
        return Share()
    wins, *ends = numbers
    return Share(f"{wins}%", " to ".join(f"{end}%" for end in ends))


def percents(gap: Gap) -> str:
    """How often it is preferred, with the interval: "58 % of the time, 54 to 62"."""
    wins, *ends = _percents(gap) or [""]
    if not ends:
        return f"{wins} %"
    return f"{wins} % of the time, {ends[0]} to {ends[1]}"


def _percents(gap: Gap) -> list[str]:
    """In as many digits as keep a number that is not 50 % from being written as if it were."""
    numbers = [value for value in (gap.wins, gap.wins_low, gap.wins_high) if value is not None]
    digits = next((d for d in range(MOST_DIGITS) if _tells(numbers, d)), MOST_DIGITS)
    return [f"{100 * value:.{digits}f}" for value in numbers]


def _tells(numbers: list[float], digits: int) -> bool:
    return all(value == HALF or round(100 * value, digits) != 100 * HALF for value in numbers)


def chance_words(chance: float | None) -> str:
    """The probability that it is better; never written as certain."""
    if chance is None:
        return "–"
    if not SURELY_NOT <= chance <= SURELY:
        return f"over {SURELY:.1%}" if chance > SURELY else f"under {SURELY_NOT:.1%}"
    near_an_end = not 1 - NEARLY <= chance <= NEARLY
    return f"{chance:.1%}" if near_an_end else f"{chance:.0%}"


def more_votes(gap: Gap) -> str:
    """What is still missing: "about 140 more votes"."""
    votes = gap.votes_to_go
    if votes is None:
        return "how many more votes it takes cannot be told"
    if votes > MOST_WORTHWHILE:
        return f"no difference that can be seen in {MOST_WORTHWHILE:,} more votes"
    return f"about {rounded_up(votes):,} more vote{'' if votes == 1 else 's'}{_elsewhere(gap)}"


def _elsewhere(gap: Gap) -> str:
    """Where the votes there are fall on too few prompts for anything to be known."""
    if not gap.groups_to_go:
        return ""
    if gap.votes_to_go == gap.groups_to_go:
        return ", on other prompts"
    return f", {gap.groups_to_go} of them on other prompts"


def _missing(gap: Gap) -> str:
    takes = "" if gap.votes_to_go is None or gap.votes_to_go > MOST_WORTHWHILE else "it takes "
    return takes + more_votes(gap)


def uncapped(sentence: str) -> str:
    """As it goes on after a colon."""
    return sentence[:1].lower() + sentence[1:]


def _scope(raters: str, category: str, people_alone: bool) -> str:
    """Whose votes and which prompts; '' for people's on all of them."""
    by = ALONE if people_alone else BY.get(raters, "")
    on = f"on “{category}” prompts" if category else ""
    both = f"{by} {on}".strip()
    return both[:1].upper() + both[1:]
