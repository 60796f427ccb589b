"""What an experiment has measured: each draft's scores against the baseline, and what they allow to
be said. Pages, the API, commands and the steps of a running experiment read it here.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean

from arena.calls.models import Call
from arena.checks import GUARD
from arena.models import Candidate, Pair, Response, Run, Vote
from arena.models.responses import ANSWER_DIGEST
from arena.outcomes import LEFT, RIGHT
from judges.models import Experiment, Judgement
from judges.services.planning import PlannedComparison
from ranking.comparison import claim_of_people, claim_of_registered
from ranking.stats.claim import Claim, Registration, is_conclusive

Answers = dict[int, dict[int, tuple[int, str]]]  # candidate: prompt: response and its digest
HumanVote = tuple[float, int, int]  # for the draft 1, against it -1; prompt; rater
POINTS = {LEFT: 1.0, RIGHT: -1.0}


@dataclass(frozen=True, eq=False)
class DraftMeasurement:
    """One draft against the baseline. Scores are the draft's, from -1 to 1.

    `verdicts` are those of the judges by prompt; `asked` are the prompts that the judges were asked
    about, `pending` those that they are still asked about; `votes` are people's.
    """

    experiment: Experiment
    candidate: Candidate
    pair: Pair | None
    answers: Answers
    verdicts: Mapping[int, Mapping[int, float]]
    asked: frozenset[int]
    pending: frozenset[int]
    votes: Sequence[HumanVote] = ()
    people_run: Run | None = None
    kept: Claim | None = None
    is_answering: bool = False
    guards: Sequence[int] = ()  # prompts that must not be lost
    judged_at: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # prompt: run, judgement

    @cached_property
    def _own(self) -> dict[int, tuple[int, str]]:
        return self.answers.get(self.candidate.pk, {})

    @cached_property
    def _baseline(self) -> dict[int, tuple[int, str]]:
        return self.answers.get(self.experiment.copy_id or 0, {})

    @cached_property
    def _scores(self) -> dict[int, float | None]:
        """Of the registered prompts and the guards."""
        prompts = {*self.experiment.order, *self.guards}
        means = {prompt: fmean(by.values()) for prompt, by in self.verdicts.items() if by}
        return {prompt: 0.0 if self.is_equal(prompt) else means.get(prompt) for prompt in prompts}

    @cached_property
    def registration(self) -> Registration:
        return self.experiment.registration

    @cached_property
    def answered(self) -> int:
        """How many of the registered prompts the draft and the baseline have answered."""
        return sum(self.can_compare(prompt) for prompt in self.experiment.order)

    def answer_ids(self, told: Mapping[int, bool]) -> tuple[dict[int, bool], dict[int, bool]]:
        """What is told of answers, by prompt: of the draft's and of the baseline's."""
        own, baseline = (
            {prompt: told[pk] for prompt, (pk, _) in answers.items() if pk in told}
            for answers in (self._own, self._baseline)
        )
        return own, baseline

    @property
    def why_unanswered(self) -> str:
        calls = Call.objects.filter(requester=self.candidate.requester).exclude(error="")
        return calls.order_by("-pk").values_list("error", flat=True).first() or ""

    def can_compare(self, prompt: int) -> bool:
        return prompt in self._own and prompt in self._baseline

    @property
    def differs(self) -> bool:
        """Whether people can be asked about some prompt."""
        return any(not self.is_equal(p) for p in self._own if self.can_compare(p))

    def is_equal(self, prompt: int) -> bool:
        """Whether both gave the same answer, word for word: a tie that nobody is asked about."""
        return self.can_compare(prompt) and self._own[prompt][1] == self._baseline[prompt][1]

    def score(self, prompt: int) -> float | None:
        """The mean of the judges' verdicts; None without one."""
        return self._scores[prompt]

    def scores(self, n: int) -> list[float | None]:
        """Of the first n prompts of the registered order."""
        return [self.score(prompt) for prompt in self.experiment.order[:n]]

    def is_settled(self, prompt: int) -> bool:
        if not self.can_compare(prompt) or self.is_equal(prompt):
            return True
        return prompt in self.asked and prompt not in self.pending

    @cached_property
    def looked_at(self) -> int:
        """How many prompts the newest look had; no look before all answers are there."""
        done = 0
        for end in self.registration.ends if self.answered and not self.is_answering else ():
            if not all(map(self.is_settled, self.experiment.order[done:end])):
                break
            done = end
            if is_conclusive(self.claim_at(end)):
                break
        return done

    @cached_property
    def settled(self) -> int:
        """How many registered prompts need nothing more."""
        if not self.answered or self.is_answering:
            return 0
        return sum(map(self.is_settled, self.experiment.order))

    def claim_at(self, n: int) -> Claim:
        """What the judges' verdicts on the first n registered prompts allow to be said."""
        return claim_of_registered(self.scores(n), self.registration, self.experiment.margin)

    @cached_property
    def claim(self) -> Claim:
        return self.claim_at(self.looked_at)

    @cached_property
    def people(self) -> Claim:
        """What people's votes allow to be said; they may be looked at whenever one likes."""
        return claim_of_people(
            self.votes, self.kept, self.experiment.margin, self.experiment.family
        )

    @cached_property
    def tally(self) -> dict[str, int]:
        """The prompts of the newest look by verdict, as the claim counts them: better, same, worse,
        none; "equal": of the same, those whose answers are equal word for word.
        """
        seen = self.experiment.order[: self.looked_at]
        scores = self.scores(self.looked_at)
        known = [score for score in scores if score is not None]
        return {
            "better": sum(score > 0 for score in known),
            "same": sum(score == 0 for score in known),
            "worse": sum(score < 0 for score in known),
            "equal": sum(map(self.is_equal, seen)),
            "none": sum(
                prompt in self.asked and score is None
                for prompt, score in zip(seen, scores, strict=True)
            ),
        }

    def to_judge(self, end: int) -> list[PlannedComparison]:
        """The comparisons of the first `end` prompts that the judges were not asked about."""
        return self._to_judge(self.experiment.order[:end])

    @property
    def guards_to_judge(self) -> list[PlannedComparison]:
        return self._to_judge(self.guards)

    def _to_judge(self, prompts: Sequence[int]) -> list[PlannedComparison]:
        if self.pair is None:
            return []
        picks = []
        for prompt in prompts:
            if prompt in self.asked or self.is_equal(prompt) or not self.can_compare(prompt):
                continue
            own, baseline = self._own[prompt][0], self._baseline[prompt][0]
            low, high = (
                (own, baseline) if self.candidate.pk == self.pair.low_id else (baseline, own)
            )
            picks.append(PlannedComparison(self.pair, prompt, low, high))
        return picks

    @cached_property
    def lost(self) -> list[tuple[int, float]]:
        """(prompt, score) of the newest look's prompts that the draft lost, the clearest first."""
        seen = self.experiment.order[: self.looked_at]
        scored = [(prompt, self.score(prompt)) for prompt in seen]
        lost = [(prompt, score) for prompt, score in scored if score is not None and score < 0]
        return sorted(lost, key=lambda row: row[1])


@dataclass(frozen=True, eq=False)
class ExperimentMeasurement:
    experiment: Experiment
    drafts: list[DraftMeasurement] = field(default_factory=list)


def measure(experiment: Experiment) -> ExperimentMeasurement:
    """Read what an experiment has measured so far, in about six queries."""
    arena = experiment.arena
    drafts = list(experiment.drafts)
    rows = Response.objects.revealed().filter(candidate__in=[experiment.copy_id, *drafts])
    answers: Answers = defaultdict(dict)
    for candidate, prompt, pk, digest in rows.annotate(digest=ANSWER_DIGEST).values_list(
        "candidate", "prompt", "pk", "digest"
    ):
        answers[candidate][prompt] = (pk, digest)
    pairs = {(pair.low_id, pair.high_id): pair for pair in arena.pairs.all()}
    judged, asked, pending, places = _read_verdicts(experiment)
    votes = _read_votes(experiment)
    people = Run.objects.of_people().filter(arena=arena).order_by("pk")
    guards = guarded_prompts(experiment)
    is_answering = _is_answering(experiment, drafts)
    runs_by_pair = {
        pair: run
        for run in people.prefetch_related("demands")
        for pair in {demand.pair_id for demand in run.demands.all()}
    }
    found = []
    for draft in drafts:
        low, high = sorted([experiment.copy_id or 0, draft.pk])
        pair = pairs.get((low, high))
        kept = experiment.claims.get(str(draft.pk))
        found.append(
            DraftMeasurement(
                experiment=experiment,
                candidate=draft,
                pair=pair,
                answers=answers,
                verdicts=judged[draft.pk],
                asked=frozenset(asked[draft.pk]),
                pending=frozenset(pending[draft.pk]),
                votes=votes[draft.pk],
                people_run=runs_by_pair.get(pair.pk) if pair else None,
                kept=Claim.of(kept) if kept else None,
                guards=guards,
                is_answering=is_answering,
                judged_at=places[draft.pk],
            )
        )
    return ExperimentMeasurement(experiment, found)


def _is_answering(experiment: Experiment, drafts: Sequence[Candidate]) -> bool:
    """Whether answers may still come, or would have if nobody had stopped them: a look before
    would take them for missing."""
    candidates = [experiment.copy, *drafts]
    generated = {one.pk for one in candidates if one is not None and one.endpoint}
    if experiment.started_at is None or not generated <= set(experiment.asked):
        return True
    runs = Run.objects.of_answers().filter(arena=experiment.arena_id)
    cancelled = runs.filter(state=Run.State.CANCELLED, closed_at__gte=experiment.started_at)
    return bool(generated) and (runs.not_over() | cancelled).exists()


def guarded_prompts(experiment: Experiment) -> list[int]:
    """The prompts that a draft must never lose."""
    guards = experiment.arena.checks.revealed().filter(kind=GUARD).order_by("prompt")
    return [prompt for prompt in guards.values_list("prompt", flat=True) if prompt]


def score_of(is_left: bool, outcome: str, preference: float | None) -> float:
    """A verdict or vote as the score of the answer on the left or the right, from -1 to 1."""
    for_left = POINTS.get(outcome, 0.0) if preference is None else 2 * preference - 1
    return for_left if is_left else -for_left


Verdicts = dict[int, dict[int, dict[int, float]]]  # draft: prompt: epoch: score
Prompts = dict[int, set[int]]  # draft: prompts
Places = dict[int, dict[int, tuple[int, int]]]  # draft: prompt: run and judgement


def _read_verdicts(experiment: Experiment) -> tuple[Verdicts, Prompts, Prompts, Places]:
    """The judges' scores; the prompts asked, and pending; and where each verdict is, of several
    judges' that which is best for the baseline."""
    judged: Verdicts = defaultdict(lambda: defaultdict(dict))
    asked: Prompts = defaultdict(set)
    pending: Prompts = defaultdict(set)
    places: Places = defaultdict(dict)
    least: dict[tuple[int, int], float] = {}
    rows = Judgement.objects.asked().filter(run__arena=experiment.arena, sample=0).order_by("pk")
    for left, right, prompt, epoch, state, outcome, preference, run, pk in rows.values_list(
        *(f"comparison__{name}" for name in ("left", "right", "prompt")),
        *("epoch", "state", "outcome", "preference", "run", "pk"),
    ):
        if experiment.copy_id not in (left, right):
            continue
        draft = right if left == experiment.copy_id else left
        asked[draft].add(prompt)
        places[draft].setdefault(prompt, (run, pk))
        if state == Judgement.State.WAITING:
            pending[draft].add(prompt)
        elif state == Judgement.State.VOTED:
            score = score_of(draft == left, outcome, preference)
            judged[draft][prompt][epoch] = score
            if score < least.get((draft, prompt), 2.0):
                least[draft, prompt], places[draft][prompt] = score, (run, pk)
    return judged, asked, pending, places


def _read_votes(experiment: Experiment) -> dict[int, list[HumanVote]]:
    votes: dict[int, list[HumanVote]] = defaultdict(list)
    rows = Vote.objects.live().of_people().filter(arena=experiment.arena).order_by("pk")
    for left, right, prompt, rater, outcome, preference in rows.values_list(
        *(f"comparison__{name}" for name in ("left", "right", "prompt")),
        *("rater", "outcome", "preference"),
    ):
        if experiment.copy_id not in (left, right):
            continue
        draft = right if left == experiment.copy_id else left
        votes[draft].append((score_of(draft == left, outcome, preference), prompt, rater))
    return votes
