"""The judges' leaderboard, and the page of one judge."""

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags

from arena.actors import CLI
from arena.models import Arena, Run, Team
from arena.services.arenas import delete_arena
from judges.judge_reports import report_on_judge
from judges.models import (
    Calibration,
    DriftCheck,
    DriftCheckSet,
    Epoch,
    Judge,
    Judgement,
    LabelSet,
    RunJudge,
)
from judges.services.calibration import measure_arena, measure_labels
from judges.services.feedback import give_feedback
from judges.services.honeypots import make_honeypots
from judges.services.label_runs import order_label_run
from judges.services.registry import begin_next_epoch, register_jury
from judges.tasks import watch_canaries
from tests.factories import DOLLAR, make_arena, make_person, make_team
from tests.judges.fake_server import FakeServer, prefers
from tests.judges.helpers import (
    LOCAL,
    answer_verdicts,
    ask_and_measure,
    issue_pair,
    make_labels,
    order,
    page_text,
    price_local,
    register_used_judge,
    run_command,
    signed_in,
    vote_on,
    with_run,
    work_off,
)

pytestmark = pytest.mark.django_db


def judges_page(client: Client) -> str:
    return page_text(client, reverse("judges"))


def judge_page(client: Client, judge: Judge) -> str:
    return page_text(client, judge.get_absolute_url())


def test_without_judges_it_says_so(client: Client) -> None:
    assert "No judges yet." in judges_page(client)


def test_unmeasured_judge_is_not_trusted_and_page_says_why(client: Client) -> None:
    register_used_judge()
    html = judges_page(client)
    assert "Not measured yet" in html
    assert "It has not been calibrated against people in this epoch." in html
    assert "Not a real judge" in html


def test_an_alias_wears_its_badge(client: Client, local: Any) -> None:
    register_used_judge("local:judge-latest", unpinned=True)
    html = judges_page(client)
    assert "Unpinned" in html
    assert "Not a real judge" not in html


def test_the_row_shows_the_measurements(client: Client) -> None:
    epoch = register_used_judge()
    found = ask_and_measure(epoch, make_labels()).report["on_all"]
    html = judges_page(client)
    assert f"n = {found['n']}" in html
    assert f"{100 * found['value']:.0f}%" in html
    assert "Agreement with people" in html


def test_a_trusted_judge_is_called_so(client: Client) -> None:
    epoch = register_used_judge()
    ask_and_measure(epoch, make_labels())
    epoch.rater.trusted_at = timezone.now()
    epoch.rater.save()
    html = judges_page(client)
    assert 'data-trusted="yes"> Trusted <' in html
    assert "Not measured yet" not in html


def test_trust_by_an_earlier_rule_shows_as_such_until_it_is_measured_again(client: Client) -> None:
    epoch, labels = register_used_judge(), make_labels()
    earlier = ask_and_measure(epoch, labels)
    earlier.report["trust"]["rule"] -= 1
    for name in ("by_length", "against_length", "undecided", "setups"):
        del earlier.report[name]
    earlier.trusted = earlier.everywhere = True
    earlier.save()
    epoch.rater.trusted_at = timezone.now()
    epoch.rater.save()
    for html in (judges_page(client), judge_page(client, epoch.judge)):
        assert 'data-trusted="yes"' in html
        assert "By an earlier rule: measure it again" in html
    assert "This judge is trusted under an earlier rule" in html
    measure_labels(epoch=epoch, labels_in=labels, now=timezone.now())
    for html in (judges_page(client), judge_page(client, epoch.judge)):
        assert "earlier rule" not in html


def test_juries_stand_below(client: Client) -> None:
    members = [register_used_judge(f"scripted:scripted-{number}") for number in (1, 2)]
    jury = with_run(register_jury(members=members)).judge
    html = judges_page(client)
    assert html.index("<h2>Juries</h2>") < html.index(jury.get_absolute_url())


RUBRICS = ["pairwise", "pairwise-note"]


@pytest.mark.parametrize("judges", [1, 4])
def test_leaderboard_queries_do_not_grow_with_judges(
    client: Client, django_assert_num_queries: Any, judges: int
) -> None:
    for number in range(judges):
        name = f"scripted:scripted-{number % 3 + 1}@{RUBRICS[number // 3]}"
        ask_and_measure(register_used_judge(name), make_labels() if not number else the_labels())
    with django_assert_num_queries(6):
        judges_page(client)


def the_labels() -> LabelSet:
    return LabelSet.objects.get(kind="pairs")


def test_it_says_what_the_judge_is_and_what_it_is_told(client: Client) -> None:
    judge = register_used_judge("scripted:scripted-1@score-1-4").judge
    html = judge_page(client, judge)
    for part in (judge.digest, "scripted-1 at endpoint scripted", "an integer between 1 and 4"):
        assert part in html
    assert "Rubric prompts" in html
    assert "Not measured against people" in html
    command = ["manage.py", "calibrate", str(judge), "--arena", "SLUG"]  # breaks at spaces only
    assert " ".join(f"<span>{word}</span>" for word in command) in html
    assert "No drift checks are set up" in html


def test_a_judge_whose_files_changed_says_so(client: Client) -> None:
    judge = register_used_judge().judge
    Judge.objects.filter(pk=judge.pk).update(digest="0" * 64)
    assert "have changed since it was registered" in judge_page(client, judge)
    Judge.objects.filter(pk=judge.pk).update(rubric="gone")
    assert "There is no rubric called" in judge_page(client, judge)


def test_pair_report_shows_people_length_and_habits(client: Client) -> None:
    epoch = register_used_judge()
    report = ask_and_measure(epoch, make_labels()).report
    html = judge_page(client, epoch.judge)
    for words in (
        "Judge and all labels, on all items",
        "Accuracy",
        "Judge and the labels for the shorter answer",
        "People with each other",
        "Baseline: the longer answer wins",
        "Picks the longer answer",
        "Inconsistent when swapped",
        "No item was asked about twice.",
        "By category",
    ):
        assert words in html, words
    assert f"n = {report['people']['decisive']['n']}" in html
    assert "&lt;i&gt;kind&lt;/i&gt; 1" in html
    assert "&lt;b&gt;of&lt;/b&gt;" in html
    assert "<b>of</b>" not in html


def test_scores_are_shown_with_their_correlations(client: Client) -> None:
    epoch = register_used_judge("scripted:scripted-1@score-1-4")
    ask_and_measure(epoch, make_labels("scores"))
    html = judge_page(client, epoch.judge)
    for words in (
        "Pearson",
        "Spearman",
        "Kendall’s tau-b",
        "Mean absolute error",
        "Answer length with people",
    ):
        assert words in html
    assert "Pearson" in judges_page(client)


def test_honeypots_are_shown_one_kind_after_the_other(client: Client) -> None:
    epoch = register_used_judge()
    ask_and_measure(epoch, make_honeypots(arena=make_arena(2, 3), seed="s"))
    html = judge_page(client, epoch.judge)
    for words in ("Empty answer", "“As above”", "padded", "forged verdict", "Honeypot failures"):
        assert words in html


def test_two_setups_of_one_model_share_a_page(client: Client) -> None:
    epoch, other, both = (
        register_used_judge(),
        register_used_judge("scripted@score-1-4"),
        make_labels(),
    )
    ask_and_measure(other, both)
    ask_and_measure(epoch, both)
    page = reverse("judge_setups", args=[epoch.judge_id])
    for judge in (epoch.judge, other.judge):  # though the first was measured alone
        assert page_text(client, judge.get_absolute_url()).count("/setups/") == 1
    html = page_text(client, page)
    assert html.count("McNemar’s p") == 2
    assert html.index(str(other.judge)) < html.index("Protocol")
    hidden = make_arena(2, 1, visibility="private", team=make_team())
    Calibration.objects.update(label_set=None, arena=hidden)
    assert "No two setups of this model" in page_text(client, page)


def test_newest_measurement_is_shown_and_older_ones_listed(client: Client) -> None:
    epoch, both = register_used_judge(), make_labels()
    ask_and_measure(epoch, both)
    measure_labels(epoch=epoch, labels_in=both, now=timezone.now())
    html = judge_page(client, epoch.judge)
    assert html.count('class="judge-calibration"') == 1
    assert html.count(" · 12 items · agreement ") == 2


def test_epochs_and_alarms_are_shown(client: Client) -> None:
    epoch, both = register_used_judge(), make_labels()
    run = work_off(
        order_label_run(epoch=epoch, items=list(both.items.all()), cap=None, now=timezone.now())
    )
    canary = DriftCheckSet.objects.create(judge=epoch.judge, label_set=both, cap=10**9)
    check = {"sample": 1000, "why": "weekly", "n": 12, "only_before": 9, "p": 0.0001}
    DriftCheck.objects.create(
        canary=canary, epoch=epoch, run=run, alarm=True, evaluated_at=timezone.now(), **check
    )
    begin_next_epoch(epoch=epoch, reason="It <b>changed</b>.", now=timezone.now())
    html = judge_page(client, epoch.judge)
    assert "Drift detected" in html
    assert "&lt; 0.001" in html
    assert "It &lt;b&gt;changed&lt;/b&gt;." in html
    assert "Epoch 2" in html
    run_url = reverse("trial_run", args=[run.pk])
    assert run_url not in html
    assert run_url in judge_page(signed_in("boss", staff=True), epoch.judge)


def test_readers_marks_are_shares(client: Client, django_user_model: Any) -> None:
    run = work_off(order(make_arena(2, 4), "scripted", per_pair=4))
    ann = django_user_model.objects.create_user("ann")
    for number, one in enumerate(Judgement.objects.order_by("pk")):
        give_feedback(
            judgement=one, user=ann, kind="critical", holds=bool(number), now=timezone.now()
        )
    html = judge_page(client, run.run_judges.get().epoch.judge)
    assert "75%" in html
    assert "of 4 ratings" in html
    assert "no ratings yet" in html


def test_a_jury_leads_to_its_judges(client: Client) -> None:
    members = [register_used_judge(f"scripted:scripted-{number}") for number in (1, 2)]
    html = judge_page(client, with_run(register_jury(members=members)).judge)
    for epoch in members:
        assert epoch.judge.get_absolute_url() in html
    assert "Not measured yet, so not trusted." in html


def test_a_measured_jury_shows_where_it_is_trusted_and_its_figures(client: Client) -> None:
    arena, ann = make_arena(2, 6), make_person()
    for number in range(6):
        vote_on(issue_pair(arena, ann, number), ann, "left")
    work_off(order(arena, "scripted:scripted-1", "scripted:scripted-2", per_pair=6))
    jury = Epoch.objects.get(judge__protocol="jury")
    measure_arena(epoch=jury, arena=arena, now=timezone.now())
    html = judge_page(client, jury.judge)
    assert "Where it is trusted" in html
    assert "Agreement with people, pairs" in html
    assert "Not measured yet" not in html
    assert "in another setup" not in html


def test_the_page_names_the_whole_command_for_drift_checks(client: Client) -> None:
    epoch = register_used_judge()
    plain = strip_tags(judge_page(client, epoch.judge))
    assert f"manage.py canary {epoch.judge} --labels FILE --cap USD;" in plain


def test_honeypots_are_started_on_the_page_with_their_price_and_measured_when_done(
    client: Client, local: FakeServer, settings: Any
) -> None:
    price_local(settings, DOLLAR)
    arena, judge = make_arena(2, 3), register_used_judge(LOCAL).judge
    local.otherwise = prefers("of somebody.")
    link = reverse("honeypot_test", args=[judge.pk])
    assert "nobody knows whether fake answers fool" in judge_page(client, judge)
    assert link not in judge_page(client, judge)
    boss = signed_in("boss", staff=True)
    assert link in judge_page(boss, judge)
    assert "Start the test" not in page_text(boss, link)
    assert "30 comparisons, 60 calls: <strong>$0" in page_text(boss, f"{link}?arena={arena.slug}")
    assert not LabelSet.objects.exists()
    refused = boss.post(link, {"arena": arena.slug})
    assert "cap" in refused.text
    assert not LabelSet.objects.exists()
    started = boss.post(link, {"arena": arena.slug, "cap": "1"})
    run = Run.objects.latest("pk")
    assert started.url == reverse("trial_run", args=[run.pk])
    watch_canaries()
    assert not Calibration.objects.exists()
    assert work_off(run).state == "done"
    watch_canaries()
    watch_canaries()
    assert Calibration.objects.get().report["n_items"] == 30
    assert "nobody knows whether fake answers fool" not in judge_page(client, judge)
    assert boss.post(link, {"arena": arena.slug, "cap": "1"}).url == judge.get_absolute_url()
    assert Run.objects.latest("pk") == run


def test_an_unknown_judge_has_no_page(client: Client) -> None:
    assert client.get(reverse("judge", args=[999])).status_code == 404


@pytest.fixture
def private(local: FakeServer, team: Team) -> Arena:
    """An arena that only its team and the operators may see, with votes on five pairs."""
    arena, ann = make_arena(2, 6, slug="hush", visibility="private", team=team), make_person()
    arena.candidates.filter(name="candidate-0").update(model="judge-7b-2024")
    for number in range(5):
        vote_on(issue_pair(arena, ann, number), ann, "right")
    local.otherwise = answer_verdicts(prefers("-0 of"))
    return arena


@pytest.mark.usefixtures("worker", "quick")
@pytest.mark.parametrize("measured", [["--arena=hush", "--no-votes"], ["--honeypots=hush"]])
def test_what_was_measured_on_a_private_arena_is_shown_to_nobody_else(
    private: Arena, measured: list[str], client: Client
) -> None:
    run_command("calibrate", LOCAL, *measured)
    used_there_alone = Judge.objects.get()
    assert client.get(used_there_alone.get_absolute_url()).status_code == 404
    assert "judge-7b" not in judges_page(client)
    judge = ask_and_measure(Epoch.objects.get(), make_labels()).epoch.judge
    assert "hush" not in judge_page(client, judge) + judges_page(client)
    standing = report_on_judge(judge).standing
    assert standing is not None
    assert standing.calibration is not None
    assert standing.calibration.label_set is not None
    assert standing.calibration.label_set.from_arena is False
    assert standing.honeypots is None
    public = Judgement.objects.filter(item__labels_in__from_arena=False).count()
    assert (standing.judgements, standing.cost) == (public, 0)
    assert standing.decisive <= 2 * public
    assert len(report_on_judge(judge, CLI).epochs[0].calibrations) == 2
    assert len(report_on_judge(judge).epochs[0].calibrations) == 1
    delete_arena(arena=private, by=CLI)
    assert "hush" not in judge_page(client, judge)


@pytest.mark.usefixtures("worker", "quick")
def test_what_was_measured_on_a_public_arena_is_shown(private: Arena, client: Client) -> None:
    run_command("calibrate", LOCAL, "--arena=hush", "--no-votes")
    Arena.objects.update(visibility="public")
    assert "Human votes in hush" in judge_page(client, Judge.objects.get())


@pytest.mark.usefixtures("worker", "quick")
def test_sets_of_before_are_given_to_their_arenas(private: Arena, client: Client) -> None:
    run_command("calibrate", LOCAL, "--arena=hush", "--no-votes")
    LabelSet.objects.create(name="Honeypots from gone (2)", kind="honeypots", digest="g")
    LabelSet.objects.create(name="labels.jsonl", kind="pairs", digest="f")
    LabelSet.objects.update(arena=None, from_arena=False)
    RunJudge.objects.update(labels_in=None)
    import_module("judges.migrations.0015_label_sets_of_arenas").find_arenas(apps, None)
    sets = LabelSet.objects.order_by("pk").values_list("arena__slug", "from_arena")
    assert list(sets) == [("hush", True), (None, True), (None, False)]
    assert RunJudge.objects.get().labels_in == LabelSet.objects.first()
