"""What a team's decision page shows: its candidates in an arena compared with a baseline.

The page and the API build it with `decision_context`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404
from django.urls import reverse

from arena.models import Arena, Candidate, Team, Vote
from arena.validation import shorten
from judges.decision_costs import (
    JudgePrice,
    Needed,
    TwoCandidates,
    count_supply,
    find_last_price,
    order_url,
)
from judges.models import Baseline, Decision
from judges.services.decisions import TOLD, compare_family, default_baseline, name_for
from judges.wording import headline_parts
from ranking import candidate_votes
from ranking.board_data import LONG_TEXTS, BoardQuery, Link
from ranking.claim_words import rounded_up, scope_words, share_words, state_words
from ranking.comparison import (
    CandidateDifference,
    ChosenPair,
    DifferenceBoard,
    DifferenceBoards,
    read_difference_boards,
)
from ranking.models import Counted, Raters
from ranking.scripted_raters import demo_notice
from ranking.stats.claim import Claim, Scope, Verdict

MOST_PAGES = 10_000
VOTES_PER_PAGE = 10
SHORT = 40
ALL_PROMPTS = "All prompts"
NO_BOARD = CandidateDifference(Claim(Verdict.OPEN, Scope.THESE_RATERS))


@dataclass(frozen=True)
class DecisionQuery:
    """The parameters of the address; None and '' are the defaults."""

    raters: str = ""
    category: str = ""
    candidate: int | None = None
    baseline: int | None = None
    page: int = 1

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> "DecisionQuery":
        """Raises Http404 for an invalid id."""
        board = BoardQuery.unsorted(parameters)
        ids = {"a": parameters.get("candidate", ""), "b": parameters.get("baseline", "")}
        pair, page = ChosenPair.of(ids), parameters.get("page", "")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 6 else 1
        page_number = max(1, min(number, MOST_PAGES))
        return cls(board.raters, board.category, pair.a, pair.b, page_number)

    @property
    def board_query(self) -> BoardQuery:
        return BoardQuery(self.raters, self.category)

    def link(self, **changes: Any) -> str:
        """The query string of this page, or of one that differs by `changes`, from page 1."""
        fields = asdict(self) | {"page": None} | changes
        if fields["page"] == 1:
            fields["page"] = None
        return f"?{urlencode({name: value for name, value in fields.items() if value})}"


@dataclass(frozen=True)
class NamedCandidate:
    """A candidate by the name that the team may see."""

    candidate: Candidate
    name: str

    @property
    def short(self) -> str:
        return shorten(self.name, SHORT)

    @property
    def pk(self) -> int:
        return self.candidate.pk

    @property
    def is_retired(self) -> bool:
        return self.candidate.retired_at is not None

    @property
    def url(self) -> str:
        return reverse("candidate", args=[self.candidate.arena.slug, self.candidate.pk])


@dataclass(frozen=True)
class DecisionCandidates:
    """The candidates of an arena as a team sees them.

    `own` are the team's, `chosen` is its baseline, `baseline` the one on this page, `focus` the
    candidate that is compared with it. None if there is no such candidate.
    """

    in_arena: list[NamedCandidate]
    own: list[NamedCandidate]
    chosen: NamedCandidate | None
    baseline: NamedCandidate | None
    focus: NamedCandidate | None = None

    @property
    def others(self) -> list[NamedCandidate]:
        """The team's candidates except the baseline: active ones first, then the newest first."""
        others = [entry for entry in self.own if self.baseline and entry.pk != self.baseline.pk]
        return sorted(others, key=lambda entry: (entry.is_retired, -entry.pk))

    def family(self, alone: bool = False) -> list[int]:
        """The ids of those compared with the baseline together: the active ones and the focus."""
        focus = [self.focus.pk] if self.focus else []
        active = [entry.pk for entry in self.others if not entry.is_retired]
        return focus if alone else list(dict.fromkeys([*active, *focus]))

    def differences(
        self, board: DifferenceBoard | None, baseline: int, alone: bool
    ) -> dict[int, CandidateDifference]:
        """The family compared with the baseline on a board, and archived candidates beside it."""
        if board is None:
            return {}
        found = compare_family(board, self.family(alone), baseline)
        others = (entry.pk for entry in self.others if entry.pk not in found)
        return {pk: board.difference(pk, baseline) for pk in others} | found


def read_candidates(team: Team, arena: Arena, query: DecisionQuery) -> DecisionCandidates:
    """Read the arena's candidates and the team's baseline in one query.

    Raises Http404 if the query names a candidate that does not exist.
    """
    chosen = Baseline.objects.filter(team=team, arena=OuterRef("arena"))
    rows = Candidate.objects.revealed().filter(arena=arena).defer(*LONG_TEXTS).order_by("pk")
    rows = rows.annotate(baseline=Subquery(chosen.values("candidate")[:1]))
    in_arena = []
    for row in rows:
        row.arena = arena
        in_arena.append(NamedCandidate(row, name_for(team, arena, row)))
    own = [entry for entry in in_arena if (entry.candidate.team_id or arena.team_id) == team.pk]
    chosen_pk = rows[0].baseline if in_arena else None
    usual = default_baseline(entry.candidate for entry in own)
    team_baseline = _find_candidate(in_arena, chosen_pk or (usual.pk if usual else None))
    baseline = _find_candidate_or_404(in_arena, query.baseline) or team_baseline
    candidates = DecisionCandidates(in_arena, own, team_baseline, baseline)
    focus = _find_candidate_or_404(candidates.others, query.candidate)
    return replace(candidates, focus=focus or next(iter(candidates.others), None))


def _find_candidate(entries: list[NamedCandidate], pk: int | None) -> NamedCandidate | None:
    return next((entry for entry in entries if entry.pk == pk), None)


def _find_candidate_or_404(entries: list[NamedCandidate], pk: int | None) -> NamedCandidate | None:
    entry = _find_candidate(entries, pk)
    if pk is not None and entry is None:
        raise Http404("There is no such candidate to compare.")
    return entry


def _why_nothing_to_compare(team: Team, candidates: DecisionCandidates) -> str:
    """'' if there are two candidates to compare."""
    if not candidates.own:
        return f"{team} has no candidates in this arena yet."
    if candidates.baseline is None:
        return f"All candidates of {team} are archived. Choose a baseline."
    if candidates.focus is None:
        return f"{candidates.baseline.name} is the only candidate so far."
    return ""


@dataclass(frozen=True)
class DecisionRow:
    """A candidate, or the one in focus in one category, compared with the baseline."""

    title: str
    url: str
    difference: CandidateDifference
    is_chosen: bool
    is_retired: bool = False
    is_closed: bool = False  # it or the baseline is archived, so no more votes will come

    @cached_property
    def interval(self) -> dict[str, str] | None:
        """Where the interval is drawn, in percent of the width; None without one."""
        claim = self.difference.claim
        if claim.win_rate is None or claim.low is None or claim.high is None:
            return None
        ends = {"at": claim.win_rate, "low": claim.low, "high": claim.high}
        return {name: f"{100 * value:.1f}" for name, value in ends.items()}

    @property
    def share(self) -> tuple[str, str]:
        return share_words(self.difference.claim)

    @property
    def scope(self) -> str:
        return scope_words(self.difference.claim) if self.difference.between else ""

    @property
    def state(self) -> str:
        """What is decided, or what is still missing, in a few words."""
        if self.is_closed and not self.difference.is_decided:
            return "no more votes will come"
        return state_words(self.difference.claim)


@dataclass(frozen=True)
class LostVotes:
    """A page of the votes that the candidate lost to the baseline, newest first."""

    kind: str
    votes: list[Vote]
    newer: str
    older: str


def decision_context(
    team: Team, arena: Arena, query: DecisionQuery, alone: bool = False
) -> dict[str, Any]:
    """Build the context of `judges/decision.html` in a fixed number of queries.

    `alone`: the candidate in focus is judged by itself, not in the family of the team's candidates.
    Raises Http404 for candidates that do not exist.
    """
    candidates = read_candidates(team, arena, query)
    among = {entry.pk for entry in (*candidates.own, candidates.baseline) if entry}
    boards = read_difference_boards(arena, query.board_query, among)
    board = boards.chosen
    is_focus_asked = query.candidate is not None
    query = replace(query, raters=boards.query.raters, category=boards.query.category)
    if board and not is_focus_asked:
        candidates = replace(candidates, focus=_choose_focus(candidates, board))
    context = {
        "team": team,
        "arena": arena,
        "query": query,
        "candidates": candidates,
        "board": board,
        "heading": _why_nothing_to_compare(team, candidates),
        "raters_links": _raters_links(query, boards),
        "category_links": _category_links(query, boards),
    }
    if candidates.focus is None or candidates.baseline is None:
        return context
    focus, baseline = candidates.focus, candidates.baseline
    differences = candidates.differences(board, baseline.pk, alone)
    difference = differences.get(focus.pk, NO_BOARD)
    sentence = " ".join(filter(None, _headline_of(focus, baseline, difference, query)))
    one, other = replace(focus, name=focus.short), replace(baseline, name=baseline.short)
    if one.name == other.name:
        one, other = focus, baseline
    heading, what_else = _headline_of(one, other, difference, query)
    demo = demo_notice(arena, board.snapshot if board else None)
    price, pair = find_last_price(arena), (focus.candidate, baseline.candidate)
    is_closed = focus.is_retired or baseline.is_retired
    needed = None if is_closed else _needed(difference, price, pair, query.category)
    return context | {
        "heading": heading,
        "what_else": what_else,
        "sentence": f"{sentence} {demo}".rstrip(),
        "demo": demo,
        "focus": focus,
        "baseline": baseline,
        "difference": difference,
        "share": share_words(difference.claim),
        "scope": scope_words(difference.claim, query.raters),
        "missing": "" if is_closed or difference.is_decided else state_words(difference.claim),
        "needed": needed,
        "price": price,
        "counts_judges": query.raters in (Raters.JUDGES, Raters.JURIES),
        "order_url": "" if is_closed else order_url(pair, arena, needed),
        "rows": [
            DecisionRow(
                entry.name,
                query.link(candidate=entry.pk),
                differences.get(entry.pk, NO_BOARD),
                entry.pk == focus.pk,
                entry.is_retired,
                entry.is_retired or baseline.is_retired,
            )
            for entry in candidates.others
        ],
        "categories": [
            DecisionRow(
                board.category or ALL_PROMPTS,
                query.link(category=board.category),
                board.difference(focus.pk, baseline.pk),
                board.category == query.category,
            )
            for board in boards.boards
        ],
        "last_decision": _find_last_decision(team, focus, baseline, board),
        "lost": _lost_votes(focus, baseline, query),
    }


def _needed(
    difference: CandidateDifference,
    price: JudgePrice | None,
    pair: TwoCandidates,
    category: str,
) -> Needed | None:
    """What more LLM-judge votes would decide; None if it is decided, or nobody can say."""
    if difference.is_decided or difference.votes_to_go is None:
        return None
    return Needed(rounded_up(difference.votes_to_go), price, count_supply(pair, price, category))


@dataclass(frozen=True)
class NextStep:
    """A link, or a button that makes the candidate in focus the baseline."""

    label: str
    url: str
    makes_baseline: bool = False


def choose_next_step(
    context: Mapping[str, Any], can_submit: bool, can_order: bool
) -> NextStep | None:
    """The next thing to do; None if nothing is left to do."""
    slug, focus, difference = context["arena"].slug, context["focus"], context["difference"]
    if difference.claim.verdict is Verdict.WORSE:
        return NextStep("View lost votes", "#lost")
    if focus.is_retired or context["baseline"].is_retired:
        return None
    if difference.is_decided and not difference.claim.is_kept:
        url = reverse("decision", args=[context["team"].slug, slug])
        return NextStep(f"Make {focus.name} the baseline", url, True) if can_submit else None
    if can_order and context["counts_judges"]:
        prompts = reverse("manage_prompts", args=[slug])
        url = context["order_url"]
        return NextStep("Start a judge run", url) if url else NextStep("Add prompts", prompts)
    return NextStep("Vote", reverse("vote", args=[slug]))


def _choose_focus(candidates: DecisionCandidates, board: DifferenceBoard) -> NamedCandidate | None:
    """The newest active candidate with votes against the baseline, or else with any: a draft
    has no results yet."""
    baseline = candidates.baseline.pk if candidates.baseline else None
    active = [entry for entry in candidates.others if not entry.is_retired]
    met = [entry for entry in active if baseline and board.votes_between(entry.pk, baseline)]
    voted = [entry for entry in active if board.votes(entry.pk)]
    return next(iter(met or voted), candidates.focus)


def _headline_of(
    focus: NamedCandidate,
    baseline: NamedCandidate,
    difference: CandidateDifference,
    query: DecisionQuery,
) -> tuple[str, str]:
    return headline_parts(
        focus.name,
        baseline.name,
        difference,
        raters=query.raters,
        category=query.category,
        retired=next((entry.name for entry in (focus, baseline) if entry.is_retired), ""),
    )


def _find_last_decision(
    team: Team, focus: NamedCandidate, baseline: NamedCandidate, board: DifferenceBoard | None
) -> Decision | None:
    """The last result that the team was notified of, whatever newer votes say."""
    if board is None or board.raters not in TOLD or board.category:
        return None  # teams are notified of boards of all prompts only
    decisions = Decision.objects.filter(
        team=team,
        board=board.snapshot.board_id,
        candidate=focus.candidate,
        baseline=baseline.candidate,
    )
    return decisions.order_by("-number").first()


def _lost_votes(focus: NamedCandidate, baseline: NamedCandidate, query: DecisionQuery) -> LostVotes:
    """One query: an extra vote shows whether there is another page."""
    raters = query.raters or Raters.PEOPLE.value
    is_combined = raters == Counted.COMBINED
    voters = Raters.PEOPLE.value if is_combined else raters
    filters = candidate_votes.VoteFilters(voters, "lost", baseline.pk, query.category)
    start = (query.page - 1) * VOTES_PER_PAGE
    lost: QuerySet[Vote] = candidate_votes.find_votes(focus.candidate, filters)
    votes = list(lost[start : start + VOTES_PER_PAGE + 1])
    newer = f"{query.link(page=query.page - 1)}#lost" if query.page > 1 else ""
    older = f"{query.link(page=query.page + 1)}#lost" if len(votes) > VOTES_PER_PAGE else ""
    kind = "human votes" if is_combined else "votes"
    return LostVotes(kind, votes[:VOTES_PER_PAGE], newer, older)


def _raters_links(query: DecisionQuery, boards: DifferenceBoards) -> list[Link]:
    """Links to the kinds of voters that have boards of all prompts here."""
    raters_here = {
        snapshot.board.raters for snapshot in boards.snapshots if not snapshot.board.category
    }
    links = [
        Link(label, query.link(raters=raters, category=""), raters == query.raters)
        for raters, label in Counted.choices
        if raters in raters_here
    ]
    return links if len(links) > 1 else []


def _category_links(query: DecisionQuery, boards: DifferenceBoards) -> list[Link]:
    links = [
        Link(
            board.category or ALL_PROMPTS,
            query.link(category=board.category),
            board.category == query.category,
        )
        for board in boards.boards
    ]
    return links if len(links) > 1 else []
