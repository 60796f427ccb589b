"""Trials of a changed rubric, and the pages of disagreements from which a change starts."""

from collections.abc import Sequence
from typing import Any

import pytest
from django.utils import timezone
from scipy.stats import binomtest

from arena.actors import CLI
from arena.errors import ServiceError
from arena.models import Arena, Run, Team, Vote
from arena.outcomes import mirror
from arena.services.budgets import BudgetError, committed_by
from judges.models import Epoch, Judgement, LabelSet, RubricTrial, RubricVersion
from judges.services.label_runs import order_outstanding
from judges.services.registry import JudgeError, begin_next_epoch
from judges.services.trials import (
    Disagreements,
    TrialPlan,
    is_for_looking,
    plan_trial,
    result_of,
    start_trial,
)
from tests.judges.fake_server import Answer, FakeServer, fails, prefers
from tests.judges.helpers import (
    LOCAL,
    epoch_of,
    order,
    pair_row,
    price_local,
    store_labels,
    stricter_files,
    work_off,
    write_version,
)

pytestmark = pytest.mark.django_db
PROMPTS = 24
DOLLAR = 10**9


def by_rubric(before: Answer, after: Answer) -> Answer:
    """Another judge once the rubric asks to be strict."""

    def answer(body: dict[str, Any]) -> Any:
        changed = "Be strict." in body["messages"][0]["content"]
        return (after if changed else before)(body)

    return answer


@pytest.fixture
def version(team: Team) -> RubricVersion:
    write_version(team)
    return write_version(team, after=1, texts=stricter_files())


def halves(arena: Arena) -> tuple[list[str], list[str]]:
    texts = list(arena.prompts.order_by("pk").values_list("text", flat=True))
    looking = [text for text in texts if is_for_looking(text)]
    return looking, [text for text in texts if text not in looking]


def plan(version: RubricVersion, source: Arena | LabelSet, pairs: int = 100) -> TrialPlan:
    return plan_trial(version=version, judge=epoch_of().judge, source=source, pairs=pairs)


def start(planned: TrialPlan, team: Team, cap: int | None = None) -> RubricTrial:
    return start_trial(plan=planned, team=team, cap=cap, by=CLI, now=timezone.now())


def finish() -> None:
    for run in Run.objects.filter(state="open"):
        work_off(run)


def test_the_halves_are_the_same_for_everybody_and_share_no_prompt(voted: Arena) -> None:
    looking, measuring = halves(voted)
    assert len(looking) + len(measuring) == PROMPTS
    assert 5 < len(looking) < PROMPTS - 5
    first = [number for number in range(8) if is_for_looking(f"Question {number}?")]
    assert first == [1, 3, 6, 7]  # for ever


def test_a_better_rubric_is_measured_on_the_half_that_nobody_was_shown(
    local: FakeServer, team: Team, version: RubricVersion, voted: Arena
) -> None:
    local.otherwise = by_rubric(prefers("-1 of"), prefers("-0 of"))
    _, measuring = halves(voted)
    trial = start(plan(version, voted), team)
    assert {item.item.prompt for item in Judgement.objects.select_related("item")} == set(measuring)
    assert not result_of(trial).is_complete
    finish()
    result = result_of(trial)
    n = len(measuring)
    assert (result.wanted, result.settled) == (n, n)
    assert (result.before, result.after) == (0, n)
    assert (result.only_before, result.only_after) == (0, n)
    assert result.p == pytest.approx(binomtest(0, n).pvalue)
    assert result.is_complete
    assert not result.goes_on
    assert not Vote.objects.filter(rater__kind="judge").exists()
    assert {run.team for run in result.runs} == {team}


def test_what_a_server_fails_to_answer_counts_for_neither(
    local: FakeServer, team: Team, version: RubricVersion, voted: Arena
) -> None:
    refuse = fails(400)
    local.otherwise = by_rubric(prefers("-0 of"), lambda body: refuse(body))
    trial = start(plan(version, voted), team)
    for _ in range(3):
        finish()
    result = result_of(trial)
    assert result.settled == 0
    assert result.p == 1


def test_pairs_on_which_people_are_divided_are_not_paid_for(
    local: FakeServer, team: Team, version: RubricVersion, voted: Arena
) -> None:
    local.otherwise = prefers("-0 of")
    _, measuring = halves(voted)
    of_two = Vote.objects.filter(outcome="right", comparison__prompt__text__in=measuring)
    bobs = of_two.select_related("comparison__prompt")[0]  # and Ann has voted for the other
    Vote.objects.filter(pk=bobs.pk).update(outcome="left")
    divided = bobs.comparison.prompt.text
    planned = plan(version, voted)
    assert {item.prompt for item in planned.items} == set(measuring) - {divided}
    trial = start(planned, team)
    finish()
    assert result_of(trial).wanted == len(measuring) - 1
    assert result_of(trial).is_complete


def test_the_same_trial_is_not_paid_twice(
    local: FakeServer, team: Team, version: RubricVersion, voted: Arena
) -> None:
    local.otherwise = prefers("-0 of")
    planned = plan(version, voted)
    trial = start(planned, team)
    asked = Judgement.objects.count()
    assert start(planned, team) == trial
    assert start(plan(version, voted), team) == trial
    assert Judgement.objects.count() == asked
    finish()
    assert plan(version, voted).quote.calls == 0


def test_a_trial_that_was_cut_short_goes_on(
    local: FakeServer,
    team: Team,
    version: RubricVersion,
    voted: Arena,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed between the runs of the two judges."""
    ordered: list[Any] = []

    def order_once(**order: Any) -> None:
        if ordered:
            raise KeyboardInterrupt
        ordered.append(order_outstanding(**order))

    planned = plan(version, voted)
    monkeypatch.setattr("judges.services.trials.order_outstanding", order_once)
    with pytest.raises(KeyboardInterrupt):
        start(planned, team)
    monkeypatch.undo()
    local.otherwise = prefers("-0 of")
    trial = start(plan(version, voted), team)
    finish()
    assert result_of(trial).is_complete
    assert RubricTrial.objects.count() == 1


def test_the_price_is_known_before_and_the_cap_holds_for_both_judges(
    local: FakeServer, team: Team, version: RubricVersion, voted: Arena, settings: Any
) -> None:
    price_local(settings, 10**9)
    Team.objects.filter(pk=team.pk).update(budget=DOLLAR)
    planned = plan(version, voted, pairs=4)
    assert planned.quote.calls == 4 * 2 * 2
    worst = planned.quote.worst
    assert worst
    with pytest.raises(ServiceError, match="Enter a spending cap"):
        start(planned, team)
    with pytest.raises(BudgetError):
        start(planned, team, 2 * DOLLAR)
    assert not RubricTrial.objects.exists()
    assert not LabelSet.objects.exists()
    team.refresh_from_db()
    start(planned, team, DOLLAR // 2)
    assert 0 < committed_by(team) <= DOLLAR // 2
    before, after = Run.objects.order_by("pk")
    assert before.cap + after.cap <= DOLLAR // 2
    assert after.cap > before.cap  # its rubric is longer


def test_a_paused_run_of_somebody_else_is_not_resumed(
    local: FakeServer, team: Team, version: RubricVersion, voted: Arena
) -> None:
    trial = start(plan(version, voted), team)
    theirs = Run.objects.filter(run_judges__epoch__judge=trial.before)
    theirs.update(team=None, state="paused")
    start(plan(version, voted), team)
    assert theirs.get().state == "paused"


def test_a_trial_survives_the_end_of_an_epoch(
    local: FakeServer, team: Team, version: RubricVersion, voted: Arena
) -> None:
    local.otherwise = by_rubric(prefers("-1 of"), prefers("-0 of"))
    trial = start(plan(version, voted), team)
    finish()
    before = result_of(trial)
    for judge in (trial.before, trial.after):
        begin_next_epoch(epoch=judge.epochs.get(), reason="Drift", now=timezone.now())
    assert result_of(trial) == before


def test_a_trial_needs_another_version_and_pairs_that_measure(
    local: FakeServer, team: Team, version: RubricVersion, voted: Arena
) -> None:
    first = start(plan(version, voted), team)
    with pytest.raises(JudgeError, match="already has this version"):
        plan_trial(version=version, judge=first.after, source=voted, pairs=10)
    _, measuring = halves(voted)
    Vote.objects.filter(comparison__prompt__text__in=measuring).delete()
    with pytest.raises(JudgeError, match="None of these pairs is in the half"):
        plan(version, voted)


def test_labels_of_a_file_measure_too(
    local: FakeServer, team: Team, version: RubricVersion, tmp_path: Any
) -> None:
    labels = store_labels(tmp_path, [pair_row(number) for number in range(20)])
    local.otherwise = by_rubric(prefers("Nothing"), prefers("GOOD"))
    trial = start(plan(version, labels, pairs=5), team)
    finish()
    result = result_of(trial)
    assert (result.wanted, result.before, result.after) == (5, 0, 5)


def ask(arena: Arena) -> Epoch:
    work_off(order(arena, LOCAL, per_pair=PROMPTS))
    return epoch_of()


def shown(found: Disagreements) -> Sequence[Any]:
    return found.load(found.items)


def test_disagreements_show_one_half_the_most_certain_people_first(
    local: FakeServer, voted: Arena
) -> None:
    local.otherwise = prefers("-1 of")
    found = shown(Disagreements(ask(voted), voted))
    looking, _ = halves(voted)
    assert {each.judgement.comparison.prompt.text for each in found} == set(looking)
    assert all(each.judgement.outcome == mirror(each.outcome) for each in found)
    for each in found:
        comparison = each.judgement.comparison
        preferred = comparison.left if each.outcome == "left" else comparison.right
        assert preferred.name == "candidate-0"
    counts = [(each.chosen, each.people) for each in found]
    assert counts == sorted(counts, reverse=True)
    assert {(2, 2), (1, 1)} == set(counts)


def test_where_people_are_divided_or_the_judge_agrees_nothing_is_shown(
    local: FakeServer, voted: Arena
) -> None:
    local.otherwise = prefers("-0 of")
    epoch = ask(voted)
    assert not shown(Disagreements(epoch, voted))
    Vote.objects.filter(rater__kind="person").update(outcome="left")
    divided = shown(Disagreements(epoch, voted))
    assert {each.people for each in divided} <= {1}


def test_the_trial_of_a_team_is_in_its_audit_log(
    local: FakeServer, team: Team, version: RubricVersion, voted: Arena
) -> None:
    start(plan(version, voted), team)
    actions = list(team.audit_entries.order_by("pk").values_list("action", flat=True))
    assert actions == ["wrote a rubric"] * 2 + ["ordered a run of judges"] * 2
